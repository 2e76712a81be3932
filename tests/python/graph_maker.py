"""Random object graphs of what people pickle: rows of one shape and of several, shared and cyclic
parts, scalars of every kind, instances of every kind."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import random
import uuid
from typing import Any, Callable


class Point:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


class Slotted:
    __slots__ = ("a", "_b", "__c")

    def __init__(self, a: Any, b: Any, c: Any) -> None:
        self.a = a
        if b is not None:
            self._b = b
        self.__c = c


class Mixed(Slotted):
    """Slots, and a dict."""


class WithDict:
    """Default but for a __getstate__ that the instance has."""

    __slots__ = ("__dict__", "a", "state")

    def __init__(self, state: Any) -> None:
        self.__dict__["__getstate__"] = lambda: state


class Stateful:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> Any:
        return {"kept": self.value}

    def __setstate__(self, state: Any) -> None:
        self.value = state["kept"]


class Reduced:
    def __init__(self, *args: Any) -> None:
        self.args = args

    def __reduce__(self) -> Any:
        return Reduced, self.args


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"
    BLUE = (1, 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class SubDict(dict):
    pass


class SubList(list):
    pass


class SubStr(str):
    pass


Named = collections.namedtuple("Named", "a b")


class GraphMaker:
    def __init__(self, rng: random.Random, size: int = 300) -> None:
        self.rng = rng
        self.size = size
        self.made: list[Any] = []  # what may be met again
        self.words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(12)]
        self.words += [
            "é" * 3,
            "日本語",
            "\ud800x",
            "😀 smile",
            "",
            "x" * rng.choice((200, 300, 5000)),
        ]
        self.names = [
            "id",
            "name",
            "value",
            "tags",
            "note",
            "kids",
            "at",
            "ok",
            "__reduce__x",
            "_p",
        ]

    # ---- scalars
    def word(self) -> str:
        text = self.rng.choice(self.words)
        return text if self.rng.random() < 0.4 else text[:1] + text[1:]

    def number(self) -> int:
        bits = self.rng.choice((1, 4, 8, 16, 31, 32, 40, 63, 64, 70, 200))
        return self.rng.choice((1, 1, -1)) * self.rng.getrandbits(bits)

    def double(self) -> float:
        return self.rng.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), self.rng.random()))

    def atom(self) -> Any:
        return self.rng.choice(
            (
                self.word,
                self.number,
                self.double,
                lambda: None,
                lambda: True,
                lambda: False,
                self.blob,
            )
        )()

    def blob(self) -> bytes:
        return self.rng.randbytes(self.rng.choice((0, 1, 5, 5, 20, 300)))

    def moment(self) -> Any:
        at = datetime.datetime(2020, 1, 1) + datetime.timedelta(
            seconds=self.rng.randrange(10**8), microseconds=self.rng.randrange(9)
        )
        zone = at.replace(tzinfo=datetime.timezone.utc)
        return self.rng.choice(
            (
                at,
                at.date(),
                at.time(),
                zone,
                zone.timetz(),
                datetime.timedelta(self.rng.randrange(-9, 9), 5),
                at.replace(fold=1),
            )
        )

    def value(self) -> Any:
        make = self.rng.choice(
            (
                self.moment,
                lambda: decimal.Decimal(self.rng.randrange(-999, 999)) / 8,
                lambda: decimal.Decimal("NaN"),
                lambda: uuid.UUID(int=self.rng.getrandbits(128)),
                lambda: fractions.Fraction(self.rng.randrange(9), 7),
                lambda: self.rng.choice(list(Colour)),
                lambda: self.rng.choice(list(Level)),
                lambda: pathlib.PurePosixPath("/a", self.word().replace("/", "") or "x"),
                lambda: complex(1, self.rng.randrange(3)),
            )
        )
        return make()

    def keep(self, obj: Any) -> Any:
        self.made.append(obj)
        return obj

    # ---- containers
    def anything(self, depth: int) -> Any:
        self.size -= 1
        roll = self.rng.random()
        if self.made and roll < 0.08:
            return self.rng.choice(self.made)
        if depth <= 0 or self.size < 0 or roll < 0.5:
            return self.atom() if self.rng.random() < 0.85 else self.value()
        return self.rng.choice(
            (self.rows, self.rows, self.list, self.dict, self.tuple, self.instance, self.other)
        )(depth)

    def some(self, depth: int, make: Callable[[int], Any] | None = None) -> list[Any]:
        """Values that are alike more often than not."""
        n = self.rng.choice((0, 1, 2, 3, 4, 9, 20, 33))
        if make is None:
            make = self.rng.choice(
                (self.anything, *([lambda d: self.number()] * 2), *([lambda d: self.word()] * 2), lambda d: self.double(),
                 lambda d: self.moment(), lambda d: self.value(), lambda d: (self.word(), self.number()), lambda d: self.rng.choice((None, self.word())))
            )  # fmt: skip
        return [make(depth - 1) for _ in range(n)]

    def list(self, depth: int) -> Any:
        made = self.keep([])
        made += self.some(depth)
        return made

    def tuple(self, depth: int) -> Any:
        return self.keep(tuple(self.some(depth)[:5]))

    def dict(self, depth: int) -> Any:
        made = self.keep({})
        values = self.some(depth)
        key = self.rng.choice(
            (
                self.word,
                self.number,
                lambda: (self.word(), self.number()),
                self.atom,
                lambda: self.rng.choice(list(Colour)),
                self.value,
            )
        )
        for value in values:
            made[key()] = value
        return made

    def rows(self, depth: int) -> Any:
        """Dicts or instances with the same fields, mostly."""
        fields = self.rng.sample(self.names, self.rng.randint(0, 5))
        makes = [
            self.rng.choice(
                (
                    self.anything,
                    lambda d: self.word(),
                    lambda d: self.number(),
                    self.list,
                    lambda d: self.moment(),
                )
            )
            for _ in fields
        ]
        cls = self.rng.choice((None, None, Point, Slotted, Mixed))
        missing = self.rng.choice((0, 0, 0.1, 0.5))

        def row(d: int) -> Any:
            values = {
                name: make(d) for name, make in zip(fields, makes) if self.rng.random() >= missing
            }
            if cls is None:
                return self.keep(values)
            if cls is Point:
                made = Point.__new__(Point)
                made.__dict__.update(values)
                return self.keep(made)
            made = cls(self.word(), self.rng.choice((None, 1)), self.number())
            if cls is Mixed and self.rng.random() < 0.3:
                made.extra = 1
            return self.keep(made)

        made = self.keep([])
        made += self.some(depth, row)
        if self.rng.random() < 0.5:
            return made
        return self.keep({self.word() + str(i): value for i, value in enumerate(made)})

    def instance(self, depth: int) -> Any:
        return self.keep(
            self.rng.choice(
                (Stateful, Reduced, lambda v: Point(v, self.atom()), lambda v: Named(v, 2))
            )(self.anything(depth - 1))
        )

    def other(self, depth: int) -> Any:
        items = self.some(depth, lambda d: self.word())
        return self.keep(
            self.rng.choice(
                (
                    lambda: set(items),
                    lambda: frozenset(items),
                    lambda: SubDict.fromkeys(items, 1),
                    lambda: SubList(items),
                    lambda: collections.OrderedDict.fromkeys(items, 2),
                    lambda: collections.deque(items),
                    lambda: bytearray(b"xyz"),
                    lambda: SubStr("sub"),
                    lambda: len,
                    lambda: Point,
                    lambda: range(3),
                )
            )()
        )

    def graph(self) -> Any:
        root = self.rng.choice((self.rows, self.rows, self.list, self.dict))(self.rng.randint(1, 6))
        for _ in range(self.rng.choice((0, 0, 1, 3))):  # cycles, and parts shared at random
            where, what = self.rng.choice(self.made), self.rng.choice(self.made)
            if type(where) is list:
                where.append(what)
            elif type(where) is dict:
                where["again"] = what
            elif type(where) is Point:
                where.again = what  # type: ignore[attr-defined]
        return root


def make_graph(seed: int, size: int = 300) -> Any:
    return GraphMaker(random.Random(seed), size).graph()


_IMMUTABLE = (str, bytes, int, float, complex, bool, type(None), decimal.Decimal, fractions.Fraction, uuid.UUID, datetime.date, datetime.time,
              datetime.timedelta, datetime.timezone, pathlib.PurePath, enum.Enum, range)  # fmt: skip


def describe(root: Any) -> Any:
    """Types, values, order, and the identity partition of what is mutable, as plain data."""
    seen: dict[int, int] = {}

    def visit(obj: Any) -> Any:
        cls = type(obj)
        name = cls.__name__
        if isinstance(obj, type) or callable(obj) and hasattr(obj, "__qualname__"):
            return "named", obj.__module__, obj.__qualname__
        if cls is tuple or cls is Named:
            return name, [visit(item) for item in obj]
        if cls is frozenset:
            return name, sorted(map(repr, obj))
        if cls in _IMMUTABLE or isinstance(obj, (enum.Enum, pathlib.PurePath)):
            return name, obj.hex() if cls is float else repr(obj)
        if id(obj) in seen:
            return "seen", seen[id(obj)]
        seen[id(obj)] = len(seen)
        parts: list[Any] = [name]
        if isinstance(obj, (list, collections.deque)):
            parts.append([visit(item) for item in obj])
        elif isinstance(obj, dict):
            parts.append([(visit(key), visit(value)) for key, value in obj.items()])
        elif isinstance(obj, set):
            parts.append(sorted(map(repr, obj)))
        elif isinstance(obj, (bytearray, str)):
            parts.append(repr(obj))
        for slot in ("a", "_b", "_Slotted__c"):
            if isinstance(obj, Slotted) and hasattr(obj, slot):
                parts.append((slot, visit(getattr(obj, slot))))
        if hasattr(obj, "__dict__"):
            parts.append([(key, visit(value)) for key, value in vars(obj).items()])
        return parts

    return visit(root)
