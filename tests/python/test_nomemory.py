"""Every allocation of a dump fails once: MemoryError or the whole dump, and never anything else."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import gc
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torshi

_testcapi = pytest.importorskip("_testcapi")

ROWS = 40


class Plain:
    def __init__(self, i: int) -> None:
        self.number, self.text, self.items = i, str(i), [i]

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__


class Slotted:
    __slots__ = ("number", "twice")

    def __init__(self, i: int) -> None:
        self.number, self.twice = i, 2 * i

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.number == other.number


class Restored(Plain):
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, restored=True)


@dataclass
class Data:
    number: int
    ratio: float


class Named(NamedTuple):
    number: int
    text: str


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


SHAPES = {
    "plain": [Plain(i) for i in range(ROWS)],
    "slotted": [Slotted(i) for i in range(ROWS)],
    "restored": [Restored(i) for i in range(ROWS)],
    "dataclass": [Data(i, i / 2) for i in range(ROWS)],
    "mixed": [x for i in range(ROWS) for x in (Plain(i), Slotted(i), Data(i, 0.5))],
    "uuid": [uuid.UUID(int=i) for i in range(ROWS)],
    "enum": [list(Colour)[i % 2] for i in range(ROWS)],
    "named": [Named(i, f"n{i}") for i in range(ROWS)],
    "fraction": [fractions.Fraction(i, 7) for i in range(ROWS)],
    "decimal": [decimal.Decimal(i) for i in range(ROWS)],
    "date": [datetime.date(2000, 1, 1 + i % 28) for i in range(ROWS)],
    "attributes": [{"when": datetime.datetime(2000, 1, 1), "it": Plain(i)} for i in range(ROWS)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_allocation_fails_once(shape: str) -> None:
    value = SHAPES[shape]
    whole = torshi.loads(torshi.dumps(value, 5))
    gc.disable()  # its callbacks would meet the failure instead
    failures = 0
    try:
        for k in range(1000):
            data = failed = None
            _testcapi.set_nomemory(k, k + 1)
            try:
                data = torshi.dumps(value, 5)
            except BaseException as error:
                failed = error
            finally:
                _testcapi.remove_mem_hooks()
            if failed is not None:
                assert type(failed) is MemoryError, (k, failed)
                failures += 1
            else:
                assert torshi.loads(data) == whole, k
    finally:
        gc.enable()
    assert failures
