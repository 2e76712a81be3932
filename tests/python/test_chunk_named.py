"""Columns of named tuples."""

from __future__ import annotations

import collections
import copy
import copyreg
import datetime
import decimal
import io
import pickle
import pickletools
import typing
import unittest
from pathlib import PurePosixPath
from typing import Any, Callable

import pytest
import torshi
from stock_engine import stock
from torshi import _pure

LOADS = (torshi.loads, stock.loads, pickle._loads, _pure.loads)  # type: ignore[attr-defined]

Point = collections.namedtuple("Point", "x y")
Empty = collections.namedtuple("Empty", "")
One = collections.namedtuple("One", "value")
Renamed = collections.namedtuple("Renamed", ["a", "def", "a", "b"], rename=True)
Defaults = collections.namedtuple("Defaults", "a b c", defaults=(2, 3))
Wide = collections.namedtuple("Wide", [f"f{i}" for i in range(254)])
TooWide = collections.namedtuple("TooWide", [f"f{i}" for i in range(255)])

calls: list[str] = []


class Row(typing.NamedTuple):
    id: int
    name: str
    tags: tuple[str, ...] = ()
    at: Any = None


class Slotted(Point):
    __slots__ = ()

    def length(self) -> Any:
        return abs(self.x) + abs(self.y)


class WithDict(Point):
    pass


class OwnNew(Point):
    __slots__ = ()

    def __new__(cls, x: Any, y: Any) -> OwnNew:
        calls.append("new")
        return tuple.__new__(cls, (x, y, "made"))


class OwnArguments(Point):
    __slots__ = ()

    def __getnewargs__(self) -> Any:
        return (self.y, self.x)


class OwnReduce(Point):
    __slots__ = ()

    def __reduce__(self) -> Any:
        return (Point, (self.x, "reduced"))


class OwnReduceEx(Point):
    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (Point, (self.x, "reduced"))


class OwnState(Point):
    __slots__ = ()

    def __getstate__(self) -> Any:
        calls.append("state")
        return None


class OwnIter(Point):
    __slots__ = ()

    def __iter__(self) -> Any:
        return iter((self[1], self[0]))


class OwnLength(Point):
    __slots__ = ()

    def __len__(self) -> int:
        calls.append("len")
        return 2


class OwnAttributes(Point):
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        calls.append(name)
        raise AttributeError(name)


