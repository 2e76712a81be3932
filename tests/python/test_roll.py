"""Create, fill, finish against stock pickle on random graphs.

Each graph has shared and cyclic parts, tuples, default-path instances, `__setstate__`, keys whose
hash needs state, and reducers that hand back existing, already written and fresh containers; it
stands among plain records, so that a chunk pays and the graph's containers are rows of it. What
has to agree: the value with its identity partition, the number and order of reducer calls, and
that what stock shows complete to user code while loading is complete. TORSHI_FUZZ=N tries N graphs.
"""

from __future__ import annotations

import io
import os
import random
import unittest
from typing import Any

import torshi
from chunk_values import LOADERS, chunks_in
from stock_engine import stock
from torshi import _pure

COUNT = int(os.environ.get("TORSHI_FUZZ", "500"))
START = int(os.environ.get("TORSHI_FUZZ_START", "0"))

ATOMS = (int, str, type(None))
CALLS: list[Any] = []
SEEN: list[Any] = []


class Plain:
    """The default path."""


class Slots:
    __slots__ = ("a", "b")


class SlotsAndDict:
    __slots__ = ("slot", "__dict__")


class WithState:
    """User code on loading."""

    def __setstate__(self, state):
        SEEN.append(("state", freeze(state, {})))
        vars(self).update(state)


class Key:
    """A hash that needs state."""

    def __hash__(self):
        return hash(self.h)


class Made:
    pass


class Reduced:
    """User code on dumping and on loading; may hand back what is written already."""

    def __init__(self, n):
        self.n, self.give = n, []

    def __reduce__(self):
        CALLS.append(self.n)
        given = []
        for how, what in self.give:
            if how == "copy" and type(what) is list:
                what = list(what)
            elif how == "late":
                what = what[0][what[1]]
            elif how == "vars" and type(what) is Plain:
                what = vars(what)
            given.append(what)
        return make, (self.n, *given)


def make(n, *args):
    SEEN.append((n, freeze(list(args), {})))
    made = Made()
    made.n, made.args = n, args
    return made


def attributes(obj):
    if type(obj) is Slots:
        return {name: getattr(obj, name) for name in Slots.__slots__ if hasattr(obj, name)}
    return vars(obj)


def freeze(obj, memo):
    """What user code sees now: a copy of the graph below obj."""
    if type(obj) in ATOMS:
        return obj
    if id(obj) in memo:
        return memo[id(obj)]
    if type(obj) is tuple:
        return ("tuple", [freeze(x, memo) for x in obj])
    if type(obj) is list:
        out: Any = []
        memo[id(obj)] = out
        out.extend(freeze(x, memo) for x in obj)
        return out
    out = memo[id(obj)] = {} if type(obj) is dict else {"type": type(obj).__name__}
    for i, (k, v) in enumerate((obj if type(obj) is dict else attributes(obj)).items()):
        out[k if type(k) in ATOMS else ("key", vars(k).get("h"), i)] = freeze(v, memo)
    return out


def as_complete(a, b, seen):
    """Wherever stock shows content, ours shows the same; where it is still empty, ours may not be."""
    if (id(a), id(b)) in seen:
        return True
    seen.add((id(a), id(b)))
    if type(a) is not type(b):
        return False
    if type(a) is dict and len(a) == 1 and "type" in a:
        return b.get("type") == a["type"]
    if type(a) is dict:
        return not a or list(a) == list(b) and all(as_complete(a[k], b[k], seen) for k in a)
    if type(a) in (list, tuple):
        return not a or len(a) == len(b) and all(as_complete(x, y, seen) for x, y in zip(a, b))
    return a == b


