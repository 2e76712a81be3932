"""An independent reader of payloads, written from docs/format.md alone. It keeps that text honest:
do not look into plugin/ when changing this. Plain and slow on purpose."""

from __future__ import annotations

import struct

MAX_ROWS, MAX_VALUES, MAX_DEPTH = 65536, 1048576, 32
MAX_FIELDS, MAX_ARITY, MAX_MIXED, MAX_AFFIX = 4096, 255, 16, 127
BITS = (0, 1, 2, 4, 8, 16, 32, 64)
ONLY_0 = (0,)
NO_64 = range(7)


class FormatError(Exception):
    def __init__(self, status: str, offset: int) -> None:
        super().__init__(f"{status} at byte {offset}")
        self.status = status
        self.offset = offset


class Reader:
    def __init__(self, payload: bytes, roll: list | None = None, externals: tuple = ()) -> None:
        self.payload = payload
        self.pos = 0
        self.values = 0
        self.roll = roll
        self.externals = externals if roll is not None else ()

    # ---- what columns are made of
    def span(self, size: int) -> bytes:
        if size > len(self.payload) - self.pos:
            raise FormatError("E_TRUNCATED", self.pos)
        self.pos += size
        return self.payload[self.pos - size : self.pos]

    def uvar(self) -> int:
        at = self.pos
        value = 0
        for i in range(10):
            if at + i >= len(self.payload):
                raise FormatError("E_TRUNCATED", at)
            byte = self.payload[at + i]
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                if value >= 2**64:
                    break
                self.pos = at + i + 1
                return value
        raise FormatError("E_VARINT", at)

    def zvar(self) -> int:
        v = self.uvar()
        return v // 2 if v % 2 == 0 else -(v // 2) - 1

    def count(self, low: int, high: int) -> int:
        at = self.pos
        v = self.uvar()
        if not low <= v <= high:
            raise FormatError("E_LIMIT", at)
        return v

    def packed(self, n: int, w: int) -> list[int]:
        raw = self.span((n * BITS[w] + 7) // 8)
        number = int.from_bytes(raw, "little")
        if number >> (n * BITS[w]):
            raise FormatError("E_PADDING", self.pos - 1)
        if w >= 4:  # the same, without shifting a long number
            size = BITS[w] // 8
            return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
        mask = 2 ** BITS[w] - 1
        if w == 0:
            return [0] * n
        each = 8 // BITS[w]
        return [raw[i // each] >> (i % each * BITS[w]) & mask for i in range(n)]

    def lens(self, n: int, w: int) -> list[int]:
        at = self.pos
        base = self.uvar()
        if base >= 2**32:
            raise FormatError("E_LENGTH", at)
        lengths = [base + item for item in self.packed(n, w)]
        if any(length >= 2**32 for length in lengths):
            raise FormatError("E_LENGTH", at)
        return lengths

    def external(self):
        at = self.pos
        number = self.uvar()
        if number >= len(self.externals):
            raise FormatError("E_EXTERNAL", at)
        return self.externals[number]

    def blobs(self, lengths: list[int]) -> list[bytes]:
        blob = self.span(sum(lengths))
        out, at = [], 0
        for length in lengths:
            out.append(blob[at : at + length])
            at += length
        return out

    def onto_roll(self, objects: list) -> list:
        self.roll.extend(objects)
        return objects

    # ---- columns
    def column(self, n: int, level: int, plain: bool = False, place: str = "") -> list:
        """place: "dictionary", "affix", "state" or "keys", where a column's own kind is restricted."""
        at = self.pos
        byte = self.span(1)[0]
        kind, w = byte & 31, byte >> 5
        if kind not in KINDS:
            raise FormatError("E_KIND", at)
        name, widths, mutable = KINDS[kind]
        if w not in widths:
            raise FormatError("E_WIDTH", at)
        if level > MAX_DEPTH:
            raise FormatError("E_DEPTH", at)
        self.values += n
        if n > MAX_ROWS or self.values > MAX_VALUES:
            raise FormatError("E_LIMIT", at)
        if (
            (plain and (mutable or name == "PENDING") and not (place == "keys" and name == "REFERENCE"))
            or (place == "dictionary" and name == "DICTIONARY")
            or (place == "affix" and name not in ("STR", "STR_KINDS", "INT", "PROGRESSION"))
            or (place == "state" and name not in ("STR", "STR_KINDS", "AFFIX"))
        ):
            raise FormatError("E_CHILD", at)
        if mutable and self.roll is None:
            raise FormatError("E_ROLL", at)
        return getattr(self, name)(n, w, level + 1, plain)

    def NONE(self, n, w, below, plain):
        return [None] * n

    PENDING = NONE

    def FALSE(self, n, w, below, plain):
        return [False] * n

    def TRUE(self, n, w, below, plain):
        return [True] * n

    def BOOL(self, n, w, below, plain):
        return [bool(bit) for bit in self.packed(n, 1)]

    def INT(self, n, w, below, plain):
        base = self.zvar()
        return [(base + item + 2**63) % 2**64 - 2**63 for item in self.packed(n, w)]

    def PROGRESSION(self, n, w, below, plain):
        at = self.pos
        start, step = self.zvar(), self.zvar()
        values = [start + i * step for i in range(n)]
        if not all(-(2**63) <= v < 2**63 for v in values):
            raise FormatError("E_RANGE", at)
        return values

    def BIG(self, n, w, below, plain):
        return [int.from_bytes(b, "little", signed=True) for b in self.blobs(self.lens(n, w))]

    def FLOAT(self, n, w, below, plain):
        return list(struct.unpack(f"<{n}d", self.span(8 * n)))

    def FLOAT_CONST(self, n, w, below, plain):
        return list(struct.unpack(f"<{n}d", self.span(8) * n))

    def STR(self, n, w, below, plain):
        lengths = self.lens(n, w)
        at = self.pos
        texts = self.blobs(lengths)
        if not all(text.isascii() for text in texts):
            raise FormatError("E_TEXT", at)
        return [text.decode("ascii") for text in texts]

    def STR_KINDS(self, n, w, below, plain):
        lengths = self.lens(n, w)
        kinds = self.packed(n, 2)
        sizes = [(1, 1, 2, 4)[kind] for kind in kinds]
        at = self.pos
        out = []
        for blob, kind, size in zip(
            self.blobs([a * b for a, b in zip(lengths, sizes)]), kinds, sizes
        ):
            points = [
                int.from_bytes(blob[i : i + size], "little") for i in range(0, len(blob), size)
            ]
            top = max(points, default=0)
            smallest = sum(top >= bound for bound in (0x80, 0x100, 0x10000))
            if kind != smallest or top >= 0x110000:
                raise FormatError("E_TEXT", at)
            out.append("".join(map(chr, points)))
            at += len(blob)
        return out

    def BYTES(self, n, w, below, plain):
        return self.blobs(self.lens(n, w))

    def DICTIONARY(self, n, w, below, plain):
        count = self.count(1, MAX_ROWS)
        values = self.column(count, below, True, "dictionary")
        at = self.pos
        indexes = self.packed(n, w)
        if any(index >= count for index in indexes):
            raise FormatError("E_INDEX", at)
        # A NaN is a new object in every row.
        return [fresh(values[index]) for index in indexes]

    def NULLABLE(self, n, w, below, plain):
        present = self.packed(n, 1)
        values = iter(self.column(sum(present), below, plain))
        return [next(values) if bit else None for bit in present]

    def MIXED(self, n, w, below, plain):
        count = self.count(2, MAX_MIXED)
        at = self.pos
        selectors = self.packed(n, w)
        if any(selector >= count for selector in selectors):
            raise FormatError("E_INDEX", at)
        columns = [iter(self.column(selectors.count(j), below, plain)) for j in range(count)]
        return [next(columns[selector]) for selector in selectors]

    def rows(self, columns: int, n: int, below: int, plain: bool) -> list[tuple]:
        """Columns side by side: a tuple a row."""
        values = [self.column(n, below, plain) for _ in range(columns)]
        return list(zip(*values)) if columns else [()] * n

    def TUPLE(self, n, w, below, plain):
        return self.rows(self.count(0, MAX_ARITY), n, below, plain)

    def names(self, below: int, place: str) -> list:
        fields = self.count(0, MAX_FIELDS)
        if not fields:
            return []
        at = self.pos
        names = self.column(fields, below, place != "state", place)
        if len(set(names)) < fields:
            raise FormatError("E_NAMES", at)
        return names

    def STRUCT(self, n, w, below, plain):
        dicts = self.onto_roll([{} for _ in range(n)])
        names = self.names(below, "")
        for made, row in zip(dicts, self.rows(len(names), n, below, False)):
            made.update(zip(names, row))
        return dicts

    def LIST(self, n, w, below, plain):
        lengths = self.lens(n, w)
        lists = self.onto_roll([[] for _ in range(n)])
        items = iter(self.column(sum(lengths), below))
        for made, length in zip(lists, lengths):
            made.extend(next(items) for _ in range(length))
        return lists

    def MAP(self, n, w, below, plain):
        lengths = self.lens(n, w)
        dicts = self.onto_roll([{} for _ in range(n)])
        keys = self.column(sum(lengths), below, True, "keys")
        pairs = zip(keys, self.column(sum(lengths), below))
        for made, length in zip(dicts, lengths):
            for _ in range(length):
                key, value = next(pairs)
                made[key] = value
        return dicts

    def instances(self, n: int, below: int, slotted: bool) -> list:
        cls = self.external()
        made = self.onto_roll([cls.__new__(cls) for _ in range(n)])
        names = self.names(below, "state")
        for instance, row in zip(made, self.rows(len(names), n, below, False)):
            state = dict(zip(names, row))
            build(instance, (None, state) if slotted else state)
        return made

    def INSTANCE(self, n, w, below, plain):
        return self.instances(n, below, False)

    def SLOTTED(self, n, w, below, plain):
        return self.instances(n, below, True)

    def BARE(self, n, w, below, plain):
        cls = self.external()
        return self.onto_roll([cls.__new__(cls) for _ in range(n)])

    def REDUCE(self, n, w, below, plain):
        function = self.external()
        arguments = self.rows(self.count(0, MAX_ARITY), n, below, plain)
        return [function(*row) for row in arguments]

    def REFERENCE(self, n, w, below, plain):
        place = len(self.roll)
        self.roll.extend([None] * n)
        made = self.REDUCE(n, w, below, plain)
        self.roll[place : place + n] = made
        return made

    def EXTERNAL(self, n, w, below, plain):
        at = self.pos
        base = self.uvar()
        if base >= len(self.externals):
            raise FormatError("E_EXTERNAL", at)
        at = self.pos
        numbers = [base + offset for offset in self.packed(n, w)]
        if any(number >= len(self.externals) for number in numbers):
            raise FormatError("E_EXTERNAL", at)
        return [self.externals[number] for number in numbers]

    def AFFIX(self, n, w, below, plain):
        ends = []
        for _ in range(2):
            size = self.count(0, MAX_AFFIX)
            at = self.pos
            end = self.span(size)
            if not end.isascii():
                raise FormatError("E_TEXT", at)
            ends.append(end.decode("ascii"))
        return [f"{ends[0]}{v}{ends[1]}" for v in self.column(n, below, plain, "affix")]


KINDS = {
    code: (name, widths, mutable)
    for code, name, widths, mutable in (
        (0, "NONE", ONLY_0, False),
        (1, "PENDING", ONLY_0, False),
        (2, "FALSE", ONLY_0, False),
        (3, "TRUE", ONLY_0, False),
        (4, "BOOL", ONLY_0, False),
        (5, "INT", range(8), False),
        (6, "PROGRESSION", ONLY_0, False),
        (7, "BIG", NO_64, False),
        (8, "FLOAT", ONLY_0, False),
        (9, "FLOAT_CONST", ONLY_0, False),
        (10, "STR", NO_64, False),
        (11, "STR_KINDS", NO_64, False),
        (12, "BYTES", NO_64, False),
        (13, "DICTIONARY", NO_64, False),
        (14, "NULLABLE", ONLY_0, False),
        (15, "MIXED", (1, 2, 3), False),
        (16, "TUPLE", ONLY_0, False),
        (17, "STRUCT", ONLY_0, True),
        (18, "LIST", NO_64, True),
        (19, "MAP", NO_64, True),
        (20, "INSTANCE", ONLY_0, True),
        (21, "SLOTTED", ONLY_0, True),
        (22, "BARE", ONLY_0, True),
        (23, "REDUCE", ONLY_0, False),
        (24, "REFERENCE", ONLY_0, True),
        (25, "AFFIX", ONLY_0, False),
        (26, "EXTERNAL", NO_64, False),
    )
}


def fresh(value):
    """The value, or for a NaN a new object with the same bits."""
    if isinstance(value, float) and value != value:
        return struct.unpack("<d", struct.pack("<d", value))[0]
    return value


def build(instance, state) -> None:
    """What the BUILD opcode does."""
    setstate = getattr(instance, "__setstate__", None)
    if setstate is not None:
        setstate(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def chunk(target, payload, roll=None, *externals):
    """torshi.chunk, slowly. Raises FormatError."""
    if type(payload) is int:
        return target[payload]
    reader = Reader(payload, roll, externals)
    at = reader.pos
    head = reader.uvar()
    rows = head >> 1
    if rows > MAX_ROWS:
        raise FormatError("E_LIMIT", at)
    if head & 1:
        reader.uvar()
    if roll is not None:
        roll.append(target)
    keys = reader.column(rows, 1, True, "keys") if type(target) is dict else None
    values = reader.column(rows, 1)
    if reader.pos < len(payload):
        raise FormatError("E_TRAILING", reader.pos)
    if keys is None:
        target.extend(values)
    else:
        for key, value in zip(keys, values):
            target[key] = value
    return target
