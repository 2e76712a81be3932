"""Object references: Torshi against stock pickle, and Ray with torshi.ray against stock Ray.

Called by `tools/bench --refs`. Times are the best of many, the two sides taking turns; a ratio is stock's time divided
by Torshi's. Ray's figures are taken in a process each for creation sites not recorded and recorded.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torshi

SIZE = 10_000
OWNERS = [b"owner %034d" % i for i in range(100)]
SITES = [f"/app/work.py:step:{i}" for i in range(20)]


class PlainRef:
    """A reference class as people write them."""

    def __init__(self, id: bytes, owner: bytes, site: str) -> None:
        self.id = id
        self.owner = owner
        self.site = site

    def __reduce__(self) -> Any:
        return make_plain, (self.id, self.owner, self.site)


def make_plain(id: bytes, owner: bytes, site: str) -> PlainRef:
    return PlainRef(id, owner, site)


def plain_batch(load: Any, ids: Any, owners: Any, sites: Any) -> Any:
    return load.instances(PlainRef, ("id", "owner", "site"), ids, owners, sites)


def references(make: Callable[..., Any], n: int) -> list[Any]:
    return [make(i.to_bytes(28, "little"), OWNERS[i % 100], SITES[i % 20]) for i in range(n)]


def best_of(
    calls: dict[str, Callable[[], Any]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Best time of each call, taking turns. What a call returns is dropped outside of the time taken."""
    best = dict.fromkeys(calls, math.inf)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            gc.collect(0)
            start = clock()
            result = call()
            best[name] = min(best[name], clock() - start)
            del result
        rounds += 1
    return best


def race(name: str, make: Callable[..., Any], seconds: float) -> dict[str, float]:
    refs = references(make, SIZE)
    stock, ours = pickle.dumps(refs, 5), torshi.dumps(refs, 5)
    loads = best_of(
        {"stock": lambda: pickle.loads(stock), "torshi": lambda: torshi.loads(ours)}, seconds
    )
    dumps = best_of(
        {"stock": lambda: pickle.dumps(refs, 5), "torshi": lambda: torshi.dumps(refs, 5)}, seconds
    )
    figures = {
        "loads": loads["stock"] / loads["torshi"],
        "dumps": dumps["stock"] / dumps["torshi"],
        "bytes": len(ours) / SIZE,
        "stock bytes": len(stock) / SIZE,
        "ns a reference": loads["torshi"] / SIZE * 1e9,
    }
    for n in (
        100_000,
        250_000,
        1_000_000,
    ):  # in time of this thread: the rest is how busy the machine is
        stream = torshi.dumps(references(make, n), 5)
        best = best_of({"torshi": lambda stream=stream: torshi.loads(stream)}, 0, time.thread_time)[
            "torshi"
        ]  # type: ignore[misc]
        figures[f"ns a reference of {n:,}"] = best / n * 1e9
    print(f"{name}: " + ", ".join(f"{k} {v:.2f}" for k, v in figures.items()), flush=True)
    return figures


