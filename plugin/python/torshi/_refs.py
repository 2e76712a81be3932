"""Object references in pure Python: what plugin/refs.c, ref_load.c and object_ref.c do, slower."""

from __future__ import annotations

import copyreg
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_SITE_FRAMES = 4
_CALLABLES = 8


class ObjectRef:
    """A reference to an object that is elsewhere. References are equal when their ids are, and each is
    counted (torshi.ref_count) from when it is made until it is gone."""

    __slots__ = ("__weakref__", "_id", "_owner", "_site")
    _id: bytes
    _owner: bytes
    _site: str | None

    def __new__(cls, id: bytes, /, *, owner: bytes = b"", site: str | None = None) -> ObjectRef:
        return object_ref(id, owner, site)

    @property
    def id(self) -> bytes:
        """The id, bytes."""
        return self._id

    @property
    def owner(self) -> bytes:
        """Address of the owner, bytes."""
        return self._owner

    @property
    def site(self) -> str | None:
        """Where it was made: str or None."""
        return self._site

    def hex(self) -> str:
        """The id in hexadecimal."""
        return self._id.hex()

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if type(other) is ObjectRef else NotImplemented

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"torshi.ObjectRef({self._id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return object_ref, (self._id, self._owner, self._site)


ObjectRef.__module__ = "torshi"
_counts: dict[bytes, int] = {}


def _gone(id: bytes) -> None:
    _counts[id] -= 1
    if not _counts[id]:
        del _counts[id]


def object_ref(id: bytes, owner: bytes, site: str | None, /) -> ObjectRef:
    """An ObjectRef; what one pickles as a call of."""
    if type(id) is not bytes:
        raise TypeError(f"ObjectRef: id must be bytes, not {type(id).__name__}")
    if type(owner) is not bytes:
        raise TypeError(f"ObjectRef: owner must be bytes, not {type(owner).__name__}")
    if site is not None and type(site) is not str:
        raise TypeError(f"ObjectRef: site must be str or None, not {type(site).__name__}")
    ref = object.__new__(ObjectRef)
    ref._id, ref._owner, ref._site = id, owner, site
    _counts[id] = _counts.get(id, 0) + 1
    weakref.finalize(ref, _gone, id).atexit = False
    return ref


object_ref.__module__ = "torshi"


def ref_count(id: bytes, /) -> int:
    """How many ObjectRefs with this id are alive."""
    return _counts.get(id, 0)


def ref_counts() -> dict[bytes, int]:
    """The same for every id that there is, as a dict."""
    return dict(_counts)


# ---- registered classes
class _RefClass:
    def __init__(
        self, cls: type, reduce: Any, batch: Any, callables: list[Any], outer: Any, worker: Any
    ) -> None:
        self.cls = cls
        self.reduce = reduce
        self.batch = batch
        self.callables = callables
        self.callables_given = bool(
            callables
        )  # else the class and what its reducers return are added
        self.outer = outer
        self.worker = worker
        self.arguments = 0  # of the last reduction
        self.replaced: Any = None  # in copyreg.dispatch_table

    def makes(self, made_by: Any) -> bool:
        return (made_by is self.cls and not self.callables_given) or any(
            made_by is c for c in self.callables
        )

    def publish(self) -> None:
        """Put the reducer where every pickler looks."""
        if self.reduce is not None:
            self.replaced = copyreg.dispatch_table.get(self.cls)
            copyreg.dispatch_table[self.cls] = self.reduce

    def withdraw(self) -> None:
        if self.reduce is not None and copyreg.dispatch_table.get(self.cls) is self.reduce:
            if self.replaced is None:
                del copyreg.dispatch_table[self.cls]
            else:
                copyreg.dispatch_table[self.cls] = self.replaced


_classes: dict[type, _RefClass] = {}


