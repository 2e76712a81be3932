"""What partitions_dask.py and partitions_ray.py compute: rainfall and temperature by station, out of records in partitions.

A partition is a list of records, plain dicts with the same keys. Each is summed up where it is (`summarize`: a dict of a dict for
each station), and the sums are merged two by two (`merge`) until one is left. Records and sums travel between processes.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

Record = dict[str, Any]
Summary = dict[str, dict[str, float]]
STATIONS = 500


def make_partition(number: int, size: int) -> list[Record]:
    """The records of one partition, the same for the same number."""
    r = random.Random(number)
    return [
        {
            "station": f"station {r.randrange(STATIONS)}",
            "day": number * 31 + i % 31,
            "temperature": round(r.gauss(15, 8), 1),
            "rain": max(0.0, round(r.gauss(0, 4), 1)),
            "complete": r.random() < 0.98,
        }
        for i in range(size)
    ]


def summarize(records: list[Record]) -> Summary:
    """Number of complete records, sums and extremes by station."""
    out: Summary = {}
    for record in records:
        if not record["complete"]:
            continue
        t = record["temperature"]
        s = out.setdefault(record["station"], {"records": 0, "rain": 0.0, "sum": 0.0, "lowest": t, "highest": t})
        s["records"] += 1
        s["rain"] += record["rain"]
        s["sum"] += t
        s["lowest"] = min(s["lowest"], t)
        s["highest"] = max(s["highest"], t)
    return out


def merge(a: Summary, b: Summary) -> Summary:
    """The summary of what both summaries are of; neither is changed."""
    out = {station: dict(s) for station, s in a.items()}
    for station, s in b.items():
        o = out.setdefault(station, {"records": 0, "rain": 0.0, "sum": 0.0, "lowest": s["lowest"], "highest": s["highest"]})
        for key in ("records", "rain", "sum"):
            o[key] += s[key]
        o["lowest"] = min(o["lowest"], s["lowest"])
        o["highest"] = max(o["highest"], s["highest"])
    return out


def report(summary: Summary) -> str:
    """The result in one line; the same numbers whatever the order of the merges."""
    wettest = max(summary, key=lambda station: (round(summary[station]["rain"], 3), station))
    coldest = min(summary, key=lambda station: (summary[station]["lowest"], station))
    records = sum(int(s["records"]) for s in summary.values())
    return (
        f"{records:,} complete records of {len(summary)} stations; most rain at {wettest}"
        f" ({summary[wettest]['rain']:.1f} mm), coldest at {coldest} ({summary[coldest]['lowest']:.1f} degrees)"
    )


def options(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--size", type=int, default=20_000, help="records in a partition")
    parser.add_argument("--workers", type=int, default=2, help="processes on this machine, without --address")
    parser.add_argument("--address", help="a cluster that runs already")
    parser.add_argument("--stock", action="store_true", help="without torshi, for comparison")
    return parser
