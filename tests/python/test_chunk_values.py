"""Columns of values whose callable takes more than one argument: paths, and dates with time zones."""

from __future__ import annotations

import copy
import copyreg
import datetime
import enum
import pathlib
import pickle
import unittest
import zoneinfo
from typing import Any, Callable

import torshi
from stock_engine import stock
from torshi import _pure

LOADS = (torshi.loads, stock.loads, pickle._loads, _pure.loads)  # type: ignore[attr-defined]
UTC = datetime.timezone.utc
DAY = datetime.datetime(2020, 10, 25, 2, 30)


def partition(objects: list[Any]) -> list[int]:
    seen: dict[int, int] = {}
    return [seen.setdefault(id(obj), len(seen)) for obj in objects]


class Values(unittest.TestCase):
    def check(self, values: Any, look: Callable[[Any], Any], chunked: bool = True) -> bytes:
        stream = torshi.dumps(values)
        standard = stock.dumps(values, 5)
        self.assertEqual(b"torshi" in stream, chunked)
        self.assertEqual(stream, _pure.dumps(values))
        expected = look(pickle.loads(standard))
        for loads in LOADS:
            self.assertEqual(look(loads(stream)), expected)
        self.assertEqual(look(copy.deepcopy(values)), expected)
        return stream


def dates(values: list[Any]) -> Any:
    """All that can be told of them."""
    return (
        [(type(v), repr(v), v.fold, hash(v), type(v.tzinfo)) for v in values],
        partition([v.tzinfo for v in values]),
        [v.tzinfo is UTC for v in values],
        [v.tzinfo is zoneinfo.ZoneInfo("Europe/Berlin") for v in values],
    )


class Zones(Values):
    def setUp(self) -> None:
        two = datetime.timedelta(hours=2)
        self.zones: list[Any] = [
            UTC,
            datetime.timezone(two),
            datetime.timezone(two),  # equal, but another object
            datetime.timezone(two, "named"),
        ]
        try:
            self.zones += [
                zoneinfo.ZoneInfo("Europe/Berlin"),
                zoneinfo.ZoneInfo.no_cache("Europe/Berlin"),
            ]
        except zoneinfo.ZoneInfoNotFoundError:
            self.skipTest("no time zones here")

    def test_one_zone(self) -> None:
        for zone in self.zones:
            values = [DAY.replace(microsecond=i, fold=i % 2, tzinfo=zone) for i in range(300)]
            stream = self.check(values, dates)
            self.assertLess(len(stream), 0.6 * len(stock.dumps(values, 5)))

    def test_zones_in_turn(self) -> None:
        zones = [*self.zones, None]
        values = [DAY.replace(microsecond=i, fold=i % 2, tzinfo=zones[i % 7]) for i in range(300)]
        stream = self.check(values, dates)
        self.assertLess(len(stream), 0.6 * len(stock.dumps(values, 5)))
        times = [v.timetz() for v in values]
        self.check(times, dates)

    def test_a_zone_for_each(self) -> None:
        values = [
            DAY.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=i % 700)))
            for i in range(3000)
        ]
        self.check(values, dates)

    def test_zone_is_shared_with_others(self) -> None:
        """One object in the stream and after loading, whoever has it."""
        zone = self.zones[1]
        rows = [DAY.replace(microsecond=i, tzinfo=zone) for i in range(100)]
        value = [zone, rows, list(rows[:50]), rows[0], {"zone": zone}, [{"at": r} for r in rows]]

        def all_zones(v: Any) -> Any:
            found = [v[0], *(r.tzinfo for r in v[1]), *(r.tzinfo for r in v[2])]
            found += [v[3].tzinfo, v[4]["zone"], *(r["at"].tzinfo for r in v[5])]
            return partition(found)

        self.check(value, all_zones)
        self.check(value[::-1], lambda v: all_zones(v[::-1]))

    def test_same_value_twice(self) -> None:
        values = [DAY.replace(tzinfo=self.zones[i % 4]) for i in range(8)] * 40
        self.check(values, lambda v: (dates(v), partition(v)))

    def test_keys(self) -> None:
        value = {DAY.replace(microsecond=i, tzinfo=self.zones[i % 5]): i for i in range(300)}
        self.check(value, lambda v: (dates(list(v)), list(v.values())))

    def test_others_are_asked(self) -> None:
        """Subclasses, in a zone as well, and registered classes: by their reducers."""

        class Zone(datetime.tzinfo):
            def utcoffset(self, _: Any) -> Any:
                return None

            dst = utcoffset  # type: ignore[assignment]

            def __reduce__(self) -> Any:
                calls.append("zone")
                return (str, ())

        class Delta(datetime.timedelta):
            def __reduce__(self) -> Any:
                calls.append("delta")
                return (datetime.timedelta, (0, 3600))

        class Name(str):
            def __reduce__(self) -> Any:
                calls.append("name")
                return (str, ("name",))

        calls: list[str] = []
        for zone in (
            Zone(),
            datetime.timezone(Delta(0, 3600)),
            datetime.timezone(datetime.timedelta(0, 3600), Name("x")),
        ):
            values = [DAY.replace(microsecond=i, tzinfo=zone) for i in range(100)]
            calls.clear()
            stock.dumps(values, 5)
            expected = list(calls)
            for dumps in (torshi.dumps, _pure.dumps):
                calls.clear()
                self.assertNotIn(b"torshi", dumps(values))
                self.assertEqual(calls, expected)

        def reduce_zone(zone: Any) -> Any:
            calls.append("registered")
            return (datetime.timezone, (datetime.timedelta(hours=3),))

        values = [DAY.replace(microsecond=i, tzinfo=self.zones[1]) for i in range(100)]
        copyreg.pickle(datetime.timezone, reduce_zone)  # type: ignore[arg-type]
        try:
            calls.clear()
            self.assertNotIn(b"torshi", torshi.dumps(values))
            self.assertEqual(calls, ["registered"])
        finally:
            del copyreg.dispatch_table[datetime.timezone]


