"""Payloads in pure Python: the twin of plugin/encode*.c, rule by rule, so that both write the same
bytes. What the rules are for is said there and in docs/format.md."""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import accumulate, islice
from typing import Any, Callable, Sequence

from . import _pure_types as types

MAX_ROWS, MAX_VALUES, MAX_DEPTH = 65536, 1048576, 32
MAX_FIELDS, MAX_ARITY, MAX_MIXED = 4096, 255, 16
LONG_TEXT = LONG_ROW = 4096
SAMPLE = 256
DEEPEST = MAX_DEPTH - 6
RAW_KINDS, DICT_SHAPES, FIELDS_A_ROW = 255, 12, 8
FEW_ROWS, SMALL_ROWS, MUCH, MUCH_LEVELS, FIRST_LOOK = 8, 16, 64, 6, 16

# Column kinds of docs/format.md.
C_NONE, C_PENDING, C_FALSE, C_TRUE, C_BOOL, C_INT, C_PROGRESSION, C_BIG, C_FLOAT, C_FLOAT_CONST = range(10)
C_STR, C_STR_KINDS, C_BYTES, C_DICTIONARY, C_NULLABLE, C_MIXED, C_TUPLE, C_STRUCT, C_LIST, C_MAP = range(10, 20)
C_INSTANCE, C_SLOTTED, C_BARE, C_REDUCE = range(20, 24)

# Kinds of values, and flags of columns.
NONE, BOOL, INT, BIG, FLOAT, STR, BYTES, TUPLE, DICT, MAP, LIST, INSTANCE, VALUE, PENDING = range(1, 15)
PLAIN, DISTINCT, SORTED, FRESH = 1, 2, 4, 8

ITEM, PAIR, FIELD = 1, 2, 3
BUILD_ITEM, BUILD_STATE, BUILD_SLOTS = 0, 1, 2
ROW, NOT_MET = -1, 0

ABSENT, ROLLED, COLUMN = -1, -2, -3

_BITS = (0, 1, 2, 4, 8, 16, 32, 64)
_CHARACTER_SIZE = (1, 1, 2, 4)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_is_pending = (PENDING, 0)


class Limit(Exception):
    """More rows or values than a chunk may have: try with fewer rows."""


class Decline(Exception):
    """What may not be pending is not plain: no chunk."""


class Other(Exception):
    """A value of another kind is in the column."""


# ---- wire ------------------------------------------------------------------------------------------
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


# ---- costs -----------------------------------------------------------------------------------------
def int_cost(v: int) -> int:
    if 0 <= v <= 0xFFFF:
        return 2 if v <= 0xFF else 3
    if -(1 << 31) <= v < 1 << 31:
        return 5
    return 2 + ((v if v >= 0 else ~v).bit_length() + 8) // 8


def text_cost(obj: str | bytes) -> int:
    size = len(obj) if type(obj) is bytes or obj.isascii() else len(obj.encode("utf-8", "surrogatepass"))  # type: ignore[union-attr]
    return size + (6 if size > 255 else 3)


def key_cost(key: Any) -> int:
    cls = type(key)
    if cls is str or cls is bytes:
        return text_cost(key)
    if cls is tuple:
        return 9 + sum(map(key_cost, key))
    if cls is int:
        return int_cost(key) if _LOWEST <= key <= _HIGHEST else 8 + key.bit_length() // 8
    return 9


# ---- rows and where their cells stand ------------------------------------------------------------------
class Origin:
    """How the rows of a column that was not split yet belong to the rows above them."""

    def __init__(self, form: int, first: int = 0, ends: list[int] | None = None, keys: Sequence[Any] = (), key: Any = None,
                 field: int = 0, start: int = 0) -> None:  # fmt: skip
        self.form, self.first, self.ends, self.keys = form, first, ends or [], keys
        self.key, self.field, self.start = key, field, start

    def place(self, row: int) -> tuple[int, int, Any, int]:
        """Roll index, position, key or _NO_KEY, list index of a row."""
        if self.form == FIELD:
            return self.first + row, self.field, self.key, 0
        parent = bisect_right(self.ends, row)
        position = row - self.ends[parent - 1] if parent else row
        return self.first + parent, position, self.keys[row] if self.form == PAIR else NO_KEY, self.start + position


