"""Looking at values before they are written: the twin of plugin/classify.c and plugin/rows.c."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Sequence

from . import _pure_types as types
from ._pure_wire import (
    ABSENT,
    BIG,
    BOOL,
    BYTES,
    COLUMN,
    DEEPEST,
    DICT,
    FIELD,
    FIELDS_A_ROW,
    FLOAT,
    HIGHEST,
    INSTANCE,
    INT,
    LIST,
    LONG_ROW,
    LONG_TEXT,
    LOWEST,
    MAX_ARITY,
    MAX_FIELDS,
    MAX_ROWS,
    MAX_VALUES,
    NONE,
    NOT_MET,
    PAIR,
    PENDING,
    PLAIN,
    ROW,
    STATE,
    STR,
    TUPLE,
    VALUE,
    uvar,
)

PENDING_KIND = (PENDING, 0)


class Limit(Exception):
    """More rows or values than a chunk may have: try with fewer rows."""


class Again(Exception):
    """A type is not plain after all, or a dict is an instance's: to be tried again, knowing that."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj


class Decline(Exception):
    """What may not be pending is not plain: no chunk."""


class Other(Exception):
    """A value of another kind is in the column."""


# ---- rows and where their cells stand ------------------------------------------------------------
class Origin:
    """How the rows of a column that was not split yet belong to the rows above them."""

    def __init__(
        self,
        form: int,
        first: int = 0,
        ends: list[int] | None = None,
        keys: Sequence[Any] = (),
        key: Any = None,
        field: int = 0,
        start: int = 0,
        cls: type | None = None,
    ) -> None:
        self.form, self.first, self.ends, self.keys = form, first, ends or [], keys
        self.key, self.field, self.start = key, field, start
        self.type = cls  # of instances that have a dict

    def place(self, row: int) -> tuple[int, int, Any, int]:
        """Roll index, position, key or _NO_KEY, list index of a row."""
        if self.form == FIELD:
            return self.first + row, self.field, self.key, 0
        parent = bisect_right(self.ends, row)
        position = row - self.ends[parent - 1] if parent else row
        return (
            self.first + parent,
            position,
            self.keys[row] if self.form == PAIR else NO_KEY,
            self.start + position,
        )


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
        return n <= MAX_FIELDS and (
            self.entry is not None or (self.rows >= 2 and n <= FIELDS_A_ROW * self.rows)
        )


class Seen:
    """An object met in this chunk."""

    __slots__ = ("obj", "column", "index", "again")

    def __init__(self, obj: Any, column: int) -> None:
        self.obj, self.column, self.index, self.again = obj, column, 0, 0


