"""Race Torshi against stock pickle and its peers, one process a workload.

Every engine is called through the same kind of wrapper, in turn, many times; the best time of each counts, and what is reported
is the ratio to stock pickle (protocol 5) in the same process. A peer counts only where its round trip gives the same
value, type for type. Ratios are stock's time divided by the engine's: above 1 is faster than stock pickle.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
SMALL = {"message_small", "message_tiny", "scalar"}  # fewer than 100 values: other targets
BY_PROGRESSION = {"dict_ints_1m", "seed_ints500", "tree"}  # left out of the second mean of bytes
Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]


# ---- one workload, in a process of its own ----------------------------------------------------------------------------
def same(a: Any, b: Any) -> bool:
    """Equal in value, exact type and order, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.items(), b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)


def peers() -> dict[str, Codec]:
    """The peers that are installed, by name; each called through a lambda as we are."""
    import marshal

    found: dict[str, Codec] = {"marshal": (lambda o: marshal.dumps(o), lambda s: marshal.loads(s))}
    try:
        import msgspec

        found["msgspec"] = (lambda o: msgspec.msgpack.encode(o), lambda s: msgspec.msgpack.decode(s))
    except ImportError:
        pass
    try:
        import ormsgpack

        flags = ormsgpack.OPT_NON_STR_KEYS
        found["ormsgpack"] = (lambda o: ormsgpack.packb(o, option=flags), lambda s: ormsgpack.unpackb(s, option=flags))
    except ImportError:
        pass
    try:
        import pyfory

        fory = pyfory.Fory(xlang=False, ref=True, strict=False)
        found["pyfory"] = (lambda o: fory.serialize(o), lambda s: fory.deserialize(s))
    except (ImportError, TypeError):
        pass
    return found


def engines() -> dict[str, Codec]:
    import pickle

    import torshi

    return {
        "pickle": (lambda o: pickle.dumps(o, 5), lambda s: pickle.loads(s)),
        "chunked": (lambda o: torshi.dumps(o, 5), lambda s: torshi.loads(s)),
        "standard": (lambda o: torshi.dumps(o, 5, reducers="standard"), lambda s: torshi.loads(s)),
        **peers(),
    }


