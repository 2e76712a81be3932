"""Standard reducers write the bytes of the running interpreter's own _pickle.

Random graphs (random_graphs.py), each made afresh for each engine, at every protocol, through
dumps, dump, a Pickler used twice, and hooks. TORSHI_FUZZ=N tries N graphs in place of a few.
"""

import importlib
import io
import os
import random
import re
from typing import Any, Callable

import pytest
import random_graphs

import torshi

try:  # in the host _pickle is the engine itself
    stock = importlib.import_module("_torshi_stock_pickle")
except ImportError:
    stock = importlib.import_module("_pickle")

COUNT = int(os.environ.get("TORSHI_FUZZ", "1500"))
START = int(os.environ.get("TORSHI_FUZZ_START", "0"))


def ours(**options: Any) -> dict[str, Any]:
    return {"reducers": "standard", **options}


class Sink:
    """A file that keeps what each write() got."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: Any) -> None:
        self.parts.append(bytes(data))


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RecursionError:
        return RecursionError  # the engines bound depth by different rules
    except Exception as error:
        # by name: in the host PicklingError is the engine's own class
        return type(error).__qualname__, re.sub(r"0x[0-9a-f]+", "0x", str(error))


def dump_parts(module: Any, obj: Any, protocol: int, **options: Any) -> list[bytes]:
    sink = Sink()
    module.dump(obj, sink, protocol, **options)
    return sink.parts


def reuse(module: Any, first: Any, second: Any, protocol: int, **options: Any) -> list[bytes]:
    sink = Sink()
    pickler = module.Pickler(sink, protocol, **options)
    pickler.dump(first)
    pickler.dump([second, first])
    primed = module.Pickler(sink, protocol, **options)
    primed.memo = pickler.memo
    primed.dump([first, [second]])
    return sink.parts


def hooked(module: Any, obj: Any, protocol: int, seed: int, **options: Any) -> Any:
    calls: list[str] = []
    r = random.Random(seed)
    with_override, with_table, with_id = r.random() < 0.5, r.random() < 0.4, r.random() < 0.4

    class Hooked(module.Pickler):
        if with_override:

            def reducer_override(self, value: Any) -> Any:
                calls.append("override " + type(value).__name__)
                if type(value) is random_graphs.Slots:
                    return random_graphs.make, ([1, "new"],)
                return NotImplemented

        if with_id:

            def persistent_id(self, value: Any) -> Any:
                calls.append("id " + type(value).__name__)
                return "pid" if type(value) is random_graphs.Other else None

        if with_table:
            dispatch_table = {random_graphs.Node: lambda value: (random_graphs.make, (vars(value),))}

    sink = Sink()
    Hooked(sink, protocol, **options).dump(obj)
    return sink.parts, calls


def check(seed: int) -> None:
    big = seed % 10 == 0
    build = random_graphs.build
    for protocol in range(6):
        want = outcome(lambda: stock.dumps(build(seed, big), protocol))
        got = outcome(lambda: torshi.dumps(build(seed, big), protocol, **ours()))
        assert got == want, f"dumps: seed {seed}, protocol {protocol}"
    protocol = seed % 6
    want = outcome(lambda: dump_parts(stock, build(seed, big), protocol))
    got = outcome(lambda: dump_parts(torshi, build(seed, big), protocol, **ours()))
    assert got == want, f"dump: seed {seed}, protocol {protocol}"
    want = outcome(lambda: reuse(stock, build(seed, big), build(seed + 1, big), protocol))
    got = outcome(lambda: reuse(torshi, build(seed, big), build(seed + 1, big), protocol, **ours()))
    assert got == want, f"Pickler: seed {seed}, protocol {protocol}"
    want = outcome(lambda: hooked(stock, build(seed, big), protocol, seed))
    got = outcome(lambda: hooked(torshi, build(seed, big), protocol, seed, **ours()))
    assert got == want, f"hooks: seed {seed}, protocol {protocol}"


@pytest.mark.parametrize("part", range(10))
def test_random_graphs(part: int) -> None:
    for seed in range(START + part, START + COUNT, 10):
        check(seed)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 999, 1000, 1001, 1999, 2000, 2001])
def test_batches(protocol: int, size: int) -> None:
    for kind in (list, tuple, set, frozenset, dict.fromkeys, random_graphs.ListKind):
        obj = kind(range(size))
        assert torshi.dumps(obj, protocol, **ours()) == stock.dumps(obj, protocol)


@pytest.mark.parametrize("protocol", range(6))
def test_frame_borders(protocol: int) -> None:
    """Every kind of opcode just before, at and behind the place where a frame is closed."""
    node = random_graphs.Node()
    node.a, node.b = 1, [2]
    slots = random_graphs.Slots() if protocol >= 2 else random_graphs.Node()
    slots.one = (1, 2)
    tails = [1, 10**30, "s" * 3, b"b", [], (), {}, {1}, frozenset([1]), node, slots, [node, slots], (1, [2])]
    for pad in range(65536 - 60, 65536 + 4):
        obj = ["x" * 40000, "y" * (pad - 40000), *tails]
        for tail in range(3):
            value = obj[:2] + obj[2 + tail :] + obj[2:]
            want = stock.dumps(value, protocol)
            assert torshi.dumps(value, protocol, **ours()) == want
            if pad % 8 == 0:
                want = dump_parts(stock, value, protocol)
                assert dump_parts(torshi, value, protocol, **ours()) == want


@pytest.mark.parametrize("protocol", range(6))
def test_fast_mode(protocol: int) -> None:
    for seed in range(60):
        results = []
        for module, options in ((stock, {}), (torshi, ours())):
            sink = io.BytesIO()
            pickler = module.Pickler(sink, protocol, **options)
            pickler.fast = True
            done = outcome(lambda: pickler.dump(random_graphs.build(seed)))
            # Where the graph has cycles each engine says so in its own way.
            results.append(sink.getvalue() if done is None else "error")
        assert results[0] == results[1], seed
