"""When a chunk pays, and the payload of one block: the twin of plugin/cost.c."""

from __future__ import annotations

from typing import Any, Sequence

from ._pure_scan import Decline, Origin, Seen
from ._pure_wire import (
    FEW_ROWS,
    FIRST_LOOK,
    ITEM,
    LONG_ROW,
    MET_AGAIN,
    MUCH,
    MUCH_LEVELS,
    PAIR,
    PENDING,
    ROW,
    SMALL_ROWS,
    STATE,
    uvar,
)
from ._pure_write import Writer


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
    plain = (
        w.classify(values[i * n // FIRST_LOOK], 1, 0)[0] != PENDING for i in range(FIRST_LOOK)
    )
    return any(plain) if n >= SMALL_ROWS else all(plain)


def pays(w: Writer, chunk: Any, has_roll: bool) -> bool:
    size = len(w.out)
    cost = (
        size + (w.met_cost(chunk) or 17) + (2 if size < 256 else 5) + (18 if size >= 65536 else 0)
    )
    cost += 3 if has_roll else 0
    again = _count_met_again(w)
    return again is not None and cost + 2 + w.extra + again < w.bound + 2


def _count_met_again(w: Writer) -> int | None:
    """What it takes to push rows met again in their chunk; None: an instance's dict is met again."""
    rolled = {id(obj) for _, _, objects, _ in w.columns for obj in objects}
    again = set()
    for _, _, value in w.pending:
        seen = w.seen.get(id(value))
        if seen is not None and seen.column == STATE:
            return None
        if seen is not None and seen.column == ROW and id(value) in rolled:
            again.add(id(value))
    return MET_AGAIN * len(again)


def needs_roll(w: Writer) -> bool:
    return w.rolled > 1 or bool(w.externals)


def encode_rows(
    w: Writer, target: Any, keys: Sequence[Any], values: Sequence[Any], following: int, start: int
) -> None:
    is_dict = type(target) is dict
    if id(target) in w.excluded:
        raise Decline
    w.seen[id(target)] = Seen(target, ROW)
    origin = Origin(PAIR if is_dict else ITEM, 0, [len(values)], keys, start=start)
    w.out += uvar(len(values) << 1 | (following != 0))
    if following:
        w.out += uvar(following)
    if is_dict:
        w.keys(keys, (origin, None))
    w.column(values, (origin, None), 1, 0)
