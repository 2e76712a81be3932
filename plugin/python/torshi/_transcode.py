"""Turns a torshi stream into a standard pickle without importing anything that it names.

For those who pass streams on and may not load them, such as Dask's scheduler with a message for a worker that has no torshi. What
the stream names is loaded as stand-ins that note what is done to them, and written again as the same steps.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Callable, Iterable

import torshi


class _Named(type):
    """The type of stand-ins for what a stream names: classes, so that all that makes objects of classes works on them."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(cls)
        made._begin(pickle.REDUCE, args, kwargs)
        return made


class _Made:
    """A stand-in for an object: how it was made, and what was done to it since."""

    __slots__ = ("opcode", "args", "kwargs", "steps")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(cls)
        made._begin(pickle.NEWOBJ_EX if kwargs else pickle.NEWOBJ, args, kwargs)
        return made

    def _begin(self, opcode: bytes, args: tuple, kwargs: dict) -> None:
        self.opcode, self.args, self.kwargs = opcode, args, kwargs
        self.steps: list[tuple[bytes, tuple]] = []

    def __setstate__(self, state: Any) -> None:
        self.steps.append((pickle.BUILD, (state,)))

    def append(self, item: Any) -> None:
        self.steps.append((pickle.APPEND, (item,)))

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def add(self, item: Any) -> None:
        self.steps.append((pickle.MARK, (item,)))  # ADDITEMS: its mark comes first

    def __setitem__(self, key: Any, value: Any) -> None:
        self.steps.append((pickle.SETITEM, (key, value)))


def _chunk(*args: Any) -> Any:
    """torshi.chunk; where its target is a class, what it would fill the instance with becomes steps."""
    if not args or type(args[0]) is not _Named:
        return torshi.chunk(*args)
    made = args[0].__new__(args[0])
    try:
        made.extend(torshi.chunk([], *args[1:]))
    except pickle.UnpicklingError:  # there is a second column: a dict's
        for key, value in torshi.chunk({}, *args[1:]).items():
            made[key] = value
    return made


class _Reader(torshi.Unpickler):
    def __init__(self, data: Any, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self.named: dict[tuple[str, str], type] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torshi", "chunk"):
            return _chunk
        key = (module, name)
        if key not in self.named:
            self.named[key] = _Named("_Made", (_Made,), {"__slots__": (), "names": key})
        return self.named[key]


class _Writer(pickle._Pickler):  # type: ignore[name-defined,misc]
    """pickle's own writer, which is Python and can be extended at every place."""

    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_named(self, named: Any) -> None:
        self.save(named.names[0])
        self.save(named.names[1])
        self.write(pickle.STACK_GLOBAL)
        self.memoize(named)

    dispatch[_Named] = save_named

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(type(obj)) is not _Named:
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        else:
            self.framer.commit_frame()
            self.save_made(obj)

    def save_made(self, made: Any) -> None:
        self.save(type(made))
        self.save(made.args)
        if made.opcode == pickle.NEWOBJ_EX:
            self.save(made.kwargs)
        self.write(made.opcode)
        self.memoize(made)
        for opcode, values in made.steps:
            if opcode == pickle.MARK:
                self.write(pickle.MARK)
            for value in values:
                self.save(value)
            self.write(pickle.ADDITEMS if opcode == pickle.MARK else opcode)


def to_standard(
    stream: Any, buffers: Iterable[Any], buffer_callback: Callable[[Any], Any]
) -> bytes:
    """The standard pickle, protocol 5, of what a torshi stream holds; ``buffers`` go through ``buffer_callback`` again."""
    value = _Reader(stream, map(pickle.PickleBuffer, buffers)).load()
    out = io.BytesIO()
    _Writer(out, 5, buffer_callback=buffer_callback).dump(value)
    return out.getvalue()
