"""Random valid payloads for torshi.chunk, with the value and the roll that reading them must give.

Written from docs/format.md alone, and not clever: unlike a real writer it makes every kind and width,
also where a shorter one would do.
"""

from __future__ import annotations

import random
import struct
from typing import Any, Callable

MAX_LEVEL = 32


class Plain:
    """State in __dict__."""


class Slotted:
    __slots__ = ("a", "b", "c")


class Stateful:
    """Records what BUILD gave it."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


def pair(*args: Any) -> tuple:
    return ("pair", *args)


class Reference:
    """Mutable, made by a call: identity is kept."""

    def __init__(self, *args: Any) -> None:
        self.args = args


EXTERNALS: list[Any] = [Plain, Slotted, Stateful, pair, Reference, complex]


# ---- wire ------------------------------------------------------------------------------------------
def uvar(v: int) -> bytes:
    out = bytearray()
    while v > 0x7F:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def zvar(v: int) -> bytes:
    return uvar((v << 1) ^ (v >> 63) if v >= 0 else (-v << 1) - 1)


BITS = (0, 1, 2, 4, 8, 16, 32, 64)


def width_for(most: int) -> int:
    return next(w for w in range(8) if most < 1 << BITS[w])


def pack(items: list[int], w: int) -> bytes:
    bits = BITS[w]
    whole = sum(item << i * bits for i, item in enumerate(items))
    return whole.to_bytes((len(items) * bits + 7) // 8, "little")


def head(kind: int, w: int = 0) -> bytes:
    return bytes((w << 5 | kind,))


def signed64(v: int) -> int:
    v &= (1 << 64) - 1
    return v - (1 << 64) if v >> 63 else v


class Maker:
    """One payload being made; `roll` is what its call must append, `values` counts as readers do."""

    def __init__(self, rng: random.Random, budget: int = 3000, nested: bool = True) -> None:
        self.rng = rng
        self.budget = budget
        self.nested = nested
        self.roll: list[Any] = []

    # ---- pieces
    def width(self, most: int, highest: int = 6) -> int:
        """A width that holds `most`, usually the smallest."""
        least = width_for(most)
        return least if self.rng.random() < 0.8 else self.rng.randint(least, max(least, highest))

    def lens(self, items: list[int]) -> tuple[int, bytes]:
        base = min(items, default=0)
        if self.rng.random() < 0.2:
            base = 0
        w = self.width(max(items, default=base) - base)
        return w, uvar(base) + pack([item - base for item in items], w)

    def split(self, n: int) -> list[int]:
        """n lengths whose sum is small."""
        top = self.rng.choice((0, 1, 2, 5))
        return [self.rng.randint(0, top) for _ in range(n)]

    def text(self, kind: int) -> str:
        low, high = ((1, 0x7F), (0x80, 0xFF), (0x100, 0xFFFF), (0x10000, 0x10FFFF))[kind]
        size = (
            self.rng.choice((0, 1, 1, 2, 3, 8, 20, 70))
            if kind == 0
            else self.rng.choice((1, 2, 5, 20, 70))
        )
        text = [
            chr(self.rng.randint(low, high)) if self.rng.random() < 0.7 else self.rng.choice("abz ")
            for _ in range(size)
        ]
        if kind:
            text[self.rng.randrange(size)] = chr(self.rng.randint(low, high))
        return "".join(text)

    # ---- columns
    def column(
        self, n: int, level: int = 1, plain: bool = False, among: list[Callable] | None = None
    ) -> tuple[bytes, list[Any]]:
        self.budget -= n
        if among is None:
            atoms = [
                self.none,
                self.false,
                self.true,
                self.bool,
                self.int,
                self.progression,
                self.big,
                self.float,
                self.float_const,
                self.str,
                self.str_kinds,
                self.bytes,
            ]
            among = list(atoms)
            if not plain:
                among.append(self.pending)
            deeper = []
            if self.budget > 0 and level < MAX_LEVEL:
                deeper = [self.dictionary, self.nullable, self.mixed, self.tuple, self.affix]
                if self.nested:
                    deeper.append(self.reduce)
                    if not plain:
                        deeper += [
                            self.struct,
                            self.list,
                            self.map,
                            self.instance,
                            self.slotted,
                            self.bare,
                            self.reference,
                        ]
            if deeper and self.rng.random() < 0.5:
                among = deeper
        if level == MAX_LEVEL:
            among = [
                make
                for make in among
                if make not in (self.dictionary, self.nullable, self.mixed, self.tuple, self.affix)
            ]
        return self.rng.choice(among)(n, level, plain)

    def below(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        return self.column(n, level + 1, plain)

    def none(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        return head(0), [None] * n

    def pending(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        return head(1), [None] * n

    def false(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        return head(2), [False] * n

    def true(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        return head(3), [True] * n

    def bool(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        values = [self.rng.random() < 0.5 for _ in range(n)]
        return head(4) + pack([int(v) for v in values], 1), values

    def int(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        w = self.rng.randrange(8)
        base = self.rng.choice((0, 1, -1, 255, 1000, -300, 1 << 40, (1 << 63) - 1, -(1 << 63)))
        offsets = [self.rng.getrandbits(BITS[w]) if w else 0 for _ in range(n)]
        return head(5, w) + zvar(base) + pack(offsets, w), [signed64(base + v) for v in offsets]

    def progression(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        start, step = self.rng.choice(
            ((0, 1), (5, 0), (10, -3), (-(1 << 63), 1), ((1 << 63) - 1, -7), (1 << 40, 12345))
        )
        return head(6) + zvar(start) + zvar(step), [start + i * step for i in range(n)]

    def big(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        values = [
            self.rng.choice((1, -1)) * self.rng.getrandbits(self.rng.choice((0, 8, 64, 65, 200)))
            for _ in range(n)
        ]
        blobs = [
            v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True) if v else b"" for v in values
        ]
        w, lens = self.lens([len(b) for b in blobs])
        return head(7, w) + lens + b"".join(blobs), values

    def double(self) -> bytes:
        special = (
            0x8000000000000000,
            0x7FF0000000000000,
            0x7FF8000000000001,
            0xFFF8000000000000,
            0,
            1,
        )
        bits = self.rng.choice(special) if self.rng.random() < 0.3 else None
        return (
            struct.pack("<Q", bits)
            if bits is not None
            else struct.pack("<d", self.rng.uniform(-1e6, 1e6))
        )

    def float(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        raw = [self.double() for _ in range(n)]
        return head(8) + b"".join(raw), [struct.unpack("<d", b)[0] for b in raw]

    def float_const(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        raw = self.double()
        return head(9) + raw, [struct.unpack("<d", raw)[0] for _ in range(n)]

    def str(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        values = [self.text(0) for _ in range(n)]
        w, lens = self.lens([len(v) for v in values])
        return head(10, w) + lens + "".join(values).encode("ascii"), values

    def str_kinds(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        kinds = [self.rng.randrange(4) for _ in range(n)]
        values = [self.text(kind) for kind in kinds]
        codecs = ("ascii", "latin-1", "utf-16-le", "utf-32-le")
        # Surrogates of UCS-2 strings pass one by one: a pair in a str is two characters.
        blob = b"".join(
            b"".join(c.encode(codecs[k], "surrogatepass") for c in v) for k, v in zip(kinds, values)
        )
        w, lens = self.lens([len(v) for v in values])
        return head(11, w) + lens + pack(kinds, 2) + blob, values

    def bytes(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        values = [self.rng.randbytes(self.rng.choice((0, 1, 2, 9, 40))) for _ in range(n)]
        w, lens = self.lens([len(v) for v in values])
        return head(12, w) + lens + b"".join(values), values

    def dictionary(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        count = self.rng.choice((1, 2, 3, 17, 300))
        while True:
            maker = Maker(self.rng, min(self.budget, 500), self.nested)
            body, values = maker.column(count, level + 1, True)
            if body[0] & 31 != 13:
                break
        self.budget -= 500 - max(maker.budget, 0)
        indexes = [self.rng.randrange(count) for _ in range(n)]
        w = self.width(max(indexes, default=0))
        # A NaN is a new object in every row.
        fresh = [
            struct.unpack("<d", struct.pack("<d", v))[0] if type(v) is float else v
            for v in (values[i] for i in indexes)
        ]
        return head(13, w) + uvar(count) + body + pack(indexes, w), fresh

    def nullable(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        there = [self.rng.random() < 0.6 for _ in range(n)]
        body, values = self.below(sum(there), level, plain)
        rest = iter(values)
        return head(14) + pack([int(t) for t in there], 1) + body, [
            next(rest) if t else None for t in there
        ]

    def mixed(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        k = self.rng.choice((2, 2, 3, 4, 5, 16))
        selectors = [self.rng.randrange(k) for _ in range(n)]
        columns = [self.below(selectors.count(j), level, plain) for j in range(k)]
        w = self.width(k - 1, 3)
        rest = [iter(values) for _, values in columns]
        return head(15, w) + uvar(k) + pack(selectors, w) + b"".join(b for b, _ in columns), [
            next(rest[s]) for s in selectors
        ]

    def tuple(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        arity = self.rng.choice((0, 1, 2, 3, 7))
        columns = [self.below(n, level, plain) for _ in range(arity)]
        return head(16) + uvar(arity) + b"".join(b for b, _ in columns), [
            tuple(v[i] for _, v in columns) for i in range(n)
        ]

    def affix(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        prefix, suffix = (self.text(0) if self.rng.random() < 0.7 else "" for _ in range(2))
        body, values = self.column(
            n, level + 1, True, [self.str, self.str_kinds, self.int, self.progression]
        )
        affixes = b"".join(uvar(len(a)) + a.encode("ascii") for a in (prefix, suffix))
        return head(25) + affixes + body, [f"{prefix}{v}{suffix}" for v in values]

    # ---- what goes on the roll
    def reserve(self, n: int) -> int:
        at = len(self.roll)
        self.roll += [None] * n
        return at

    def names(self, count: int, level: int, only_str: bool) -> tuple[bytes, list[Any]]:
        """A column of distinct names."""
        while True:
            if only_str:
                among = [self.str, self.str_kinds] + (
                    [self.affix] if level + 2 <= MAX_LEVEL else []
                )
                body, values = self.column(count, level + 1, True, among)
            else:
                body, values = self.column(count, level + 1, True)
            if len(dict.fromkeys(values)) == count:
                return body, values

    def fields(
        self, n: int, level: int, only_str: bool
    ) -> tuple[bytes, list[Any], list[list[Any]]]:
        count = self.rng.choice((0, 1, 2, 3, 6))
        if not count:
            return uvar(0), [], []
        names, keys = self.names(count, level, only_str)
        columns = [self.below(n, level, False) for _ in range(count)]
        return uvar(count) + names + b"".join(b for b, _ in columns), keys, [v for _, v in columns]

    def struct(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        body, keys, columns = self.fields(n, level, False)
        rows = [{key: v[i] for key, v in zip(keys, columns)} for i in range(n)]
        self.roll[at : at + n] = rows
        return head(17) + body, rows

    def list(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        sizes = self.split(n)
        w, lens = self.lens(sizes)
        body, values = self.below(sum(sizes), level, False)
        rest = iter(values)
        rows = [[next(rest) for _ in range(size)] for size in sizes]
        self.roll[at : at + n] = rows
        return head(18, w) + lens + body, rows

    def map(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        sizes = self.split(n)
        w, lens = self.lens(sizes)
        keys, key_values = self.below(sum(sizes), level, True)
        body, values = self.below(sum(sizes), level, False)
        rest = iter(zip(key_values, values))
        rows: list[Any] = []
        for size in sizes:
            row = {}
            for _ in range(size):
                key, value = next(rest)
                row[key] = value
            rows.append(row)
        self.roll[at : at + n] = rows
        return head(19, w) + lens + keys + body, rows

    def instance(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        cls = self.rng.choice((Plain, Stateful))
        at = self.reserve(n)
        body, names, columns = self.fields(n, level, True)
        rows: list[Any] = []
        for i in range(n):
            state = {name: v[i] for name, v in zip(names, columns)}
            row = cls.__new__(cls)
            if cls is Stateful:
                row.__setstate__(state)
            else:
                row.__dict__.update(state)
            rows.append(row)
        self.roll[at : at + n] = rows
        return head(20) + uvar(EXTERNALS.index(cls)) + body, rows

    def slotted(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        names = ["a", "b", "c"][: self.rng.randint(1, 3)]
        columns = [self.below(n, level, False) for _ in names]
        rows: list[Any] = []
        for i in range(n):
            row = Slotted.__new__(Slotted)
            for name, (_, v) in zip(names, columns):
                setattr(row, name, v[i])
            rows.append(row)
        self.roll[at : at + n] = rows
        self.budget -= len(names)
        body = (
            uvar(len(names))
            + head(10)
            + uvar(1)
            + "".join(names).encode()
            + b"".join(b for b, _ in columns)
        )
        return head(21) + uvar(EXTERNALS.index(Slotted)) + body, rows

    def bare(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        rows = [Plain() for _ in range(n)]
        self.roll[at : at + n] = rows
        return head(22) + uvar(EXTERNALS.index(Plain)), rows

    def call(self, n: int, level: int, plain: bool, callee: Any) -> tuple[bytes, list[Any]]:
        count = self.rng.choice((0, 1, 2, 3))
        columns = [self.below(n, level, plain) for _ in range(count)]
        body = uvar(EXTERNALS.index(callee)) + uvar(count) + b"".join(b for b, _ in columns)
        return body, [callee(*(v[i] for _, v in columns)) for i in range(n)]

    def reduce(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        body, rows = self.call(n, level, plain, pair)
        return head(23) + body, rows

    def reference(self, n: int, level: int, plain: bool) -> tuple[bytes, list[Any]]:
        at = self.reserve(n)
        body, rows = self.call(n, level, plain, Reference)
        self.roll[at : at + n] = rows
        return head(24) + body, rows


def make_payload(
    rng: random.Random, nested: bool = True, rows: int | None = None
) -> tuple[bytes, Any, list[Any]]:
    """-> payload, the target it fills an empty one to, what it appends to the roll."""
    maker = Maker(rng, rng.choice((50, 500, 3000)), nested)
    n = rng.choice((0, 1, 2, 3, 5, 9, 40, 200)) if rows is None else rows
    more = rng.random() < 0.3
    start = uvar(n << 1 | more) + (uvar(rng.choice((0, 5, 1 << 62))) if more else b"")
    target: Any
    if rng.random() < 0.5:
        target = {}
        maker.roll.append(target)
        keys, key_values = maker.column(n, 1, True)
        body, values = maker.column(n)
        for key, value in zip(key_values, values):
            target[key] = value
        return start + keys + body, target, maker.roll
    target = []
    maker.roll.append(target)
    body, values = maker.column(n)
    target += values
    return start + body, target, maker.roll


def describe(*roots: Any) -> list[Any]:
    """Values, exact types, order, float bits and the identity partition of mutable objects, as plain data."""
    seen: dict[int, int] = {}

    def visit(obj: Any) -> Any:
        if isinstance(obj, float):
            return "float", struct.pack("<d", obj)
        if isinstance(obj, complex):
            return "complex", visit(obj.real), visit(obj.imag)
        if isinstance(obj, tuple):
            return "tuple", *map(visit, obj)
        if obj is None or isinstance(obj, (int, str, bytes)):
            return type(obj).__name__, obj
        if id(obj) in seen:
            return "seen", seen[id(obj)]
        seen[id(obj)] = len(seen)
        if type(obj) is list:
            return "list", [visit(item) for item in obj]
        if type(obj) is dict:
            return "dict", [(visit(key), visit(value)) for key, value in obj.items()]
        slots = [
            (name, visit(getattr(obj, name)))
            for name in getattr(type(obj), "__slots__", ())
            if hasattr(obj, name)
        ]
        return (
            type(obj).__name__,
            slots,
            [(key, visit(value)) for key, value in getattr(obj, "__dict__", {}).items()],
        )

    return [visit(root) for root in roots]