def best_of(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Best time of each call in seconds, the calls taking turns until the time is used up."""
    loops: dict[str, int] = {}
    best: dict[str, float] = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        loops[name] = max(1, int(0.002 / max(time.perf_counter() - start, 1e-8)))
        best[name] = math.inf
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            gc.collect(0)
            repeat = range(loops[name])
            start = time.perf_counter()
            for _ in repeat:
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / loops[name])
        rounds += 1
    return best


def race(name: str, seconds: float) -> dict[str, Any]:
    """Figures of one workload: engine -> bytes, dumps and loads in seconds."""
    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    import workloads

    value = workloads.workloads()[name]
    codecs, streams, excluded = {}, {}, {}
    for engine, (dump, load) in engines().items():
        try:
            stream = dump(value)
            if not same(load(stream), value):
                raise ValueError("comes back changed")
        except Exception as error:  # a peer may refuse in any way it likes; that is the finding
            if engine in ("pickle", "chunked", "standard"):
                raise
            excluded[engine] = f"{type(error).__name__}: {error}"[:100]
            continue
        codecs[engine], streams[engine] = (dump, load), stream
    if streams["standard"] != streams["pickle"]:
        raise ValueError(f"{name}: standard bytes differ from pickle's")
    dumps = best_of({e: (lambda d=d: d(value)) for e, (d, _) in codecs.items()}, seconds)  # type: ignore[misc]
    loads = best_of({e: (lambda ld=ld, s=streams[e]: ld(s)) for e, (_, ld) in codecs.items()}, seconds)  # type: ignore[misc]
    figures = {e: {"bytes": len(streams[e]), "dumps": dumps[e], "loads": loads[e]} for e in codecs}
    return {"name": name, "engines": figures, "excluded": excluded}


def names() -> list[str]:
    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    import workloads

    return list(workloads.workloads())


# ---- the report ------------------------------------------------------------------------------------------------------
def ratios(row: dict[str, Any], engine: str) -> tuple[float, float, float]:
    """Bytes relative to stock, and how many times faster than stock dumps and loads are."""
    stock, ours = row["engines"]["pickle"], row["engines"][engine]
    return ours["bytes"] / stock["bytes"], stock["dumps"] / ours["dumps"], stock["loads"] / ours["loads"]


def mean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def fastest_peer(row: dict[str, Any], what: str) -> tuple[str, float]:
    """The fastest peer of a workload and its ratio to stock; ("none", nan) where none counts."""
    stock = row["engines"]["pickle"][what]
    found = [(stock / f[what], e) for e, f in row["engines"].items() if e not in ("pickle", "chunked", "standard")]
    return (max(found)[1], max(found)[0]) if found else ("none", math.nan)


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The means that targets are set for."""
    out: dict[str, float] = {}
    for engine in ("chunked", "standard"):
        triples = [ratios(r, engine) for r in rows]
        for index, what in enumerate(("bytes", "dumps", "loads")):
            out[f"{engine}_{what}"] = mean([t[index] for t in triples])
    out["chunked_bytes_without_progressions"] = mean(
        [ratios(r, "chunked")[0] for r in rows if r["name"] not in BY_PROGRESSION]
    )
    return out


def print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="ratio to stock pickle protocol 5 (bytes: smaller is better; times: larger is faster)")
    for head in ("workload", "bytes", "x", "dumps", "loads", "std dumps", "std loads", "best peer dumps", "best peer loads"):
        table.add_column(head, justify="left" if head == "workload" else "right")
    for row in rows:
        size, dumps, loads = ratios(row, "chunked")
        _, std_dumps, std_loads = ratios(row, "standard")
        peer_d, peer_l = fastest_peer(row, "dumps"), fastest_peer(row, "loads")
        table.add_row(
            row["name"], f"{row['engines']['chunked']['bytes']:,}", f"{size:.3f}", f"{dumps:.2f}", f"{loads:.2f}",
            f"{std_dumps:.2f}", f"{std_loads:.2f}", f"{peer_d[1]:.2f} {peer_d[0]}", f"{peer_l[1]:.2f} {peer_l[0]}",
        )  # fmt: skip
    Console(width=150).print(table)
    for name, value in summary(rows).items():
        print(f"geometric mean {name}: {value:.3f}")


def print_seeds(rows: list[dict[str, Any]]) -> None:
    """The published figures beside ours."""
    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    import workloads

    by_name = {row["name"]: row for row in rows}
    print("\npublished chunk-based map figures (bytes; time relative to pickle, below 1 is faster) against ours:")
    for name, seed in workloads.SEED_FIGURES.items():
        if name in by_name:
            _, dumps, loads = ratios(by_name[name], "chunked")
            ours = by_name[name]["engines"]["chunked"]["bytes"]
            print(
                f"  {name:14s} bytes {seed['fury_bytes']:6d} -> {ours:6d}   dumps {seed['dumps']:.2f} -> {1 / dumps:.2f}"
                f"   loads {seed['loads']:.2f} -> {1 / loads:.2f}"
            )
    import copyreg

    import torshi

    copyreg.add_extension("torshi", "chunk", 240)
    try:
        print(f"  seed_str10 with copyreg.add_extension: {len(torshi.dumps(workloads.workloads()['seed_str10'], 5))} bytes")
    finally:
        copyreg.remove_extension("torshi", "chunk", 240)


