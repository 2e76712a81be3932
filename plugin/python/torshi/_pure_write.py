"""Payloads in pure Python: the twin of plugin/encode*.c, rule by rule, so that both write the same
bytes. What the rules are for is said there and in docs/format.md."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any, Callable, Sequence

from . import _pure_refs as references
from . import _pure_types as types
from ._pure_scan import (
    NOWHERE,
    PENDING_KIND,
    Again,
    Cells,
    Decline,
    Limit,
    Origin,
    Other,
    Scan,
    Seen,
    Shape,
)
from ._pure_wire import (
    BIG,
    BOOL,
    BUILD_ITEM,
    BUILD_SLOTS,
    BYTES,
    C_BARE,
    C_BIG,
    C_BOOL,
    C_BYTES,
    C_DICTIONARY,
    C_EXTERNAL,
    C_FALSE,
    C_FLOAT,
    C_FLOAT_CONST,
    C_INSTANCE,
    C_INT,
    C_LIST,
    C_MAP,
    C_MIXED,
    C_NONE,
    C_NULLABLE,
    C_PENDING,
    C_PROGRESSION,
    C_REDUCE,
    C_SLOTTED,
    C_STR,
    C_STR_KINDS,
    C_STRUCT,
    C_TRUE,
    C_TUPLE,
    DICT,
    DICT_SHAPES,
    DISTINCT,
    FIELD,
    FLOAT,
    FRESH,
    HIGHEST,
    INSTANCE,
    INT,
    ITEM,
    LIST,
    LONG_TEXT,
    LOWEST,
    MAP,
    MAX_MIXED,
    MAX_ROWS,
    MAX_VALUES,
    NONE,
    PAIR,
    PENDING,
    PLAIN,
    RAW_KINDS,
    REFERENCE,
    EARLY_ROWS,
    SAMPLE,
    SORTED,
    STR,
    TUPLE,
    VALUE,
    int_cost,
    key_cost,
    pack,
    pack_lens,
    text_cost,
    uvar,
    width_for,
    zvar,
)


class Writer(Scan):
    """One chunk being scanned and encoded."""

    def __init__(
        self,
        memo_find: Callable[[Any], int],
        hooks: bool,
        excluded: dict[int, Any] | None = None,
        refs: references.RefScan | None = None,
    ) -> None:
        super().__init__(memo_find, hooks, excluded)
        self.refs = refs or references.RefScan()
        self.refs.wanted = self.refs.extra = 0

    def reference_entry(self, obj: Any) -> types.TypeEntry | None:
        return references.make_entry(self.refs, obj, self.hooks)

    def classify_ref(self, obj: Any, entry: types.TypeEntry, level: int) -> tuple[int, Any]:
        return references.classify(self, obj, entry, level)

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

    def keys_are_refs(self, keys: Sequence[Any]) -> bool:
        """Whether the keys of a dict target may be a REFERENCE column."""
        return bool(keys) and self.classify(keys[0], 1, 0)[0] == REFERENCE

    def keys(self, values: Sequence[Any], where: Cells) -> None:
        """The keys of a dict target."""
        self.count(len(values))
        flags = PLAIN | DISTINCT
        if not values:
            self.head(C_NONE)
            return
        if self.keys_are_refs(values):
            try:
                self.column_of(self.classify(values[0], 1, 0), values, where, 1, 0)
            except Other:
                raise Decline from None
            return
        kind = self.classify(values[0], 1, flags)
        if kind[0] in (STR, BYTES, INT):
            try:
                self.column_of(kind, values, NOWHERE, 1, flags)
                return
            except Other:
                pass
        self.split(values, NOWHERE, 1, flags)

    def column_of(
        self, kind: tuple[int, Any], values: Sequence[Any], where: Cells, level: int, flags: int
    ) -> None:
        """A column whose first value is of this kind; Other, nothing written, when not all are."""
        which, detail = kind
        if which == NONE:
            self.nones(values)
        elif which == BOOL:
            self.bools(values)
        elif which == INT:
            if not all(type(v) is int and LOWEST <= v <= HIGHEST for v in values):
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
        elif which == REFERENCE:
            references.column(self, values, where, level, flags, kind)
        elif flags & PLAIN:
            raise Decline
        else:
            self.put_pending(values, where)

    def put_pending(self, values: Sequence[Any], where: Cells) -> None:
        """Cells that are set later, and what that takes beyond what their values take anyway."""
        origin, ids = where
        assert origin is not None
        if origin.type is not None:  # its dict may be met while the value is saved
            raise Again(origin.type)
        self.note_pending(values, where)

    def note_pending(self, values: Sequence[Any], where: Cells) -> None:
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
            if LOWEST <= step <= HIGHEST and all(b - a == step for a, b in zip(values, values[1:])):
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
        if any(type(v) is not int or LOWEST <= v <= HIGHEST for v in values):
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
            repeats = sample - len({values[i * len(values) // sample] for i in range(sample)})
            n = len(values)
            enough = (n - 1) // 2 if n <= SAMPLE else -(-SAMPLE * SAMPLE // (4 * n))
            repeated = repeats >= enough
        look = len(values) // 8
        if len(values) >= EARLY_ROWS and len(set(values[:look])) > look * 15 // 16:
            repeated = False
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
            blob += (
                v.encode("latin-1")
                if kind < 2
                else struct.pack(f"<{len(v)}{' BHI'[kind]}", *map(ord, v))
            )
        return bytes((w << 5 | C_STR_KINDS,)) + lens + pack(kinds, 2) + bytes(blob)

    # ---- by identity
    def by_identity(
        self,
        values: Sequence[Any],
        level: int,
        cost: int,
        least: int,
        put: Callable[[Sequence[Any], int], None],
    ) -> None:
        """Immutable objects: one in several rows is written once, through a DICTIONARY."""
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
        if not flags & SORTED and any(
            self.classify(v, level, flags) != (TUPLE, arity) for v in values
        ):
            raise Other
        if not arity:
            self.bound += len(values)
            self.put_tuples(values, level)
        else:
            self.by_identity(values, level, 2 if arity <= 3 else 3, arity, self.put_tuples)

    # ---- values of known types
    def known_values(
        self, values: Sequence[Any], level: int, flags: int, entry: types.TypeEntry
    ) -> None:
        if not flags & SORTED and any(
            self.classify(v, level, flags) != (VALUE, entry) for v in values
        ):
            raise Other
        self.bound -= 2
        least = 0
        if entry.form == types.NAMED:
            least = 1  # the class is no item of the tuple
            self.name_newobj()
        self.by_identity(
            values,
            level,
            6 if entry.arguments > least else 5,
            1,
            lambda objects, at: self.put_values(objects, at, entry),
        )

    def name_newobj(self) -> None:
        """copyreg.__newobj__ as an external, which opcodes alone do not need."""
        before, callee = len(self.externals), types.newobj_function()
        self.external(callee)
        if len(self.externals) > before:
            self.bound -= self.met_cost(callee) or 25

    def put_values(self, values: Sequence[Any], level: int, entry: types.TypeEntry) -> None:
        form = entry.form
        number = self.external(types.newobj_function() if form == types.NAMED else entry.type)
        self.head(C_REDUCE)
        self.out += number + uvar(entry.arguments)
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
        elif form == types.PATH:
            rows = [types.path_parts(v, entry) or [] for v in values]
            for k in range(entry.arguments):
                self.column([row[k] for row in rows], NOWHERE, level, PLAIN)
        elif form == types.NAMED:
            self.count(len(values))
            number = self.external(entry.type)
            self.head(C_EXTERNAL)
            self.out += number
            for k in range(entry.arguments - 1):
                items = [tuple.__getitem__(v, k) for v in values]
                self.column(items, NOWHERE, level, PLAIN)
        elif form == types.FRACTION:
            for part in ("_numerator", "_denominator"):
                self.column([entry.slot(v, part) for v in values], NOWHERE, level, PLAIN)
        else:
            self.fixed_bytes([v.__reduce_ex__(4)[1][0] for v in values])
            if entry.arguments == 2:
                self.put_zones([v.tzinfo for v in values])

    def put_zones(self, zones: Sequence[Any]) -> None:
        self.count(len(zones))
        numbers = [self.zone(zone) for zone in zones]
        low = min(numbers)
        w = width_for(max(numbers) - low)
        self.head(C_EXTERNAL, w)
        self.out += uvar(low) + pack([number - low for number in numbers], w)
        self.bound += 2 * len(zones)

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

    def structs(
        self,
        values: Sequence[Any],
        where: Cells,
        level: int,
        known: Shape | None,
        entry: types.TypeEntry | None,
    ) -> None:
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
        build = BUILD_SLOTS if shape.slotted else BUILD_ITEM
        kind = (
            C_STRUCT
            if entry is None
            else C_BARE
            if not n
            else C_SLOTTED
            if shape.slotted
            else C_INSTANCE
        )
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
        # A __setattr__ of their own, which BUILD calls for slots, sees every value.
        sets_once = entry and (not shape.slotted or entry.type.__setattr__ is not object.__setattr__)
        cls = entry.type if entry and sets_once else None
        for f, key in enumerate(shape.keys):
            self.column(
                [row[f] for row in rows],
                (Origin(FIELD, first, key=key, field=f, cls=cls), None),
                level + 1,
                0,
            )

    @staticmethod
    def rows_cost(shape: Shape, rows: int) -> int:
        fields = len(shape.keys)
        dict_cost = 2 + (2 if fields > 1 else fields)
        names = 2 * (rows - 1) * fields
        if shape.entry is None:
            return rows * dict_cost + names
        instance = 2 * (rows - 1) + 3 * rows
        return (
            instance
            if not fields
            else instance + rows * (dict_cost + 1 + (3 if shape.slotted else 0)) + names
        )

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
                if (
                    type(obj) is not list
                    or self.classify(obj, level, 0)[0] != LIST
                    or not self.claim(obj)
                ):
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
        if kind in (DICT, LIST, REFERENCE) and not self.claim(obj):
            return PENDING_KIND
        if kind == INSTANCE and not self.claim_instance(obj, detail):
            return PENDING_KIND
        if kind != DICT and kind != INSTANCE:
            return kind, detail
        entry = detail if kind == INSTANCE else None
        for shape in shapes:
            if shape.entry is entry and self.shaped_values(obj, shape) is not None:
                shape.rows += 1
                return kind, shape
        no_shape = PENDING_KIND if entry else (MAP, 0)
        if len(shapes) == RAW_KINDS or (
            entry is None and sum(s.entry is None for s in shapes) == DICT_SHAPES
        ):
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
            number = next(
                (i for i, k in enumerate(raw) if k[0] == kind[0] and same_detail(k[1], kind[1])),
                len(raw),
            )
            if number == len(raw) and number < RAW_KINDS:
                raw.append(kind)
            selectors.append(number)
        groups: list[tuple[int, Any]] = []

        def group(kind: tuple[int, Any]) -> int:
            for i, known in enumerate(groups):
                if known[0] == kind[0] and same_detail(known[1], kind[1]):
                    return i
            if len(groups) >= MAX_MIXED - 1 and kind[0] != PENDING:
                return group(PENDING_KIND)
            groups.append(kind)
            return len(groups) - 1

        group_of = [group((MAP, 0) if k == DICT and not d.is_struct() else (k, d)) for k, d in raw]
        if len(raw) == RAW_KINDS:
            group_of.append(group(PENDING_KIND))
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
