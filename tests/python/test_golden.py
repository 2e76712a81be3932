"""tests/golden through every reader there is: the one written from the text, torshi.chunk, and the
pure-Python twin. What the C walker says of the same files is checked in tests/unit."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import unittest
from pathlib import Path

import format_reader
from golden_files import all_golden, same

ROOT = Path(__file__).resolve().parent.parent.parent


def status_texts() -> dict[str, str]:
    text = (ROOT / "plugin" / "wire" / "status.def").read_text(encoding="utf-8")
    return dict(re.findall(r'^STATUS\((\w+), \d+, "([^"]*)"\)', text, re.M))


class ReaderCase:
    """One reader; subclasses say which, and how it reports."""

    offsets = True  # the exact offset is checked too

    def call(self, target, payload, *more):
        raise NotImplementedError

    def refusal(self, target, payload, *more) -> tuple[str, int]:
        """The status and offset with which the payload is refused."""
        raise NotImplementedError

    def arguments(self, golden) -> tuple[list, list | None]:
        roll = None if golden.rolled is None else []
        more = [] if roll is None else [roll, *golden.externals]
        return more, roll

    def test_accepted(self) -> None:
        for golden in all_golden("ok"):
            with self.subTest(golden.name):
                target = golden.new_target()
                more, roll = self.arguments(golden)
                made = self.call(target, golden.payload, *more)
                self.assertIs(made, target)
                self.assertTrue(same(made, golden.value), f"{made!r:.200} {golden.expression:.200}")
                if roll is not None:
                    self.assertIs(roll[0], target)
                    self.assertEqual([type(o).__name__ for o in roll[1:]], golden.rolled)

    def test_refused(self) -> None:
        for golden in all_golden("bad"):
            with self.subTest(golden.name):
                more, _ = self.arguments(golden)
                status, offset = self.refusal(golden.new_target(), golden.payload, *more)
                self.assertEqual(status, golden.status)
                if self.offsets:
                    self.assertEqual(offset, golden.offset)

    def test_every_prefix_refused(self) -> None:
        """No accepted payload begins with another whole one."""
        for golden in all_golden("ok"):
            if len(golden.payload) > 600:
                continue
            for size in range(len(golden.payload)):
                with self.subTest(golden.name, size=size):
                    more, _ = self.arguments(golden)
                    status, _ = self.refusal(golden.new_target(), golden.payload[:size], *more)
                    self.assertEqual(status, "E_TRUNCATED")

    def test_nan_objects(self) -> None:
        """A NaN is a new object in every row."""
        for golden in all_golden("ok"):
            if golden.name in ("ok/float_const_nan", "ok/dictionary_nan"):
                made = self.call([], golden.payload)
                self.assertIsNot(made[0], made[1])


class FormatReader(ReaderCase, unittest.TestCase):
    def call(self, target, payload, *more):
        return format_reader.chunk(target, payload, *more)

    def refusal(self, target, payload, *more) -> tuple[str, int]:
        with self.assertRaises(format_reader.FormatError) as caught:
            self.call(target, payload, *more)
        return caught.exception.status, caught.exception.offset


class ChunkCase(ReaderCase):
    """A torshi.chunk: raises UnpicklingError with the text of the status."""

    names = {text: name for name, text in status_texts().items()}

    def refusal(self, target, payload, *more) -> tuple[str, int]:
        with self.assertRaises(pickle.UnpicklingError) as caught:
            self.call(target, payload, *more)
        found = re.fullmatch(r"torshi payload: (.*) at byte (\d+)", str(caught.exception))
        self.assertIsNotNone(found, str(caught.exception))
        return self.names[found[1]], int(found[2])


def import_chunk(module: str):
    try:
        return getattr(__import__(module, fromlist=["chunk"]), "chunk")
    except (ImportError, AttributeError):
        return None


chunk, pure_chunk = import_chunk("torshi"), import_chunk("torshi._pure")


@unittest.skipUnless(chunk, "torshi cannot be imported")
class TorshiChunk(ChunkCase, unittest.TestCase):
    def call(self, target, payload, *more):
        return chunk(target, payload, *more)


@unittest.skipUnless(pure_chunk, "there is no torshi._pure.chunk")
class PureChunk(ChunkCase, unittest.TestCase):
    def call(self, target, payload, *more):
        return pure_chunk(target, payload, *more)


class Files(unittest.TestCase):
    def test_coverage(self) -> None:
        """Each kind at each of its widths is accepted somewhere; each status is met."""
        columns = re.findall(
            r"^COLUMN\((\w+), (\d+), (0x\w+)",
            (ROOT / "plugin" / "wire" / "columns.def").read_text(encoding="utf-8"),
            re.M,
        )
        met = set()
        real = format_reader.Reader.column

        def column(self, n, level, *rest):
            met.add(self.payload[self.pos])
            return real(self, n, level, *rest)

        format_reader.Reader.column = column
        try:
            for golden in all_golden("ok"):
                roll = [] if golden.rolled is None else [[], *golden.externals]
                format_reader.chunk(golden.new_target(), golden.payload, *roll)
        finally:
            format_reader.Reader.column = real
        for name, code, widths in columns:
            for w in range(8):
                if int(widths, 16) >> w & 1:
                    self.assertIn(int(code) | w << 5, met, f"{name} at width {w}")
        refused = {golden.status for golden in all_golden("bad")}
        self.assertEqual(refused, status_texts().keys() - {"S_OK", "E_MEMORY"})

    def test_written_by_tool(self) -> None:
        command = [sys.executable, str(ROOT / "tools" / "golden.py"), "--check"]
        run = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_worked_examples(self) -> None:
        """The text shows the bytes of the golden files."""
        text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
        for name in ("worked_example", "worked_example_nested"):
            raw = (ROOT / "tests" / "golden" / "ok" / f"{name}.txt").read_text(encoding="utf-8")
            shown = raw.split("hex:\n")[1].split()
            self.assertTrue(" ".join(shown) in text, f"{name} is not in docs/format.md")


if __name__ == "__main__":
    unittest.main()
