"""docs/examples/partitions_*.py: the same result on Dask and on Ray, with torshi and without, and fewer bytes with it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
PARTITIONS, SIZE = 5, 2000
needs = {name: pytest.mark.skipif(not importlib.util.find_spec(name), reason=f"{name} is not installed") for name in ("distributed", "ray")}


def expected() -> str:
    """What the examples report, computed in this process."""
    spec = importlib.util.spec_from_file_location("partitions", EXAMPLES / "partitions.py")
    assert spec and spec.loader
    partitions: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(partitions)
    summary: dict = {}
    for number in range(PARTITIONS):
        summary = partitions.merge(summary, partitions.summarize(partitions.make_partition(number, SIZE)))
    return partitions.report(summary)


def run(name: str, *more: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), "--partitions", str(PARTITIONS), "--size", str(SIZE), *more]
    env = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert expected() in done.stdout
    assert "100%" in done.stdout + done.stderr
    return done.stdout


def bytes_moved(output: str) -> int:
    found = re.search(r"^bytes moved: ([\d,]+)$", output, re.MULTILINE)
    assert found, output
    return int(found[1].replace(",", ""))


@needs["distributed"]
def test_dask() -> None:
    moved = bytes_moved(run("partitions_dask.py"))
    assert 0 < moved < PARTITIONS * SIZE * 150  # there, between workers, and back


@needs["ray"]
def test_ray() -> None:
    assert bytes_moved(run("partitions_ray.py")) * 2 < bytes_moved(run("partitions_ray.py", "--stock"))


def test_the_summary_of_parts_is_that_of_the_whole() -> None:
    assert re.fullmatch(r"[\d,]+ complete records of 500 stations; most rain at .*, coldest at .* degrees\)", expected())
