"""Random object graphs for differential tests: sharing, cycles, reducers of every shape.

``build(seed)`` gives the same graph each time, made afresh and held by nothing but its root: what
an engine does may depend on reference counts, on which instances have made their ``__dict__``, and
on what a reducer did before, so two engines never get the same objects.
"""

import collections
import copyreg
import datetime
import enum
import random
import sys
from typing import Any


class Node:
    """The default path: attributes in a ``__dict__``."""


class Other:
    def __init__(self) -> None:
        self.first = self.second = None


class Slots:
    __slots__ = ("one", "two", "three")


class SlotsAndDict(Slots):
    pass


class Renamed(Node):
    __slots__ = ("__private",)

    def hide(self, value: Any) -> None:
        self.__private = value


class GetState:
    def __getstate__(self) -> Any:
        state = self.__dict__.copy()
        state["fresh"] = [len(state)]
        return state


class SetState:
    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


class FalsyState:
    def __getstate__(self) -> Any:
        return {}


class Reduces:
    """Hands back what `give` says: existing, written or fresh objects."""

    give: Any = None

    def __reduce__(self) -> Any:
        how, what = self.give
        fresh = [how, [what], f"fresh{how}"]
        if how == 0:
            return (make, (what,))
        if how == 1:
            return (make, (fresh, what))
        if how == 2:
            return (make, (), what)
        if how == 3:
            return (list, (), None, iter([what, fresh, what]))
        if how == 4:
            return (dict, (), None, None, iter([("k", what), ("l", fresh)]))
        if how == 5:
            return (make, (fresh,), [what], None, None, set_state)
        if how == 6:
            return "TOP"
        if how == 7:
            return (make, (vars(self), what))
        if how == 8:
            return (copyreg.__newobj__, (Reduces, what), None)
        if how == 9:
            return (copyreg.__newobj_ex__, (Reduces, (what,), {"key": what}))
        if how == 10:
            return (make, (vars(what) if hasattr(what, "__dict__") else what,))
        if how == 11:
            return (list, (), None, iter(range(self.count)))
        return (dict, (), None, None, iter([(i, i) for i in range(self.count)]))

    count = 3

    def __new__(cls, *args: Any, **kwargs: Any) -> "Reduces":
        return object.__new__(cls)


class ReduceEx:
    def __reduce_ex__(self, protocol: int) -> Any:
        return (make, (protocol, self.__dict__))


class ListKind(list):
    pass


class DictKind(dict):
    pass


class TupleKind(tuple):
    pass


class StrKind(str):
    pass


class IntKind(int):
    pass


class ByTable:
    pass


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Outer:
    class Inner:
        pass


Pair = collections.namedtuple("Pair", "left right")


class Sharing:
    """Made anew for each graph, so that its shared key table is."""


def make(*args: Any) -> Any:
    return args


def set_state(obj: Any, state: Any) -> None:
    pass


def reduce_by_table(obj: ByTable) -> Any:
    return (make, (obj.__dict__, [obj.__dict__]))


copyreg.pickle(ByTable, reduce_by_table)
TOP = Reduces()
TOP.give = (6, None)