# ---- Ray
def ray_figures(seconds: float) -> dict[str, float]:
    """In a process of its own: gets and puts of an object that holds the references."""
    import logging

    import ray
    import torshi.ray

    ray.init(
        num_cpus=1,
        object_store_memory=200 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    refs = [ray.put(i) for i in range(SIZE)]
    switch = {
        "stock": torshi.ray.disable,
        "torshi": torshi.ray.enable,
        "dicts": torshi.ray.enable_dicts,
    }
    outer = {}
    size = {}
    worker = ray._private.worker.global_worker
    for mode, turn in switch.items():
        turn()
        outer[mode] = ray.put(refs)
        size[mode] = worker.get_serialization_context().serialize(refs).total_bytes / SIZE
    best = {(what, mode): math.inf for what in ("get", "put") for mode in switch}
    core, outside = worker.core_worker, itertools.repeat(ray.ObjectRef.nil())
    ids, owners, statuses = zip(*[(r.binary(), *core.serialize_object_ref(r)[1:]) for r in refs])
    sites = [""] * SIZE
    floor = math.inf
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 12 or time.perf_counter() < end:
        for mode, turn in switch.items():
            turn()
            for what, call in (
                ("get", lambda mode=mode: ray.get(outer[mode])),
                ("put", lambda: ray.put(refs)),
            ):
                start = time.perf_counter()
                result = call()
                best[what, mode] = min(best[what, mode], time.perf_counter() - start)
                del result
        start = time.perf_counter()
        result = list(map(ray.ObjectRef, ids, owners, sites))
        collections.deque(
            map(core.deserialize_and_register_object_ref, ids, outside, owners, statuses), maxlen=0
        )
        floor = min(floor, time.perf_counter() - start)
        del result
        rounds += 1
    ray.shutdown()
    figures = {f"{what} {mode}": 1 / best[what, mode] for what, mode in best}
    figures.update({f"bytes {mode}": size[mode] for mode in switch})
    figures["floor"] = 1 / floor
    return figures


def race_ray(recorded: bool, seconds: float) -> dict[str, float] | None:
    env = dict(os.environ, RAY_record_ref_creation_sites="1" if recorded else "0")
    command = [sys.executable, __file__, "--ray", "--seconds", str(seconds)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if run.returncode:
        print(run.stderr[-2000:], file=sys.stderr)
        return None
    figures: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    print(
        f"Ray, object of {SIZE:,} references, creation sites {'recorded' if recorded else 'not recorded'}:"
    )
    for what in ("get", "put"):
        stock = figures[f"{what} stock"]
        line = f"  {what}s a second: stock {stock:.1f}"
        for mode in ("torshi", "dicts"):
            line += f", {mode} {figures[f'{what} {mode}']:.1f} ({figures[f'{what} {mode}'] / stock:.2f}x)"
        print(line)
    print(
        "  bytes a reference: "
        + ", ".join(f"{m} {figures[f'bytes {m}']:.1f}" for m in ("stock", "torshi", "dicts"))
    )
    print(
        f"  floor, Ray's own making and registering alone: {figures['floor']:.1f} a second",
        flush=True,
    )
    return figures


# target -> (figure, at least); bytes are at most
def check(name: str, value: float, least: float, missed: list[str]) -> None:
    met = value >= least if least > 0 else value <= -least
    print(
        f"  {'ok    ' if met else 'MISSED'} {name}: {value:.2f} ({'at least' if least > 0 else 'at most'} {abs(least)})"
    )
    if not met:
        missed.append(name)


def main(options: argparse.Namespace) -> int:
    """Print all figures, write them to options.json, and return 1 when one misses its target."""
    seconds = float(options.seconds)
    torshi.register_ref(PlainRef, batch=plain_batch, callables=[make_plain])
    record: dict[str, Any] = {
        "ObjectRef": race("torshi.ObjectRef", torshi.object_ref, seconds),
        "PlainRef": race("plain Python class", make_plain, seconds),
    }
    torshi.unregister_ref(PlainRef)
    missed: list[str] = []
    checks = [("ObjectRef", 8), ("PlainRef", 3)]
    try:
        import ray  # noqa: F401

        for recorded in (False, True):
            figures = race_ray(recorded, max(seconds, 4.0))
            record["Ray recorded" if recorded else "Ray"] = figures
    except ImportError:
        print("SKIPPED Ray: not installed")
    for name, least in checks:
        check(f"{name} loads", record[name]["loads"], least, missed)
        # From what no longer fits the cache on: what is smaller is faster.
        figures = record[name]
        growth = figures["ns a reference of 1,000,000"] / figures["ns a reference of 250,000"]
        check(f"{name} growth from 250,000 to a million, time a reference", growth, -1.6, missed)
    for name, least in (("Ray", 1.4), ("Ray recorded", 2.6)):
        figures = record.get(name)
        if figures:
            check(f"{name} gets", figures["get torshi"] / figures["get stock"], least, missed)
            check(f"{name} puts", figures["put torshi"] / figures["put stock"], 1.5, missed)
            check(f"{name} bytes a reference", figures["bytes torshi"], -45, missed)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--ray", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ray:
        print(json.dumps(ray_figures(arguments.seconds)))
    else:
        sys.exit(main(arguments))
