"""Never longer than stock pickle: graphs in which lists, dicts and instances are met again.

A chunk that is written has counted what its own rows cost when they are met again within it, so a
graph of these kinds whose only large container is its root is never longer than stock pickle's
stream of it. Long strings, UUIDs and the like that a pending value holds as well are written once
more (docs/format.md, "When it pays"); here texts are short. What is met again outside its chunk is
not known when the chunk is written: the last test says how much longer that can be.
"""

from __future__ import annotations

import pickle
import unittest
from typing import Any

import torshi
from hypothesis import given, settings
from hypothesis import strategies as st
from stock_engine import stock
from torshi import _pure


class Plain:
    """The default path."""


class Slots:
    __slots__ = ("a", "b")


MAKERS = ("list", "dict", "record", "plain", "slots", "vars", "tuple", "int", "text")


def make_graph(picks: list[tuple[int, int, int, int]], times: int) -> list[Any]:
    """A list of values each of which may hold earlier ones; all of them, `times` over."""
    pool: list[Any] = []
    for which, number, first, second in picks:
        maker = MAKERS[which % len(MAKERS)]
        a = pool[first % len(pool)] if pool and first % 3 else first
        b = pool[second % len(pool)] if pool and second % 3 else second
        made: Any = number
        if maker == "list":
            made = [[], [a], [number, a], [a, b, number]][number % 4]
        elif maker == "dict":
            made = {number: a, f"k{number % 3}": b}
        elif maker == "record":
            made = {"a": a, "b": number}
        elif maker == "tuple":
            made = (a, number)
        elif maker == "text":
            made = f"text {number}"
        elif maker == "plain" or maker == "slots":
            made = Plain() if maker == "plain" else Slots()
            made.a, made.b = a, number
        elif maker == "vars":
            earlier = [x for x in pool if type(x) is Plain]
            made = vars(earlier[number % len(earlier)]) if earlier else []
        pool.append(made)
    return pool * times


numbers = st.integers(0, 300)
graphs = st.builds(
    make_graph,
    st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=4, max_size=120),
    st.integers(1, 3),
)


scalars = st.one_of(
    st.integers(-300, 70_000),
    st.integers(-(2**62), 2**62),
    st.integers(2**63, 2**75),
    st.floats(),
    st.text(max_size=6),
    st.binary(max_size=6),
    st.booleans(),
    st.none(),
)
runs = st.lists(st.tuples(st.lists(scalars, min_size=1, max_size=6), st.integers(1, 60)), max_size=6)


class Size(unittest.TestCase):
    def check(self, graph: Any) -> None:
        data = torshi.dumps(graph, 5)
        self.assertLessEqual(len(data), len(stock.dumps(graph, 5)))
        self.assertEqual(data, _pure.dumps(graph, 5))

    @settings(deadline=None, max_examples=300)
    @given(graphs)
    def test_graphs(self, graph: list[Any]) -> None:
        self.check(graph)

    @settings(deadline=None, max_examples=300)
    @given(runs)
    def test_scalars(self, parts: list[tuple[list[Any], int]]) -> None:
        values = [value for some, times in parts for value in some * times]
        self.check(values)
        self.check(dict(enumerate(values)))

    def test_small_ints_beside_a_big_one(self) -> None:
        """Ints of 64 bits are INT even where a column begins with a larger one."""
        for small in (1, 8, 200, 3000):
            for big in (2**63, -(2**63) - 1, 2**70):
                self.check([big] + [i * 7 % 256 for i in range(small)])
                self.check([i * 7 % 256 for i in range(small)] + [big])
                self.check([big, big] * small + [1])

    def test_rows_met_again(self) -> None:
        """The same lists as further rows: each is pushed once and taken from the memo then."""
        for count in (8, 100, 300, 3000):
            for part in (1, 2, 3, 10, 100):
                rows: list[Any] = [[] for _ in range(count)]
                self.check(rows + rows[: count // part])
                self.check(dict(enumerate(rows + rows[: count // part])))
        records = [{"a": i, "b": [i], "c": f"name {i}"} for i in range(200)]
        self.assertIn(b"torshi", torshi.dumps(records + records[:20], 5))
        self.check(records + records[:20])

    def test_attributes_met_again(self) -> None:
        things = [Plain() for _ in range(100)]
        for i, thing in enumerate(things):
            vars(thing).update({f"name{j}": i * j for j in range(5)})
        self.check([*things, *map(vars, things)])
        self.check([*map(vars, things), *things])


if __name__ == "__main__":
    unittest.main()
