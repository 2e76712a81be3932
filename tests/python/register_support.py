"""What the tests of torshi.register and of torshi.Chunked share."""

from __future__ import annotations

import pickle

import pytest
import torshi
from stock_engine import stock
from torshi import _register

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
READERS = (stock.loads, pickle._loads, torshi.loads)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(other) is Point and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))


@pytest.fixture(params=["native", "pure"], autouse=True)
def edition(request, monkeypatch):
    """Both ways to make columns."""
    if request.param == "pure":
        from torshi import _pure_reduce

        monkeypatch.setattr(_register, "_encode", _pure_reduce.encode)
    elif not torshi.native:
        pytest.skip("needs the native engine")
    return request.param


def writers():
    yield stock.dumps
    yield pickle._dumps
    yield lambda obj, protocol: torshi.dumps(obj, protocol)
    yield lambda obj, protocol: torshi.dumps(obj, protocol, reducers="standard")


def numbers(count=200):
    return {f"key{i}": i * i for i in range(count)}
