"""Compute over a data set in partitions on Ray, records travelling as torshi chunks.

    python3 docs/examples/partitions_ray.py [--partitions N] [--size N] [--workers N] [--address ray://...] [--stock]

Without --address, Ray is started on this machine. The workers enable torshi by way of the runtime environment.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import partitions
import ray
import ray.experimental
from ray.experimental import tqdm_ray


@ray.remote
def summarize(records: list[partitions.Record]) -> partitions.Summary:
    return partitions.summarize(records)


@ray.remote
def merge(a: partitions.Summary, b: partitions.Summary) -> partitions.Summary:
    return partitions.merge(a, b)


def stored_bytes(refs: list[Any]) -> int:
    """Bytes that the objects take in Ray's store, which is what moves between machines."""
    found = ray.experimental.get_object_locations(refs)
    return sum(found[ref].get("object_size") or 0 for ref in refs)


def finish(refs: list[Any]) -> None:
    """Wait for all, with Ray's own bar."""
    bar = tqdm_ray.tqdm(total=len(refs), desc="partitions")
    waiting = list(refs)
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1, timeout=60)
        bar.update(len(done))
    bar.close()


def main() -> None:
    chosen = partitions.options(__doc__).parse_args()
    environment: dict[str, Any] = {"py_modules": [str(Path(partitions.__file__))]}
    if not chosen.stock:
        import torshi.ray

        torshi.ray.enable(dicts=True)
        environment = torshi.ray.runtime_env(environment, dicts=True)
    if chosen.address:
        ray.init(chosen.address, runtime_env=environment)
    else:
        ray.init(num_cpus=chosen.workers, include_dashboard=False, runtime_env=environment, log_to_driver=False)
    try:
        ray.get(merge.remote({}, {}))  # a worker is up
        data = [partitions.make_partition(number, chosen.size) for number in range(chosen.partitions)]
        start = time.perf_counter()
        held = [ray.put(records) for records in data]
        first = summaries = [summarize.remote(records) for records in held]
        finish(first)
        while len(summaries) > 1:
            merged = [merge.remote(a, b) for a, b in zip(summaries[::2], summaries[1::2])]
            summaries = merged + summaries[len(merged) * 2 :]
        summary = ray.get(summaries[0])
        again = ray.get(held)
        seconds = time.perf_counter() - start

        assert again == data
        print(partitions.report(summary))
        print(f"{chosen.partitions} partitions of {chosen.size:,} records there and back in {seconds:.2f} s")
        print(f"bytes moved: {stored_bytes(held + first):,}")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
