"""Builds and tests everything, and adds the counts up. Called by tools/test."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from testrun import Counts, Result

ROOT = Path(__file__).resolve().parent.parent
ALIASES = ("test", "lint", "memcheck", "fuzz-replay")


class Summary:
    """Rows of the closing table."""

    def __init__(self) -> None:
        self.rows: list[Result] = []

    def add(self, result: Result) -> None:
        self.rows.append(result)

    def one(self, name: str, good: bool, seconds: float = 0.0, note: str = "") -> None:
        self.add(Result(name, Counts(int(good), int(not good)), seconds, note))

    def print(self) -> Counts:
        total = Counts()
        print("\n" + "=" * 78)
        for row in self.rows:
            total += row.counts
            mark = "FAILED " if row.counts.failed else ""
            note = f"  {row.note}" if row.note else ""
            print(f"{mark}{row.name}: {row.counts}, {row.seconds:.0f} s{note}")
        return total


def scons(options: argparse.Namespace, *arguments: str, python: str | None = None) -> bool:
    command = [sys.executable, "-m", "SCons", "-Q", "-k", f"-j{options.jobs}"]
    command += [f"python={python or options.python}", *arguments]
    print("\n$ scons " + " ".join(command[4:]), flush=True)
    return subprocess.run(command, cwd=ROOT).returncode == 0


def build(summary: Summary, options: argparse.Namespace, name: str, *arguments: str,
          python: str | None = None) -> bool:
    start = time.monotonic()
    good = scons(options, *arguments, "all", python=python)
    summary.one(f"build/{name}", good, time.monotonic() - start)
    return good


def collect(summary: Summary, out: Path, aliases: tuple[str, ...], good: bool, label: str) -> None:
    """Add the results of a run of SCons. A test that left none has not run: that is a failure."""
    failed_before = sum(r.counts.failed for r in summary.rows)
    manifest = (out / "tests/manifest.txt").read_text().splitlines()
    for line in manifest:
        alias, name = line.split(" ", 1)
        if alias not in aliases:
            continue
        stamp = out / "tests" / f"{name}.json"
        failed = stamp.with_name(stamp.name.removesuffix(".json") + ".failed.json")
        for path in (failed, stamp):
            if path.exists():
                result = Result.load(path)
                break
        else:
            result = Result(name, Counts(failed=1), note="did not run")
        result.name = label + result.name
        summary.add(result)
    if not good and sum(r.counts.failed for r in summary.rows) == failed_before:
        summary.one(f"{label}scons", False, note="ended with an error")


def run(summary: Summary, options: argparse.Namespace, out: str, aliases: tuple[str, ...],
        *arguments: str, python: str | None = None, label: str = "") -> None:
    good = scons(options, *arguments, *aliases, python=python)
    collect(summary, ROOT / out, aliases, good, label)


def other_python(python: str) -> str | None:
    """Debian's interpreter, when it is there, can be embedded, and is not the chosen one."""
    other = "/usr/bin/python3"
    if not os.path.exists(other) or os.path.realpath(other) == os.path.realpath(python):
        return None
    probe = "import os, sysconfig; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    answer = subprocess.run([other, "-I", "-c", probe], capture_output=True, text=True).stdout
    return other if answer.strip() == "True" else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/test", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--quick", action="store_true",
                        help="only this compiler and this Python, no lint and no memcheck")
    options = parser.parse_args()
    summary = Summary()
    start = time.monotonic()

    if build(summary, options, "gcc"):
        run(summary, options, "build", ("test", "fuzz-replay") if options.quick else ALIASES)
    if not options.quick:
        if shutil.which("clang"):
            build(summary, options, "clang", "cc=clang", "build=build/clang")
        else:
            print("SKIPPED: build with clang (it is not installed)")
        for variant in ("asan", "ubsan"):
            run(summary, options, f"build/{variant}", ("core", "fuzz-replay"), f"variant={variant}",
                label=f"{variant}/")
        other = other_python(options.python)
        if other:
            if build(summary, options, "other-python", "build=build/other", python=other):
                run(summary, options, "build/other", ("smoke",), "build=build/other", python=other,
                    label="other-python/")
        else:
            print("SKIPPED: the other Python (there is no /usr/bin/python3 besides the chosen one)")

    total = summary.print()
    print(f"{time.monotonic() - start:.0f} seconds")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