def register_ref(
    cls: type,
    /,
    *,
    reduce: Callable[[Any], tuple[Any, tuple[Any, ...]]] | None = None,
    batch: Callable[..., Sequence[Any]] | None = None,
    callables: Iterable[Callable[..., Any]] = (),
    outer: Callable[[], Any] | None = None,
    worker: Callable[[], Any] | None = None,
) -> None:
    """Objects of exactly cls are references: many of one class become a column for each argument.
    docs/references.md has the contract."""
    if not isinstance(cls, type):
        raise TypeError(f"register_ref: a class is needed, not {cls!r}")
    made = list(callables)
    for name, value in [("reduce", reduce), ("batch", batch), ("outer", outer), ("worker", worker)]:
        if value is not None and not callable(value):
            raise TypeError(f"register_ref: {name} must be callable, not {value!r}")
    for value in made:
        if not callable(value):
            raise TypeError(f"register_ref: callables must be callable, not {value!r}")
    if len(made) > _CALLABLES:
        raise ValueError(f"register_ref: more than {_CALLABLES} callables")
    if cls in _classes:
        _classes[cls].withdraw()
    _classes[cls] = _RefClass(cls, reduce, batch, made, outer, worker)
    _classes[cls].publish()


def unregister_ref(cls: type, /) -> None:
    """Undo register_ref; ValueError if there is nothing to undo."""
    known = _classes.pop(cls, None)
    if known is None:
        raise ValueError(f"unregister_ref: {cls!r} is not registered")
    known.withdraw()


def learn_callable(known: _RefClass, made_by: Any) -> None:
    """Note that a callable makes references of a class."""
    if not known.callables_given and not known.makes(made_by) and len(known.callables) < _CALLABLES:
        known.callables.append(made_by)


def class_of(made_by: Any) -> _RefClass | None:
    """The registered class that a callable makes, if it has a batch and is the only one."""
    found = [c for c in _classes.values() if c.makes(made_by)]
    return found[0] if len(found) == 1 and found[0].batch is not None else None


# ---- a load at work
class RefLoad:
    """What all references of one load have in common."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}
        self._facts: dict[int, Any] = {}
        self._frame: Any = sys._getframe(1)
        self._site: str | None = None
        self._at_work: _RefClass | None = None
        self._ended = False

    def end(self) -> None:
        """Let go of everything."""
        self._ended = True
        self._kept, self._facts, self._frame, self._site = {}, {}, None, None

    def _check(self) -> None:
        if self._ended:
            raise RuntimeError("this load is over")

    def once(self, key: Any, make: Callable[[], Any], /) -> Any:
        """make(), called the first time and kept under key until the load ends."""
        self._check()
        if key not in self._kept:
            self._kept.setdefault(key, make())
        return self._kept[key]

    def call_site(self) -> str:
        """Where the code that called load is: 'file:function:line', innermost first."""
        self._check()
        if self._site is None:
            self._site = _walk(self._frame)
        return self._site

    def instances(self, cls: type, names: Sequence[str], /, *columns: Sequence[Any]) -> list[Any]:
        """A list of instances, made as an unpickler would: cls.__new__(cls), then names set from columns, one row an
        instance."""
        from ._pure_read import _build, _new

        if not isinstance(cls, type) or not names or len(names) != len(columns):
            raise TypeError("instances() takes a class, names, and a column for each name")
        for column in columns:
            if len(column) != len(columns[0]):
                raise ValueError(f"instances: columns of {len(columns[0])} and {len(column)} items")
        slots = cls.__dictoffset__ == 0
        made = []
        for row in zip(*columns):
            made.append(_new(cls))
            _build(made[-1], list(zip(names, row)), slots)
        return made

    def _fact(self, function: Any) -> Any:
        self._check()
        if function is None:
            return None
        if id(function) not in self._facts:
            self._facts.setdefault(id(function), function())
        return self._facts[id(function)]

    @property
    def outer(self) -> Any:
        """The object that the references are in: what register_ref's outer() returned, once a load."""
        return self._fact(self._at_work and self._at_work.outer)

    @property
    def worker(self) -> Any:
        """Who loads: what register_ref's worker() returned, once a load."""
        return self._fact(self._at_work and self._at_work.worker)


def _walk(frame: Any) -> str:
    lines: list[str] = []
    while frame is not None and len(lines) < _SITE_FRAMES:
        name = frame.f_globals.get("__name__", "")
        if lines or not (name in ("pickle", "torshi") or name.startswith("torshi.")):
            lines.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " | ".join(lines)


def make_batch(load: RefLoad, known: _RefClass, columns: list[list[Any]], rows: int) -> list[Any]:
    """One call of the class's batch."""
    before, load._at_work = load._at_work, known
    try:
        made = list(known.batch(load, *columns))
    finally:
        load._at_work = before
    if len(made) != rows:
        raise ValueError(f"batch of {known.cls!r} returned {len(made)} references for {rows} rows")
    return made
