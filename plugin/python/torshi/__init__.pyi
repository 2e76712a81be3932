from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pickle import PickleBuffer as PickleBuffer
from pickle import PickleError as PickleError
from pickle import PicklingError as PicklingError
from pickle import Unpickler as Unpickler
from pickle import UnpicklingError as UnpicklingError
from typing import Any, ClassVar, Literal, Protocol

__version__: str
native: bool

_Reducers = Literal["chunked", "standard"] | None
_BufferCallback = Callable[[PickleBuffer], Any] | None

class _Writable(Protocol):
    def write(self, data: bytes, /) -> Any: ...

class _Readable(Protocol):
    def read(self, n: int, /) -> bytes: ...
    def readline(self) -> bytes: ...

class Pickler:
    bin: bool
    fast: bool
    dispatch_table: Mapping[type, Callable[[Any], str | tuple[Any, ...]]]
    memo: Any
    reducer_override: ClassVar[Callable[[Any, Any], Any]]
    def __init__(
        self,
        file: _Writable,
        protocol: int | None = None,
        fix_imports: bool = True,
        buffer_callback: _BufferCallback = None,
        *,
        reducers: _Reducers = None,
    ) -> None: ...
    def dump(self, obj: Any, /) -> None: ...
    def clear_memo(self) -> None: ...
    def persistent_id(self, obj: Any, /) -> Any: ...

def dump(
    obj: Any,
    file: _Writable,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: _BufferCallback = None,
    reducers: _Reducers = None,
) -> None: ...
def dumps(
    obj: Any,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: _BufferCallback = None,
    reducers: _Reducers = None,
) -> bytes: ...
def load(
    file: _Readable,
    *,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    errors: str = "strict",
    buffers: Iterable[Any] | None = (),
) -> Any: ...
def loads(
    data: Any,
    /,
    *,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    errors: str = "strict",
    buffers: Iterable[Any] | None = (),
) -> Any: ...

class Chunked:
    obj: Any
    def __init__(self, obj: dict[Any, Any] | list[Any]) -> None: ...

def register(
    cls: type,
    pickle_function: Callable[[Any], str | tuple[Any, ...]] | None = None,
    constructor_ob: Callable[..., Any] | None = None,
    *,
    owned: bool = False,
    value: bool = False,
) -> None: ...
def unregister(cls: type) -> None: ...
def reducer(
    cls: type, pickle_function: Callable[[Any], str | tuple[Any, ...]] | None = None, *, owned: bool = False
) -> Callable[[Any], str | tuple[Any, ...]]: ...
def chunk(target: Any, payload: Any, roll: list[Any] = ..., /, *externals: Any) -> Any: ...
def install() -> None: ...
def uninstall() -> None: ...
def registry() -> list[tuple[str, str, str, str]]: ...
def load_plugin(path: str | bytes | PathLike[str] | PathLike[bytes], /) -> None: ...
def function(module: str, name: str, /) -> Callable[..., Any]: ...

class Serialize:
    data: Any
    def __init__(self, data: Any) -> None: ...

class Serialized:
    header: Any
    frames: Any
    def __init__(self, header: Any, frames: Any) -> None: ...

to_serialize = Serialize

def extract_serialize(
    x: Any, /, *, types: Any = None
) -> tuple[Any, dict[tuple[Any, ...], Any], set[tuple[Any, ...]]]: ...
def insert_serialized(
    x: Any, ser: dict[tuple[Any, ...], Any], bytestrings: Iterable[tuple[Any, ...]] = (), /
) -> Any: ...

class ObjectRef:
    def __new__(cls, id: bytes, /, *, owner: bytes = b"", site: str | None = None) -> ObjectRef: ...
    @property
    def id(self) -> bytes: ...
    @property
    def owner(self) -> bytes: ...
    @property
    def site(self) -> str | None: ...
    def hex(self) -> str: ...

class RefLoad:
    outer: Any
    worker: Any
    def once(self, key: Any, make: Callable[[], Any], /) -> Any: ...
    def call_site(self) -> str: ...
    def instances(self, cls: type, names: Sequence[str], /, *columns: Sequence[Any]) -> list[Any]: ...

def object_ref(id: bytes, owner: bytes, site: str | None, /) -> ObjectRef: ...
def ref_count(id: bytes, /) -> int: ...
def ref_counts() -> dict[bytes, int]: ...
def register_ref(
    cls: type,
    /,
    *,
    reduce: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]] | None = None,
    batch: Callable[..., Sequence[Any]] | None = None,
    callables: Iterable[Callable[..., Any]] = (),
    outer: Callable[[], Any] | None = None,
    worker: Callable[[], Any] | None = None,
) -> None: ...
def unregister_ref(cls: type, /) -> None: ...
