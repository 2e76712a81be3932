"""Runs one test program and counts what it says: used by the SCons builder and by tools/test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable, Mapping, Sequence


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass
class Result:
    name: str
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    note: str = ""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Result:
        raw = json.loads(path.read_text())
        return cls(raw["name"], Counts(**raw["counts"]), raw["seconds"], raw["note"])


def _last(pattern: str, text: str) -> re.Match[str] | None:
    found = None
    for found in re.finditer(pattern, text, re.MULTILINE):
        pass
    return found


def count_plain(text: str) -> Counts | None:
    """`N passed, N failed[, N skipped]` alone on a line; the last one counts."""
    m = _last(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", text)
    return Counts(int(m[1]), int(m[2]), int(m[3] or 0)) if m else None


def count_catch2(text: str) -> Counts | None:
    m = _last(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", text)
    if m:
        return Counts(passed=int(m[1]))
    m = _last(r"^test cases: +\d+(?: \| +(\d+) passed)?(?: \| +(\d+) failed)?", text)
    return Counts(int(m[1] or 0), int(m[2] or 0)) if m else None


def count_pytest(text: str) -> Counts | None:
    """The closing line; sub-tests belong to their test, unless they failed."""
    m = _last(r"^=*\s*((?:\d+ [a-z ]+(?:, )?)+) in [\d.]+s.*$", text)
    if not m:
        return None
    n = {words: int(number) for number, words in re.findall(r"(\d+) ([a-z ]+)", m[1])}
    failed = ("failed", "error", "errors", "subtests failed", "subtest failed")
    return Counts(
        n.get("passed", 0) + n.get("xpassed", 0),
        sum(n.get(words, 0) for words in failed),
        n.get("skipped", 0) + n.get("xfailed", 0),
    )


def count_unittest(text: str) -> Counts | None:
    ran = _last(r"^Ran (\d+) tests? in", text)
    if not ran:
        return None
    end = _last(r"^(?:OK|FAILED)(?: \((.*)\))?$", text)
    n = dict(re.findall(r"([a-z ]+)=(\d+)", end[1] or "")) if end else {}
    failed = sum(int(n.get(k, 0)) for k in ("failures", "errors", " errors", "unexpected successes"))
    skipped = int(n.get("skipped", n.get(" skipped", 0)))
    return Counts(int(ran[1]) - failed - skipped, failed, skipped)


def count_cases(text: str) -> Counts | None:
    """tests/cases/run_all.py: a line a case, with its exit status."""
    rows = re.findall(r"^\S+\.py +(\d+)  (.*)$", text, re.MULTILINE)
    if not rows:
        return None
    failed = sum(status != "0" for status, _ in rows)
    skipped = sum(status == "0" and "(skipped" in said for status, said in rows)
    return Counts(len(rows) - failed - skipped, failed, skipped)


COUNTERS: dict[str, Callable[[str], Counts | None]] = {
    "plain": count_plain,
    "catch2": count_catch2,
    "pytest": count_pytest,
    "unittest": count_unittest,
    "cases": count_cases,
    "exit": lambda text: Counts(),
}


def clean_environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """This process's environment without what would change a Python or the engine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TORSHI"))}
    return kept | dict(extra)


def run(
    name: str,
    command: Sequence[str],
    log: Path,
    counter: str = "exit",
    timeout: float = 900,
    environment: Mapping[str, str] = {},
    cwd: str | None = None,
) -> Result:
    """Run a command with its output in `log`. A bad exit status is at least one failure."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    note = ""
    with log.open("w") as out:
        out.write("$ " + " ".join(command) + "\n")
        out.flush()
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=clean_environment(environment),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status, note = -1, f"no end after {timeout:.0f} s"
    text = log.read_text(errors="replace")
    counts = COUNTERS[counter](text)
    if status < 0 and not note:
        note = f"killed by {signal.Signals(-status).name}"
    if counts is None:
        counts, note = Counts(failed=1), note or "said nothing that could be counted"
    elif status != 0 and counts.failed == 0 and not (counter == "pytest" and status == 5):
        counts.failed, note = 1, note or f"exit status {status}"
    elif counter == "exit":
        counts.passed = 1
    return Result(name, counts, time.monotonic() - start, note)


def describe(result: Result, log: Path) -> str:
    """A line about a result, and the end of its log when something failed."""
    line = f"  {result.name}: {result.counts} ({result.seconds:.1f} s)"
    if result.note:
        line += f" - {result.note}"
    if result.counts.failed:
        tail = log.read_text(errors="replace").splitlines()[-60:]
        line += "\n" + "\n".join("    | " + row for row in tail)
    return line
