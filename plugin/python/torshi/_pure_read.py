"""torshi.chunk in pure Python: docs/format.md, with the C reader's results and messages."""

from __future__ import annotations

import struct
import sys
from pickle import UnpicklingError
from typing import Any, Callable

from ._refs import RefLoad, class_of, make_batch

_MAX_ROWS = 65536
_MAX_VALUES = 1048576
_MAX_DEPTH = 32
_MAX_FIELDS = 4096
_MAX_ARITY = 255
_MAX_MIXED = 16
_MAX_AFFIX = 127

# One name a status of plugin/wire/status.def.
_TRUNCATED = "truncated"
_TRAILING = "bytes after the last column"
_VARINT = "number too long"
_WIDTH = "width not allowed here"
_KIND = "unknown column kind"
_PADDING = "padding bits set"
_LENGTH = "length out of range"
_RANGE = "progression out of range"
_TEXT = "malformed text"
_INDEX = "index out of range"
_CHILD = "column kind not allowed here"
_NAMES = "malformed field names"
_LIMIT = "too many values"
_DEPTH = "nested too deep"
_ROLL = "no roll for a mutable column"
_EXTERNAL = "external not passed"

_BITS = (0, 1, 2, 4, 8, 16, 32, 64)
_CODES = {4: "B", 5: "H", 6: "I", 7: "Q"}
_CHARACTER_SIZE = (1, 1, 2, 4)
_LOWEST = (0, 0x80, 0x100, 0x10000)
_ABOVE = (0x80, 0x100, 0x10000, 0x110000)

_STR, _STR_KINDS, _INT, _PROGRESSION, _AFFIX, _PENDING, _DICTIONARY = 10, 11, 5, 6, 25, 1, 13
_MUTABLE = frozenset((17, 18, 19, 20, 21, 22, 24))
_ALL = frozenset(range(27))
_PLAIN = _ALL - _MUTABLE - {_PENDING}
_KEYS = _PLAIN | {24}  # a whole column of keys may be references
_ENTRY = _PLAIN - {_DICTIONARY}
_NAME = frozenset((_STR, _STR_KINDS, _AFFIX))
_AFFIXED = frozenset((_STR, _STR_KINDS, _INT, _PROGRESSION))

_ABSENT = object()


class _Column:
    """A column whose head has been read."""

    __slots__ = ("n", "width", "level", "kind", "below")

    def __init__(self, n: int, width: int, level: int, kind: int, below: frozenset[int]) -> None:
        self.n = n
        self.width = width
        self.level = level
        self.kind = kind
        self.below = below  # the kinds that may stand in it