def canon(obj):
    """The value with its identity partition, as a flat list."""
    out, seen, stack = [], {}, [obj]
    while stack:
        x = stack.pop()
        if type(x) in ATOMS:
            out.append(x)
        elif id(x) in seen:
            out.append(("again", seen[id(x)]))
        elif type(x) is tuple:
            out.append(("tuple", len(x)))
            stack.extend(reversed(x))
        else:
            seen[id(x)] = len(seen)
            if type(x) is list:
                out.append(("list", len(x)))
                stack.extend(reversed(x))
            elif type(x) is dict:
                out.append(("dict", len(x)))
                stack.extend(reversed([z for pair in x.items() for z in pair]))
            else:
                out.append((type(x).__name__, tuple(attributes(x))))
                stack.extend(reversed(list(attributes(x).values())))
    return out


def graph(r: random.Random) -> list[Any]:
    kinds = [list, list, dict, Plain, Slots, WithState, Key, Reduced]
    pool: list[Any] = []
    for i in range(r.randint(1, 9)):
        kind = r.choice(kinds)
        pool.append(Reduced(i) if kind is Reduced else kind())
        if kind is Key:
            pool[-1].h = i

    def value(depth=0):
        x = r.random()
        if x < 0.3:
            return r.randint(0, 9)
        if x < 0.45 and depth < 3:
            return [value(depth + 1) for _ in range(r.randint(0, 3))]
        if x < 0.55 and depth < 3:
            return {i: value(depth + 1) for i in range(r.randint(0, 2))}
        if x < 0.62 and depth < 3:
            return tuple(value(depth + 1) for _ in range(r.randint(1, 3)))
        made = r.choice(pool)
        return vars(made) if type(made) is Plain and r.random() < 0.3 else made

    inner = []
    for p in pool:
        if type(p) is list:
            p += [value() for _ in range(r.randint(0, 4))]
            inner += [(p, i) for i in range(len(p)) if type(p[i]) is list]
        elif type(p) is dict:
            p.update({i: value() for i in range(r.randint(0, 3))})
            keys = [x for x in pool if type(x) is Key]
            if keys and r.random() < 0.3:
                p[r.choice(keys)] = value()
        elif type(p) is not Reduced:
            for name in "abc"[: r.randint(type(p) is Plain, 2 if type(p) is Slots else 3)]:
                setattr(p, name, value())
    for p in pool:
        if type(p) is Reduced:
            for _ in range(r.randint(0, 3)):
                if inner and r.random() < 0.6:
                    p.give.append(("late", r.choice(inner)))
                else:
                    p.give.append((r.choice(("same", "same", "copy", "vars")), r.choice(pool)))
    return [p for p in pool if r.random() < 0.8]


def among_records(r: random.Random, seed: int) -> Any:
    """The graph within something that makes chunks; of another shape for each seed."""
    made = graph(r)
    records = [{"row": i, "text": f"text {i}", "list": [i, i]} for i in range(120)]
    if seed % 4 == 0:
        return [*records[:60], *made, *records[60:]]
    if seed % 4 == 1:
        return dict(enumerate([*made, *records]))
    if seed % 4 == 2:
        for i, x in enumerate(made):
            records[i * 7 % 120][f"more{i % 2}"] = x
        return records
    holders = [Plain() for _ in range(120)]
    for i, holder in enumerate(holders):
        holder.row, holder.more = i, made[i % len(made)] if made and i % 9 == 0 else None
    return holders