NO_KEY = object()

# The origin of a column's cells, and their rows in it (None: the same).
Cells = tuple["Origin | None", "list[int] | None"]
NOWHERE: Cells = (None, None)


class Shape:
    """The keys of dicts, or attributes of instances of one type, in order."""

    def __init__(self, entry: types.TypeEntry | None, slotted: bool, keys: list[str]) -> None:
        self.entry, self.slotted, self.keys, self.rows = entry, slotted, keys, 0

    def is_struct(self) -> bool:
        n = len(self.keys)
        return n <= MAX_FIELDS and (self.entry is not None or (self.rows >= 2 and n <= FIELDS_A_ROW * self.rows))


class Seen:
    """An object met in this chunk."""

    __slots__ = ("obj", "column", "index", "again")

    def __init__(self, obj: Any, column: int) -> None:
        self.obj, self.column, self.index, self.again = obj, column, 0, 0


class Writer:
    """One chunk being scanned and encoded. `memo_find(obj)` is a memo number, ABSENT, ROLLED or COLUMN."""

    def __init__(self, memo_find: Callable[[Any], int], hooks: bool) -> None:
        self.memo_find = memo_find
        self.hooks = hooks
        self.out = bytearray()
        self.values = self.bound = self.extra = self.serial = 0
        self.rolled = 1
        self.seen: dict[int, Seen] = {}
        self.types: dict[type, types.TypeEntry] = {}
        self.pending: list[tuple[Origin, int, Any]] = []
        self.columns: list[tuple[int, int, Sequence[Any], Cells]] = []  # first, build, objects, where
        self.externals: list[Any] = []

    # ---- small things
    def head(self, kind: int, w: int = 0) -> None:
        self.out.append(w << 5 | kind)

    def count(self, n: int) -> None:
        self.values += n
        if n > MAX_ROWS or self.values > MAX_VALUES:
            raise Limit

    def met_cost(self, obj: Any) -> int:
        number = self.memo_find(obj)
        return (2 if number < 256 else 5) if number >= 0 else 2 if number == COLUMN else 0

    def type_of(self, obj: Any) -> types.TypeEntry:
        entry = self.types.get(type(obj))
        if entry is None:
            entry = self.types[type(obj)] = types.make_entry(obj, self.hooks)
        return entry

    def external(self, callee: Any) -> bytes:
        for i, known in enumerate(self.externals):
            if known is callee:
                return uvar(i)
        self.externals.append(callee)
        return uvar(len(self.externals) - 1)

    # ---- rows
    def claim(self, obj: Any) -> bool:
        """Make a mutable object a row of this chunk, unless it was met before."""
        seen = self.seen.get(id(obj))
        if (seen is not None and seen.column != NOT_MET) or self.memo_find(obj) != ABSENT:
            return False
        if seen is None:
            seen = self.seen[id(obj)] = Seen(obj, ROW)
        seen.column = ROW
        return True

    def unclaim(self, obj: Any) -> None:
        seen = self.seen.get(id(obj))
        if seen is not None and seen.column == ROW:
            seen.column = NOT_MET

    def claim_instance(self, obj: Any, entry: types.TypeEntry) -> bool:
        if not self.claim(obj):
            return False
        if entry.has_dict and not self.claim(types.attributes_of(obj)):
            self.unclaim(obj)
            return False
        return True

    def put_on_roll(self, objects: Sequence[Any], where: Cells, build: int) -> int:
        first = self.rolled
        self.columns.append((first, build, objects, where))
        self.rolled += len(objects)
        return first

    def row_entries(self, obj: Any, entry: types.TypeEntry | None) -> tuple[list[Any], list[Any], bool]:
        """Keys, values, whether they are slots. Other: no shape for that."""
        if entry is None:
            return list(obj), list(obj.values()), False
        keys: list[Any] = []
        values: list[Any] = []
        if entry.has_dict:
            attributes = types.attributes_of(obj)
            if type(attributes) is not dict or any(type(key) is not str for key in attributes):
                raise Other
            keys, values = list(attributes), list(attributes.values())
        slots = entry.set_slots(obj)
        if slots:
            if keys:
                raise Other
            return [name for name, _ in slots], [value for _, value in slots], True
        return keys, values, False

    def make_shape(self, obj: Any, entry: types.TypeEntry | None) -> Shape:
        keys, _, slotted = self.row_entries(obj, entry)
        if any(type(key) is not str for key in keys):
            raise Other
        return Shape(entry, slotted, keys)

    def shaped_values(self, obj: Any, shape: Shape) -> list[Any] | None:
        """The values of a row of this shape, else None."""
        try:
            keys, values, slotted = self.row_entries(obj, shape.entry)
        except Other:
            return None
        if len(keys) != len(shape.keys) or slotted != shape.slotted:
            return None
        for key, name in zip(keys, shape.keys):
            if key is not name and (type(key) is not str or key != name):
                return None
        return values

    # ---- kinds
    def is_plain_value(self, obj: Any, level: int) -> bool:
        cls = type(obj)
        if cls is str or cls is bytes:
            return len(obj) < LONG_TEXT
        if cls is int or cls is float or obj is None or cls is bool:
            return True
        if level > DEEPEST:
            return False
        if cls is tuple:
            return len(obj) <= MAX_ARITY and all(self.is_plain_value(item, level + 3) for item in obj)
        if cls is dict or cls is list:
            return False
        entry = self.type_of(obj)
        return entry.form >= types.DATE and self.is_known_value(obj, entry, level)

    def is_known_value(self, obj: Any, entry: types.TypeEntry, level: int) -> bool:
        return types.is_known_value(obj, entry, lambda value: self.is_plain_value(value, level + 3))

    def equals_itself(self, obj: Any) -> bool:
        cls = type(obj)
        if cls is float:
            return obj == obj
        if cls is tuple:
            return all(map(self.equals_itself, obj))
        if cls in (str, int, bytes, bool) or obj is None:
            return True
        return self.type_of(obj).form in (types.DATE, types.DATETIME, types.TIME, types.TIMEDELTA, types.UUID)

    def keys_are_plain(self, keys: Sequence[Any], level: int) -> bool:
        for key in keys:
            if type(key) in (str, int, bytes):
                continue
            if not self.is_plain_value(key, level) or not self.equals_itself(key):
                return False
        return True

    def is_fresh(self, obj: Any, flags: int) -> bool:
        return bool(flags & PLAIN) or self.memo_find(obj) < 0

    def classify(self, obj: Any, level: int, flags: int) -> tuple[int, Any]:
        cls = type(obj)
        if cls is str or cls is bytes:
            kind = STR if cls is str else BYTES
            return (kind, 0) if flags & PLAIN or len(obj) < LONG_TEXT else _is_pending
        if cls is int:
            return (INT if _LOWEST <= obj <= _HIGHEST else BIG), 0
        if cls is float:
            return FLOAT, 0
        if obj is None:
            return NONE, 0
        if cls is bool:
            return BOOL, 0
        if cls is dict or cls is list:
            return _is_pending if flags & PLAIN else self.classify_container(obj, level)
        if cls is tuple:
            if not obj or (self.is_plain_value(obj, level) and self.is_fresh(obj, flags)):
                return TUPLE, len(obj)
            return _is_pending
        if level > DEEPEST:
            return _is_pending
        entry = self.type_of(obj)
        if entry.form == types.INSTANCE:
            return _is_pending if flags & PLAIN else (INSTANCE, entry)
        if entry.form >= types.DATE and self.is_known_value(obj, entry, level) and self.is_fresh(obj, flags):
            return VALUE, entry
        return _is_pending

    def classify_container(self, obj: Any, level: int) -> tuple[int, Any]:
        if level > DEEPEST or len(obj) >= LONG_ROW:
            return _is_pending
        if type(obj) is dict:
            return (DICT, 0) if self.keys_are_plain(list(obj), level + 2) else _is_pending
        if obj and self.classify(obj[0], level + 1, 0)[0] == PENDING:
            return _is_pending
        return LIST, 0

    # ---- columns
    def column(self, values: Sequence[Any], where: Cells, level: int, flags: int) -> None:
        self.count(len(values))
        if not values:
            self.head(C_NONE)
            return
        kind = self.classify(values[0], level, flags)
        if kind[0] != PENDING:
            try:
                self.column_of(kind, values, where, level, flags)
                return
            except Other:
                pass
        self.split(values, where, level, flags)

    def column_of(self, kind: tuple[int, Any], values: Sequence[Any], where: Cells, level: int, flags: int) -> None:
        """A column whose first value is of this kind; Other, with nothing written, when not all are."""
        which, detail = kind
        if which == NONE:
            self.nones(values)
        elif which == BOOL:
            self.bools(values)
        elif which == INT:
            if not all(type(v) is int and _LOWEST <= v <= _HIGHEST for v in values):
                raise Other
            self.ints(values)
        elif which == BIG:
            self.bigs(values)
        elif which == FLOAT:
            self.floats(values)
        elif which == STR or which == BYTES:
            self.texts(values, flags)
        elif which == TUPLE:
            self.tuples(values, level, flags)
        elif which == VALUE:
            self.known_values(values, level, flags, detail)
        elif which == DICT:
            self.structs(values, where, level, detail or None, None)
        elif which == INSTANCE:
            if flags & SORTED:
                self.structs(values, where, level, detail, None)
            else:
                self.structs(values, where, level, None, detail)
        elif which == MAP:
            self.maps(values, where, level)
        elif which == LIST:
            self.lists(values, where, level, flags)
        elif flags & PLAIN:
            raise Decline
        else:
            self.put_pending(values, where)

    def put_pending(self, values: Sequence[Any], where: Cells) -> None:
        """Cells that are set later, and what that takes beyond what their values take anyway."""
        origin, ids = where
        assert origin is not None
        last = 0
        for i, value in enumerate(values):
            cell = ids[i] if ids is not None else i
            self.pending.append((origin, cell, value))
            row, _, key, index = origin.place(cell)
            self.extra += 1
            if origin.form == PAIR:
                self.extra += key_cost(key)
            elif origin.form == ITEM:
                self.extra += 2 if index <= 0xFF else 3 if index <= 0xFFFF else 5
            else:
                self.extra += 5 + 4 + (0 if i else key_cost(key))
            if row and row != last:
                self.extra += 18
            last = row
        self.head(C_PENDING)

    def nones(self, values: Sequence[Any]) -> None:
        if any(v is not None for v in values):
            raise Other
        self.bound += len(values)
        self.head(C_NONE)

    def bools(self, values: Sequence[Any]) -> None:
        if any(v is not True and v is not False for v in values):
            raise Other
        self.bound += len(values)
        if all(values) or not any(values):
            self.head(C_TRUE if values[0] else C_FALSE)
        else:
            self.head(C_BOOL)
            self.out += pack(values, 1)

    def ints(self, values: Sequence[int]) -> None:
        if len(values) >= 3:
            step = values[1] - values[0]
            if _LOWEST <= step <= _HIGHEST and all(b - a == step for a, b in zip(values, values[1:])):
                self.head(C_PROGRESSION)
                self.out += zvar(values[0]) + zvar(step)
                self.bound += 2 * len(values)
                return
        low = min(values)
        w = width_for(max(values) - low)
        self.head(C_INT, w)
        self.out += zvar(low) + pack([v - low for v in values], w)
        self.bound += sum(map(int_cost, values))

    def bigs(self, values: Sequence[Any]) -> None:
        if any(type(v) is not int for v in values):
            raise Other
        blobs = []
        for v in values:
            blob = v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True)
            if len(blob) > 1 and blob[-1] == 0xFF and blob[-2] & 0x80:
                blob = blob[:-1]
            blobs.append(blob)
        w, lens = pack_lens(list(map(len, blobs)))
        self.head(C_BIG, w)
        self.out += lens + b"".join(blobs)
        self.bound += sum(len(blob) + (5 if len(blob) > 255 else 2) for blob in blobs)

    def floats(self, values: Sequence[Any]) -> None:
        if any(type(v) is not float for v in values):
            raise Other
        raw = struct.pack(f"<{len(values)}d", *values)
        self.bound += 9 * len(values)
        if len(values) > 1 and raw == raw[:8] * len(values):
            self.head(C_FLOAT_CONST)
            self.out += raw[:8]
        else:
            self.head(C_FLOAT)
            self.out += raw

    # ---- str and bytes
    def texts(self, values: Sequence[Any], flags: int) -> None:
        cls = type(values[0])
        self.serial += 1
        if any(type(v) is not cls or (len(v) >= LONG_TEXT and not flags & PLAIN) for v in values):
            raise Other
        if any(len(v) >= 1 << 32 for v in values):
            raise Decline
        repeated = False
        if flags & FRESH:
            self.bound += sum(map(text_cost, values))
        else:
            repeated = self.count_shared(values)
        body = self.text_body(values)
        sample = SAMPLE if len(values) > SAMPLE else len(values)
        if not repeated and not flags & DISTINCT and len(values) >= 8:
            repeated = len({values[i * len(values) // sample] for i in range(sample)}) < sample
        if repeated:
            numbers: dict[Any, int] = {}
            for v in values:
                numbers.setdefault(v, len(numbers))
            if len(numbers) <= len(values) // 2 + 1:
                w = width_for(len(numbers) - 1)
                indexes = pack([numbers[v] for v in values], w)
                coded = self.text_body(list(numbers))
                if len(uvar(len(numbers))) + len(coded) + len(indexes) < len(body) - 1:
                    self.values += len(numbers)
                    self.head(C_DICTIONARY, w)
                    self.out += uvar(len(numbers)) + coded + indexes
                    return
        self.out += body

    def count_shared(self, values: Sequence[Any]) -> bool:
        """Count what each row takes as opcodes; whether one object stands in two rows."""
        ordinal = 0
        repeated = False
        for i, obj in enumerate(values):
            seen = self.seen.get(id(obj))
            if seen is None:
                met = self.met_cost(obj)
                seen = self.seen[id(obj)] = Seen(obj, self.serial)
                self.bound += met or text_cost(obj)
                seen.again = met or (2 if ordinal < 256 else 5)
                seen.index = i
                ordinal += 1
                continue
            self.bound += seen.again
            if seen.column == self.serial:
                repeated = True
            else:
                seen.column = self.serial
                seen.index = i
        return repeated

    @staticmethod
    def text_body(values: Sequence[Any]) -> bytes:
        """A column of these strings without its DICTIONARY."""
        w, lens = pack_lens(list(map(len, values)))
        if type(values[0]) is bytes:
            return bytes((w << 5 | C_BYTES,)) + lens + b"".join(values)
        if all(map(str.isascii, values)):
            return bytes((w << 5 | C_STR,)) + lens + "".join(values).encode("ascii")
        kinds = []
        blob = bytearray()
        for v in values:
            highest = ord(max(v, default="\0"))
            kind = 0 if highest < 0x80 else 1 if highest < 0x100 else 2 if highest < 0x10000 else 3
            kinds.append(kind)
            blob += v.encode("latin-1") if kind < 2 else struct.pack(f"<{len(v)}{' BHI'[kind]}", *map(ord, v))
        return bytes((w << 5 | C_STR_KINDS,)) + lens + pack(kinds, 2) + bytes(blob)

    # ---- by identity
    def by_identity(self, values: Sequence[Any], level: int, cost: int, least: int, put: Callable[[Sequence[Any], int], None]) -> None:
        """Immutable objects: one that stands in several rows is written once, through a DICTIONARY."""
        self.serial += 1
        indexes: list[int] = []
        objects: list[Any] = []
        again = fresh = ordinal = 0
        any_met = False
        for obj in values:
            seen = self.seen.get(id(obj))
            if seen is not None and seen.column == self.serial:
                again += seen.again
                indexes.append(seen.index)
                continue
            met = seen.again if seen is not None else self.met_cost(obj)
            if seen is None:
                seen = self.seen[id(obj)] = Seen(obj, self.serial)
                seen.again = met or (2 if ordinal < 256 else 5)
                ordinal += 1
            seen.column = self.serial
            seen.index = len(objects)
            any_met |= met != 0
            again += met
            fresh += met == 0
            indexes.append(len(objects))
            objects.append(obj)
        repeated = len(objects) < len(values)
        w = width_for(len(objects) - 1)
        if repeated:
            self.head(C_DICTIONARY, w)
            self.out += uvar(len(objects))
            self.count(len(objects))
        before = self.bound
        put(objects, level + 1 if repeated else level)
        if any_met:  # what is below was not for the fresh ones alone: count the least
            self.bound = before + fresh * least
        self.bound += fresh * cost + again
        if repeated:
            self.out += pack(indexes, w)

    def put_tuples(self, values: Sequence[Any], level: int) -> None:
        arity = len(values[0])
        self.head(C_TUPLE)
        self.out += uvar(arity)
        for k in range(arity):
            self.column([v[k] for v in values], NOWHERE, level + 1, PLAIN)

    def tuples(self, values: Sequence[Any], level: int, flags: int) -> None:
        arity = len(values[0])
        if not flags & SORTED and any(self.classify(v, level, flags) != (TUPLE, arity) for v in values):
            raise Other
        if not arity:
            self.bound += len(values)
            self.put_tuples(values, level)
        else:
            self.by_identity(values, level, 2 if arity <= 3 else 3, arity, self.put_tuples)

    # ---- values of known types
    def known_values(self, values: Sequence[Any], level: int, flags: int, entry: types.TypeEntry) -> None:
        if not flags & SORTED and any(self.classify(v, level, flags) != (VALUE, entry) for v in values):
            raise Other
        self.bound -= 2
        self.by_identity(values, level, 6, 1, lambda objects, at: self.put_values(objects, at, entry))

    def put_values(self, values: Sequence[Any], level: int, entry: types.TypeEntry) -> None:
        form = entry.form
        number = self.external(entry.type)
        self.head(C_REDUCE)
        self.out += number + uvar(3 if form == types.TIMEDELTA else 2 if form in (types.UUID, types.FRACTION) else 1)
        level += 1
        if form == types.TIMEDELTA:
            for part in ("days", "seconds", "microseconds"):
                self.count(len(values))
                self.ints([getattr(v, part) for v in values])
        elif form == types.DECIMAL:
            self.column([str(v) for v in values], NOWHERE, level, PLAIN | FRESH)
        elif form == types.UUID:
            self.count(len(values))
            self.head(C_NONE)
            self.bound += len(values)
            self.fixed_bytes([types.uuid_bytes(v, entry) or b"" for v in values])
        elif form == types.ENUM:
            self.column([types.enum_value(v) for v in values], NOWHERE, level, PLAIN)
        elif form == types.FRACTION:
            for part in ("_numerator", "_denominator"):
                self.column([entry.slot(v, part) for v in values], NOWHERE, level, PLAIN)
        else:
            self.fixed_bytes([v.__reduce_ex__(4)[1][0] for v in values])

    def fixed_bytes(self, values: Sequence[bytes]) -> None:
        self.count(len(values))
        self.head(C_BYTES)
        self.out += uvar(len(values[0])) + b"".join(values)
        self.bound += len(values) * (len(values[0]) + 3)

    # ---- dicts and instances of one shape
    def take_rows(self, values: Sequence[Any], shape: Shape, claimed: bool) -> list[list[Any]]:
        entry = shape.entry
        rows: list[list[Any]] = []
        done = 0
        try:
            for obj in values:
                if not claimed:
                    if type(obj) is not (entry.type if entry else dict):
                        raise Other
                    if not (self.claim_instance(obj, entry) if entry else self.claim(obj)):
                        raise Other
                done += 1
                row = self.shaped_values(obj, shape)
                if row is None:
                    raise Other
                rows.append(row)
        except Other:
            if not claimed:
                for obj in reversed(values[:done]):
                    self.unclaim(obj)
                    if entry and entry.has_dict:
                        self.unclaim(types.attributes_of(obj))
            raise
        return rows

    def structs(self, values: Sequence[Any], where: Cells, level: int, known: Shape | None, entry: types.TypeEntry | None) -> None:
        shape = known
        if shape is None:
            shape = self.make_shape(values[0], entry)
            shape.rows = len(values)
            if not shape.is_struct():
                raise Other
            if entry and not types.is_default_instance(values[0], entry.has_dict):
                raise Other
        n = len(shape.keys)
        if n and len(values) > (MAX_VALUES - self.values) // n:
            raise Limit
        rows = self.take_rows(values, shape, known is not None)
        entry = shape.entry
        build = BUILD_ITEM if entry is None else BUILD_SLOTS if shape.slotted else BUILD_STATE
        kind = C_STRUCT if entry is None else C_BARE if not n else C_SLOTTED if shape.slotted else C_INSTANCE
        number = self.external(entry.type) if entry else b""
        self.head(kind)
        self.out += number
        if kind != C_BARE:
            self.out += uvar(n)
        first = self.put_on_roll(values, where, build)
        self.bound += self.rows_cost(shape, len(values))
        if not n:
            return
        self.column(shape.keys, NOWHERE, level + 1, PLAIN | DISTINCT)
        for f, key in enumerate(shape.keys):
            self.column([row[f] for row in rows], (Origin(FIELD, first, key=key, field=f), None), level + 1, 0)

    @staticmethod
    def rows_cost(shape: Shape, rows: int) -> int:
        fields = len(shape.keys)
        dict_cost = 2 + (2 if fields > 1 else fields)
        names = 2 * (rows - 1) * fields
        if shape.entry is None:
            return rows * dict_cost + names
        instance = 2 * (rows - 1) + 3 * rows
        return instance if not fields else instance + rows * (dict_cost + 1 + (3 if shape.slotted else 0)) + names

    # ---- lists, and dicts of any keys
    def lengths(self, kind: int, values: Sequence[Any], where: Cells) -> Origin:
        sizes = list(map(len, values))
        w, lens = pack_lens(sizes)
        self.head(kind, w)
        self.out += lens
        self.bound += sum(2 + (2 if size > 1 else size) for size in sizes)
        first = self.put_on_roll(values, where, BUILD_ITEM)
        return Origin(ITEM if kind == C_LIST else PAIR, first, list(accumulate(sizes)))

    def lists(self, values: Sequence[Any], where: Cells, level: int, flags: int) -> None:
        if not flags & SORTED:
            for i, obj in enumerate(values):
                if type(obj) is not list or self.classify(obj, level, 0)[0] != LIST or not self.claim(obj):
                    for claimed in reversed(values[:i]):
                        self.unclaim(claimed)
                    raise Other
        items = [item for obj in values for item in obj]
        if len(items) > MAX_ROWS:
            raise Limit
        origin = self.lengths(C_LIST, values, where)
        self.column(items, (origin, None), level + 1, 0)

    def maps(self, values: Sequence[Any], where: Cells, level: int) -> None:
        keys = [key for obj in values for key in obj]
        if len(keys) > MAX_ROWS:
            raise Limit
        items = [item for obj in values for item in obj.values()]
        origin = self.lengths(C_MAP, values, where)
        origin.keys = keys
        self.column(keys, NOWHERE, level + 1, PLAIN)
        self.column(items, (origin, None), level + 1, 0)

    # ---- columns of several kinds
    def raw_kind(self, obj: Any, level: int, flags: int, shapes: list[Shape]) -> tuple[int, Any]:
        """The kind of a value, rows claimed and shapes told apart."""
        kind, detail = self.classify(obj, level, flags)
        if kind in (DICT, LIST) and not self.claim(obj):
            return _is_pending
        if kind == INSTANCE and not self.claim_instance(obj, detail):
            return _is_pending
        if kind != DICT and kind != INSTANCE:
            return kind, detail
        entry = detail if kind == INSTANCE else None
        for shape in shapes:
            if shape.entry is entry and self.shaped_values(obj, shape) is not None:
                shape.rows += 1
                return kind, shape
        no_shape = _is_pending if entry else (MAP, 0)
        if len(shapes) == RAW_KINDS or (entry is None and sum(s.entry is None for s in shapes) == DICT_SHAPES):
            return no_shape
        if entry and not types.is_default_instance(obj, entry.has_dict):
            return no_shape
        try:
            shape = self.make_shape(obj, entry)
        except Other:
            return no_shape
        if entry and not shape.is_struct():
            return no_shape
        shape.rows = 1
        shapes.append(shape)
        return kind, shape

    def split(self, values: Sequence[Any], where: Cells, level: int, flags: int) -> None:
        shapes: list[Shape] = []
        raw: list[tuple[int, Any]] = []
        selectors: list[int] = []
        for obj in values:
            kind = self.raw_kind(obj, level, flags, shapes)
            if kind[0] == PENDING and flags & PLAIN:
                raise Decline
            number = next((i for i, k in enumerate(raw) if k[0] == kind[0] and same_detail(k[1], kind[1])), len(raw))
            if number == len(raw) and number < RAW_KINDS:
                raw.append(kind)
            selectors.append(number)
        groups: list[tuple[int, Any]] = []

        def group(kind: tuple[int, Any]) -> int:
            for i, known in enumerate(groups):
                if known[0] == kind[0] and same_detail(known[1], kind[1]):
                    return i
            if len(groups) >= MAX_MIXED - 1 and kind[0] != PENDING:
                return group(_is_pending)
            groups.append(kind)
            return len(groups) - 1

        group_of = [group((MAP, 0) if k == DICT and not d.is_struct() else (k, d)) for k, d in raw]
        if len(raw) == RAW_KINDS:
            group_of.append(group(_is_pending))
        selectors = [group_of[number] for number in selectors]
        if flags & PLAIN and groups[-1][0] == PENDING:
            raise Decline
        flags |= SORTED
        if len(groups) == 1:
            self.column_of(groups[0], values, where, level, flags)
            return
        none = next((i for i, kind in enumerate(groups) if kind[0] == NONE), -1)
        order = list(range(len(groups)))
        if len(groups) == 2 and none >= 0:
            self.head(C_NULLABLE)
            self.out += pack([int(s != none) for s in selectors], 1)
            self.bound += selectors.count(none)
            order = [1 - none]
        else:
            w = width_for(len(groups) - 1)
            self.head(C_MIXED, w)
            self.out += uvar(len(groups)) + pack(selectors, w)
        origin, ids = where
        for g in order:
            rows = [i for i, s in enumerate(selectors) if s == g]
            self.count(len(rows))
            below = [ids[i] for i in rows] if ids is not None else rows
            self.column_of(groups[g], [values[i] for i in rows], (origin, below), level + 1, flags)


def same_detail(a: Any, b: Any) -> bool:
    return a is b or (type(a) is int and type(b) is int and a == b)


# ---- what pays ---------------------------------------------------------------------------------------
def _count_below(obj: Any, levels: int) -> int:
    if type(obj) is not dict and type(obj) is not list:
        return 0
    n = len(obj)
    if n >= LONG_ROW:
        return 1
    if levels > 1:
        for value in obj.values() if type(obj) is dict else obj:
            if n >= MUCH:
                break
            n += _count_below(value, levels - 1)
    return n


def worth_trying(w: Writer, values: Sequence[Any]) -> bool:
    n = len(values)
    if n < FEW_ROWS or (n < SMALL_ROWS and len({type(v) for v in values if v is not None}) > 2):
        below = n
        for v in values:
            if below >= MUCH:
                break
            below += _count_below(v, MUCH_LEVELS - 1)
        if below < MUCH:
            return False
    return any(w.classify(values[i * n // FIRST_LOOK], 1, 0)[0] != PENDING for i in range(FIRST_LOOK))


def pays(w: Writer, chunk: Any) -> bool:
    size = len(w.out)
    cost = size + (w.met_cost(chunk) or 17) + (2 if size < 256 else 5) + (18 if size >= 65536 else 0)
    cost += 3 if needs_roll(w) else 0
    return cost + 2 + w.extra < w.bound + 2


def needs_roll(w: Writer) -> bool:
    return w.rolled > 1 or bool(w.externals)


def encode_rows(w: Writer, target: Any, keys: Sequence[Any], values: Sequence[Any], following: int, start: int) -> None:
    is_dict = type(target) is dict
    w.seen[id(target)] = Seen(target, ROW)
    origin = Origin(PAIR if is_dict else ITEM, 0, [len(values)], keys, start=start)
    w.out += uvar(len(values) << 1 | (following != 0))
    if following:
        w.out += uvar(following)
    if is_dict:
        w.column(keys, (origin, None), 1, PLAIN | DISTINCT)
    w.column(values, (origin, None), 1, 0)