class _Reader:
    """One payload being read."""

    def __init__(self, payload: bytes, roll: list[Any] | None, externals: tuple[Any, ...]) -> None:
        self.payload = payload
        self.end = len(payload)
        self.pos = 0
        self.values = 0
        self.has_roll = roll is not None
        self.externals = externals
        self.rolled: list[Any] = []
        self.load: RefLoad | None = None

    # ---- numbers and spans
    def fail(self, what: str, at: int) -> UnpicklingError:
        return UnpicklingError(f"torshi payload: {what} at byte {at}")

    def uvar(self) -> int:
        at = pos = self.pos
        value = shift = 0
        while True:
            if pos == self.end:
                raise self.fail(_TRUNCATED, at)
            byte = self.payload[pos]
            pos += 1
            if shift == 63 and byte > 1:
                raise self.fail(_VARINT, at)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.pos = pos
                return value
            shift += 7

    def zvar(self) -> int:
        value = self.uvar()
        return (value >> 1) ^ -(value & 1)

    def count(self, low: int, high: int) -> int:
        at = self.pos
        value = self.uvar()
        if not low <= value <= high:
            raise self.fail(_LIMIT, at)
        return value

    def external(self) -> Any:
        at = self.pos
        value = self.uvar()
        if value >= len(self.externals):
            raise self.fail(_EXTERNAL, at)
        return self.externals[value]

    def span(self, size: int) -> bytes:
        if size > self.end - self.pos:
            raise self.fail(_TRUNCATED, self.pos)
        start = self.pos
        self.pos += size
        return self.payload[start : self.pos]

    def packed(self, n: int, width: int) -> list[int]:
        bits = _BITS[width]
        raw = self.span((n * bits + 7) // 8)
        if width == 0:
            return [0] * n
        if width > 3:
            return list(struct.unpack(f"<{n}{_CODES[width]}", raw))
        used = n * bits & 7
        if used and raw[-1] >> used:
            raise self.fail(_PADDING, self.pos - 1)
        mask = (1 << bits) - 1
        shifts = range(0, 8, bits)
        return [byte >> shift & mask for byte in raw for shift in shifts][:n]

    def lens(self, n: int, width: int) -> list[int]:
        at = self.pos
        base = self.uvar()
        if base >> 32:
            raise self.fail(_LENGTH, at)
        items = self.packed(n, width)
        if items and (base + max(items)) >> 32:
            raise self.fail(_LENGTH, at)
        return [base + item for item in items]

    # ---- columns
    def head(self, n: int, level: int, allowed: frozenset[int]) -> _Column:
        at = self.pos
        byte = self.span(1)[0]
        kind, width = byte & 31, byte >> 5
        if kind not in _READERS:
            raise self.fail(_KIND, at)
        if width not in _WIDTHS.get(kind, (0,)):
            raise self.fail(_WIDTH, at)
        if level > _MAX_DEPTH:
            raise self.fail(_DEPTH, at)
        if n > _MAX_ROWS or n > _MAX_VALUES - self.values:
            raise self.fail(_LIMIT, at)
        self.values += n
        if kind not in allowed:
            raise self.fail(_CHILD, at)
        if kind in _MUTABLE and not self.has_roll:
            raise self.fail(_ROLL, at)
        return _Column(n, width, level, kind, _ALL if _PENDING in allowed else _PLAIN)

    def column(self, n: int, level: int, allowed: frozenset[int]) -> list[Any]:
        """n values; the list is the caller's."""
        c = self.head(n, level, allowed)
        return _READERS[c.kind](self, c)

    def columns(self, c: _Column, count: int, allowed: frozenset[int]) -> list[list[Any]]:
        return [self.column(c.n, c.level + 1, allowed) for _ in range(count)]

    def reserve(self, n: int) -> int:
        at = len(self.rolled)
        self.rolled += [None] * n
        return at

    def place(self, at: int, rows: list[Any]) -> list[Any]:
        self.rolled[at : at + len(rows)] = rows
        return rows

    # ---- atoms
    def read_none(self, c: _Column) -> list[Any]:
        return [None] * c.n

    def read_false(self, c: _Column) -> list[Any]:
        return [False] * c.n

    def read_true(self, c: _Column) -> list[Any]:
        return [True] * c.n

    def read_bool(self, c: _Column) -> list[Any]:
        return [bit == 1 for bit in self.packed(c.n, 1)]

    def read_int(self, c: _Column) -> list[Any]:
        base = self.zvar() + (1 << 63)
        return [(base + item & (1 << 64) - 1) - (1 << 63) for item in self.packed(c.n, c.width)]

    def read_progression(self, c: _Column) -> list[Any]:
        at = self.pos
        start, step = self.zvar(), self.zvar()
        if c.n > 1 and not -(1 << 63) <= start + (c.n - 1) * step < 1 << 63:
            raise self.fail(_RANGE, at)
        return [start + i * step for i in range(c.n)]

    def blobs(self, c: _Column) -> list[bytes]:
        sizes = self.lens(c.n, c.width)
        blob = self.span(sum(sizes))
        result, at = [], 0
        for size in sizes:
            result.append(blob[at : at + size])
            at += size
        return result

    def read_big(self, c: _Column) -> list[Any]:
        return [int.from_bytes(blob, "little", signed=True) for blob in self.blobs(c)]

    def read_float(self, c: _Column) -> list[Any]:
        return list(struct.unpack(f"<{c.n}d", self.span(8 * c.n)))

    def read_float_const(self, c: _Column) -> list[Any]:
        raw = self.span(8)
        value = struct.unpack("<d", raw)[0]
        return (
            [value] * c.n if value == value else [struct.unpack("<d", raw)[0] for _ in range(c.n)]
        )

    def read_str(self, c: _Column) -> list[Any]:
        sizes = self.lens(c.n, c.width)
        at = self.pos
        try:
            text = self.span(sum(sizes)).decode("ascii")
        except UnicodeDecodeError:
            raise self.fail(_TEXT, at) from None
        result, at = [], 0
        for size in sizes:
            result.append(text[at : at + size])
            at += size
        return result

    def read_str_kinds(self, c: _Column) -> list[Any]:
        sizes = self.lens(c.n, c.width)
        kinds = self.packed(c.n, 2)
        at = self.pos
        blob = self.span(sum(size * _CHARACTER_SIZE[kind] for size, kind in zip(sizes, kinds)))
        result, pos = [], 0
        for size, kind in zip(sizes, kinds):
            raw = blob[pos : pos + size * _CHARACTER_SIZE[kind]]
            characters = struct.unpack(f"<{size}{'BBHI'[kind]}", raw)
            if not _LOWEST[kind] <= max(characters, default=0) < _ABOVE[kind]:
                raise self.fail(_TEXT, at + pos)
            pos += len(raw)
            result.append("".join(map(chr, characters)))
        return result

    def read_bytes(self, c: _Column) -> list[Any]:
        return list(self.blobs(c))

    # ---- columns of other columns
    def read_dictionary(self, c: _Column) -> list[Any]:
        count = self.count(1, _MAX_ROWS)
        entries = self.column(count, c.level + 1, _ENTRY)
        at = self.pos
        indexes = self.packed(c.n, c.width)
        if indexes and max(indexes) >= count:
            raise self.fail(_INDEX, at)
        if not any(type(entry) is float and entry != entry for entry in entries):
            return [entries[index] for index in indexes]
        result = []
        for index in indexes:
            entry = entries[index]
            if type(entry) is float and entry != entry:  # a new object, with the same bits
                entry = struct.unpack("<d", struct.pack("<d", entry))[0]
            result.append(entry)
        return result

    def read_nullable(self, c: _Column) -> list[Any]:
        bits = self.packed(c.n, 1)
        rest = iter(self.column(sum(bits), c.level + 1, c.below))
        return [next(rest) if bit else None for bit in bits]

    def read_mixed(self, c: _Column) -> list[Any]:
        count = self.count(2, _MAX_MIXED)
        at = self.pos
        selectors = self.packed(c.n, c.width)
        if selectors and max(selectors) >= count:
            raise self.fail(_INDEX, at)
        rest = [iter(self.column(selectors.count(j), c.level + 1, c.below)) for j in range(count)]
        return [next(rest[selector]) for selector in selectors]

    def read_affix(self, c: _Column) -> list[Any]:
        affixes = []
        for _ in range(2):
            size = self.count(0, _MAX_AFFIX)
            at = self.pos
            try:
                affixes.append(self.span(size).decode("ascii"))
            except UnicodeDecodeError:
                raise self.fail(_TEXT, at) from None
        prefix, suffix = affixes
        return [f"{prefix}{value}{suffix}" for value in self.column(c.n, c.level + 1, _AFFIXED)]

    def read_tuple(self, c: _Column) -> list[Any]:
        items = self.columns(c, self.count(0, _MAX_ARITY), c.below)
        return list(zip(*items)) if items else [()] * c.n

    # ---- mutable objects
    def fields(self, c: _Column, allowed: frozenset[int]) -> tuple[list[Any], list[list[Any]]]:
        count = self.count(0, _MAX_FIELDS)
        names: list[Any] = []
        if count:
            at = self.pos
            names = self.column(count, c.level + 1, allowed)
            if len(dict.fromkeys(names)) != count:
                raise self.fail(_NAMES, at)
        return names, self.columns(c, count, _ALL)

    def read_struct(self, c: _Column) -> list[Any]:
        at = self.reserve(c.n)
        names, columns = self.fields(c, _PLAIN)
        rows: list[Any] = (
            [dict(zip(names, row)) for row in zip(*columns)] if names else [{} for _ in range(c.n)]
        )
        return self.place(at, rows)

    def read_list(self, c: _Column) -> list[Any]:
        sizes = self.lens(c.n, c.width)
        at = self.reserve(c.n)
        items = self.column(sum(sizes), c.level + 1, _ALL)
        rows, pos = [], 0
        for size in sizes:
            rows.append(items[pos : pos + size])
            pos += size
        return self.place(at, rows)

    def read_map(self, c: _Column) -> list[Any]:
        sizes = self.lens(c.n, c.width)
        at = self.reserve(c.n)
        keys = self.column(sum(sizes), c.level + 1, _KEYS)
        items = zip(keys, self.column(sum(sizes), c.level + 1, _ALL))
        rows: list[Any] = []
        for size in sizes:
            row = {}
            for _ in range(size):
                key, value = next(items)
                row[key] = value
            rows.append(row)
        return self.place(at, rows)

    def instances(self, c: _Column, slots: bool) -> list[Any]:
        cls = self.external()
        at = self.reserve(c.n)
        names, columns = self.fields(c, _NAME)
        names = [sys.intern(name) for name in names]
        rows = []
        for row in zip(*columns) if names else [()] * c.n:
            instance = _new(cls)
            _build(instance, zip(names, row), slots)
            rows.append(instance)
        return self.place(at, rows)

    def read_instance(self, c: _Column) -> list[Any]:
        return self.instances(c, False)

    def read_slotted(self, c: _Column) -> list[Any]:
        return self.instances(c, True)

    def read_bare(self, c: _Column) -> list[Any]:
        cls = self.external()
        at = self.reserve(c.n)
        return self.place(at, [_new(cls) for _ in range(c.n)])

    def read_reduce(self, c: _Column) -> list[Any]:
        callee = self.external()
        count = self.count(0, _MAX_ARITY)
        columns = self.columns(c, count, c.below)
        return (
            [callee(*row) for row in zip(*columns)] if columns else [callee() for _ in range(c.n)]
        )

    def read_external(self, c: _Column) -> list[Any]:
        at = self.pos
        base = self.uvar()
        if base >= len(self.externals):
            raise self.fail(_EXTERNAL, at)
        at = self.pos
        numbers = [base + offset for offset in self.packed(c.n, c.width)]
        if any(number >= len(self.externals) for number in numbers):
            raise self.fail(_EXTERNAL, at)
        return [self.externals[number] for number in numbers]

    def read_reference(self, c: _Column) -> list[Any]:
        at = self.reserve(c.n)
        start, values = self.pos, self.values
        known = class_of(self.external())
        if known is None:
            self.pos, self.values = start, values
            return self.place(at, self.read_reduce(c))
        columns = self.columns(c, self.count(0, _MAX_ARITY), c.below)
        self.load = self.load or RefLoad()
        return self.place(at, make_batch(self.load, known, columns, c.n))


_READERS: dict[int, Callable[[_Reader, _Column], list[Any]]] = {
    0: _Reader.read_none,
    1: _Reader.read_none,
    2: _Reader.read_false,
    3: _Reader.read_true,
    4: _Reader.read_bool,
    5: _Reader.read_int,
    6: _Reader.read_progression,
    7: _Reader.read_big,
    8: _Reader.read_float,
    9: _Reader.read_float_const,
    10: _Reader.read_str,
    11: _Reader.read_str_kinds,
    12: _Reader.read_bytes,
    13: _Reader.read_dictionary,
    14: _Reader.read_nullable,
    15: _Reader.read_mixed,
    16: _Reader.read_tuple,
    17: _Reader.read_struct,
    18: _Reader.read_list,
    19: _Reader.read_map,
    20: _Reader.read_instance,
    21: _Reader.read_slotted,
    22: _Reader.read_bare,
    23: _Reader.read_reduce,
    24: _Reader.read_reference,
    25: _Reader.read_affix,
    26: _Reader.read_external,
}

# Width codes that a kind takes; (0,) where it is not listed.
_WIDTHS = {kind: range(7) for kind in (7, 10, 11, 12, 13, 18, 19, 26)} | {5: range(8), 15: range(1, 4)}


def _new(cls: Any) -> Any:
    """NEWOBJ without arguments."""
    if not isinstance(cls, type):
        raise UnpicklingError(f"NEWOBJ class argument must be a type, not {type(cls).__name__}")
    return cls.__new__(cls)


def _build(instance: Any, state: Any, slots: bool) -> None:
    """BUILD with the dict of these items, or with (None, that dict)."""
    setstate = getattr(instance, "__setstate__", _ABSENT)
    if setstate is not _ABSENT:
        setstate((None, dict(state)) if slots else dict(state))
    elif slots:
        for name, value in state:
            setattr(instance, name, value)
    else:
        attributes = instance.__dict__
        for name, value in state:
            attributes[name] = value


def _fill_all(target: Any, payload: Any, roll: list[Any] | None, externals: tuple[Any, ...]) -> Any:
    if isinstance(target, type):
        target = _new(target)
        if not isinstance(target, (dict, list)):
            raise TypeError(
                f"torshi.chunk: the class must make a dict or a list, not {type(target).__name__}"
            )
    for part in payload if type(payload) is tuple else (payload,):
        _fill(target, part, roll, externals)
    return target


def _fill(target: Any, payload: bytes, roll: list[Any] | None, externals: tuple[Any, ...]) -> Any:
    reader = _Reader(payload, roll, externals)
    rows = reader.uvar()
    if rows >> 1 > _MAX_ROWS:
        raise reader.fail(_LIMIT, 0)
    if rows & 1:
        reader.uvar()  # how many rows may follow: of no use here
    rows >>= 1
    try:
        return _fill_rows(reader, rows, target, roll)
    finally:
        if reader.load is not None:
            reader.load.end()


def _fill_rows(reader: _Reader, rows: int, target: Any, roll: list[Any] | None) -> Any:
    reader.rolled.append(target)
    is_dict = isinstance(target, dict)
    items = reader.column(rows, 1, _KEYS if is_dict else _ALL)
    values = reader.column(rows, 1, _ALL) if is_dict else []
    if reader.pos != reader.end:
        raise reader.fail(_TRAILING, reader.pos)
    if is_dict:
        for key, value in zip(items, values):
            target[key] = value
    else:
        _extend(target, items)
    if roll is not None:
        roll.extend(reader.rolled)
    return target


def _extend(target: Any, items: list[Any]) -> None:
    """As APPENDS does it."""
    try:
        extend = target.extend
    except AttributeError:
        for item in items:
            target.append(item)
    else:
        extend(items)


def _is_payload(obj: Any) -> bool:
    return type(obj) is bytes or (type(obj) is tuple and all(type(part) is bytes for part in obj))


def chunk(*args: Any, **kwargs: Any) -> Any:
    """chunk(target, payload, roll=None, /, *externals)

    Fill a dict or list, or a new one of a class derived from these, from a payload of columns and
    return it, or return roll[index] for chunk(roll, index). docs/format.md says what a payload is.
    """
    if kwargs:
        raise TypeError("torshi.chunk takes no keyword arguments")
    if len(args) < 2:
        raise TypeError(f"torshi.chunk expected at least 2 arguments, got {len(args)}")
    target, payload = args[:2]
    if _is_payload(payload):
        is_class = isinstance(target, type) and issubclass(target, (dict, list))
        if type(target) is not dict and type(target) is not list and not is_class:
            raise TypeError(
                f"torshi.chunk: target must be a dict or a list, not {type(target).__name__}"
            )
        roll = args[2] if len(args) > 2 else None
        if len(args) > 2 and type(roll) is not list:
            raise TypeError(f"torshi.chunk: roll must be a list, not {type(roll).__name__}")
        return _fill_all(target, payload, roll, args[3:])
    if type(payload) is not int:
        raise TypeError(f"torshi.chunk: payload must be bytes, not {type(payload).__name__}")
    if len(args) > 2:
        raise TypeError(f"torshi.chunk expected 2 arguments with an index, got {len(args)}")
    if type(target) is not list:
        raise TypeError(f"torshi.chunk: roll must be a list, not {type(target).__name__}")
    if not 0 <= payload < len(target):
        raise IndexError("torshi.chunk: roll index out of range")
    return target[payload]


chunk.__module__ = "torshi"
