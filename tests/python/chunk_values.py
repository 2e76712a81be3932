"""Values for chunk tests: random columns of every kind, comparison to the last bit, all loaders."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pickle
import random
import struct
import uuid
from typing import Any

import torshi
from stock_engine import stock

LOADERS = {"torshi": torshi.loads, "stock": stock.loads, "python": pickle._loads}  # type: ignore[attr-defined]


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"
    BLUE = (1, 2)


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Point:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


class Slotted:
    __slots__ = ("a", "b")


class Empty:
    pass


SHARED_TUPLES = [(1, 2), ("a", (1.5, None)), ()]
WORDS = ["eu", "us", "a longer string that is repeated here", "", "é", "日本", "\ud800"]


def slotted(a: Any, **more: Any) -> Slotted:
    made = Slotted()
    made.a = a
    for name, value in more.items():
        setattr(made, name, value)
    return made


KINDS = {
    "none": lambda r: None,
    "bool": lambda r: r.random() < 0.5,
    "small": lambda r: r.randrange(300),
    "int": lambda r: r.randrange(-(2**63), 2**63),
    "big": lambda r: r.choice((1, -1)) * r.getrandbits(r.randrange(1, 300)),
    "float": lambda r: r.random(),
    "special": lambda r: r.choice((0.0, -0.0, float("inf"), float("nan"), 1.5)),
    "ascii": lambda r: "x" * r.randrange(20) + str(r.randrange(50)),
    "text": lambda r: "".join(r.choice("Aé\u03b1\U0001f600\ud800中") for _ in range(r.randrange(8))),
    "bytes": lambda r: r.randbytes(r.randrange(8)),
    "word": lambda r: r.choice(WORDS),
    "tuple": lambda r: tuple(value(r) for _ in range(r.randrange(4))),
    "shared": lambda r: r.choice(SHARED_TUPLES),
    "long": lambda r: "y" * r.choice((255, 256, 300, 4095)),
    "date": lambda r: datetime.date.fromordinal(r.randrange(1, 3_000_000)),
    "datetime": lambda r: datetime.datetime(2020, 1, 1, fold=r.randrange(2))
    + datetime.timedelta(seconds=r.randrange(10**9)),
    "time": lambda r: datetime.time(r.randrange(24), r.randrange(60), 7, 9, fold=r.randrange(2)),
    "delta": lambda r: datetime.timedelta(r.randrange(-99, 99), r.randrange(99), r.randrange(99)),
    "decimal": lambda r: decimal.Decimal(r.randrange(-999, 999)) / 8,
    "uuid": lambda r: uuid.UUID(int=r.getrandbits(128)),
    "enum": lambda r: r.choice((*Colour, *Number)),
    "fraction": lambda r: fractions.Fraction(r.randrange(-99, 99), r.randrange(1, 99)),
}
ROWS = {
    "list": lambda r: [value(r) for _ in range(r.randrange(4))],
    "struct": lambda r: {"id": r.randrange(99), "name": value(r), "more": row(r)},
    "ragged": lambda r: {k: value(r) for k in ("a", "b", "c") if r.random() < 0.6},
    "map": lambda r: {f"k{r.randrange(99)}": value(r) for _ in range(r.randrange(4))},
    "keys": lambda r: {hashable(r): value(r) for _ in range(r.randrange(4))},
    "point": lambda r: Point(value(r), row(r)),
    "slotted": lambda r: slotted(value(r)) if r.random() < 0.5 else slotted(1, b=row(r)),
    "empty": lambda r: Empty(),
}


def value(r: random.Random) -> Any:
    return KINDS[r.choice(list(KINDS))](r)


def row(r: random.Random) -> Any:
    return ROWS[r.choice(list(ROWS))](r) if r.random() < 0.4 else value(r)


def hashable(r: random.Random) -> Any:
    made = value(r)
    return made if made == made and repr(made) != "NaN" else None


def column(r: random.Random, n: int, rows: bool) -> list[Any]:
    """Values of one kind, of a few, of all, or a few objects over and over."""
    makers = list((KINDS | ROWS if rows else KINDS).values())
    if r.random() < 0.2:
        return [r.choice(makers)(r) for _ in range(n)]
    chosen = [r.choice(makers) for _ in range(r.choice((1, 1, 2, 3)))]
    if r.random() < 0.3:
        pool = [r.choice(chosen)(r) for _ in range(r.randrange(1, 50))]
        return [r.choice(pool) for _ in range(n)]
    return [r.choice(chosen)(r) for _ in range(n)]


def same(a: Any, b: Any, pairs: dict[int, int] | None = None) -> bool:
    """Equal, type for type and bit for bit, with the same partition of mutable things."""
    pairs = {} if pairs is None else pairs
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y, pairs) for x, y in zip(a, b))
    if isinstance(a, enum.Enum):
        return a is b
    if not isinstance(a, (list, dict, Point, Slotted, Empty)):
        return bool(a == b) and getattr(a, "fold", 0) == getattr(b, "fold", 0)
    if id(a) in pairs:
        return pairs[id(a)] == id(b)
    pairs[id(a)] = id(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y, pairs) for x, y in zip(a, b))
    if isinstance(a, Slotted):
        names = [n for n in Slotted.__slots__ if hasattr(a, n)]
        return names == [n for n in Slotted.__slots__ if hasattr(b, n)] and all(
            same(getattr(a, n), getattr(b, n), pairs) for n in names
        )
    x, y = (a, b) if isinstance(a, dict) else (vars(a), vars(b))
    return len(x) == len(y) and all(
        same(j, k, pairs) and same(x[j], y[k], pairs) for j, k in zip(x, y)
    )


def chunks_in(data: bytes) -> int:
    """How many calls of torshi.chunk a stream has."""
    import pickletools

    names: list[Any] = []
    calls, memo, stored = 0, {}, None
    chunk_at: int | None = None
    for op, arg, _ in pickletools.genops(data):
        if op.name == "STACK_GLOBAL" and names[-2:] == ["torshi", "chunk"]:
            calls += 1
            stored = "chunk"
        elif op.name == "MEMOIZE":
            if stored == "chunk":
                chunk_at = len(memo)
            memo[len(memo)] = stored
            stored = None
        elif op.name in ("BINGET", "LONG_BINGET"):
            calls += arg == chunk_at
            stored = None
        else:
            stored = None
        if isinstance(arg, str):
            names.append(arg)
    return calls
