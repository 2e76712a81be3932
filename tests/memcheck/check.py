"""
Runs a program under Valgrind.  usage: check.py WANTED PROGRAM ARGUMENT...

WANTED "clean": no error may be reported. Anything else: that text must be, or the gate is dead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

VALGRIND = [
    "valgrind", "-q", "--error-exitcode=99", "--undef-value-errors=no", "--leak-check=full",
    "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", "--num-callers=30",
]


def main() -> int:
    wanted, *program = sys.argv[1:]
    if not shutil.which("valgrind"):
        print("SKIPPED: valgrind is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    done = subprocess.run([*VALGRIND, *program], capture_output=True, text=True)
    if wanted == "clean":
        good = done.returncode == 0
    else:
        good = done.returncode == 99 and wanted in done.stderr
    if not good:
        print(done.stdout[-4000:], done.stderr[-12000:], sep="\n")
        print(f"exit status {done.returncode}, wanted: {wanted}")
    print(f"{int(good)} passed, {int(not good)} failed, 0 skipped")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
