"""Nested columns: structs, lists, maps, instances, known values; what is a row and what is not."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import enum
import pickle
import random
import unittest
import uuid

import torshi
from chunk_values import (
    LOADERS,
    Colour,
    Empty,
    Point,
    Slotted,
    chunks_in,
    column,
    hashable,
    row,
    same,
    slotted,
)
from stock_engine import stock


class Columns(unittest.TestCase):
    def check(self, obj, chunks: int | None = None):
        data = torshi.dumps(obj, 5)
        for name, loads in LOADERS.items():
            self.assertTrue(same(obj, loads(data)), f"{name}: {obj!r:.200}")
        if chunks is not None:
            self.assertEqual(chunks_in(data), chunks)
        return data

    def test_random(self):
        for seed in range(300):
            r = random.Random(seed)
            n = r.choice((4, 9, 16, 50, 300))
            values = column(r, n, rows=True)
            obj = values if r.random() < 0.5 else dict(zip((hashable(r) for _ in values), values))
            with self.subTest(seed=seed):
                self.check(obj)

    def test_records(self):
        records = [{"id": i, "name": f"n{i}", "score": i / 7, "tags": None} for i in range(500)]
        data = self.check(records, 1)
        self.assertLess(len(data), len(stock.dumps(records, 5)) * 0.7)

    def test_equal_keys_that_are_other_objects(self):
        records = [{"".join(("na", "me")): i, str(b"value", "ascii"): i} for i in range(50)]
        self.check(records, 1)
        records = [{"a": i, "b": i} if i % 2 else {"b": i, "a": i} for i in range(60)]
        self.check(records, 1)

    def test_ragged(self):
        keys = [f"field{i}" for i in range(9)]
        for seed in range(20):
            r = random.Random(seed)
            self.check([{k: r.random() for k in keys if r.random() < 0.7} for _ in range(200)])

    def test_deep(self):
        def tree(depth):
            return {"v": depth, "kids": [tree(depth - 1) for _ in range(2)] if depth else []}

        self.check(tree(9), 1)
        nested = []
        for _ in range(200):
            nested = [nested, 1, 2, 3, 4, 5, 6, 7, 8]
        self.check(nested)

    def test_rows_beyond_a_limit(self):
        wide = [[i] * 50 for i in range(3000)]  # 150,000 items in one column
        data = self.check(wide)
        self.assertGreater(chunks_in(data), 2)
        self.check([{f"k{j}": i for j in range(40)} for i in range(30000)])  # 1.2 million values
        self.check([list(range(5000)), {i: i for i in range(5000)}] * 2)

    def test_shared_rows(self):
        one, two = {"a": 1}, [1, 2]
        obj = [[one, two, {"a": 2}] for _ in range(100)]
        self.check(obj)
        self.check([one, two] * 100)
        self.check({i: one for i in range(50)})
        itself: list = [[1, 2, 3] for _ in range(50)]
        itself[7] = itself
        itself[9].append(itself)
        self.check(itself)
        both = [{"id": i, "x": 1} for i in range(100)]
        self.check([both, list(both), both[:50]])

    def test_instances(self):
        self.check([Point(i, str(i)) for i in range(200)], 1)
        self.check([slotted(i, b=i) for i in range(200)], 1)
        self.check([slotted(i) if i % 3 else slotted(None, b=i) for i in range(200)], 1)
        self.check([Empty() for _ in range(100)], 1)
        self.check([Point(Point(i, [i]), {"p": Point(i, i)}) for i in range(100)], 1)

    def test_instances_make_no_dict(self):
        points = [Point(i, i) for i in range(100)]
        before = [p.__sizeof__() for p in points]
        torshi.dumps(points, 5)
        self.assertEqual(before, [p.__sizeof__() for p in points])

    def test_dict_of_an_instance(self):
        p = Point([1], {"a": [2]})
        points = [Point(i, i) for i in range(100)]
        for obj in ([p, vars(p), *points], [vars(p), p, *points], [*points, p, p, vars(p)]):
            data = torshi.dumps(obj, 5)
            want = stock.loads(stock.dumps(obj, 5))
            for loads in LOADERS.values():
                self.assertTrue(same(want, loads(data)))
        other = Point(1, 2)
        other.__dict__ = p.__dict__
        self.assertTrue(
            same(
                stock.loads(stock.dumps([p, other, *points], 5)),
                torshi.loads(torshi.dumps([p, other, *points], 5)),
            )
        )

    def test_what_is_no_plain_instance(self):
        class_ = Changing
        try:
            for name, change in {
                "__reduce__": lambda self: (Changing, ()),
                "__reduce_ex__": lambda self, protocol: (Changing, ()),
                "__getstate__": lambda self: {"a": "other"},
                "__getnewargs__": lambda self: (),
                "__setstate__": lambda self, state: self.__dict__.update(state),
            }.items():
                setattr(class_, name, change)
                self.check_like_stock([make_changing(i) for i in range(100)])
                delattr(class_, name)
                self.check_like_stock([make_changing(i) for i in range(100)])
            shadowed = [make_changing(i) for i in range(100)]
            for x in shadowed[50:]:
                x.__reduce_ex__ = lambda protocol: (Changing, ())
            self.check_like_stock(shadowed)
            copyreg.pickle(class_, lambda x: (Changing, ()))
            self.check_like_stock([make_changing(i) for i in range(100)])
        finally:
            copyreg.dispatch_table.pop(class_, None)
        self.check_like_stock([make_changing(i) for i in range(100)])

    def check_like_stock(self, obj):
        want = [vars(x) for x in stock.loads(stock.dumps(obj, 5))]
        for loads in LOADERS.values():
            self.assertEqual([vars(x) for x in loads(torshi.dumps(obj, 5))], want)

    def test_dict_keys_that_are_no_names(self):
        state = [make_changing(i) for i in range(50)]
        vars(state[20])[5] = 1  # a key that is no str
        self.check_like_stock(state)

    def test_known_values(self):
        day = datetime.datetime(2020, 1, 1)
        for obj in (
            [day + datetime.timedelta(hours=i) for i in range(100)],
            [(uuid.UUID(int=i), decimal.Decimal(i) / 8, Colour.RED) for i in range(100)],
            [uuid.UUID(int=7, is_safe=uuid.SafeUUID.safe) for _ in range(50)],
            [day.replace(tzinfo=datetime.timezone.utc)] * 50,
            [Colour.BLUE, Colour.RED] * 50,
            {day.date() + datetime.timedelta(i): i for i in range(50)},
            [decimal.Decimal("NaN"), decimal.Decimal("-0"), decimal.Decimal("1E+5")] * 20,
        ):
            data = torshi.dumps(obj, 5)
            for loads in LOADERS.values():
                self.assertEqual(repr(loads(data)), repr(obj))

    def test_registered_values(self):
        copyreg.pickle(decimal.Decimal, lambda x: (str, (str(x),)))
        try:
            data = torshi.dumps([decimal.Decimal(i) for i in range(60)], 5)
            self.assertEqual(torshi.loads(data), [str(i) for i in range(60)])
        finally:
            del copyreg.dispatch_table[decimal.Decimal]

    def test_hooks_are_asked(self):
        asked = []

        class Hooked(torshi.Pickler):
            def reducer_override(self, obj):
                asked.append(obj)
                return NotImplemented

        import io

        points = [Point(i, Colour.RED) for i in range(60)]
        f = io.BytesIO()
        Hooked(f, 5).dump(points)
        self.assertEqual(sum(type(x) is Point for x in asked), 60)
        self.assertTrue(same(points, torshi.loads(f.getvalue())))

    def test_many_kinds_in_one_column(self):
        obj = [(0,) * (i % 30) for i in range(300)]
        self.check(obj)
        classes = [type(f"C{i}", (), {"__module__": __name__}) for i in range(40)]
        for c in classes:
            globals()[c.__name__] = c
        made = [classes[i % 40]() for i in range(400)]
        data = torshi.dumps(made, 5)
        for loads in LOADERS.values():
            self.assertEqual([type(x) for x in loads(data)], [type(x) for x in made])
        shapes = [{f"s{i % 30}": i, "x": 1} for i in range(300)]
        self.check(shapes)

    def test_nested_tuples(self):
        deep: tuple = (1,)
        for _ in range(60):
            deep = (deep, 2)
        self.check([deep, (1, (2, (3, (4, (5,)))))] * 30)
        self.check([(i, (i, [i])) for i in range(50)])

    def test_local_class(self):
        class Local:
            pass

        with self.assertRaises(Exception) as stock_error:
            stock.dumps([Local() for _ in range(50)], 5)
        with self.assertRaises(type(stock_error.exception)):
            torshi.dumps([Local() for _ in range(50)], 5)

    def test_enum_with_a_state(self):
        class_ = Stateful
        class_.ONE.note = [1]
        self.check([class_.ONE] * 40)


class Stateful(enum.Enum):
    ONE = 1


class Changing:
    pass


def make_changing(i):
    made = Changing()
    made.a, made.b = i, str(i)
    return made


if __name__ == "__main__":
    unittest.main()


class Once:
    """Slots that may be set once, and never to None."""

    __slots__ = ("a", "b")

    def __init__(self, a: object, b: object) -> None:
        self.a = a
        self.b = b

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name) or value is None:
            raise AttributeError(f"immutable {name}")
        object.__setattr__(self, name, value)


def test_own_setattr_of_slots_is_called_once_a_field() -> None:
    rows = [Once(i, {1, 2} if i == 7 else i) for i in range(50)]
    stream = torshi.dumps(rows)
    for read in (torshi.loads, pickle.loads, pickle._loads):  # type: ignore[attr-defined]
        back = read(stream)
        assert [(x.a, x.b) for x in back] == [(x.a, x.b) for x in rows]
    plain = [Once(i, i) for i in range(50)]
    assert len(torshi.dumps(plain)) < len(torshi.dumps(plain, reducers="standard")) / 2
    assert [x.b for x in torshi.loads(torshi.dumps(plain))] == list(range(50))
