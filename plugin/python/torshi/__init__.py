"""A faster, smaller pickle.

`torshi.dumps`, `dump`, `loads`, `load`, `Pickler` and `Unpickler` take the arguments of their
`pickle` namesakes; those that write also take `reducers=`: "chunked" (homogeneous data becomes
columns) or "standard" (the bytes of pickle). Everything written is a legal pickle, which any
unpickler reads that can import this package.

The native engine is used where there is one for this interpreter, and otherwise the pure-Python
module that reads and writes the same bytes.
"""

from __future__ import annotations

from pickle import PickleBuffer, PickleError, PicklingError, UnpicklingError

from ._engine import engine as _engine
from ._install import install, uninstall
from ._register import Chunked, reducer, register, unregister

__version__ = "0.1.0"
__all__ = [
    "Chunked",
    "ObjectRef",
    "PickleBuffer",
    "PickleError",
    "Pickler",
    "PicklingError",
    "Serialize",
    "Serialized",
    "Unpickler",
    "UnpicklingError",
    "chunk",
    "dump",
    "dumps",
    "extract_serialize",
    "function",
    "insert_serialized",
    "install",
    "load",
    "load_plugin",
    "loads",
    "native",
    "object_ref",
    "reducer",
    "ref_count",
    "ref_counts",
    "register",
    "register_ref",
    "registry",
    "to_serialize",
    "uninstall",
    "unregister",
    "unregister_ref",
]

native: bool = _engine is not None
"""Whether the native engine is at work."""

if _engine is not None:
    # A host in standard mode has not loaded it: its own pickle has no use for the plugin.
    _engine.load_default_plugin()

    from_engine = _engine.__dict__
    Pickler = from_engine["Pickler"]
    Unpickler = from_engine["Unpickler"]
    dump = from_engine["dump"]
    dumps = from_engine["dumps"]
    load = from_engine["load"]
    loads = from_engine["loads"]
    function = from_engine["function"]
    registry = from_engine["registry"]
    chunk = function("torshi", "chunk")
    extract_serialize = function("torshi", "extract_serialize")
    insert_serialized = function("torshi", "insert_serialized")
    Serialize, Serialized, to_serialize = function("torshi", "_serialize_types")()
    ObjectRef, RefLoad = function("torshi", "_ref_types")()
    object_ref = function("torshi", "object_ref")
    ref_count = function("torshi", "ref_count")
    ref_counts = function("torshi", "ref_counts")
    register_ref = function("torshi", "register_ref")
    unregister_ref = function("torshi", "unregister_ref")
    del from_engine

    def _publish() -> None:
        """Functions that plugins registered for this module become its attributes. By a __getattr__ they
        could, too, but with one the interpreter looks up every attribute the slow way: half the time of
        a small torshi.dumps()."""
        for kind, name, *_ in registry():
            module, _, function_name = name.rpartition(".")
            if kind == "function" and module == __name__ and not function_name.startswith("_"):
                globals().setdefault(function_name, function(module, function_name))

    def load_plugin(path: str, /) -> None:
        """Load a plugin of the native engine. ImportError when it is refused."""
        _engine.load_plugin(path)
        _publish()

    _publish()
else:
    from ._extract import Serialize, Serialized, extract_serialize, insert_serialized, to_serialize
    from ._pure import Pickler, Unpickler, chunk, dump, dumps, load, loads
    from ._refs import ObjectRef, RefLoad, object_ref, ref_count, ref_counts, register_ref, unregister_ref

    Pickler.__module__ = Unpickler.__module__ = chunk.__module__ = __name__

    def registry() -> list[tuple[str, str, str, str]]:
        """The registration table: empty without the native engine."""
        return []

    def function(module: str, name: str, /) -> object:
        """The function that a plugin registered under these names: none without the engine."""
        raise LookupError(f"no plugin has a function {module}.{name}")

    def load_plugin(path: str, /) -> None:
        """Plugins need the native engine, which is not there."""
        raise ImportError(f"plugin {path}: this Python has no native torshi engine", path=path)

# So that they pickle under the name they have everywhere: built in, extension or pure Python.
for _function in (dump, dumps, load, loads, function, load_plugin, registry, register, unregister, reducer, Chunked):
    _function.__module__ = __name__
del _function

