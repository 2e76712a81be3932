"""Compute over a data set in partitions on Dask, records travelling as torshi chunks.

    python3 docs/examples/partitions_dask.py [--partitions N] [--size N] [--workers N] [--address tcp://...] [--stock]

Without --address, a scheduler and workers are started on this machine. Workers and scheduler of a cluster on many machines have
to be started with `--preload torshi.dask`; those that were not get what stock Dask would send them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import partitions
from distributed import Client, LocalCluster, progress


def sent_by_all(client: Client, sent: Callable[[], dict[str, int]], here: bool) -> int:
    """Bytes of messages written so far by workers, scheduler and this process."""
    everywhere = [sent(), *client.run(sent).values()]
    if not here:  # the scheduler is a process of its own
        everywhere.append(client.run_on_scheduler(sent))
    return sum(counted["bytes"] for counted in everywhere)


def main() -> None:
    chosen = partitions.options(__doc__).parse_args()
    sent: Callable[[], dict[str, int]] | None = None
    if not chosen.stock:
        import torshi.dask

        torshi.dask.enable()
        sent = torshi.dask.sent
    with ExitStack() as stack:
        where: Any = chosen.address
        if not where:
            where = stack.enter_context(LocalCluster(
                n_workers=chosen.workers, threads_per_worker=1, processes=True, protocol="tcp", dashboard_address=None,
                preload=[] if chosen.stock else ["torshi.dask"],
            ))  # fmt: skip
        client = stack.enter_context(Client(where))
        client.upload_file(str(Path(partitions.__file__)))
        before = sent_by_all(client, sent, not chosen.address) if sent else 0

        data = [partitions.make_partition(number, chosen.size) for number in range(chosen.partitions)]
        start = time.perf_counter()
        # hash=False: naming a value by its content costs Dask far more than sending it
        held = client.scatter(data, hash=False)
        summaries = client.map(partitions.summarize, held, pure=False)
        while len(summaries) > 1:
            pairs = zip(summaries[::2], summaries[1::2])
            merged = [client.submit(partitions.merge, a, b, pure=False) for a, b in pairs]
            summaries = merged + summaries[len(merged) * 2 :]
        progress(summaries, notebook=False)  # Dask's own bar
        summary = summaries[0].result()
        again = client.gather(held)  # and all the records back, to have them travel twice
        seconds = time.perf_counter() - start

        assert again == data
        print()
        print(partitions.report(summary))
        print(f"{chosen.partitions} partitions of {chosen.size:,} records there and back in {seconds:.2f} s")
        if sent:
            print(f"bytes moved: {sent_by_all(client, sent, not chosen.address) - before:,}")


if __name__ == "__main__":
    main()
