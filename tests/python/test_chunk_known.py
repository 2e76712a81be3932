"""REDUCE columns of callables that the reader knows: what it makes is what the callable returns."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import random
import unittest
import uuid
from typing import Any

import torshi
from payload_maker import head, uvar
from torshi._pure_read import chunk as pure_chunk


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


def column(values: list[Any]) -> bytes:
    """A column of one kind, or of a kind each."""
    kinds = {type(v) for v in values}
    if kinds == {bytes}:
        sizes = [len(v) for v in values]
        return (
            head(12, 6)
            + uvar(0)
            + b"".join(n.to_bytes(4, "little") for n in sizes)
            + b"".join(values)
        )
    if kinds == {str}:
        sizes = [len(v) for v in values]
        return (
            head(10, 6)
            + uvar(0)
            + b"".join(n.to_bytes(4, "little") for n in sizes)
            + "".join(values).encode("ascii")
        )
    if kinds == {int}:
        blobs = [v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True) for v in values]
        return (
            head(7, 6)
            + uvar(0)
            + b"".join(len(b).to_bytes(4, "little") for b in blobs)
            + b"".join(blobs)
        )
    if kinds == {type(None)}:
        return head(0)
    raise TypeError(kinds)


def payload(rows: list[tuple], extra: bytes = b"") -> bytes:
    columns = [column([row[f] for row in rows]) for f in range(len(rows[0]))]
    count = len(columns) + (1 if extra else 0)
    return uvar(len(rows) << 1) + head(23) + uvar(0) + uvar(count) + b"".join(columns) + extra


def called(callee: Any, rows: list[tuple]) -> list[Any]:
    return [callee(*row) for row in rows]


class Known(unittest.TestCase):
    def check(self, callee: Any, rows: list[tuple]) -> None:
        expected = []
        error = None
        for row in rows:
            try:
                expected.append(callee(*row))
            except Exception as raised:
                error = raised
                break
        for chunk in (torshi.chunk, pure_chunk):
            if error is not None:
                with self.assertRaises(type(error)) as caught:
                    chunk([], payload(rows), [], callee)
                self.assertEqual(str(caught.exception), str(error))
                continue
            made = chunk([], payload(rows), [], callee)
            self.assertEqual([type(v) for v in made], [type(v) for v in expected])
            self.assertEqual([(repr(v), v) for v in made], [(repr(v), v) for v in expected])
            self.assertEqual(list(map(copy.copy, made)), expected)
            self.assertEqual(pickle.dumps(made[:1], 5), pickle.dumps(expected[:1], 5))

    def test_datetimes(self) -> None:
        rng = random.Random(1)
        values = [
            datetime.datetime(2020, 2, 29),
            datetime.datetime.max,
            datetime.datetime.min,
            datetime.datetime(1, 1, 31, fold=1),
        ]
        values += [
            datetime.datetime(2020, 1, 1)
            + datetime.timedelta(seconds=rng.randrange(10**9), microseconds=i)
            for i in range(300)
        ]
        self.check(datetime.datetime, [v.__reduce_ex__(5)[1] for v in values])
        self.check(datetime.date, [v.date().__reduce__()[1] for v in values])
        self.check(
            datetime.time,
            [
                v.time().__reduce__()[1]
                for v in values + [datetime.datetime(2020, 1, 1, 23, 59, 59, 999999, fold=1)]
            ],
        )
        deltas = [
            datetime.timedelta(0),
            datetime.timedelta.max,
            datetime.timedelta.min,
            datetime.timedelta(-1, 5, 7),
        ]
        self.check(datetime.timedelta, [v.__reduce__()[1] for v in deltas])

    def test_time_zones(self) -> None:
        zone = datetime.timezone(datetime.timedelta(hours=2))
        rows = [datetime.datetime(2020, 1, d).__reduce__()[1] for d in (1, 30)]
        for callee, args in (
            (datetime.datetime, rows),
            (datetime.time, [(r[0][4:],) for r in rows]),
        ):
            for given in (zone, None):
                nested = head(23) + uvar(1) + uvar(0) if given else head(0)
                for chunk in (torshi.chunk, pure_chunk):
                    made = chunk([], payload(args, nested), [], callee, lambda: zone)
                    self.assertEqual(
                        [repr(v) for v in made], [repr(callee(*a, given)) for a in args]
                    )
            with self.assertRaises(TypeError):
                torshi.chunk([], payload(args, head(3)), [], callee)

    def test_states_that_are_no_dates(self) -> None:
        """The constructors take some of them, and refuse others: as they do it themselves."""
        rng = random.Random(2)
        good = datetime.datetime(2021, 3, 4, 5, 6, 7, 8).__reduce__()[1][0]
        for callee, state in (
            (datetime.datetime, good),
            (datetime.date, good[:4]),
            (datetime.time, good[4:]),
        ):
            for i in range(len(state)):
                for byte in (0, 1, 12, 13, 24, 60, 127, 128, 140, 255):
                    self.check(
                        callee, [(state,), (state[:i] + bytes((byte,)) + state[i + 1 :],), (state,)]
                    )
            self.check(callee, [(state,), (state + b"\0",)])
            self.check(callee, [(state,), (state[:-1],)])
            self.check(callee, [(b"",)])
            self.check(callee, [(rng.randbytes(len(state)),) for _ in range(1)])

    def test_timedelta_of_any_numbers(self) -> None:
        for row in (
            (1, 100000, 0),
            (1, -1, 0),
            (10**9, 0, 0),
            (-(10**9), 0, 0),
            (0, 0, 10**7),
            (2**70, 0, 0),
            (0, 2**31, 0),
            (0, 86399, 10**6),
        ):
            self.check(datetime.timedelta, [(1, 2, 3), row])
        self.check(datetime.timedelta, [(1,), (2,)])

    def test_uuids(self) -> None:
        rng = random.Random(3)
        self.check(
            uuid.UUID,
            [(None, rng.randbytes(16)) for _ in range(20)]
            + [(None, bytes(16)), (None, b"\xff" * 16)],
        )
        self.check(uuid.UUID, [(None, rng.randbytes(16)), (None, b"short")])
        self.check(uuid.UUID, [("12345678123456781234567812345678",)])
        made = torshi.chunk([], payload([(None, bytes(16))]), [], uuid.UUID)[0]
        self.assertIs(made.is_safe, uuid.SafeUUID.unknown)
        self.assertEqual(pickle.dumps(made), pickle.dumps(uuid.UUID(int=0)))

    def test_uuid_class_is_changed(self) -> None:
        rows = [(None, bytes(16))]
        original = uuid.UUID.__init__
        calls = []

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            calls.append(args)
            original(self, *args, **kwargs)

        uuid.UUID.__init__ = init  # type: ignore[method-assign]
        try:
            torshi.chunk([], payload(rows), [], uuid.UUID)
        finally:
            uuid.UUID.__init__ = original  # type: ignore[method-assign]
        self.assertEqual(calls, rows)

    def test_subclasses_and_namesakes(self) -> None:
        class MyDate(datetime.datetime):
            def __new__(cls, *args: Any) -> Any:
                made = super().__new__(cls, *args)
                made.mine = True
                return made

        class UUID:
            def __init__(self, *args: Any) -> None:
                self.args = args

        namesake = type("datetime.datetime", (), {"__init__": lambda self, *a: None})
        state = datetime.datetime(2021, 3, 4).__reduce__()[1]
        made = torshi.chunk([], payload([state]), [], MyDate)[0]
        self.assertTrue(type(made) is MyDate and made.mine)
        self.assertIs(type(torshi.chunk([], payload([state]), [], namesake)[0]), namesake)
        made = torshi.chunk([], payload([(None, bytes(16))]), [], UUID)[0]
        self.assertEqual(made.args, (None, bytes(16)))

    def test_values_of_the_library(self) -> None:
        values = [
            decimal.Decimal("1.50"),
            decimal.Decimal("NaN"),
            decimal.Decimal("-0"),
            decimal.Decimal("Infinity"),
        ]
        rows = [v.__reduce__()[1] for v in values]
        for chunk in (torshi.chunk, pure_chunk):
            made = chunk([], payload(rows), [], decimal.Decimal)
            self.assertEqual([str(v) for v in made], [str(v) for v in values])
        self.check(fractions.Fraction, [(1, 3), (-7, 2)])
        self.check(fractions.Fraction, [("1/3",), ("5",)])
        self.check(pathlib.PurePosixPath, [("/", "a", "b"), ("x", "y", "z")])
        self.check(Colour, [("g",)])
        self.check(Colour, [(1,)])
        self.assertIs(torshi.chunk([], payload([(1,)]), [], Colour)[0], Colour.RED)
        self.check(Colour, [("no",)])


if __name__ == "__main__":
    unittest.main()
