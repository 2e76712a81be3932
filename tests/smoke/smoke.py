"""Round trips, child processes and settings, in one interpreter.  usage: smoke.py MODE|extension"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import sys
import traceback
from typing import Any, Callable

VALUES: list[Any] = [
    None,
    [1, -1, 2**70, 1.5, True],
    {"a": 1, "b": [2, {"c": (3, b"bytes")}]},
    {i: f"name {i}" for i in range(3000)},
    {f"key {i}": i * 1000 for i in range(3000)},
    {f"key {i}": i / 7 for i in range(300)},
    [{"id": i, "name": f"name {i}", "ok": i % 3 == 0} for i in range(500)],
    {1, 2, 3},
]


def square(x: int) -> int:
    return x * x


def child(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def check_round_trips(mode: str) -> None:
    for value in VALUES:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value


def check_torshi(mode: str) -> None:
    import torshi

    for value in VALUES:
        for reducers in ("chunked", "standard"):
            data = torshi.dumps(value, reducers=reducers)
            assert torshi.loads(data) == value
            assert pickle.loads(data) == value


def check_engine(mode: str) -> None:
    import _pickle
    import _torshi_stock_pickle as stock

    assert (_pickle.Pickler is stock.Pickler) == (mode == "off")
    assert pickle.Pickler is _pickle.Pickler
    for value in VALUES:
        data = pickle.dumps(value)
        if mode == "standard":
            assert data == stock.dumps(value)
        assert stock.loads(data) == value


def check_children(mode: str) -> None:
    code = "import _pickle, _torshi_stock_pickle as s; print(_pickle.Pickler is s.Pickler)"
    assert child(code) == str(mode == "off")
    assert os.environ.get("TORSHI", "chunked") == mode


def check_spawn(mode: str) -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(square, range(20))) == [n * n for n in range(20)]


def check_paths(mode: str) -> None:
    """The host has the paths of the python3 it was built against."""
    import sysconfig

    real = os.path.join(sysconfig.get_config_var("BINDIR"), f"python3.{sys.version_info[1]}")
    code = "import sys; print([sys.path[1:], sys.prefix, sys.exec_prefix, sys.base_prefix])"
    told = [
        subprocess.run([exe, "-c", code], capture_output=True, text=True, check=True).stdout
        for exe in (real, sys.executable)
    ]
    assert told[0] == told[1], told


def main() -> int:
    mode = sys.argv[1]
    checks: list[Callable[[str], None]] = [check_round_trips, check_torshi, check_spawn]
    if mode != "extension":
        checks += [check_engine, check_children, check_paths]
    failed = 0
    for check in checks:
        try:
            check(mode)
        except Exception:
            failed += 1
            print(f"FAILED: {check.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
