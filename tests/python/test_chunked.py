"""torshi.Chunked: an exact dict or list that any pickler writes in columns."""

from __future__ import annotations

import copy
import dataclasses
import random

import pytest
import torshi
from register_support import PROTOCOLS, READERS, Point, edition, numbers, writers
from stock_engine import stock

__all__ = ["edition"]  # a fixture that each test uses


class Table(dict):
    pass


class Rows(list):
    pass


@dataclasses.dataclass
class Item:
    name: str
    price: float
    tags: list


def contents():
    rng = random.Random(3)
    yield numbers(1000)
    yield [rng.random() for _ in range(1000)]
    yield [{"id": i, "name": f"name{i}", "tags": ["a", i]} for i in range(500)]
    yield [Item(f"item{i}", i / 4, [i]) for i in range(300)]
    yield {i: [str(j) for j in range(i % 5)] for i in range(300)}
    yield {
        "values": [float(i % 8) for i in range(6000)],
        "names": [f"n{i}" for i in range(6000)],
        "n": 1,
    }
    yield {"rows": [{"id": i} for i in range(5000)], "table": {i: (i, "x") for i in range(5000)}}
    yield [{"id": i} for i in range(500)] + [Point(1, [2])]


@pytest.mark.parametrize("obj", list(contents()), ids=lambda obj: type(obj).__name__)
def test_chunked(obj):
    standard = stock.dumps(obj, 5)
    for dumps in writers():
        for protocol in PROTOCOLS:
            data = dumps(torshi.Chunked(obj), protocol)
            assert b"torshi" in data
            for loads in READERS:
                made = loads(data)
                assert type(made) is type(obj)
                if type(obj) is dict:
                    assert list(made.items()) == list(obj.items())
                elif type(obj[-1]) is Point:
                    assert made[:-1] == obj[:-1] and made[-1].y == [2]
                else:
                    assert made == obj
    assert len(stock.dumps(torshi.Chunked(obj), 5)) < len(standard)


@pytest.mark.parametrize(
    "obj", [[], {}, [1], {"a": 1}, [[]], [object], {Point(1, 2): 3}, [None] * 5]
)
def test_chunked_where_it_does_not_pay(obj):
    for dumps in writers():
        data = dumps(torshi.Chunked(obj), 5)
        assert b"chunk" not in data
        for loads in READERS:
            assert loads(data) == obj and type(loads(data)) is type(obj)


def test_chunked_keeps_sharing_within():
    row, other = {"a": [1]}, [1, 2]
    values = [
        [row, row] + [{"a": [i]} for i in range(200)],
        [{"a": other, "b": i} for i in range(200)],
        [row] + [{"a": [i]} for i in range(200)] + [Point(row, row["a"])],
        {"first": row, "rows": [row] + [{"a": [i]} for i in range(5000)]},
        [{"n": i} for i in range(70_000)] + [row],
    ]
    values[4][66_000] = values[4][3]
    for value in values:
        for loads in READERS:
            made = loads(stock.dumps(torshi.Chunked(value), 5))
            expected = stock.loads(stock.dumps(value, 5))
            assert partition(made) == partition(expected)
    cyclic = [{"n": i} for i in range(200)]
    cyclic[7]["all"] = cyclic
    for loads in READERS:  # a copy: what is below refers to the list as it is written there
        made = loads(stock.dumps(torshi.Chunked(cyclic), 5))
        assert made[7]["all"][7]["n"] == 7


class Odd:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Odd, (self.value,)


def make_rows(rng):
    """A container of many rows alike, some of which may be met twice or pickle in their own way."""
    pool = []
    again, other = rng.choice([0, 0, 0.01, 0.2]), rng.choice([0, 0, 0.02, 0.5])

    def some():
        if pool and rng.random() < again:
            return rng.choice(pool)
        made = rng.choice(
            [[1] * rng.randrange(5), {"a": rng.randrange(9), "b": "x"}, {"n": [1, 2]}]
        )
        if rng.random() < other:
            made = rng.choice([Point(1, [2]), Point(1, {"q": 3}), Odd([1]), Odd(made)])
        if rng.random() < 0.5:
            pool.append(made)
        return made

    rows = [{"id": i, "v": [i, str(i)], "o": some()} for i in range(rng.choice([20, 100, 300]))]
    long = [some() for _ in range(4200)] if rng.random() < 0.1 else [1.5] * 5000
    made = rng.choice(
        [
            rows,
            {"rows": rows, "long": long, "one": some()},
            {i: some() for i in range(200)},
            [long, rows],
        ]
    )
    pool.clear()
    return made


def test_sharing_in_random_containers():
    rng = random.Random(8)
    for _ in range(60):
        value = make_rows(rng)
        expected = partition(stock.loads(stock.dumps(value, 5)))
        data = stock.dumps(torshi.Chunked(value), 5)
        for loads in READERS:
            assert partition(loads(data)) == expected
        assert partition(stock.loads(torshi.dumps(torshi.Chunked(value)))) == expected


def partition(obj):
    """The graph below, each mutable object numbered when it is met first."""
    numbers, result, keep = {}, [], []

    def walk(value):
        if type(value) in (list, dict, Point, Odd):
            if id(value) in numbers:
                result.append(numbers[id(value)])
                return
            numbers[id(value)] = len(numbers)
            keep.append(value)
            result.append((type(value), numbers[id(value)]))
            items = (
                value
                if type(value) is list
                else (value if type(value) is dict else vars(value)).values()
            )
            for item in items:
                walk(item)
        else:
            result.append(value)

    walk(obj)
    return result


def test_chunked_is_a_copy():
    rows = [{"id": i} for i in range(100)]
    wrapped = torshi.Chunked(rows)
    made, outside = stock.loads(stock.dumps((wrapped, rows), 5))
    assert made == outside and made is not outside and made[0] is not outside[0]
    one, two = stock.loads(stock.dumps((wrapped, wrapped), 5))
    assert one is two
    assert copy.copy(wrapped).obj is rows and type(copy.copy(wrapped)) is torshi.Chunked
    assert copy.deepcopy(wrapped).obj == rows and copy.deepcopy(wrapped).obj[0] is not rows[0]
    assert repr(torshi.Chunked([1])) == "torshi.Chunked([1])"
    assert wrapped.obj is rows


@pytest.mark.parametrize("wrong", [(), "text", Rows(), Table(), {1}, None, 5])
def test_chunked_takes_exact_containers(wrong):
    with pytest.raises(TypeError, match="an exact dict or list is needed"):
        torshi.Chunked(wrong)
