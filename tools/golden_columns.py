"""Payload columns byte by byte, as docs/format.md says; for tools/golden.py."""

from __future__ import annotations

import struct
from collections.abc import Sequence

KINDS = """NONE PENDING FALSE TRUE BOOL INT PROGRESSION BIG FLOAT FLOAT_CONST STR STR_KINDS BYTES
DICTIONARY NULLABLE MIXED TUPLE STRUCT LIST MAP INSTANCE SLOTTED BARE REDUCE REFERENCE AFFIX
EXTERNAL"""
KIND = {name: code for code, name in enumerate(KINDS.split())}
BITS = (0, 1, 2, 4, 8, 16, 32, 64)
U64 = 2**64


# ---- numbers and arrays
def uvar(v: int) -> bytes:
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    return bytes(out) + bytes([v])


def zvar(v: int) -> bytes:
    return uvar(2 * v if v >= 0 else -2 * v - 1)


def packed(items: Sequence[int], w: int) -> bytes:
    """All items side by side in one long number, lowest first."""
    number = 0
    for i, item in enumerate(items):
        assert 0 <= item < 2 ** BITS[w] or (w == 0 and item == 0)
        number |= item << (i * BITS[w])
    return number.to_bytes((len(items) * BITS[w] + 7) // 8, "little")


def lens(lengths: Sequence[int], w: int) -> bytes:
    base = min(lengths, default=0)
    return uvar(base) + packed([n - base for n in lengths], w)


def f8(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


# ---- columns
def head(kind: str, w: int = 0) -> bytes:
    return bytes([KIND[kind] | w << 5])


NONE, PENDING, FALSE, TRUE = (head(k) for k in ("NONE", "PENDING", "FALSE", "TRUE"))


def boolean(*bits: int) -> bytes:
    return head("BOOL") + packed(bits, 1)


def ints(values: Sequence[int], w: int, base: int | None = None) -> bytes:
    if base is None:
        base = min(values, default=0)
    return head("INT", w) + zvar(base) + packed([(v - base) % U64 for v in values], w)


def progression(start: int, step: int) -> bytes:
    return head("PROGRESSION") + zvar(start) + zvar(step)


def big(values: Sequence[int], w: int) -> bytes:
    raw = [v.to_bytes((v.bit_length() + 8) // 8 if v else 0, "little", signed=True) for v in values]
    return head("BIG", w) + lens([len(r) for r in raw], w) + b"".join(raw)


def floats(*values: float) -> bytes:
    return head("FLOAT") + f8(*values)


def strings(values: Sequence[str], w: int = 3) -> bytes:
    return head("STR", w) + lens([len(v) for v in values], w) + "".join(values).encode("ascii")


def str_kind(text: str) -> int:
    top = max(map(ord, text), default=0)
    return 0 if top < 0x80 else 1 if top < 0x100 else 2 if top < 0x10000 else 3


def str_blob(text: str) -> bytes:
    size = (1, 1, 2, 4)[str_kind(text)]
    return b"".join(ord(c).to_bytes(size, "little") for c in text)


def str_kinds(values: Sequence[str], w: int = 3) -> bytes:
    body = lens([len(v) for v in values], w) + packed([str_kind(v) for v in values], 2)
    return head("STR_KINDS", w) + body + b"".join(map(str_blob, values))


def byte_strings(values: Sequence[bytes], w: int = 3) -> bytes:
    return head("BYTES", w) + lens([len(v) for v in values], w) + b"".join(values)


def dictionary(count: int, child: bytes, indexes: Sequence[int], w: int) -> bytes:
    return head("DICTIONARY", w) + uvar(count) + child + packed(indexes, w)


def nullable(bits: Sequence[int], child: bytes) -> bytes:
    return head("NULLABLE") + packed(bits, 1) + child


def mixed(selectors: Sequence[int], w: int, *columns: bytes) -> bytes:
    return head("MIXED", w) + uvar(len(columns)) + packed(selectors, w) + b"".join(columns)


def tuples(*columns: bytes) -> bytes:
    return head("TUPLE") + uvar(len(columns)) + b"".join(columns)


def structs(names: bytes, *columns: bytes) -> bytes:
    return head("STRUCT") + uvar(len(columns)) + names + b"".join(columns)


def lists(lengths: Sequence[int], w: int, child: bytes) -> bytes:
    return head("LIST", w) + lens(lengths, w) + child


def maps(lengths: Sequence[int], w: int, keys: bytes, values: bytes) -> bytes:
    return head("MAP", w) + lens(lengths, w) + keys + values


def instances(kind: str, external: int, names: bytes, *columns: bytes) -> bytes:
    return head(kind) + uvar(external) + uvar(len(columns)) + names + b"".join(columns)


def bare(external: int) -> bytes:
    return head("BARE") + uvar(external)


def reductions(kind: str, external: int, *columns: bytes) -> bytes:
    return head(kind) + uvar(external) + uvar(len(columns)) + b"".join(columns)


def externals(base: int, offsets: Sequence[int] = (), w: int = 0) -> bytes:
    return head("EXTERNAL", w) + uvar(base) + packed(offsets, w)


def affix(prefix: bytes, suffix: bytes, child: bytes) -> bytes:
    return head("AFFIX") + uvar(len(prefix)) + prefix + uvar(len(suffix)) + suffix + child


def payload(rows: int, *columns: bytes, following: int | None = None) -> bytes:
    start = uvar(rows << 1) if following is None else uvar(rows << 1 | 1) + uvar(following)
    return start + b"".join(columns)