class Builder:
    def __init__(self, seed: int, big: bool) -> None:
        self.r = random.Random(seed)
        self.big = big
        self.pool: list[Any] = []
        global Sharing
        Sharing = type("Sharing", (), {"__module__": __name__, "__qualname__": "Sharing"})

    def atom(self) -> Any:
        r = self.r
        kind = r.randrange(14)
        if kind < 4:
            return f"s{r.randrange(40)}"
        if kind == 4:
            return r.choice([0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**62])
        if kind == 5:
            return r.choice([2**63, -(2**63), 2**64, -(2**70), 10**90])
        if kind == 6:
            return r.random()
        if kind == 7:
            return r.choice([None, True, False, ..., NotImplemented, type(None), type(...)])
        if kind == 8:
            return b"bytes%d" % r.randrange(10)
        if kind == 9:
            return r.choice(["é%d", "\ud800%d", "\U0001f600%d", "line\n%d", "back\\%d"]) % r.randrange(9)
        if kind == 10:
            return r.choice([Node, Outer.Inner, make, len, Pair, Colour.RED, Colour.GREEN, sys.exit])
        if kind == 11:
            return datetime.datetime(2020, 1, 1 + r.randrange(9))
        if kind == 12 and self.big and r.randrange(20) == 0:
            n = r.choice([65535, 65536, 70000, 30000])
            return r.choice(["x" * n, "é" * (n // 2), b"y" * n, "\ud800" * (n // 3)])
        return r.choice([(), frozenset(), "", b"", 1j, range(3), StrKind("str"), IntKind(7)])

    def pick(self) -> Any:
        r = self.r
        if self.pool and r.randrange(3):
            return r.choice(self.pool)
        return self.atom()

    def hashable(self) -> Any:
        r = self.r
        if r.randrange(4) == 0:
            return (self.atom_key(), self.atom_key())
        if r.randrange(9) == 0:
            return frozenset([self.atom_key(), self.atom_key()])
        return self.atom_key()

    def atom_key(self) -> Any:
        r = self.r
        return r.choice([f"k{r.randrange(30)}", r.randrange(300), b"k", None, 1.5, Colour.RED, Node])

    def items(self) -> list[Any]:
        n = self.r.choice([0, 1, 1, 2, 2, 3, 4, 5, 8])
        return [self.pick() for _ in range(n)]

    def fill_instance(self, obj: Any) -> Any:
        for _ in range(self.r.choice([0, 1, 2, 3, 5])):
            setattr(obj, f"a{self.r.randrange(6)}", self.pick())
        if self.r.randrange(6) == 0:
            vars(obj)["".join(["odd", str(self.r.randrange(3))])] = self.pick()
        return obj

    def container(self) -> Any:
        r = self.r
        kind = r.randrange(30)
        if kind < 4:
            return self.items()
        if kind < 8:
            return {f"k{r.randrange(30)}": self.pick() for _ in range(r.choice([0, 1, 2, 3, 6]))}
        if kind == 8:
            return {self.hashable(): self.pick() for _ in range(r.choice([1, 2, 3]))}
        if kind < 13:
            return tuple(self.items())
        if kind == 13:
            return {f"m{r.randrange(50)}" for _ in range(r.choice([0, 1, 1]))}
        if kind == 14:
            return frozenset([self.hashable()])
        if kind < 18:
            return self.fill_instance(r.choice([Node, Other, Sharing, Sharing])())
        if kind == 18:
            return self.fill_instance(r.choice([SlotsAndDict, GetState, SetState, FalsyState])())
        if kind == 19:
            obj = r.choice([Slots, SlotsAndDict])()
            for name in r.sample(Slots.__slots__, r.randrange(4)):
                setattr(obj, name, self.pick())
            return obj
        if kind == 20:
            obj = Renamed()
            obj.hide(self.pick())
            return self.fill_instance(obj) if r.randrange(2) else obj
        if kind < 24:
            obj = Reduces()
            obj.give = (r.randrange(13), self.pick())
            obj.count = r.choice([0, 1, 2, 3])
            return obj
        if kind == 24:
            return self.fill_instance(r.choice([ReduceEx, ByTable])())
        if kind == 25:
            obj = r.choice([ListKind, collections.deque])(self.items())
            return obj if r.randrange(2) else self.fill_instance(ListKind(obj))
        if kind == 26:
            pairs = [(self.hashable(), self.pick()) for _ in range(r.randrange(3))]
            return r.choice([DictKind, collections.OrderedDict])(pairs)
        if kind == 27:
            return Pair(self.pick(), self.pick()) if r.randrange(2) else TupleKind(self.items())
        if kind == 28:
            return bytearray(b"b" * r.randrange(4))
        n = r.choice([999, 1000, 1001, 2000]) if self.big else 3
        shape = r.randrange(4)
        if shape == 0:
            return [self.atom() for _ in range(n)]
        if shape == 1:
            return {i: i * 3 for i in range(n)}
        if shape == 2:
            return {f"key{i}": f"v{i % 7}" for i in range(n)}
        return set(range(n))

    def tie(self) -> None:
        """Make cycles: put something of the pool into something of the pool."""
        target, value = self.r.choice(self.pool), self.r.choice(self.pool)
        if type(target) is list:
            target.append(value)
        elif type(target) is dict:
            target[f"k{self.r.randrange(30)}"] = value
        elif isinstance(target, (Node, Other, GetState, SetState)):
            setattr(target, f"a{self.r.randrange(6)}", value)
        elif isinstance(target, Slots):
            target.two = value
        elif isinstance(target, collections.deque):
            target.append(value)
        elif isinstance(target, Reduces) and target.give[0] in (2, 3, 4, 5):
            target.give = (target.give[0], value)

    def graph(self) -> Any:
        for _ in range(self.r.choice([1, 3, 6, 12, 25])):
            self.pool.append(self.container())
            if self.r.randrange(3) == 0:
                self.tie()
        for _ in range(self.r.randrange(6)):
            self.tie()
        if self.r.randrange(3) == 0:
            obj = self.r.choice(self.pool)
            if hasattr(obj, "__dict__") and not isinstance(obj, (Reduces, ReduceEx)):
                self.pool.append([vars(obj), obj] if self.r.randrange(2) else [obj, vars(obj)])
        picked = [self.pick() for _ in range(self.r.choice([1, 1, 2, 4]))]
        root = self.r.choice([picked, tuple(picked), {"root": picked}, self.pool[-1]])
        self.pool = []
        return root


def build(seed: int, big: bool = False) -> Any:
    return Builder(seed, big).graph()
