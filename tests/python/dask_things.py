"""What test_dask.py sends to workers, which have to be able to import it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    number: int
    name: str
    values: list = field(default_factory=list)


class Named(dict):
    pass


class Own:
    """Has a serializer of its own in Dask: pickling it is an error."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.text == self.text

    def __reduce__(self) -> Any:
        raise TypeError("Own is not for pickling")


def register_own() -> None:
    from distributed.protocol import register_serialization

    register_serialization(
        Own, lambda own: ({}, [own.text.encode()]), lambda header, frames: Own(bytes(frames[0]).decode())
    )


def records(n: int) -> list[dict[str, Any]]:
    return [{"number": i, "name": f"name {i % 10}", "share": i / 7, "good": i % 3 == 0} for i in range(n)]


def has_torshi(*_: Any) -> bool:
    return "torshi.dask" in sys.modules


def length_and_type(x: Any, *_: Any) -> tuple[int, str]:
    return len(x), type(x).__name__


def make_records(n: int) -> list[dict[str, Any]]:
    return records(n)


def total(x: Any) -> float:
    return sum(row["number"] for row in x)


def fail_first(path: str, x: Any) -> int:
    """Fails until it has been called twice."""
    flag = Path(path)
    calls = len(flag.read_text()) if flag.exists() else 0
    flag.write_text("x" * (calls + 1))
    if calls < 2:
        raise OSError("not yet")
    return len(x)


def spill_all(dask_worker: Any) -> int:
    """Writes all that this worker holds to disk; how many values that were."""
    data = dask_worker.data
    while data.fast:
        if data.evict() == -1:
            break
    return len(data.disk)


def spilled_bytes(dask_worker: Any) -> bytes:
    return b"".join(
        file.read_bytes() for file in Path(dask_worker.local_directory).rglob("*") if file.is_file()
    )


def pid(*_: Any) -> int:
    return os.getpid()


def pickles_are_ours(*_: Any) -> bool:
    import pickle

    return b"torshi" in pickle.dumps(records(50), 5)
