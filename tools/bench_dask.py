"""The figures of `tools/bench --dask`: extract_serialize against its pure-Python twin, and data going to a Dask cluster and
back, stock Dask against Dask with torshi, in one run. Called by bench.py; a cluster of each kind lives in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

RECORDS, NESTED, MARKERS = 100_000, 20_000, 1100
MESSAGE, KEYS = f"{MARKERS:,} markers in one message", f"{MARKERS:,} keys"
TARGETS = {"records": 25, "dict of dicts": 2, MESSAGE: 2, KEYS: 2, "published": 3, "message": 8}


# ---- extract_serialize -------------------------------------------------------------------------------------------------
def best(call: Callable[[], Any], seconds: float) -> float:
    """Best time of one call, over at least five."""
    shortest, end, calls = math.inf, time.perf_counter() + seconds, 0
    while calls < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
        calls += 1
    return shortest


def message(tasks: int) -> dict[str, Any]:
    """Nested dicts and short lists, as schedulers send them."""
    return {
        "op": "update-graph",
        "tasks": {
            f"task-{i}": {
                "key": f"key-{i}",
                "who_has": [f"tcp://10.0.0.{n}:{4000 + n}" for n in range(3)],
                "nbytes": i,
                "priority": [0, 1, i],
                "restrictions": None,
                "annotations": {"retries": 1, "name": "x"},
            }
            for i in range(tasks)
        },
        "keys": [str(i) for i in range(300)],
    }


def cython_twin(source: Path) -> Callable | None:
    """extract_serialize of the twin compiled by Cython; None where there is no Cython or compiler."""
    try:
        import Cython  # noqa: F401
    except ImportError:
        return None
    folder = tempfile.mkdtemp()
    shutil.copy(source, Path(folder) / "cython_extract.py")
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-3", "cython_extract.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(f"Cython does not build here: {done.stderr.strip().splitlines()[-1]}")
        return None
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("cython_extract").extract_serialize
    finally:
        sys.path.remove(folder)
        shutil.rmtree(folder)


def extract_figures(seconds: float) -> dict[str, Any]:
    import torshi
    from torshi import _extract

    kinds: list[tuple[str, Any]] = [("torshi's classes", None)]
    try:
        import distributed.protocol  # noqa: F401

        kinds.append(("Dask's classes", sys.modules["distributed.protocol.serialize"]))
    except ImportError:
        pass
    inputs = {"published": 11 * [10 * [2 * [5 * [1_000_000 * b"abc"]]]], "message": message(1000)}
    compiled = cython_twin(Path(_extract.__file__))
    out: dict[str, Any] = {}
    for name, x in inputs.items():
        for kind, types in kinds:
            calls = {"native": torshi.extract_serialize, "pure": _extract.extract_serialize, "Cython": compiled}
            out[f"{name}, {kind}"] = {
                how: best(lambda call=call: call(x, types=types), seconds) for how, call in calls.items() if call
            }
    for n in (2000, 8000, 32_000):
        x = message(n)
        calls = {"native": torshi.extract_serialize, "pure": _extract.extract_serialize}
        out[f"{n} tasks"] = {how: best(lambda call=call: call(x), seconds) / n for how, call in calls.items()}
    return out


def print_extract(figures: dict[str, Any]) -> None:
    for name, times in figures.items():
        if name.endswith("tasks"):
            a_task = ", ".join(f"{how} {t * 1e6:.2f} us a task" for how, t in times.items())
            print(f"extract_serialize, message of {name}: {a_task}")
            continue
        target = TARGETS[name.split(",")[0]]
        line = f"extract_serialize, {name}: {times['native'] * 1e6:.0f} us, {times['pure'] / times['native']:.2f} times as fast"
        line += f" as pure Python (target {target})"
        if "Cython" in times:
            line += f"; Cython {times['pure'] / times['Cython']:.2f}"
        print(line)


# ---- the cluster -------------------------------------------------------------------------------------------------------
def payloads() -> dict[str, Any]:
    """What scatter is given, by name; the first two as one value, the last with a key for each."""
    records = [{"id": i, "name": f"name {i % 100}", "value": i * 0.5, "good": i % 3 == 0} for i in range(RECORDS)]
    nested = {f"key {i}": {"id": i, "name": f"name {i % 100}", "value": i * 0.5} for i in range(NESTED)}
    return {"records": [records], "dict of dicts": [nested], KEYS: {f"key-{i}": i for i in range(MARKERS)}}


def message_bytes(data: Any, with_torshi: bool) -> int:
    """Size of the message that carries it."""
    import distributed.protocol as protocol

    values = data if isinstance(data, dict) else {"one": data[0]}
    recipient = {"torshi": 1, "pickle-protocol": 5} if with_torshi else {"pickle-protocol": 5}
    frames = protocol.dumps(
        {"op": "scatter", "data": {k: protocol.to_serialize(v) for k, v in values.items()}},
        context={"recipient": recipient, "pickle-protocol": 5, "compression": None},
    )
    return sum(memoryview(frame).nbytes for frame in frames)


async def start_echo(dask_worker: Any) -> str:
    """Runs in a worker: an address there that sends every message's values back, marked."""
    from distributed.comm import CommClosedError, listen
    from distributed.protocol import to_serialize

    async def echo(comm: Any) -> None:
        try:
            while True:
                message = await comm.read()
                await comm.write({"op": "back", "data": [to_serialize(v) for v in message["data"]]})
        except CommClosedError:
            pass

    dask_worker.echo = await listen("tcp://127.0.0.1:0", echo)
    return dask_worker.echo.contact_address


