"""
Static checks of the C and C++ sources.  usage: tools/lint.py CHECK [COMPILE_COMMANDS]

CHECK: format (clang-format), tidy (clang-tidy), cppcheck, size (no file over 1,000 lines),
headers (each public header compiles alone, as C11 and as C++17). Prints what is wrong and a line
of counts, a file or a header being one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("embed", "plugin", "tests", "docs/examples")
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def"}
MAXIMUM_LINES = 1000
# How gcc is told to optimize the whole with a profile, which clang-tidy's compiler cannot be told.
GCC_ONLY = re.compile(r" (-flto=\S+|-ffat-lto-objects|-fprofile-\S+|-dumpdir \S+)")


def sources(*suffixes: str) -> list[Path]:
    wanted = set(suffixes) or SUFFIXES
    return sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*") if p.suffix in wanted)


def call(command: list[str]) -> str:
    """The output of a command that found something wrong, else nothing."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "exit status"


def check_all(items: list, check: Callable[[object], str]) -> int:
    failed = 0
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for wrong in pool.map(check, items):
            if wrong:
                failed += 1
                print(wrong, flush=True)
    print(f"{len(items) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def skip(tool: str) -> int:
    print(f"SKIPPED: {tool} is not installed\n0 passed, 0 failed, 1 skipped")
    return 0


def lint_format() -> int:
    if not shutil.which("clang-format"):
        return skip("clang-format")
    files = sources(".c", ".h", ".cpp", ".hpp")
    return check_all(files, lambda p: call(["clang-format", "--dry-run", "--Werror", str(p)]))


def lint_tidy(database: str) -> int:
    if not shutil.which("clang-tidy"):
        return skip("clang-tidy")
    entries = json.loads(Path(database).read_text())
    for entry in entries:
        entry["command"] = GCC_ONLY.sub("", entry["command"])
    folder = Path(database).parent / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    # Only our C: a test's macros are Catch2's, and a fake plugin is wrong on purpose.
    known = {os.path.normpath(os.path.join(e["directory"], e["file"])) for e in entries}
    files = [p for p in sources(".c") if str(p) in known and "tests" not in p.parts]
    return check_all(files, lambda p: call(["clang-tidy", "--quiet", "-p", str(folder), str(p)]))


def lint_cppcheck() -> int:
    if not shutil.which("cppcheck"):
        return skip("cppcheck")
    command = ["cppcheck", "--quiet", "--enable=warning,portability,performance",
               "--error-exitcode=1", "--inline-suppr", "--std=c11", "--language=c",
               "--suppress=missingInclude", "--suppress=unknownMacro",
               # macros that are nothing on this byte order; returns that Python's macros do
               "--suppress=selfAssignment", "--suppress=missingReturn",
               # `if (*p && (*p)->x) return *p;` is taken for a repeated condition
               "--suppress=identicalInnerCondition",
               "-Iembed/include", "-Iembed/engine", "-Iplugin"]
    files = [p for p in sources(".c") if "tests" not in p.parts]
    return check_all(files, lambda p: call([*command, str(p)]))


def lint_size() -> int:
    def check(path: Path) -> str:
        lines = path.read_text().count("\n")
        return f"{path.relative_to(ROOT)}: {lines} lines" if lines > MAXIMUM_LINES else ""

    return check_all(sources(), check)


def lint_headers() -> int:
    headers = sorted((ROOT / "embed/include/torshi").glob("*.h"))
    compilers = [["gcc", "-xc", "-std=c11"], ["g++", "-xc++", "-std=c++17"]]
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-Iembed/include"]
    # Through a file that includes it twice: a header itself is compiled as "pragma once" sees it.
    def check(item: tuple[Path, list[str]]) -> str:
        header, compiler = item
        text = f'#include "torshi/{header.name}"\n' * 2
        done = subprocess.run([*compiler, *flags, "-"], cwd=ROOT, input=text, text=True,
                              capture_output=True)
        return done.stderr if done.returncode else ""

    return check_all([(h, c) for h in headers for c in compilers], check)


def main() -> int:
    check, *arguments = sys.argv[1:]
    checks = {"format": lint_format, "tidy": lint_tidy, "cppcheck": lint_cppcheck,
              "size": lint_size, "headers": lint_headers}
    return checks[check](*arguments)


if __name__ == "__main__":
    sys.exit(main())
