"""What a build with a profile learns from: everyday data, dumped and loaded (tools/scons/profile.py runs it).

The data are not those of the benchmark. Each shape comes in a few sizes, and each size about as often as keeps its
total time alike, so that calls on small values weigh as much as long columns.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import pickle
import random
import uuid
from pathlib import PurePosixPath
from typing import Any, Callable, Iterator

import torshi

VALUES = 40_000  # values a shape and size, about


class Level(enum.Enum):
    LOW = "low"
    MIDDLE = "middle"
    HIGH = "high"


@dataclasses.dataclass
class Order:
    number: int
    price: float
    item: str
    paid: bool


class Visit:
    def __init__(self, page: str, seconds: float, referrer: str | None) -> None:
        self.page, self.seconds, self.referrer = page, seconds, referrer


class Cell:
    __slots__ = ("row", "column", "text")

    def __init__(self, row: int, column: int, text: str) -> None:
        self.row, self.column, self.text = row, column, text


Reading = collections.namedtuple("Reading", "sensor value")


def branch(depth: int) -> dict[str, Any]:
    return {"title": f"part {depth}", "pages": depth * 3, "parts": [branch(depth - 1) for _ in range(2)] if depth else []}


def shapes(r: random.Random) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Name and maker of each shape. A maker gets a number of rows and gives about as many."""
    words = ["harbour", "río", "улица", "市場", "granary", "a", "", "quarry road 17", "😀 mill"]

    def word(i: int) -> str:
        return f"{words[i % 9]} {i}"

    yield "counts", lambda n: {i * 3: i for i in range(n)}
    yield "numbers", lambda n: {r.randrange(1 << 40): r.randrange(1 << r.randrange(1, 40)) for i in range(n)}
    yield "labels", lambda n: {f"label-{i}": f"text {i * 7}" for i in range(n)}
    yield "weights", lambda n: {f"w{i}": r.gauss(0, 1) for i in range(n)}
    yield "texts", lambda n: [word(i) for i in range(n)]
    yield "repeated", lambda n: [word(r.randrange(40)) for _ in range(n)]
    yield "shared", lambda n: [w for w in [words[i % 9] for i in range(n)]]
    yield "integers", lambda n: [r.randrange(-(1 << 30), 1 << 30) for _ in range(n)]
    yield "large", lambda n: [r.getrandbits(90) for _ in range(n // 4)]
    yield "floats", lambda n: [r.random() for _ in range(n)]
    yield "flags", lambda n: [bool(r.getrandbits(1)) for _ in range(n)]
    yield "missing", lambda n: [r.choice((None, 1, 2.5)) for _ in range(n)]
    yield "settings", lambda n: {f"s{i}": r.choice((1, "on", None, 2.5, True, [1, 2], {"x": 1}, ("a", 1))) for i in range(n)}
    yield "rows", lambda n: [{"key": i, "label": f"row {i}", "place": word(i), "rate": r.random(), "open": i % 3 == 0}
                             for i in range(n // 5 + 1)]
    yield "by name", lambda n: {f"m{i}": {"load": r.random(), "cores": i % 64, "zone": f"z{i % 5}"} for i in range(n // 3 + 1)}
    yield "uneven", lambda n: [{k: v for k, v in (("k", i), ("t", f"t{i % 50}"), ("c", ["x"] * (i % 3)), ("d", word(i)))
                                if (i + len(k) + ord(k)) % 4} for i in range(n // 3 + 1)]
    yield "inside", lambda n: [{"at": {"x": i, "y": i / 3}, "marks": [r.random() for _ in range(4)], "of": {"kind": "q"}}
                               for i in range(n // 8 + 1)]
    yield "lists", lambda n: [[i, i + 1, i * i] for i in range(n // 3 + 1)]
    yield "pairs", lambda n: [(f"p{i}", i) for i in range(n // 2 + 1)]
    yield "points", lambda n: {(i, i + 1): r.random() for i in range(n // 3 + 1)}
    yield "tree", lambda n: branch(min(12, max(1, (n // 3).bit_length())))
    yield "orders", lambda n: [Order(i, r.random() * 50, f"item {i % 300}", i % 2 == 0) for i in range(n // 4 + 1)]
    yield "visits", lambda n: [Visit(f"/page/{i}", i / 7, None if i % 3 else "/") for i in range(n // 3 + 1)]
    yield "cells", lambda n: [Cell(i, i % 12, f"c{i}") for i in range(n // 3 + 1)]
    yield "readings", lambda n: [Reading(f"sensor{i % 9}", r.random()) for i in range(n // 2 + 1)]
    yield "times", lambda n: [datetime.datetime(2001, 1, 1) + datetime.timedelta(seconds=i * 3607) for i in range(n)]
    yield "days", lambda n: {datetime.date.fromordinal(700_000 + i): i for i in range(n)}
    yield "values", lambda n: [(uuid.UUID(int=r.getrandbits(128)), decimal.Decimal(i) / 4, Level.LOW) for i in range(n // 3 + 1)]
    yield "paths", lambda n: [PurePosixPath(f"/srv/data/{i % 9}/{i}.csv") for i in range(n)]
    yield "sets", lambda n: {f"member{i}" for i in range(n)}
    yield "octets", lambda n: [r.randbytes(12) for _ in range(n)]
    yield "ordered", lambda n: collections.OrderedDict((f"o{i}", i) for i in range(n))
    yield "queue", lambda n: collections.deque(range(n))
    yield "same", lambda n: [[1, "one"]] * n
    yield "message", lambda n: {"type": "reply", "id": 77, "ok": True, "took": 0.25, "tags": ["a", "b"]}
    yield "short", lambda n: {"n": 5}
    yield "atom", lambda n: 98_765
    yield "word", lambda n: "a short text"
    yield "call", lambda n: ("run", (1, "x"), {"retries": 3})


def there_and_back(value: Any, times: int) -> None:
    """Dump and load `times` times in each of the ways that people use."""
    for _ in range(times):
        chunked = torshi.dumps(value)
        torshi.loads(chunked)
    for _ in range(times // 2 + 1):
        torshi.loads(torshi.dumps(value, reducers="standard"))
    torshi.loads(pickle.dumps(value, 2))
    pickle.loads(chunked)
    file = io.BytesIO()
    pickler = torshi.Pickler(file, 5)
    pickler.dump(value)
    pickler.dump(value)
    file.seek(0)
    unpickler = torshi.Unpickler(file)
    unpickler.load()
    unpickler.load()


def main() -> None:
    r = random.Random(1)
    for _name, make in shapes(r):
        for rows in (1, 4, 20, 300, 5_000):
            value = make(rows)
            there_and_back(value, min(400, VALUES // (rows + 60) // 4 + 1))


if __name__ == "__main__":
    main()