class Whole(enum.IntEnum):
    ONE = 1
    BIG = 1 << 70


class Text(str, enum.Enum):
    A = "a"
    LONG = "b" * 300


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Enums(Values):
    def test_members_that_are_ints_and_strings(self) -> None:
        for cls in (Whole, Text, Bits):
            values = [list(cls)[i % 3 % 2] for i in range(300)]
            stream = self.check(values, lambda v: [next(m for m in cls if m is x) for x in v])
            self.assertLess(len(stream), 0.6 * len(stock.dumps(values, 5)))
        values = [Bits(i % 4) for i in range(300)]
        self.check(values, lambda v: [(type(x), int(x)) for x in v])


def look_at(paths: list[Any]) -> Any:
    return [(type(p), str(p), p.parts, hash(p)) for p in paths]


class Paths(Values):
    def test_classes(self) -> None:
        for cls in (pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath):
            values = [cls(f"/usr/lib/d{i % 20}/{i}.txt") for i in range(300)]
            for value in values:
                hash(value), value.parts  # what is kept in the object is not written
            stream = self.check(values, look_at)
            self.assertLess(len(stream), 0.6 * len(stock.dumps(values, 5)))

    def test_forms(self) -> None:
        forms = ["", ".", "a", "a/b", "/", "//a/b", "/a", "a/../b", "\u0142/\U0001f600", "a//b/./c"]
        self.check([pathlib.PurePosixPath(f) for f in forms * 30], look_at)
        forms = ["c:", "c:\\", "c:\\a", "c:a", "\\\\host\\share\\a", "\\a", "a/b", "", "C:/a/B"]
        values = [pathlib.PureWindowsPath(f) for f in forms * 30]
        self.check(values, look_at, b"torshi" in torshi.dumps(values))

    def test_long(self) -> None:
        """More parts than a callable may take, and parts that are columns of no chunk."""
        values = [pathlib.PurePosixPath(*["p"] * n) for n in (254, 255, 256, 300)] * 5
        values += [pathlib.PurePosixPath("x" * 5000, str(i)) for i in range(20)]
        for value in values:
            value.parts  # noqa: B018
        self.check(values, look_at, b"torshi" in torshi.dumps(values))

    def test_many_lengths(self) -> None:
        values = [pathlib.PurePosixPath(*["p"] * (i % 40)) for i in range(2000)]
        for value in values:
            value.parts  # noqa: B018
        self.check(values, look_at)

    def test_strings_are_interned(self) -> None:
        values = [pathlib.PurePosixPath(f"/some_directory_{i % 3}/b") for i in range(100)]
        if not hasattr(values[0], "_parts"):
            self.skipTest("parts are kept in another way")
        ids = lambda v: partition([part for p in v for part in p._parts])  # noqa: E731
        self.check(values, ids)

    def test_shared(self) -> None:
        path = pathlib.Path("/a/b")
        values = [path] * 100 + [pathlib.Path("/a/b")] * 100
        self.check(values, lambda v: (look_at(v), partition(v)))

    def test_subclasses_are_asked(self) -> None:
        calls = []

        class Mine(pathlib.PurePosixPath):
            def __reduce__(self) -> Any:
                calls.append(1)
                return (str, ("mine",))

        values = [Mine(f"/a/{i}") for i in range(100)]
        self.assertEqual(torshi.loads(torshi.dumps(values)), ["mine"] * 100)
        self.assertEqual(len(calls), 100)
        self.assertNotIn(b"torshi", _pure.dumps(values))

    def test_changed_class_is_asked(self) -> None:
        values = [pathlib.PurePosixPath(f"/a/{i}") for i in range(100)]
        original = pathlib.PurePath.__reduce__
        pathlib.PurePath.__reduce__ = lambda self: (str, ("changed",))  # type: ignore
        try:
            self.assertEqual(torshi.loads(torshi.dumps(values)), ["changed"] * 100)
            self.assertNotIn(b"torshi", _pure.dumps(values))
        finally:
            pathlib.PurePath.__reduce__ = original  # type: ignore


if __name__ == "__main__":
    unittest.main()
