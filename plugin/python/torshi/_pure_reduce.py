"""Columns outside of any dump in pure Python: the twin of plugin/reduce.c."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from . import _pure_wire as wire
from ._pure_pays import needs_roll, worth_trying
from ._pure_refs import RefScan
from ._pure_scan import Again, Decline, Limit, Origin, Seen
from ._pure_write import Writer

_FLAT, _NESTED, _SINGLE = 0, 1, 2
_IF_WORTH, _IF_SHORTER, _ALWAYS = 0, 1, 2
_MANY_KEYS = 64
_DEEPEST = wire.MAX_DEPTH


# ---- who else has an object ------------------------------------------------------------------------
def _below(obj: Any) -> list[Any]:
    """The containers that the values of a dict, list or instance are looked for in."""
    if type(obj) is dict or type(obj) is list:
        return [obj]
    cls = type(obj)
    if not cls.__flags__ & 1 << 9 or isinstance(obj, type):
        return []
    try:
        return [object.__getattribute__(obj, "__dict__")]
    except AttributeError:
        return []


def _find_shared(container: Any, shared: set[int], known: set[int], depth: int = 0) -> None:
    """Enter the ids of what is below a dict or list and has a second owner."""
    if depth > _DEEPEST or id(container) in known:
        return
    known.add(id(container))
    for value in container.values() if type(container) is dict else container:
        if type(value) in _ATOMS:
            continue
        if sys.getrefcount(value) > _ONE_OWNER:
            shared.add(id(value))
        for inner in _below(value):
            if (
                inner is not value and sys.getrefcount(inner) > _ONE_OWNER + 1
            ):  # the list of one has it, too
                shared.add(id(inner))
            if type(inner) is dict or type(inner) is list:
                _find_shared(inner, shared, known, depth + 1)


_ATOMS = frozenset((str, bytes, int, float, bool, type(None)))


def _count_owner() -> int:
    for value in [object()]:
        return sys.getrefcount(value)
    return 0


_ONE_OWNER = _count_owner()


# ---- one container ---------------------------------------------------------------------------------
def _index_cost(index: int) -> int:
    return 2 if index <= 0xFF else 3 if index <= 0xFFFF else 5


class _Reduction:
    """A container on its way into payloads."""

    def __init__(self, container: Any, shared: set[int], mode: int) -> None:
        self.container = container
        self.shared = shared
        self.mode = mode
        self.is_dict = isinstance(container, dict)
        self.values = list(dict.values(container) if self.is_dict else list.__iter__(container))
        self.keys: Sequence[Any] = (
            list(dict.keys(container)) if self.is_dict else range(len(self.values))
        )
        self.payloads: list[bytes] = []
        self.items: list[tuple[Any, Any]] = []
        self.single: list[int] = []
        self.externals: list[Any] = []
        self.excluded: dict[int, Any] = {}
        self.cost = self.bound = 0
        self.has_roll = False

    def add_item(self, row: int) -> None:
        value = self.values[row]
        if (type(value) is dict or type(value) is list) and id(value) not in self.shared:
            self.single.append(len(self.items))
        self.items.append((self.keys[row], value))

    def add_plain_items(self, w: Writer, start: int, values: list[Any]) -> None:
        for row, value in enumerate(values, start):
            if value is not self.values[row]:
                w.bound -= 1
                w.extra += wire.key_cost(self.keys[row]) if self.is_dict else _index_cost(row)
                self.add_item(row)

    def add_pending_items(self, w: Writer, start: int, values: list[Any]) -> None:
        rows = len(values)
        if (w.pending or rows < len(self.values) or self.mode == _SINGLE) and any(
            seen.column in (wire.ROW, wire.STATE) and id(seen.obj) in self.shared for seen in w.seen.values()
        ):
            raise Decline
        for origin, row, _ in w.pending:
            if origin.first or origin.place(row)[0]:
                raise Decline
        for _, row, _ in w.pending:
            if values[row] is self.values[start + row]:  # the None of a flat block has its item already
                self.add_item(start + row)

    def encode_block(self, w: Writer, start: int, rows: int) -> None:
        following = len(self.values) - start - rows
        keys = self.keys[start : start + rows] if self.is_dict else ()
        values = self.values[start : start + rows]
        w.seen[id(self.container)] = Seen(self.container, wire.ROW)
        self.shared.discard(id(self.container))
        if self.mode == _FLAT:
            values = [value if w.is_plain_value(value, 1) else None for value in values]
        w.out += wire.uvar(rows << 1 | (following != 0))
        if following:
            w.out += wire.uvar(following)
        origin = Origin(wire.PAIR if self.is_dict else wire.ITEM, 0, [rows], keys, start=start)
        if self.is_dict:
            if not w.keys_are_plain(keys, 1):
                raise Decline
            w.column(keys, (origin, None), 1, wire.PLAIN | wire.DISTINCT)
            if len(self.values) < _MANY_KEYS:
                w.bound = min(w.bound, 2 * rows)
        w.column(values, (origin, None), 1, 0)
        if self.mode == _FLAT:
            self.add_plain_items(w, start, values)
        self.add_pending_items(w, start, values)

    def new_writer(self) -> Writer:
        w = Writer(lambda obj: wire.ABSENT, False, self.excluded, RefScan(quiet=True))
        w.externals = self.externals[:]
        return w

    def encode(self) -> None:
        start, block = 0, wire.MAX_ROWS
        while start < len(self.values):
            rows = min(len(self.values) - start, block)
            w = self.new_writer()
            try:
                self.encode_block(w, start, rows)
            except Again as again:
                self.excluded[id(again.obj)] = again.obj
                continue
            except Limit:
                if rows == 1:
                    raise Decline from None
                block = (rows + 1) // 2
                continue
            size = len(w.out)
            self.payloads.append(bytes(w.out))
            self.cost += size + (2 if size < 256 else 5) + (18 if size >= 65536 else 0) + w.extra
            self.bound += w.bound
            self.has_roll = self.has_roll or needs_roll(w)
            self.externals = w.externals
            start += rows

    def pays(self, margin: int) -> bool:
        cost = self.cost + margin + 17 + (3 if self.has_roll else 0) + 2
        return cost + min(len(self.items), 2) < self.bound + 2

    def result(self) -> tuple[Any, ...]:
        payload: Any = self.payloads[0] if len(self.payloads) == 1 else tuple(self.payloads)
        tail = (payload, [], *self.externals) if self.has_roll else (payload,)
        return tail, self.items, self.single


def encode(container: Any, mode: int, when: int, margin: int) -> tuple[Any, ...] | None:
    """None, or (arguments of chunk from the payload on, pairs to set later, numbers of those whose
    value nobody else has)."""
    shared: set[int] = set()
    if mode != _FLAT:
        _find_shared(container, shared, set())
    for attempt in (_FLAT,) if mode == _FLAT else (mode, _FLAT):
        r = _Reduction(container, shared, attempt)
        if when == _IF_WORTH and not worth_trying(r.new_writer(), r.values):
            continue
        try:
            r.encode()
        except Decline:
            continue
        if when == _ALWAYS or r.pays(margin):
            return r.result()
    return None
