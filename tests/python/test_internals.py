"""Everything below CPython's public API, against that API: internals_cases.py in each interpreter
that is here (this one; python3, python3.11 to 3.13 on PATH; those in TORSHI_TEST_PYTHONS), with
pymalloc, its debugging hooks, and plain malloc. The probe is compiled as the interpreter says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = [*sorted((ROOT / "embed/engine").glob("internals*.c"))]
SOURCES.append(ROOT / "tests/probe/internals_probe.c")
FLAGS = "-std=c11 -Wall -Wextra -Wpedantic -Werror -O2 -g -fPIC -fvisibility=hidden -shared".split()
ASK = """
from sysconfig import get_config_var as var, get_paths
print(get_paths()["include"], var("EXT_SUFFIX"), var("Py_DEBUG") or 0, var("Py_GIL_DISABLED") or 0)
"""
ALLOCATORS = ("default", "debug", "malloc")


def interpreters() -> dict[str, str]:
    """Real path -> command of every different Python that we support."""
    supported = (["3", "11"], ["3", "12"], ["3", "13"])
    wanted = [sys.executable, *os.environ.get("TORSHI_TEST_PYTHONS", "").split(os.pathsep)]
    wanted += [shutil.which(f"python3{minor}") or "" for minor in ("", ".11", ".12", ".13")]
    found = {}
    for command in filter(None, wanted):
        version = run([command, "-c", "import sys; print(*sys.version_info[:2])"], {})
        if version.returncode == 0 and version.stdout.split() in supported:
            found.setdefault(os.path.realpath(command), command)
    return found


def run(words: list, environment: dict[str, str]) -> subprocess.CompletedProcess:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [str(w) for w in words],
        env={**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


class Internals(unittest.TestCase):
    def compile(self, python: str, folder: str) -> bool:
        answer = run([python, "-c", ASK], {}).stdout.split()
        include, suffix, debug, no_gil = answer
        if not (Path(include) / "Python.h").exists() or "1" in (debug, no_gil):
            return False
        compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
        target = Path(folder) / f"internals_probe{suffix}"
        includes = [f"-I{ROOT / 'embed/engine'}", f"-I{ROOT / 'embed/include'}", f"-I{include}"]
        done = run([compiler, *FLAGS, *includes, *SOURCES, "-o", target], {})
        self.assertEqual(done.returncode, 0, done.stdout)
        return True

    def test_every_interpreter(self) -> None:
        tried = 0
        for command in interpreters().values():
            with tempfile.TemporaryDirectory() as folder:
                if not self.compile(command, folder):
                    continue
                for allocator in ALLOCATORS:
                    with self.subTest(python=command, allocator=allocator):
                        variables = {
                            "PYTHONMALLOC": allocator,
                            "PYTHONPATH": os.pathsep.join([folder, str(HERE)]),
                            "PYTHONFAULTHANDLER": "1",
                            "PYTHONHASHSEED": "7",
                        }
                        done = run([command, "-m", "unittest", "-q", "internals_cases"], variables)
                        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
                        tried += 1
        if tried == 0:
            self.skipTest("no interpreter with headers here")


if __name__ == "__main__":
    unittest.main()
