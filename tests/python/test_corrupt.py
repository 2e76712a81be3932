"""Damaged streams: every prefix and every single-byte change of a corpus of small ones.

Each gives a normal exception or a value, and the kind of outcome that a stock unpickler gives: that
of the C one, or where it is lenient (text ints in base 0, memory taken for lengths that the input
does not have) that of the Python one.
"""

from __future__ import annotations

import collections
import datetime
import io
import os
import pickle
import re
import resource
import sys
import traceback

import pytest

import torshi
from stock_engine import stock

pytestmark = pytest.mark.skipif(not torshi.native, reason="the engine's unpickler")

MEMORY = 3 << 30


class Plain:
    pass


class Slots:
    __slots__ = ("a", "b")


class Sub(dict):
    pass


def corpus() -> list[bytes]:
    plain, slots, sub, cycle = Plain(), Slots(), Sub(k=1), []
    plain.x, plain.y = 1, "two"
    slots.a, slots.b = 1, [2]
    sub.attr = 3
    cycle.append(cycle)
    objects = [
        [1, 2.5, True, False, None, 2**40, -1, -300, 70000, 2**101],
        {"a": b"xy", "é": "\ud800", 1: ()},
        [(1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        {"k": {"k": 1, "l": []}, "l": [[], {}]},
        {1, 2},
        frozenset([3]),
        bytearray(b"qqq"),
        plain,
        slots,
        sub,
        cycle,
        collections.OrderedDict(a=1),
        datetime.date(2020, 1, 2),
        "x" * 60,
        1j,
    ]
    streams = [
        stock.dumps(obj, proto)
        for obj in objects
        for proto in range(2 if obj is slots else 0, 6)
    ]
    streams += [
        b"I01\n.",
        b"S'ab'\n.",
        b"(S'x'\nibuiltins\nlist\n.",
        b"(cbuiltins\nlist\nS'x'\no.",
        b"T\x02\0\0\0ab.",
        b"U\x02ab.",
        b"Vab\\u1234\n.",
        b"F1.5\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02\x84\x01\0\0\0.",
        b"Pid\n.",
        b"K\x01Q.",
        b"(K\x01K\x021K\x012\x86.",
        b"]p1\n0g1\n.",
        b"]q\x01h\x01.",
        b"]r\x01\0\0\0j\x01\0\0\0.",
        b"\x96\x02\0\0\0\0\0\0\0ab\x98.",
        b"\x8d\x02\0\0\0\0\0\0\0ab.",
        b"\x8e\x02\0\0\0\0\0\0\0ab.",
        b"\x8b\x02\0\0\0ab.",
        b"B\x02\0\0\0ab.",
        b"cbuiltins\nobject\n)}\x92.",
        b"cbuiltins\nint\n(K\x05tR.",
    ]
    return list(dict.fromkeys(streams))


NAMES = {
    (module, name)
    for modules, names in (
        ((__name__,), ("Plain", "Slots", "Sub")),
        (("collections",), ("OrderedDict",)),
        (("datetime",), ("date",)),
        (("_codecs",), ("encode",)),
        (("copyreg", "copy_reg"), ("_reconstructor",)),
        (
            ("builtins", "__builtin__"),
            ("set", "frozenset", "bytearray", "object", "complex", "list", "int", "dict"),
        ),
    )
    for module in modules
    for name in names
}


def restricted(unpickler):
    """A load function that brings in what the corpus names and nothing else."""

    class Restricted(unpickler):
        def find_class(self, module, name):
            if (module, name) in NAMES:
                return super().find_class(module, name)
            raise pickle.UnpicklingError("refused")

    return lambda data, file=io.BytesIO: Restricted(file(data)).load()


def show(value, depth=0):
    """A description in which equal values of equal types are equal."""
    kind = type(value)
    if depth > 6:
        return "..."
    if kind in (list, tuple):
        return [kind.__name__] + [show(item, depth + 1) for item in value]
    if isinstance(value, dict):
        items = [(show(k, depth + 1), show(v, depth + 1)) for k, v in value.items()]
        return [kind.__name__, items, repr(getattr(value, "__dict__", None))]
    if kind is Plain:
        return ["Plain", show(vars(value), depth + 1)]
    if kind is Slots:
        return ["Slots"] + [show(getattr(value, name, None), depth + 1) for name in "ab"]
    if kind is memoryview:
        return ["memoryview", bytes(value), value.readonly]
    return [kind.__name__, repr(value) if kind is not object else ""]


def outcome(load, data, *file):
    """What load() of the data comes to: a description, or None for an exception."""
    try:
        value = load(data, *file)
    except Exception:
        return None
    try:
        return show(value)
    except Exception as error:
        return ["cannot be shown", type(error).__name__]


class Peekable(io.BytesIO):
    """A file with peek() that shows a little more each time than it must."""

    def peek(self, size):
        return self.getvalue()[self.tell() :][: size // 20000 + 1]


class Whole(io.BytesIO):
    """A file that shows all it has: the C unpickler then works as it does in memory."""

    def peek(self, size):
        return self.getvalue()[self.tell() :]


class Small:
    """A file that has nothing but what pickle asks for."""

    def __init__(self, data):
        self.file = io.BytesIO(data)
        self.read = self.file.read
        self.readline = self.file.readline


OURS, THEIRS, PYTHON = map(restricted, (torshi.Unpickler, stock.Unpickler, pickle._Unpickler))


# Refused by the base 0 that both stock unpicklers read LONG in; an ordinary number in base 10.
LEADING_ZEROS = re.compile(rb"L[ +-]*0[0-9]")


def check(data):
    """A complaint about the outcome for these bytes, or None."""
    ours = outcome(OURS, data)
    if ours == outcome(THEIRS, data):
        return None
    # In memory a frame is no border: only from a file does stock lose what is behind it.
    others = [outcome(THEIRS, data, Whole), outcome(PYTHON, data)]
    if ours is not None and LEADING_ZEROS.search(data):
        return None
    return None if ours in others else f"{data!r}: {ours}, stock {others}"


def in_child(function, *args):
    """Run function(*args) in a forked child with little memory; raise what it complains of."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            complaint = function(*args) or ""
        except BaseException:
            complaint = traceback.format_exc()
        os.write(writer, complaint.encode("utf-8", "backslashreplace")[:5000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        complaint = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}; {complaint}"
    assert not complaint, complaint


def run(cases):
    for data in cases:
        complaint = check(data)
        if complaint:
            return complaint
    return None


@pytest.fixture(scope="module")
def streams():
    return corpus()


def prefixes(streams):
    for s in streams:
        for n in range(len(s)):
            yield s[:n]


def memory_bomb(data):
    """Whether stock would fill gigabytes for a memo index before it fails."""
    return any(data[i] == 0x72 and data[i + 3 : i + 5] > b"\x04" for i in range(len(data)))


def changes(streams, step):
    """Single bytes changed (every step-th of the 256 values, all in turn), and left out."""
    turn = 0
    for s in streams:
        for i in range(len(s)):
            turn += 1
            yield s[:i] + s[i + 1 :]
            for byte in range(turn % step, 256, step):
                changed = s[:i] + bytes((byte,)) + s[i + 1 :]
                if not memory_bomb(changed):
                    yield changed


def test_the_corpus_loads(streams):
    loaded = [outcome(OURS, s) is not None for s in streams]
    assert loaded.count(False) == 4  # persistent ids and extension codes that nobody has


def test_every_prefix(streams):
    in_child(run, prefixes(streams))


@pytest.mark.parametrize("part", range(4))
def test_every_byte_changed(streams, part):
    in_child(run, changes(streams[part::4], 12))


def survive(streams):
    """More values of every byte, our engine alone, from memory and from files."""
    files = (io.BytesIO, Peekable, Small)
    for i, data in enumerate(changes(streams, 5)):
        try:
            OURS(data, files[i % 3])
        except Exception:
            pass


def test_nothing_but_exceptions(streams):
    in_child(survive, streams)


def same_from_files(streams):
    for s in streams:
        for data in (s, s + b"rest", s[:-1], s[: len(s) // 2]):
            want = outcome(OURS, data)
            for file in (Peekable, Small):
                if outcome(OURS, data, file) != want:
                    return f"{data!r} from a {file.__name__}"
    return None


def test_files_give_what_memory_gives(streams):
    in_child(same_from_files, streams)


def damaged_batches():
    """Dicts of several batches with bytes changed: tables are made for what is really there."""
    data = stock.dumps({i: i for i in range(2500)}, 4)
    for i in list(range(24)) + list(range(24, len(data), 199)):
        for byte in (0, 0x28, 0x75, 0x8D, 0xFF):
            damaged = data[:i] + bytes((byte,)) + data[i + 1 :]
            ours, theirs = outcome(OURS, damaged), outcome(THEIRS, damaged)
            if ours != theirs:
                return f"byte {i} changed to {byte:#x}"
    return None


def test_batches():
    in_child(damaged_batches)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