def print_startup() -> None:
    """Whole-process start-up of the host against the python3 it was built for, in turn, best of many."""
    host = ROOT / "build" / "torshi"
    if not host.exists():
        print("start-up: build/torshi is not built")
        return
    base = subprocess.run(
        [str(host), "-c", "import sysconfig; print(sysconfig.get_config_var('BINDIR') + '/python3')"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    best = {base: math.inf, str(host): math.inf}
    for _ in range(60):
        for command in best:
            start = time.perf_counter()
            subprocess.run([command, "-c", "pass"], check=True)
            best[command] = min(best[command], time.perf_counter() - start)
    print(f"start-up, host / python3, best of 60 in turn: {best[str(host)] / best[base]:.3f}")


def compare(rows: list[dict[str, Any]], old_file: str, tolerance: float = 1.1) -> list[str]:
    """What got slower or larger against an earlier JSON, as sentences."""
    old = {r["name"]: r for r in json.loads(Path(old_file).read_text())["workloads"]}
    found = []
    for row in rows:
        if row["name"] not in old:
            continue
        for engine in ("chunked", "standard"):
            now, before = ratios(row, engine), ratios(old[row["name"]], engine)
            if now[0] > before[0]:
                found.append(f"{row['name']} {engine}: bytes {before[0]:.3f} -> {now[0]:.3f}")
            for index, what in ((1, "dumps"), (2, "loads")):
                if now[index] * tolerance < before[index]:
                    found.append(f"{row['name']} {engine}: {what} {before[index]:.2f}x -> {now[index]:.2f}x")
    return found


def draw(rows: list[dict[str, Any]], folder: Path, machine: dict[str, str]) -> None:
    """Bar charts of size, dumps and loads; versions and machine stand below each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    shown = ["chunked", "standard", "marshal", "msgspec", "ormsgpack", "pyfory"]
    for index, what in enumerate(("bytes", "dumps", "loads")):
        figure, axes = pyplot.subplots(figsize=(9, 14))
        for offset, engine in enumerate(shown):
            places, values = [], []
            for number, row in enumerate(rows):
                if engine in row["engines"]:
                    places.append(number + offset / (len(shown) + 2))
                    values.append(ratios(row, engine)[index])
            axes.barh(places, values, height=1 / (len(shown) + 2), label=engine)
        axes.set_yticks([n + 0.35 for n in range(len(rows))], [r["name"] for r in rows])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlabel("bytes / pickle's" if what == "bytes" else f"{what}: times as fast as pickle protocol 5")
        axes.legend(loc="lower right")
        figure.text(0.01, 0.005, ", ".join(f"{k} {v}" for k, v in machine.items()), fontsize=6)
        figure.tight_layout(rect=(0, 0.015, 1, 1))
        figure.savefig(folder / f"{what}.svg")
        pyplot.close(figure)


def machine_facts() -> dict[str, str]:
    import importlib.metadata as metadata

    facts = {"python": sys.version.split()[0], "compiler": platform.python_compiler(), "system": platform.machine()}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            facts["cpu"] = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    for package in ("msgspec", "ormsgpack", "pyfory"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--only", metavar="NAMES", help="workloads, separated by commas (default: all)")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for dumps and for loads of a workload")
    parser.add_argument("--compare", metavar="FILE", help="an earlier --json; says what got slower, and exits 1 if anything did")
    parser.add_argument("--charts", metavar="FOLDER", help="draw charts of size, dumps and loads into FOLDER")
    parser.add_argument("--internals", choices=("0", "1"), default="1", help="0: public API only")
    parser.add_argument("--dask", action="store_true", help="extract_serialize and Dask clusters, stock against torshi, instead")
    parser.add_argument("--refs", action="store_true", help="object references instead, Ray's among them (tools/bench_refs.py)")
    parser.add_argument("--growth", action="store_true", help="time an entry and peak memory up to ten million entries instead")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.growth:
        import bench_growth

        return bench_growth.main(options)
    if options.refs:
        import bench_refs

        return bench_refs.main(options)
    if options.one:
        print(json.dumps(race(options.one, options.seconds)))
        return 0
    if options.dask:
        import bench_dask

        return bench_dask.main(options)

    from tqdm import tqdm

    env = dict(os.environ, TORSHI_INTERNALS=options.internals)
    rows = []
    for name in tqdm(options.only.split(",") if options.only else names(), unit="workload"):
        command = [sys.executable, __file__, "--one", name, "--seconds", str(options.seconds)]
        run = subprocess.run(command, capture_output=True, text=True, env=env)
        if run.returncode:
            print(run.stderr, file=sys.stderr)
            return 1
        rows.append(json.loads(run.stdout))
    print_table(rows)
    print_seeds(rows)
    if not options.only:
        print_startup()
    machine = machine_facts()
    if options.json:
        record = {"machine": machine, "internals": options.internals, "summary": summary(rows), "workloads": rows}
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    if options.charts:
        draw(rows, Path(options.charts), machine)
    slower = compare(rows, options.compare) if options.compare else []
    for line in slower:
        print("slower:", line)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
