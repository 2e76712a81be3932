"""Numbers of the payload format, and what values take as opcodes: the twin of plugin/wire and of
the cost functions in plugin/."""

from __future__ import annotations

import struct
from typing import Any, Sequence

MAX_ROWS, MAX_VALUES, MAX_DEPTH = 65536, 1048576, 32
MAX_FIELDS, MAX_ARITY, MAX_MIXED = 4096, 255, 16
LONG_TEXT = LONG_ROW = 4096
SAMPLE = 256
EARLY_ROWS = 2048
DEEPEST = MAX_DEPTH - 6
RAW_KINDS, DICT_SHAPES, FIELDS_A_ROW = 255, 12, 8
FEW_ROWS, SMALL_ROWS, MUCH, MUCH_LEVELS, FIRST_LOOK = 8, 16, 64, 10, 16
MET_AGAIN = 16  # bytes of pushing a row that is met again in its chunk, beyond those of a GET

# Column kinds of docs/format.md.
C_NONE, C_PENDING, C_FALSE, C_TRUE, C_BOOL, C_INT, C_PROGRESSION, C_BIG, C_FLOAT, C_FLOAT_CONST = (
    range(10)
)
C_STR, C_STR_KINDS, C_BYTES, C_DICTIONARY, C_NULLABLE, C_MIXED, C_TUPLE, C_STRUCT, C_LIST, C_MAP = (
    range(10, 20)
)
C_INSTANCE, C_SLOTTED, C_BARE, C_REDUCE, C_REFERENCE = range(20, 25)
C_EXTERNAL = 26

# Kinds of values, and flags of columns.
NONE, BOOL, INT, BIG, FLOAT, STR, BYTES, TUPLE, DICT, MAP, LIST, INSTANCE, VALUE, PENDING = range(
    1, 15
)
REFERENCE = 15
PLAIN, DISTINCT, SORTED, FRESH = 1, 2, 4, 8

ITEM, PAIR, FIELD = 1, 2, 3
BUILD_ITEM, BUILD_SLOTS = 0, 1
ROW, STATE, NOT_MET = -1, -2, 0

ABSENT, ROLLED, COLUMN = -1, -2, -3

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


# ---- wire ----------------------------------------------------------------------------------------
def uvar(v: int) -> bytes:
    out = bytearray()
    while v > 0x7F:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def zvar(v: int) -> bytes:
    return uvar(v << 1 if v >= 0 else (~v << 1) | 1)


def width_for(most: int) -> int:
    bits = most.bit_length()
    return bits if bits <= 2 else 3 if bits <= 4 else (bits - 1).bit_length() + 1


def pack(items: Sequence[int], w: int) -> bytes:
    if w == 0:
        return b""
    if w > 3:
        return struct.pack(f"<{len(items)}{'BHIQ'[w - 4]}", *items)
    each, bits = 8 >> (w - 1), 1 << (w - 1)
    out = bytearray((len(items) + each - 1) // each)
    for i, item in enumerate(items):
        out[i // each] |= item << i % each * bits
    return bytes(out)


def pack_lens(lens: Sequence[int]) -> tuple[int, bytes]:
    base = min(lens, default=0)
    w = width_for(max(lens, default=0) - base)
    return w, uvar(base) + pack([n - base for n in lens], w)


# ---- costs ---------------------------------------------------------------------------------------
def int_cost(v: int) -> int:
    if 0 <= v <= 0xFFFF:
        return 2 if v <= 0xFF else 3
    if -(1 << 31) <= v < 1 << 31:
        return 5
    return 2 + ((v if v >= 0 else ~v).bit_length() + 8) // 8


def text_cost(obj: str | bytes) -> int:
    size = (
        len(obj)
        if type(obj) is bytes or obj.isascii()
        else len(obj.encode("utf-8", "surrogatepass"))
    )  # type: ignore[union-attr]
    return size + (6 if size > 255 else 3)


def key_cost(key: Any) -> int:
    cls = type(key)
    if cls is str or cls is bytes:
        return text_cost(key)
    if cls is tuple:
        return 9 + sum(map(key_cost, key))
    if cls is int:
        return int_cost(key) if LOWEST <= key <= HIGHEST else 8 + key.bit_length() // 8
    return 9
