"""Dumps and loads every kind of value, and fails in every way, for Valgrind to watch."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import io
import pathlib
import pickle
import uuid
from typing import Any

import torshi


class Plain:
    def __init__(self, n: int) -> None:
        self.n, self.name = n, f"plain {n}"

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1, "two"

    def __eq__(self, other: object) -> bool:
        return type(other) is Slotted and (self.a, self.b) == (other.a, other.b)

    __hash__ = None  # type: ignore[assignment]


class Reduced:
    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.value,), {"value": self.value}

    def __eq__(self, other: object) -> bool:
        return type(other) is Reduced and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Named(dict):  # type: ignore[type-arg]
    pass


def values() -> list[Any]:
    n = 150
    shared = ["shared"]
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    return [
        None, True, False, 0, 255, 65536, -1, 2**40, -(2**40), 2**2000, -(2**2000),
        0.0, -0.0, 1.5, float("inf"), "", "ascii", "l\u00e4tin", "\u20ac", "\U0001f600",
        "\udc80", "x" * 300, "y" * 70000, b"", b"b" * 300, b"c" * 70000, bytearray(b"d" * 300),
        (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], list(range(1005)), {}, {1: 2},
        set(), {1, 2}, frozenset({3}), frozenset(), 1j, range(3), slice(1, 2), ..., NotImplemented,
        {i: str(i) for i in range(n)}, {str(i): i for i in range(n)},
        {i: i * 3 for i in range(n)}, {i: i * 2**62 for i in range(n)},
        {str(i): i / 3 for i in range(n)}, {str(i): i % 2 == 0 for i in range(n)},
        {i: None for i in range(n)}, {i: i if i % 5 else None for i in range(n)},
        {i: [1, 2.5, "x", None, True, b"y"][i % 6] for i in range(n)},
        {i: b"v%d" % i for i in range(n)}, {i: (i, str(i)) for i in range(n)},
        {i: "same" for i in range(n)}, {i: f"caf\u00e9 {i % 7}" for i in range(n)},
        {(i, i + 1): i for i in range(n)}, {i * 0.5: i for i in range(n)},
        [{"id": i, "name": f"n{i}", "tags": ["a", "b"][: i % 3]} for i in range(n)],
        {i: {"x": i, "y": {"z": [i]}} for i in range(n)}, [[i, i + 1] for i in range(n)],
        [Plain(i) for i in range(n)], {i: Plain(i) for i in range(n)}, [Slotted()] * 3,
        [Reduced(i) for i in range(n)], {i: Reduced(i) for i in range(n)},
        [datetime.date(2024, 1, 1 + i % 28) for i in range(n)],
        {i: datetime.datetime(2024, 1, 1 + i % 28, 5) for i in range(n)},
        [datetime.timedelta(i) for i in range(n)], [decimal.Decimal(i) / 7 for i in range(n)],
        [fractions.Fraction(i, 7) for i in range(n)], [uuid.UUID(int=i) for i in range(n)],
        [pathlib.PurePosixPath(f"/a/{i}") for i in range(n)], [Colour.RED, Colour.BLUE] * 50,
        collections.OrderedDict((i, i) for i in range(n)), collections.Counter("abracadabra"),
        collections.defaultdict(list, {1: [2]}), collections.deque(range(n)), Named(a=1, b=[2]),
        array.array("d", [1.0, 2.0]), [shared] * 200, {i: shared for i in range(200)},
        len, Plain, Colour, int, type(None), deep,
    ]


def same(a: Any, b: Any) -> bool:
    while isinstance(a, list) and len(a) == 1 and isinstance(b, list) and len(b) == 1:
        a, b = a[0], b[0]  # 2,000 deep: == would recurse
    return type(a) is type(b) and a == b


def needs_two(value: Any) -> bool:
    """Whether protocols 0 and 1 refuse it, by pickle's own rule."""
    return isinstance(value, list) and bool(value) and type(value[0]) is Slotted


class Persistent(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return "here" if isinstance(obj, Plain) else None


class Returning(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return Plain(0)


def fail(function: Any, *arguments: Any, **keywords: Any) -> None:
    try:
        function(*arguments, **keywords)
    except Exception:
        return
    raise AssertionError((function, arguments))


def main() -> None:
    everything = values()
    for value in everything:
        for protocol in range(2 if needs_two(value) else 0, pickle.HIGHEST_PROTOCOL + 1):
            assert same(pickle.loads(pickle.dumps(value, protocol)), value), value
        for reducers in ("standard", "chunked"):
            data = torshi.dumps(value, reducers=reducers)
            assert same(torshi.loads(data), value), value
    cycle: list[Any] = [{i: i for i in range(200)}]
    cycle.append(cycle)
    cycle[0]["back"] = cycle
    again = pickle.loads(pickle.dumps(cycle))
    assert again[1] is again and again[0]["back"] is again

    file = io.BytesIO()
    pickler = Persistent(file, 5)
    pickler.dump([Plain(1), {"a": Plain(2)}])
    pickler.dump(everything[40:60])
    file.seek(0)
    unpickler = Returning(file)
    assert unpickler.load() == [Plain(0), {"a": Plain(0)}]
    unpickler.load()
    buffers: list[Any] = []
    view = pickle.PickleBuffer(b"z" * 1000)
    data = pickle.dumps({"buffer": view}, 5, buffer_callback=buffers.append)
    assert bytes(pickle.loads(data, buffers=buffers)["buffer"]) == b"z" * 1000

    fail(pickle.dumps, lambda: 0)
    fail(pickle.dumps, {i: (lambda: 0) if i == 150 else i for i in range(200)})
    fail(pickle.dumps, [object.__reduce_ex__, open(__file__)])
    streams = [pickle.dumps(v) for v in everything if not isinstance(v, (str, bytes))]
    for stream in streams:
        for end in {0, 1, 2, 5, 12, len(stream) // 2, len(stream) - 1}:
            if end < len(stream):
                fail(pickle.loads, stream[:end])
        for place in range(0, min(len(stream), 400), 7):
            damaged = bytearray(stream)
            damaged[place] ^= 0x15
            try:
                pickle.loads(damaged)
            except Exception:
                pass


main()