async def send_markers(address: str, turns: int) -> float:
    """The best time of a message of marked values to that address and back."""
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    comm = await connect(address)
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        await comm.write({"op": "there", "data": [to_serialize(i) for i in range(MARKERS)]})
        back = await comm.read()
        times.append(time.perf_counter() - start)
        if list(back["data"]) != list(range(MARKERS)):
            raise ValueError("the markers came back changed")
    await comm.close()
    return min(times)


def measure(kind: str) -> dict[str, Any]:
    """Bytes and best round trip of each payload on a cluster of two worker processes over tcp."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.preload": ["torshi.dask"] if kind == "torshi" else []})
    if kind == "torshi":
        import torshi.dask

        torshi.dask.enable()
    out: dict[str, Any] = {}
    options: dict[str, Any] = {"processes": True, "protocol": "tcp", "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.gather(client.scatter([[{"warm": i} for i in range(100)]], hash=False))
        for name, data in payloads().items():
            times = []
            for turn in range(2 if kind == "stock" and name != KEYS else 5):
                turned = data
                if isinstance(data, dict):  # keys of their own: those of the last turn may still be on their way out
                    turned = {f"{turn}-{key}": value for key, value in data.items()}
                start = time.perf_counter()
                futures = client.scatter(turned, hash=False)
                back = client.gather(futures)
                times.append(time.perf_counter() - start)
                if back != turned:
                    raise ValueError(f"{name} came back changed")
                del futures, back
                time.sleep(0.5)  # until the keys are released: not to be counted with the next turn
            out[name] = {"bytes": message_bytes(data, kind == "torshi"), "seconds": min(times)}
        address = next(iter(client.run(start_echo, workers=list(client.scheduler_info()["workers"])[:1]).values()))
        out[MESSAGE] = {"bytes": out[KEYS]["bytes"], "seconds": client.sync(send_markers, address, 20)}
    return out


def print_cluster(stock: dict[str, Any], ours: dict[str, Any]) -> None:
    for name in stock:
        a, b = stock[name], ours[name]
        print(
            f"Dask, {name}: there and back {a['seconds']:.3f} s -> {b['seconds']:.3f} s,"
            f" {a['seconds'] / b['seconds']:.1f} times as fast (target {TARGETS[name]});"
            f" message {a['bytes']:,} -> {b['bytes']:,} bytes, {a['bytes'] / b['bytes']:.1f} times smaller"
        )


def main(options: Any) -> int:
    """`options.json` and `options.seconds` as in bench.py."""
    figures: dict[str, Any] = {"extract": extract_figures(min(options.seconds, 1.0))}
    print_extract(figures["extract"])
    try:
        import distributed  # noqa: F401
    except ImportError:
        print("Dask: SKIPPED, distributed is not installed")
    else:
        for kind in ("stock", "torshi"):
            run = subprocess.run([sys.executable, __file__, kind], capture_output=True, text=True, timeout=600)
            if run.returncode:
                print(run.stderr, file=sys.stderr)
                return 1
            figures[kind] = json.loads(run.stdout.splitlines()[-1])
        print_cluster(figures["stock"], figures["torshi"])
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("stock", "torshi", "all"), help="print the figures of one kind as JSON, or of all as text")
    chosen = parser.parse_args().kind
    if chosen == "all":
        sys.exit(main(SimpleNamespace(seconds=1.0, json=None)))
    print(json.dumps(measure(chosen)))
