"""
Runs CPython's own test files unmodified in this interpreter (the host), and compares what fails
with a list of what may.  usage: build/torshi tools/cpython_suites.py MODE EXPECTED [FILE...]

MODE is a value of -X torshi. Exit status 1 when a test fails that is not in the list.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# Those about pickling, and those of types whose tests pickle.
FILES = """
test_pickle test_pickletools test_picklebuffer test_copyreg test_shelve test_copy test_dict
test_ordered_dict test_defaultdict test_deque test_set test_list test_tuple test_exceptions
test_enum test_datetime test_decimal test_functools test_zoneinfo test_dataclasses test_uuid
test_array test_memoryio test_io test_pydoc test_inspect test_audit
""".split()


def read_expected(path: str, mode: str) -> list[str]:
    patterns = []
    for line in Path(path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            which, pattern, reason = line.split(None, 2)
            if not reason.strip():
                sys.exit(f"{path}: no reason is given for {pattern}")
            if which in ("*", mode):
                patterns.append(pattern)
    return patterns


def run(mode: str, files: list[str], folder: str) -> tuple[int, ElementTree.Element | None]:
    report = os.path.join(folder, "report.xml")
    command = [sys.executable, "-X", f"torshi={mode}", "-m", "test", "-j2", "--timeout", "600"]
    status = subprocess.run([*command, "--junit-xml", report, *files], cwd=folder).returncode
    try:
        return status, ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"no report: {error}")
        return status, None


def main() -> int:
    mode, expected_file, *files = sys.argv[1:]
    if importlib.util.find_spec("test.pickletester") is None:
        print("SKIPPED: this Python comes without its test package")
        print(f"0 passed, 0 failed, {len(FILES)} skipped")
        return 0
    expected = read_expected(expected_file, mode)
    with tempfile.TemporaryDirectory() as folder:
        status, report = run(mode, files or FILES, folder)
    passed = skipped = excused = 0
    failed: list[str] = []
    for case in report.iter("testcase") if report is not None else ():
        name = case.get("name", "?")
        if case.find("failure") is not None or case.find("error") is not None:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in expected):
                excused += 1
                print(f"expected to fail: {name}")
            else:
                failed.append(name)
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    for name in failed:
        print(f"FAILED: {name}")
    wrong = len(failed)
    if not failed and (report is None or (status != 0 and not excused)):
        print(f"FAILED: the run itself, exit status {status}")
        wrong = 1
    print(f"{excused} failed as the list says")
    print(f"{passed} passed, {wrong} failed, {skipped + excused} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
