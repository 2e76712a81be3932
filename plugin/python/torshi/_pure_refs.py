"""References on their way into columns: the twin of plugin/encode_ref.c, which says how and why."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _refs
from ._pure_scan import NOWHERE, PENDING_KIND, Cells, Limit, Other
from ._pure_types import REFERENCE, TypeEntry
from ._pure_wire import (
    BUILD_ITEM,
    C_BYTES,
    C_REFERENCE,
    MAX_ARITY,
    MAX_VALUES,
    PLAIN,
    SORTED,
    pack_lens,
    uvar,
)
from ._pure_wire import REFERENCE as KIND

if TYPE_CHECKING:
    from ._pure_write import Writer

LEAST_COST = 8
USUAL_ARGUMENTS = 8


class RefScan:
    """What all attempts at a block know about the references in it."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet  # outside of a dump: no reducer is called
        self.reductions: dict[
            int, tuple[Any, int, tuple[Any, ...]]
        ] = {}  # id -> object, signature, arguments
        self.signatures: list[tuple[Any, int]] = []  # callable, arguments
        self.wanted = self.extra = 0  # of the attempt at hand
        self.own_asked = self.reduced = False

    def reduction(self, obj: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """What a reducer returned for an object."""
        found = self.reductions.get(id(obj))
        return (self.signatures[found[1]][0], found[2]) if found else None

    def add(self, obj: Any, made_by: Any, args: tuple[Any, ...]) -> None:
        for number, (known, count) in enumerate(self.signatures):
            if known is made_by and count == len(args):
                break
        else:
            number = len(self.signatures)
            self.signatures.append((made_by, len(args)))
        self.reductions[id(obj)] = (obj, number, args)


def own_class() -> Any:
    """torshi.ObjectRef, native or not."""
    return sys.modules["torshi"].ObjectRef


def make_entry(refs: RefScan, obj: Any, hooks: bool) -> TypeEntry | None:
    """The entry of a reference's type, None for others."""
    cls = type(obj)
    own = cls is own_class()
    if not own and (refs.quiet or cls not in _refs._classes):
        return None
    if own and not hooks and cls not in copyreg.dispatch_table:
        refs.own_asked = True
    entry = TypeEntry(cls)
    entry.form = REFERENCE
    entry.own = own and refs.own_asked
    return entry


def classify(w: Writer, obj: Any, entry: TypeEntry, level: int) -> tuple[int, Any]:
    if entry.own:
        return KIND, entry
    if not w.refs.reduced:
        return KIND, 0
    found = w.refs.reductions.get(id(obj))
    if found is None or not all(w.is_plain_value(arg, level + 1) for arg in found[2]):
        return PENDING_KIND
    return KIND, found[1]


# ---- reducing
def reduce_all(
    w: Writer,
    steps: Callable[[], Any],
    find_reducer: Callable[[type], Any],
    protocol: int,
    memo_find: Any,
) -> None:
    """Call the reducers of the references among the values that steps() goes through, in pickle's order."""
    refs = w.refs
    refs.reduced = True
    for obj in steps():
        cls = type(obj)
        own = cls is own_class()
        known = _refs._classes.get(cls)
        if (not own and known is None) or id(obj) in refs.reductions or memo_find(obj) != -1:
            continue
        reducer = find_reducer(cls)
        if own and reducer is None:
            refs.own_asked = True
            continue
        result = obj.__reduce_ex__(protocol) if reducer is None else reducer(obj)
        if (
            type(result) is not tuple or len(result) != 2 or not callable(result[0])
            or type(result[1]) is not tuple or len(result[1]) > MAX_ARITY
        ):  # fmt: skip
            continue
        known = _refs._classes.get(cls)
        if known is not None:
            _refs.learn_callable(known, result[0])
            known.arguments = len(result[1])
        refs.add(obj, *result)


# ---- columns
def column(
    w: Writer, values: Sequence[Any], where: Cells, level: int, flags: int, kind: tuple[int, Any]
) -> None:
    refs = w.refs
    if not flags & SORTED:
        _claim(w, values, level, kind)
    own = type(values[0]) is own_class() and refs.own_asked
    if not own and not refs.reduced:
        _note(w, values, where)
        return
    made_by, count = (sys.modules["torshi"].object_ref, 3) if own else refs.signatures[kind[1]]
    number = w.external(made_by)
    w.head(C_REFERENCE)
    w.out += number + uvar(count)
    w.put_on_roll(values, where, BUILD_ITEM)
    if own:
        ids = [ref.id for ref in values]
        w.count(len(ids))
        width, lens = pack_lens(list(map(len, ids)))
        w.head(C_BYTES, width)
        w.out += lens + b"".join(ids)
        w.bound += sum(map(len, ids)) + 3 * len(ids)
        columns = [[ref.owner for ref in values], [ref.site for ref in values]]
    else:
        rows = [refs.reductions[id(obj)][2] for obj in values]
        columns = [[row[f] for row in rows] for f in range(count)]
    for arguments in columns:
        w.column(arguments, NOWHERE, level + 1, PLAIN)
    w.bound += len(values) * (5 if count == 0 else 6 if count < 4 else 7) - 2


def _claim(w: Writer, values: Sequence[Any], level: int, kind: tuple[int, Any]) -> None:
    for i, obj in enumerate(values):
        which, detail = w.classify(obj, level, 0)
        same = which == kind[0] and (
            detail is kind[1] or (type(detail) is int and detail == kind[1])
        )
        if not same or not w.claim(obj):
            for claimed in reversed(values[:i]):
                w.unclaim(claimed)
            raise Other


def _note(w: Writer, values: Sequence[Any], where: Cells) -> None:
    before = w.extra
    known = _refs._classes.get(type(values[0]))
    w.values += len(values) * ((known.arguments if known else 0) or USUAL_ARGUMENTS)
    if w.values > MAX_VALUES:
        raise Limit
    w.note_pending(values, where)
    w.refs.wanted += len(values)
    w.refs.extra += w.extra - before
