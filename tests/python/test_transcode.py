"""torshi streams turned into standard pickles without importing what they name (torshi._transcode)."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import random
import sys
import uuid
from typing import Any

import pytest

import torshi
from torshi._transcode import to_standard


@dataclasses.dataclass
class Record:
    number: int
    name: str


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and other.x == self.x


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Dict(dict):
    pass


class List(list):
    pass


class Set(set):
    pass


class WithState:
    def __init__(self, n: int) -> None:
        self.n = n

    def __getstate__(self) -> Any:
        return (self.n,)

    def __setstate__(self, state: Any) -> None:
        (self.n,) = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithState) and other.n == self.n


class WithNewArguments:
    def __new__(cls, *, n: int) -> Any:
        self = object.__new__(cls)
        self.n = n
        return self

    def __getnewargs_ex__(self) -> Any:
        return (), {"n": self.n}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithNewArguments) and other.n == self.n


part = [1, 2, 3]
VALUES: dict[str, Any] = {
    "records": [Record(i, str(i)) for i in range(100)],
    "slotted": [Slotted(i) for i in range(50)],
    "enum": [Colour.RED, Colour.BLUE] * 30,
    "dates": [datetime.datetime(2020, 1, d, 3) for d in range(1, 30)] + [datetime.date(2021, 1, d) for d in range(1, 30)],
    "durations": [datetime.timedelta(i) for i in range(30)],
    "decimals": [decimal.Decimal(i) / 7 for i in range(30)],
    "uuids": [uuid.UUID(int=i) for i in range(20)],
    "fractions": [fractions.Fraction(1, i + 1) for i in range(10)],
    "paths": [pathlib.PurePosixPath(f"/a/{i}") for i in range(20)],
    "subclasses": [Dict(a=1, b=[1]), List([1, 2, part]), Set({1, 2}), part],
    "states": [WithState(i) for i in range(20)],
    "new arguments": [WithNewArguments(n=i) for i in range(20)],
    "shared": [part, part, {"p": part}] * 10,
    "defaultdict": collections.defaultdict(list, {i: [i] for i in range(20)}),
    "ordered": collections.OrderedDict(a=1, b=2),
    "counter": collections.Counter("hello"),
    "deque": collections.deque(range(5)),
    "classes": [Record, Slotted, len, int, pathlib.PurePosixPath],
    "nested": {f"k{i}": {"a": i, "b": [i, {"c": (i, str(i))}]} for i in range(100)},
    "bytes": [b"x" * i for i in range(100)] + [bytearray(b"123"), frozenset({1, (2, 3)}), 1j],
}


def translated(x: Any) -> Any:
    taken: list[Any] = []
    stream = torshi.dumps(x, 5, buffer_callback=lambda b: taken.append(b.raw()))
    again: list[Any] = []
    standard = to_standard(stream, taken, again.append)
    assert b"torshi" not in standard
    return pickle.loads(standard, buffers=again)


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    back = translated(VALUES[name])
    assert back == VALUES[name] and type(back) is type(VALUES[name])
    if isinstance(back, list):
        assert list(map(type, back)) == list(map(type, VALUES[name]))
    if name == "shared":
        assert back[0] is back[1] is back[2]["p"] is back[-1]["p"]


def test_all_together_with_cycles() -> None:
    everything: dict[str, Any] = dict(VALUES)
    everything["itself"] = everything
    record = Record(1, "x")
    record.name = [record]  # type: ignore[assignment]
    everything["record"] = record
    back = translated(everything)
    assert back["itself"] is back and back["record"].name[0] is back["record"]
    assert back["nested"] == everything["nested"] and list(back) == list(everything)


def test_buffers_go_through() -> None:
    numpy = pytest.importorskip("numpy")
    fixed = numpy.arange(20)
    fixed.flags.writeable = False
    x = {"a": numpy.arange(10.0), "rows": [{"n": i} for i in range(50)], "fixed": fixed}
    back = translated(x)
    assert (back["a"] == x["a"]).all() and (back["fixed"] == fixed).all() and back["rows"] == x["rows"]
    assert back["a"].flags.writeable and not back["fixed"].flags.writeable


def test_nothing_is_imported_or_called() -> None:
    stream = torshi.dumps(VALUES["records"] + [pathlib.PurePosixPath("/x")], 5).replace(__name__.encode(), b"x" * len(__name__))
    standard = to_standard(stream, (), print)
    assert b"x" * len(__name__) in standard and "x" * len(__name__) not in sys.modules

    class Bomb:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit('called')",)

    standard = to_standard(torshi.dumps([Bomb(), [{"n": i} for i in range(50)]], 5), (), print)
    with pytest.raises(SystemExit, match="called"):
        pickle.loads(standard)


def test_random_graphs() -> None:
    def value(r: random.Random, made: list, depth: int = 0) -> Any:
        if made and r.random() < 0.1:
            return r.choice(made)
        kind = r.random() if depth < 5 else 1
        if kind < 0.3:
            out: Any = [value(r, made, depth + 1) for _ in range(r.randrange(8))]
        elif kind < 0.6:
            out = {r.choice("abcdefgh"): value(r, made, depth + 1) for _ in range(r.randrange(8))}
        elif kind < 0.7:
            out = Record(r.randrange(9), value(r, made, depth + 1))
        else:
            return r.choice([1, 2.5, "text", None, True, b"bytes", Colour.RED, (1, "t"), datetime.date(2020, 1, 1)])
        made.append(out)
        return out

    for seed in range(200):
        x = value(random.Random(seed), [])
        back = translated(x)
        assert repr(back) == repr(x), seed
