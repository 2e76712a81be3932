"""Reads tests/golden, and compares values more strictly than `==` does."""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import importlib
import struct
import types
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "golden"


def bits(pattern: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", pattern))[0]


NAMESPACE = {
    "builtins": builtins,
    "datetime": datetime,
    "decimal": decimal,
    "fractions": fractions,
    "types": types,
    "bits": bits,
}


@dataclass
class Golden:
    name: str
    target: str
    payload: bytes
    rolled: list[str] | None  # type names after the target; None: call without roll
    externals: tuple
    expression: str
    status: str
    offset: int
    walker_accepts: bool

    @property
    def value(self):
        return eval(self.expression, dict(NAMESPACE))

    def new_target(self):
        return {"list": list, "dict": dict}[self.target]()


def find_external(path: str):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def read_golden(path: Path) -> Golden:
    fields: dict[str, str] = {}
    key = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            fields[key] += line
        elif not line.startswith("#"):
            key, _, text = line.partition(":")
            fields[key] = text.strip()
    return Golden(
        name=f"{path.parent.name}/{path.stem}",
        target=fields["target"],
        payload=bytes.fromhex(fields["hex"]),
        rolled=fields["roll"].split() if "roll" in fields else None,
        externals=tuple(map(find_external, fields.get("externals", "").split())),
        expression=fields.get("value", ""),
        status=fields.get("status", "S_OK"),
        offset=int(fields.get("offset", -1)),
        walker_accepts=fields.get("walker") == "accepts",
    )


def all_golden(kind: str) -> list[Golden]:
    """kind: ok or bad."""
    return [read_golden(path) for path in sorted((FOLDER / kind).glob("*.txt"))]


def same(a, b) -> bool:
    """Equal in type, order of keys, sign of zero and bits of NaN. Does not look at identity."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, types.SimpleNamespace):
        return same(vars(a), vars(b))
    return type(a) is object or a == b
