"""Where the built plugins are, and running code in a fresh interpreter of the same kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torshi

# The folder of `lib`, where the build also puts fakes/ and examples/.
BUILD = Path(os.environ.get("TORSHI_BUILD") or Path(torshi.__file__).resolve().parents[2])
FAKES = BUILD / "fakes"
EXAMPLES = BUILD / "examples"
HOST = os.environ.get("TORSHI_HOST")
IN_HOST = "_torshi" in sys.builtin_module_names


def run_code(
    code: str, *options: str, program: str = sys.executable, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh process, with the examples importable."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TORSHI")} | variables
    path = [str(EXAMPLES), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in path if p)
    return subprocess.run(
        [program, *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def check_code(code: str, *options: str, **variables: str) -> str:
    """The output of `code`, which must succeed and write nothing to stderr."""
    done = run_code(code, *options, **variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
