"""Object references, dumped and loaded in every way and broken in many, for Valgrind to watch."""

from __future__ import annotations

import gc
import pickle
import random
from typing import Any

import torshi


class Ref:
    """A plain reference class that counts those alive."""

    alive = 0

    def __new__(cls, *args: Any) -> Ref:  # a broken stream may leave __init__ out
        Ref.alive += 1
        return super().__new__(cls)

    def __init__(self, number: int, owner: str) -> None:
        self.number, self.owner = number, owner

    def __del__(self) -> None:
        Ref.alive -= 1

    def __reduce__(self) -> tuple[Any, ...]:
        return Ref, (self.number, self.owner)


class Holder:
    def __init__(self, ref: Any) -> None:
        self.ref, self.name = ref, "holder"


class Broken(Exception):
    pass


def batch(load: Any, numbers: Any, owners: Any) -> list[Ref]:
    load.once("key", list)
    load.call_site()
    return [Ref(n, o) for n, o in zip(numbers, owners)]


def short_batch(load: Any, numbers: Any, owners: Any) -> list[Ref]:
    return batch(load, numbers, owners)[:-1]


def broken_batch(load: Any, numbers: Any, owners: Any) -> list[Ref]:
    made = [Ref(n, o) for n, o in zip(numbers, owners)]
    raise Broken(len(made))


def nested_batch(load: Any, numbers: Any, owners: Any) -> list[Ref]:
    torshi.loads(torshi.dumps([torshi.ObjectRef(b"%04d" % n) for n in range(40)], 5))
    return batch(load, numbers, owners)


def shapes(make: Any) -> list[Any]:
    refs = [make(i) for i in range(40)]
    return [
        refs,
        refs[0],
        refs + refs,
        {i: r for i, r in enumerate(refs)},
        {r: i for i, r in enumerate(refs)},
        [Holder(r) for r in refs],
        [{"ref": r, "more": [r, i]} for i, r in enumerate(refs)],
        [(r, None) for r in refs],
    ]


def attempt(data: bytes) -> None:
    try:
        torshi.loads(data)
    except Exception:  # whatever is wrong with it: it must be an exception, and nothing lost
        pass


def main() -> None:
    draw = random.Random(7)
    torshi.register_ref(Ref, batch=batch)
    for make in (
        lambda i: Ref(i, f"owner {i % 3}"),
        lambda i: torshi.ObjectRef(b"id %06d" % i, owner=b"owner %d" % (i % 3), site=None),
    ):
        for value in shapes(make):
            for reducers in ("chunked", "standard"):
                data = torshi.dumps(value, 5, reducers=reducers)
                torshi.loads(data)
                pickle.loads(data)
                for _ in range(150):
                    broken = bytearray(data)
                    broken[draw.randrange(len(broken))] = draw.randrange(256)
                    attempt(bytes(broken))
                    attempt(data[: draw.randrange(len(data))])
    data = torshi.dumps([Ref(i, "owner") for i in range(40)], 5)
    for wrong in (short_batch, broken_batch, nested_batch):
        torshi.unregister_ref(Ref)
        torshi.register_ref(Ref, batch=wrong)
        attempt(data)
    torshi.unregister_ref(Ref)
    torshi.loads(data)
    del value
    gc.collect()
    assert Ref.alive == 0, Ref.alive


main()