class Roll(unittest.TestCase):
    def compare(self, seed: int, how) -> bool:
        """Dump afresh made graphs with both engines; whether ours had a chunk."""
        root = among_records(random.Random(seed), seed)
        try:
            CALLS.clear()
            want_data = how(stock.Pickler, root, {})
            calls = CALLS[:]
            SEEN.clear()
            stocks = stock.loads(want_data)
            want = canon(stocks)
            seen = SEEN[:]
        except (RecursionError, AttributeError):
            return False  # endless reductions; a cycle through a key, which stock cannot load either
        root = among_records(random.Random(seed), seed)
        CALLS.clear()
        data = how(torshi.Pickler, root, {"reducers": "chunked"})
        self.assertEqual(CALLS, calls)
        for name, loads in LOADERS.items():
            with self.subTest(seed=seed, loader=name):
                SEEN.clear()
                ours = loads(data)
                if ("Plain", ()) in want and canon(ours) != want:
                    # vars(x) below something pending, x a row, and x below vars(x): stock builds
                    # x while its dict is empty, ours has its attributes from the start
                    self.assertTrue(as_complete(freeze(stocks, {}), freeze(ours, {}), set()))
                else:
                    self.assertEqual(canon(ours), want)
                self.assertEqual([x[0] for x in SEEN], [x[0] for x in seen])
                for a, b in zip(seen, SEEN):
                    self.assertTrue(as_complete(a[1], b[1], set()), (a, b))
        return chunks_in(data) > 0

    def test_one_dump(self):
        def how(pickler, root, options):
            f = io.BytesIO()
            pickler(f, 5, **options).dump(root)
            return f.getvalue()

        chunked = sum(self.compare(seed, how) for seed in range(START, START + COUNT))
        self.assertGreater(chunked, COUNT // 2)

    def test_one_pickler_twice(self):
        """The second pickle refers to what the first one wrote."""

        def how(pickler, root, options):
            f = io.BytesIO()
            p = pickler(f, 5, **options)
            p.dump(root)
            p.dump([root, *(root.values() if type(root) is dict else root)])
            return f.getvalue()

        loaders = dict(LOADERS)

        def twice(loads):
            unpickler = {"torshi": torshi.Unpickler, "stock": stock.Unpickler}.get(loads)
            if unpickler is None:
                import pickle

                unpickler = pickle._Unpickler

            def load(data):
                u = unpickler(io.BytesIO(data))
                return [u.load(), u.load()]

            return load

        try:
            for name in loaders:
                LOADERS[name] = twice(name)
            stock_loads = twice("stock")
            for seed in range(START, START + COUNT // 4):
                self.compare_twice(seed, how, stock_loads)
        finally:
            LOADERS.update(loaders)

    def test_attributes_before_their_instance(self):
        """vars(x), x met below it: BUILD must not copy the placeholders of vars(x)."""
        chunked = 0
        for where in range(3):
            for slots in (False, True):
                x = SlotsAndDict() if slots else Plain()
                if slots:
                    x.slot = 1
                x.a, x.b = (x,), [(x, 1)]
                records = [{"row": i, "text": f"text {i}"} for i in range(60)]
                root = [*records, vars(x), *records[:3], x]
                if where == 1:
                    root = [*records, {"row": 1, "text": vars(x)}, x]
                elif where == 2:  # vars(x) is the target
                    for i in range(40):
                        setattr(x, f"name{i}", i)
                    root = [vars(x), x]
                want = canon(stock.loads(stock.dumps(root, 5)))
                data = torshi.dumps(root, 5)
                self.assertEqual(data, _pure.dumps(root, 5))
                chunked += chunks_in(data) > 0
                for name, loads in LOADERS.items():
                    with self.subTest(where=where, slots=slots, loader=name):
                        self.assertEqual(canon(loads(data)), want)
        self.assertEqual(chunked, 5)  # where both are rows, one of them of slots, it does not pay

    def compare_twice(self, seed, how, stock_loads):
        root = among_records(random.Random(seed), seed)
        try:
            CALLS.clear()
            want_data = how(stock.Pickler, root, {})
            calls = CALLS[:]
            want = canon(stock_loads(want_data))
        except (RecursionError, AttributeError):
            return
        root = among_records(random.Random(seed), seed)
        CALLS.clear()
        data = how(torshi.Pickler, root, {"reducers": "chunked"})
        self.assertEqual(CALLS, calls)
        for name, loads in LOADERS.items():
            with self.subTest(seed=seed, loader=name):
                self.assertEqual(canon(loads(data)), want)


if __name__ == "__main__":
    unittest.main()
