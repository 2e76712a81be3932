"""Growth and memory: time an entry and peak memory of large data, Torshi against stock pickle.

Called by `tools/bench --growth`. Each figure is taken in a process of its own: what an earlier call has left behind in
the allocator would hide a peak. Times are of the thread, not of the clock. The peak of a call is what the kernel counted
at most (VmHWM, set back before the call) less what was in use before it; that of dumps is also less its output. The largest values take some
5 GB of memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = (100_000, 1_000_000, 10_000_000)
MIB = 1 << 20
SLACK = 64  # MiB that dumps may take beyond the output
GROWTH = 1.3  # times stock's own
ROUNDS = {100_000: 9, 1_000_000: 4}  # of timed calls; two of the largest size


class Point:
    """A plain instance."""

    def __init__(self, x: int, y: float, name: str) -> None:
        self.x = x
        self.y = y
        self.name = name


def records(n: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"user{i}", "score": i / 7} for i in range(n)]


VALUES: dict[str, Callable[[int], Any]] = {
    "dict int:int": lambda n: {i: i * 7919 % 1_000_003 for i in range(n)},
    "dict str:str": lambda n: {f"key{i}": f"value{i}" for i in range(n)},
    "dict str:float": lambda n: {f"key{i}": i / 7 for i in range(n)},
    "list records": records,
    "list instances": lambda n: [Point(i, i / 7, f"point{i}") for i in range(n)],
    "list floats": lambda n: [i / 7 for i in range(n)],
    "list strings": lambda n: [f"string{i}" for i in range(n)],
    "list int lists": lambda n: [[i, i + 1, i * 3] for i in range(n)],
}


# ---- one figure, in a process of its own ------------------------------------------------------------------------------
def memory(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def engine_of(name: str) -> tuple[Callable[[Any], bytes], Callable[[Any], Any]]:
    if name == "stock":
        import pickle

        return lambda value: pickle.dumps(value, 5), pickle.loads
    import torshi

    return lambda value: torshi.dumps(value, 5), torshi.loads


def measure(task: dict[str, Any]) -> dict[str, float]:
    """Make the value, or read the stream, of `task` and call the engine: seconds at best, and the peak of the first call."""
    dump, load = engine_of(task["engine"])
    gc.disable()  # while the value is made
    value = Path(task["stream"]).read_bytes() if task["what"] == "loads" else VALUES[task["value"]](task["n"])
    gc.enable()
    gc.collect()
    call: Callable[[Any], Any] = load if task["what"] == "loads" else dump
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from here
    best, peak, size = math.inf, 0, 0
    for number in range(ROUNDS.get(task["n"], 2)):
        start = time.thread_time()
        result = call(value)
        best = min(best, time.thread_time() - start)
        if number == 0:
            peak = memory("VmHWM") - before
            size = len(result)
            if task["what"] == "dumps":
                Path(task["stream"]).write_bytes(result)
        del result
    return {"seconds": best, "peak": peak, "bytes": size}


def run(task: dict[str, Any]) -> dict[str, float]:
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stderr[-500:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


# ---- the report -------------------------------------------------------------------------------------------------------
def measure_value(name: str, folder: str) -> dict[str, Any]:
    """Figures of one value at all sizes: what -> engine -> one entry a size."""
    figures: dict[str, Any] = {"name": name, "sizes": SIZES, "dumps": {}, "loads": {}}
    for engine in ("stock", "torshi"):
        figures["dumps"][engine], figures["loads"][engine] = [], []
        for n in SIZES:
            task = {"value": name, "engine": engine, "n": n, "stream": f"{folder}/stream"}
            for what in ("dumps", "loads"):
                figures[what][engine].append(run({**task, "what": what}))
    return figures


def growth(figures: dict[str, Any], what: str, engine: str) -> float:
    """Time an entry at the largest size, in times of that at the smallest."""
    entries = figures[what][engine]
    per_entry = [entry["seconds"] / n for entry, n in zip(entries, figures["sizes"])]
    return float(per_entry[-1] / per_entry[0])


def row_of(figures: dict[str, Any], what: str) -> tuple[list[str], list[str]]:
    """The cells of a row of the table, and what of it misses."""
    stock, ours = figures[what]["stock"], figures[what]["torshi"]
    relative = growth(figures, what, "torshi") / growth(figures, what, "stock")
    output = ours[-1]["bytes"] if what == "dumps" else 0
    peak, stock_peak = (ours[-1]["peak"] - output) / MIB, stock[-1]["peak"] / MIB
    missed = []
    if relative > GROWTH:
        missed.append(f"{figures['name']} {what}: time an entry grows {relative:.2f} times as much as stock's")
    if peak > (SLACK if what == "dumps" else stock_peak):
        limit = f"{SLACK} MiB above its output" if what == "dumps" else f"stock's {stock_peak:.0f} MiB"
        missed.append(f"{figures['name']} {what}: peak of {peak:.0f} MiB, beyond {limit}")
    times = [f"{entry['seconds'] / n * 1e9:.0f}" for entry, n in zip(ours, figures["sizes"])]
    stock_times = [f"{entry['seconds'] / n * 1e9:.0f}" for entry, n in zip(stock, figures["sizes"])]
    shown = f"{peak:.0f} above output" if what == "dumps" else f"{peak:.0f} / {stock_peak:.0f}"
    return [f"{figures['name']} {what}", " ".join(times), " ".join(stock_times), f"{relative:.2f}", shown], missed


def main(options: argparse.Namespace) -> int:
    """Print the table, write the figures to options.json, and return 1 when a limit is missed."""
    from rich.console import Console
    from rich.table import Table
    from tqdm import tqdm

    chosen = options.only.split(",") if options.only else list(VALUES)
    with tempfile.TemporaryDirectory() as folder:
        found = [measure_value(name, folder) for name in tqdm(chosen, unit="value")]
    table = Table(title="time an entry in ns at 100k, 1M and 10M; growth against stock's; peak in MiB")
    for heading in ("value", "torshi ns", "stock ns", "growth", "peak (loads: / stock)"):
        table.add_column(heading, justify="right")
    missed = []
    for figures in found:
        for what in ("dumps", "loads"):
            cells, short = row_of(figures, what)
            table.add_row(*cells)
            missed += short
    Console(width=150).print(table)
    for line in missed:
        print("MISSED", line)
    if options.json:
        Path(options.json).write_text(json.dumps({"growth": found, "missed": missed}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True, help=argparse.SUPPRESS)
    print(json.dumps(measure(json.loads(parser.parse_args().task))))
