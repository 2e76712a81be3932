"""extract_serialize and its inverse in plain Python: the twin of plugin/extract.c, used where the
extension is missing, compared with it by tests and timed against it by the benchmarks."""

from __future__ import annotations

import sys
from typing import Any

BIG = 2**16  # byte strings longer than this are taken out


class Serialize:
    """Mark an object inside a message as one to be serialized on its own."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Serialize) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<Serialize: {self.data!r:.200}>"

    def __reduce__(self) -> tuple:
        return type(self), (self.data,)


class Serialized:
    """An object that is already serialized: a header and frames."""

    def __init__(self, header: Any, frames: Any) -> None:
        self.header = header
        self.frames = frames

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Serialized) and other.header == self.header and other.frames == self.frames

    def __reduce__(self) -> tuple:
        return type(self), (self.header, self.frames)


to_serialize = Serialize


def extract_serialize(x: Any, *, types: Any = None) -> tuple[Any, dict, set]:
    """Take Serialize objects and large byte strings out of a nested dict or list.

    Returns ``(x2, ser, bytestrings)``: a copy of ``x`` (exact dicts and lists at every level are fresh, leaves shared)
    without what was taken out (absent from dicts, ``None`` in lists); a dict from path tuples to the objects taken out, in
    the order of the walk; and the set of those paths whose value is a bytes or bytearray of more than 65,536 bytes,
    wrapped by ``types.to_serialize``. ``types`` is a module or namespace with Serialize, Serialized and to_serialize.
    Cycles and nesting beyond the recursion limit raise RecursionError. Anything but an exact dict or list comes back as it is.
    """
    ser: dict = {}
    bytestrings: set = set()
    if type(x) is not dict and type(x) is not list:
        return x, ser, bytestrings
    if types is None:
        wanted, wrap = (Serialize, Serialized), to_serialize
    else:
        wanted, wrap = (types.Serialize, types.Serialized), types.to_serialize
    limit = sys.getrecursionlimit()

    def walk(value: Any, path: tuple) -> Any:
        if len(path) >= limit:
            raise too_deep(path)
        if type(value) is dict:
            copy: Any = value.copy()
            pairs: Any = value.items()
        else:
            copy = value[:]
            pairs = enumerate(value)
        for key, item in list(pairs):
            kind = type(item)
            if kind is dict or kind is list:
                copy[key] = walk(item, path + (key,))
                continue
            if kind in wanted:
                ser[path + (key,)] = item
            elif (kind is bytes or kind is bytearray) and len(item) > BIG:
                bytestrings.add(path + (key,))
                ser[path + (key,)] = wrap(item)
            else:
                continue
            if type(value) is dict:
                del copy[key]
            else:
                copy[key] = None
        return copy

    def too_deep(path: tuple) -> RecursionError:
        return RecursionError(f"maximum recursion depth exceeded in extract_serialize, path begins {path[:8]!r:.400}")

    try:
        return walk(x, ()), ser, bytestrings
    except RecursionError as error:
        if "path begins" in str(error):
            raise
        raise too_deep(first_path(x)) from None


def first_path(x: Any) -> tuple:
    """The beginning of the way to the deepest container met first, for an error's message."""
    path: list = []
    while len(path) < 8:
        pairs = x.items() if type(x) is dict else enumerate(x)
        for key, item in pairs:
            if type(item) is dict or type(item) is list:
                path.append(key)
                x = item
                break
        else:
            break
    return tuple(path)


def insert_serialized(x: Any, ser: dict, bytestrings: Any = ()) -> Any:
    """Put back what extract_serialize took out, in place, and return ``x``.

    A path in ``bytestrings`` gets the wrapper's ``data``. What was taken out of a dict comes back at its end.
    """
    for path, value in list(ser.items()):
        if not isinstance(path, tuple) or not path:
            raise TypeError(f"a path must be a non-empty tuple, not {path!r:.200}")
        data = value.data if path in bytestrings else value
        here = x
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = data
    return x


def survey(x: Any, watch: tuple[type, ...]) -> tuple[list[type], list]:
    """The distinct exact types of the leaves of ``x`` in exact lists, tuples and dicts, and a list of the leaves whose type
    is in ``watch`` and of the byte strings above 64 KiB, whose type is not reported. RecursionError on cycles and depth."""
    types: dict[type, None] = {}
    watched: list = []

    def look(value: Any, depth: int) -> None:
        kind = type(value)
        if kind is list or kind is tuple or kind is dict:
            if depth == 500:
                raise RecursionError("maximum recursion depth exceeded in survey")
            for item in value.values() if kind is dict else value:
                look(item, depth + 1)
        elif (kind is bytes or kind is bytearray) and len(value) > BIG:
            watched.append(value)
        else:
            types[kind] = None
            if kind in watch:
                watched.append(value)

    look(x, 0)
    return list(types), watched
