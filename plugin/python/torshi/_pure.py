"""torshi without the native engine: the same streams, read and written in pure Python, slower."""

from __future__ import annotations

import io
import pickle
from typing import Any

from ._pure_read import chunk

__all__ = ["Pickler", "Unpickler", "chunk", "dump", "dumps", "load", "loads"]

_MODES = ("chunked", "standard", None)


class Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """pickle.Pickler with `reducers=`: "chunked" (the default) or "standard"."""

    def __init__(
        self,
        file: Any,
        protocol: int | None = None,
        *,
        fix_imports: bool = True,
        buffer_callback: Any = None,
        reducers: str | None = None,
    ) -> None:
        if reducers not in _MODES:
            raise ValueError(f"reducers must be 'chunked', 'standard' or None, not {reducers!r}")
        super().__init__(file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback)


class Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """pickle.Unpickler."""


def dump(
    obj: Any,
    file: Any,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: Any = None,
    reducers: str | None = None,
) -> None:
    """pickle.dump with `reducers=`."""
    Pickler(file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback, reducers=reducers).dump(obj)


def dumps(
    obj: Any,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: Any = None,
    reducers: str | None = None,
) -> bytes:
    """pickle.dumps with `reducers=`."""
    file = io.BytesIO()
    Pickler(file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback, reducers=reducers).dump(obj)
    return file.getvalue()


def load(file: Any, *, fix_imports: bool = True, encoding: str = "ASCII", errors: str = "strict", buffers: Any = None) -> Any:
    """pickle.load."""
    return Unpickler(file, fix_imports=fix_imports, encoding=encoding, errors=errors, buffers=buffers).load()


def loads(data: Any, /, *, fix_imports: bool = True, encoding: str = "ASCII", errors: str = "strict", buffers: Any = None) -> Any:
    """pickle.loads."""
    if isinstance(data, str):
        raise TypeError("a bytes-like object is required, not 'str'")
    file = io.BytesIO(data)
    return Unpickler(file, fix_imports=fix_imports, encoding=encoding, errors=errors, buffers=buffers).load()
