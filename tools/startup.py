"""
Compares the start-up of the host with that of the python3 it was built against: whole processes,
taken in turns.  usage: build/torshi tools/startup.py [RUNS]
"""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import time


def seconds(program: str, options: list[str]) -> float:
    start = time.perf_counter()
    child = os.posix_spawn(program, [program, *options, "-c", "pass"], os.environ)
    os.waitpid(child, 0)
    return time.perf_counter() - start


def compare(runs: int, options: list[str]) -> float:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python = os.path.join(sysconfig.get_config_var("BINDIR"), version)
    times: dict[str, list[float]] = {python: [], sys.executable: []}
    for program in times:
        seconds(program, options)  # once, so that files are in the cache
    for _ in range(runs):
        for program, found in times.items():
            found.append(seconds(program, options))
    medians = [statistics.median(found) for found in times.values()]
    ratio = medians[1] / medians[0]
    what = " ".join([*options, "-c pass"])
    print(f"{what}: python3 {medians[0] * 1e3:.2f} ms, host {medians[1] * 1e3:.2f} ms, {ratio:.3f}")
    return ratio


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for options in ([], ["-I"], ["-I", "-S"]):
        compare(runs, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