class OwnItem(Point):
    """Items are read as they are: tuple(self) asks neither of these."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError

    def __eq__(self, other: Any) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


class Meta(type):
    pass


class OfMeta(Point, metaclass=Meta):
    __slots__ = ()


class Plain(tuple):
    """A subclass of tuple that is no named tuple."""

    __slots__ = ()


def look(value: Any, tuples: bool = False) -> Any:
    """Types, items and who is who: `tuples` as well, which are values beyond their column."""
    seen: dict[int, int] = {}

    def walk(obj: Any) -> Any:
        if isinstance(obj, dict):
            return [(walk(k), walk(v)) for k, v in obj.items()]
        if isinstance(obj, (list, tuple)):
            known = isinstance(obj, list) or (tuples and tuple.__len__(obj))
            number = seen.setdefault(id(obj), len(seen)) if known else -1
            items = (list if isinstance(obj, list) else tuple).__iter__(obj)  # type: ignore
            return type(obj), number, [walk(item) for item in items]
        return type(obj), repr(obj)

    return walk(value)


class NamedTuples(unittest.TestCase):
    def check(
        self, values: Any, columns: bool = True, most: float = 1.0, tuples: bool = False
    ) -> bytes:
        """`columns`: they are written as columns."""
        stream = torshi.dumps(values)
        standard = stock.dumps(values, 5)
        self.assertEqual(b"torshi" in stream, columns)
        self.assertEqual(stream, _pure.dumps(values))
        self.assertLessEqual(len(stream), most * len(standard))
        expected = look(stock.loads(standard), tuples)
        for loads in LOADS:
            self.assertEqual(look(loads(stream), tuples), expected)
        return stream

    def test_forms(self) -> None:
        for made in (
            lambda i: Point(i, i * 0.5),
            lambda i: One(f"v{i}"),
            lambda i: Empty(),
            lambda i: Renamed(i, "x", None, i % 2 == 0),
            lambda i: Defaults(i),
            lambda i: Defaults(i, "b"),
            lambda i: Row(i, f"name_{i}"),
            lambda i: Row(i, "same", ("a", f"t{i % 5}"), datetime.date(2020, 1, 1 + i % 28)),
            lambda i: Slotted(i, -i),
            lambda i: OwnItem(i, str(i)),
            lambda i: Point(Point(i, One(i)), (Slotted(i, 1), decimal.Decimal(i))),
            lambda i: Point(i, 2**80 + i),
            lambda i: (Point, One, Row)[i % 2](i, *[i] * (1 - i % 2)),
            lambda i: Point(i, 1) if i % 3 else None,
            lambda i: (i, Point(i, b"bytes")),
        ):
            values: list[Any] = [made(i) for i in range(1000)]
            self.check(values, most=0.75)
            self.check({"rows": values, "again": values[:100], "one": values[3]}, most=0.75)
            self.check({f"k{i}": value for i, value in enumerate(values)}, most=0.75)

    def test_bytes(self) -> None:
        values = [Row(i, f"name_{i}") for i in range(10000)]
        stream = self.check(values, most=0.55)
        tuples = [tuple(value) for value in values]
        self.assertLess(len(stream), len(torshi.dumps(tuples)) + 120)

    def test_few(self) -> None:
        """Never longer, however few."""
        for n in range(40):
            for made in (lambda i: Point(i, i), lambda i: Empty(), lambda i: One(None)):
                values = [made(i) for i in range(n)]
                stream = torshi.dumps(values)
                self.check(values, b"torshi" in stream)
                values = [values, values[::-1], [made(i) for i in range(n)], [tuple(values)]]
                self.check(values, b"torshi" in torshi.dumps(values))

    def test_any_length(self) -> None:
        """tuple.__new__ makes what the class would not."""
        values = [tuple.__new__(OwnNew, range(i % 5)) for i in range(300)]
        for value in [values, [tuple.__new__(Point, range(i % 5)) for i in range(300)]]:
            stream = torshi.dumps(value)
            self.assertEqual(stream, _pure.dumps(value))
            for loads in LOADS:
                self.assertRaises(TypeError, loads, stream)
            self.assertRaises(TypeError, pickle.loads, stock.dumps(value, 5))

    def test_width(self) -> None:
        self.check([Wide(*range(i, i + 254)) for i in range(20)])
        self.check([TooWide(*range(i, i + 255)) for i in range(20)], columns=False)

    def test_identity(self) -> None:
        shared = Point("shared", 1)
        values = [shared if i % 3 else Point("shared", 1) for i in range(300)]
        self.check(values, tuples=True)
        self.check([Row(i, "n", at=v) for i, v in enumerate(values)], tuples=True)
        self.check([shared, values, {"a": values[:50], "b": shared}, [[v, v] for v in values]])
        inner = [Row(i, "n", at=shared) for i in range(100)]
        self.check([inner, shared, [(v, shared) for v in inner]])

    def test_not_plain(self) -> None:
        """As a tuple with such items: by opcodes."""
        row: list[Any] = []
        self.check([Point(i, row) for i in range(100)], columns=False)
        values = [Point(i, i) if i < 90 else Point(i, {}) for i in range(100)]
        self.check(values)
        cycle: list[Any] = [Point(i, i) for i in range(100)]
        cycle.append(Point(cycle, 1))
        for loads in LOADS:
            loaded = loads(torshi.dumps(cycle))
            self.assertEqual(loaded[:100], cycle[:100])
            self.assertIs(loaded[100].x, loaded)

    def test_nested(self) -> None:
        value = {
            "lists": [[Point(i, j) for j in range(5)] for i in range(50)],
            "dicts": {f"d{i}": {"at": Point(i, i), "rows": [One(i)] * 3} for i in range(50)},
        }
        self.check(value, most=0.75)
        self.assertEqual(copy.deepcopy(value), value)
        self.assertEqual(torshi.loads(torshi.dumps(value)), value)

    def test_keys(self) -> None:
        value = {Point(i, i): [i] for i in range(100)}
        self.check(value, b"torshi" in torshi.dumps(value))
        self.check([{One(i): i} for i in range(100)], b"torshi" in torshi.dumps([]))

    def test_new_is_called(self) -> None:
        values = [tuple.__new__(OwnNew, (i, i)) for i in range(100)]
        stream = torshi.dumps(values)
        self.assertIn(b"torshi", stream)
        for loads in LOADS:
            calls.clear()
            loaded = loads(stream)
            self.assertEqual(len(calls), 100)
            self.assertEqual([type(v) for v in loaded], [OwnNew] * 100)
            self.assertEqual(loaded[7], (7, 7, "made"))

    def test_other_new(self) -> None:
        """A __new__ that looks like the generated one."""
        values = [Slotted(i, -i) for i in range(100)]
        stream = torshi.dumps(values)
        generated = Point.__new__
        few = collections.namedtuple("few", "x").__new__
        more = collections.namedtuple("more", "x y z", defaults=[7]).__new__
        namespace = {"_tuple_new": tuple.__new__, "__builtins__": {}, "__name__": "namedtuple_other"}
        for made in (
            few,
            more,
            generated,
            eval("lambda _cls, x, y: _tuple_new(_cls, (y, x))", dict(namespace)),
            eval("lambda _cls, *x: _tuple_new(_cls, x)", dict(namespace)),
            eval("lambda _cls, x, y: _tuple_new(_cls, (x,))", dict(namespace)),
            classmethod(lambda cls, *args: args),
            property(lambda self: self),
        ):
            Slotted.__new__ = made  # type: ignore
            try:
                results = []
                for loads in LOADS:
                    try:
                        results.append(look(loads(stream)))
                    except TypeError as error:
                        results.append(type(error))
                self.assertEqual(results, results[:1] * len(LOADS))
            finally:
                del Slotted.__new__

    def test_new_fails(self) -> None:
        def fail(cls: Any, x: Any, y: Any) -> Any:
            if x == 50:
                raise KeyError("fifty")
            return ("any", x)

        values = [Slotted(i, i) for i in range(100)]
        stream = torshi.dumps(values)
        few = torshi.dumps(values[:50])
        Slotted.__new__ = fail  # type: ignore
        try:
            for loads in LOADS:
                self.assertRaisesRegex(KeyError, "fifty", loads, stream)
                self.assertEqual(loads(few), [("any", i) for i in range(50)])
        finally:
            del Slotted.__new__
        self.check(values)

    def test_class_is_changed_while_loading(self) -> None:
        """Each row is made by what __new__ is then."""

        def first(cls: Any, x: Any, y: Any) -> Any:
            del Slotted.__new__
            return Slotted(x, "first")

        values = [Slotted(i, i) for i in range(100)]
        stream = torshi.dumps(values)
        for loads in LOADS:
            Slotted.__new__ = first  # type: ignore
            loaded = loads(stream)
            self.assertEqual(loaded, [(0, "first"), *values[1:]])

    def test_others_are_asked(self) -> None:
        for cls in (
            WithDict,
            OwnArguments,
            OwnReduce,
            OwnReduceEx,
            OwnState,
            OwnIter,
            OwnLength,
            OwnAttributes,
            OfMeta,
            Plain,
        ):
            make: Callable[..., Any] = cls
            values = [make(i, str(i)) if cls is not Plain else Plain((i, i)) for i in range(100)]
            calls.clear()
            stock.dumps(values, 5)
            expected = calls[:]
            calls.clear()
            stream = torshi.dumps(values)
            self.assertEqual(calls, expected, cls)
            self.check(values, columns=False)
            del stream

    def test_state_of_a_dict(self) -> None:
        values = [WithDict(i, i) for i in range(100)]
        for value in values:
            value.extra = [value.x]  # type: ignore[attr-defined]
        for loads in LOADS:
            loaded = loads(torshi.dumps(values))
            self.assertEqual([vars(v) for v in loaded], [vars(v) for v in values])

    def test_slot_names(self) -> None:
        """copyreg's list of them is a class attribute, and what is in __slots__ is, too."""
        for name, value in (("__slotnames__", ["x"]), ("__slots__", ("y",))):
            cls = type("Changed", (Point,), {"__slots__": (), "__module__": __name__})
            globals()["Changed"] = cls
            setattr(cls, name, value)
            values = [cls(i, i) for i in range(100)]
            try:
                self.assertNotIn(b"torshi", torshi.dumps(values))
                self.assertNotIn(b"torshi", _pure.dumps(values))
            finally:
                del globals()["Changed"]

    def test_registered(self) -> None:
        values = [One(i) for i in range(100)]
        copyreg.pickle(One, lambda value: (Point, (value.value, "registered")))  # type: ignore
        try:
            self.check(values, columns=False)
        finally:
            del copyreg.dispatch_table[One]
        self.check(values)

    def test_hooks(self) -> None:
        class Pickler(torshi.Pickler):
            def reducer_override(self, obj: Any) -> Any:
                return (Point, (obj.value, "hook")) if type(obj) is One else NotImplemented

        out = io.BytesIO()
        Pickler(out, 5).dump([One(i) for i in range(100)])
        self.assertEqual(stock.loads(out.getvalue())[3], Point(3, "hook"))

    def test_changed_copyreg(self) -> None:
        original = copyreg.__newobj__

        def __newobj__(cls: Any, *args: Any) -> Any:
            return original(cls, *args)

        values = [Point(i, i) for i in range(100)]
        stream = torshi.dumps(values)
        copyreg.__newobj__ = __newobj__
        try:
            self.assertEqual([loads(stream) for loads in LOADS], [values] * len(LOADS))
            self.assertNotIn(b"torshi", _pure.dumps(values))
            self.assertNotIn(b"torshi", torshi.dumps(values))
        except pickle.PicklingError:
            pass  # as stock pickle has it, which finds another object by that name
        finally:
            copyreg.__newobj__ = original

    def test_class_is_not_found(self) -> None:
        local = collections.namedtuple("local", "a")
        local.__qualname__ = "nowhere.local"
        values = [local(i) for i in range(100)]
        errors = (pickle.PicklingError, stock.PicklingError, AttributeError)
        for dumps in (torshi.dumps, _pure.dumps, lambda v: stock.dumps(v, 5)):
            self.assertRaises(errors, dumps, values)

    def test_find_class(self) -> None:
        found: list[tuple[str, str]] = []

        class Unpickler(torshi.Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                found.append((module, name))
                return super().find_class(module, name)

        stream = torshi.dumps([Point(i, i) for i in range(100)])
        Unpickler(io.BytesIO(stream)).load()
        names = [("torshi", "chunk"), ("copyreg", "__newobj__"), (__name__, "Point")]
        self.assertEqual(found, names)
        self.assertTrue(list(pickletools.genops(stream)))


if __name__ == "__main__":
    unittest.main()


@pytest.mark.parametrize("value", [
    lambda i: datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(i),
    lambda i: PurePosixPath(f"x/y{i}"),
    lambda i: Point(i, f"p{i}"),
], ids=["aware", "path", "named"])
def test_what_is_known_of_a_type_outlives_the_column_that_met_it_first(value):
    # One type in tuples and again in a later column: its variants were once made in memory of the first.
    for n in range(8, 400, 28):
        rows = [{"a": (value(i), i), "s": f"name{i}", "b": value(i + 1)} for i in range(n)]
        assert torshi.loads(torshi.dumps(rows)) == rows
        assert pickle.loads(torshi.dumps(rows)) == rows