class Scan:
    """One chunk being scanned. `memo_find(obj)` is a memo number, ABSENT, ROLLED or COLUMN."""

    def __init__(
        self, memo_find: Callable[[Any], int], hooks: bool, excluded: dict[int, Any] | None = None
    ) -> None:
        self.memo_find = memo_find
        self.hooks = hooks
        self.excluded = excluded or {}  # by id: what Again said
        self.out = bytearray()
        self.values = self.bound = self.extra = self.serial = 0
        self.rolled = 1
        self.seen: dict[int, Seen] = {}
        self.types: dict[type, types.TypeEntry] = {}
        self.pending: list[tuple[Origin, int, Any]] = []
        self.columns: list[
            tuple[int, int, Sequence[Any], Cells]
        ] = []  # first, build, objects, where
        self.externals: list[Any] = []
        self.zones: dict[int, int] = {}  # externals by id

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
            entry = self.types[type(obj)] = self.reference_entry(obj) or types.make_entry(
                obj, self.hooks or id(type(obj)) in self.excluded
            )
        return entry

    def reference_entry(self, obj: Any) -> types.TypeEntry | None:
        """The entry of a reference's type, None for others."""
        raise NotImplementedError

    def classify_ref(self, obj: Any, entry: types.TypeEntry, level: int) -> tuple[int, Any]:
        raise NotImplementedError

    def zone(self, zone: Any) -> int:
        """The number of a time zone as an external; not searched for among those of others."""
        number = self.zones.get(id(zone))
        if number is None:
            number = self.zones[id(zone)] = len(self.externals)
            self.externals.append(zone)
            self.bound -= 2
        return number

    def external(self, callee: Any) -> bytes:
        for i, known in enumerate(self.externals):
            if known is callee:
                return uvar(i)
        self.externals.append(callee)
        return uvar(len(self.externals) - 1)

    # ---- rows
    def claim(self, obj: Any, column: int = ROW) -> bool:
        """Make a mutable object a row of this chunk (or STATE), unless it was met before."""
        if id(obj) in self.excluded:
            return False
        seen = self.seen.get(id(obj))
        if (seen is not None and seen.column != NOT_MET) or self.memo_find(obj) != ABSENT:
            return False
        if seen is None:
            seen = self.seen[id(obj)] = Seen(obj, column)
        seen.column = column
        return True

    def unclaim(self, obj: Any) -> None:
        seen = self.seen.get(id(obj))
        if seen is not None and seen.column in (ROW, STATE):
            seen.column = NOT_MET

    def claim_instance(self, obj: Any, entry: types.TypeEntry) -> bool:
        if not self.claim(obj):
            return False
        if not entry.has_dict:
            return True
        attributes = types.attributes_of(obj)
        if self.claim(attributes, STATE):
            return True
        self.unclaim(obj)
        seen = self.seen.get(id(attributes))
        if seen is not None and seen.column == ROW and id(attributes) not in self.excluded:
            raise Again(attributes)
        return False

    def put_on_roll(self, objects: Sequence[Any], where: Cells, build: int) -> int:
        first = self.rolled
        self.columns.append((first, build, objects, where))
        self.rolled += len(objects)
        return first

    def row_entries(
        self, obj: Any, entry: types.TypeEntry | None
    ) -> tuple[list[Any], list[Any], bool]:
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
            return len(obj) <= MAX_ARITY and all(
                self.is_plain_value(item, level + 3) for item in obj
            )
        if cls is dict or cls is list:
            return False
        entry = self.type_of(obj)
        return entry.form >= types.DATE and self.is_known_value(obj, entry, level)

    def is_known_value(self, obj: Any, entry: types.TypeEntry, level: int) -> bool:
        return types.is_known_value(
            obj,
            entry,
            lambda value: self.is_plain_value(value, level + 3),
            lambda zone: self.type_of(zone).form == types.ZONE and types.is_known_zone(zone),
        )

    def equals_itself(self, obj: Any) -> bool:
        cls = type(obj)
        if cls is float:
            return obj == obj
        if cls is tuple:
            return all(map(self.equals_itself, obj))
        if cls in (str, int, bytes, bool) or obj is None:
            return True
        return self.type_of(obj).form in (
            types.DATE,
            types.DATETIME,
            types.TIME,
            types.TIMEDELTA,
            types.UUID,
        )

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
            return (kind, 0) if flags & PLAIN or len(obj) < LONG_TEXT else PENDING_KIND
        if cls is int:
            return (INT if LOWEST <= obj <= HIGHEST else BIG), 0
        if cls is float:
            return FLOAT, 0
        if obj is None:
            return NONE, 0
        if cls is bool:
            return BOOL, 0
        if cls is dict or cls is list:
            return PENDING_KIND if flags & PLAIN else self.classify_container(obj, level)
        if cls is tuple:
            if not obj or (self.is_plain_value(obj, level) and self.is_fresh(obj, flags)):
                return TUPLE, len(obj)
            return PENDING_KIND
        if level > DEEPEST:
            return PENDING_KIND
        entry = self.type_of(obj)
        if entry.form == types.INSTANCE:
            return PENDING_KIND if flags & PLAIN else (INSTANCE, entry)
        if entry.form == types.REFERENCE:
            return PENDING_KIND if flags & PLAIN else self.classify_ref(obj, entry, level)
        if (
            entry.form >= types.DATE
            and self.is_known_value(obj, entry, level)
            and self.is_fresh(obj, flags)
        ):
            return VALUE, types.variant_of(obj, entry)
        return PENDING_KIND

    def classify_container(self, obj: Any, level: int) -> tuple[int, Any]:
        if level > DEEPEST or len(obj) >= LONG_ROW:
            return PENDING_KIND
        if type(obj) is dict:
            return (DICT, 0) if self.keys_are_plain(list(obj), level + 2) else PENDING_KIND
        if obj and self.classify(obj[0], level + 1, 0)[0] == PENDING:
            return PENDING_KIND
        return LIST, 0
