"""Dask carrying chunks: a serialization family ``torshi`` for ``distributed``, and messages with many markers in one piece.

Call ``enable()`` in the processes that are to use it: in the client, and through ``--preload torshi.dask`` (or the
``distributed.*.preload`` configuration) in scheduler and workers. Connections made from then on say in their handshake that this
side reads torshi streams, and such streams go only where both ends have said so. A process without torshi gets what stock Dask
would send it; a scheduler that passes a torshi stream on to one turns it into a standard pickle on the way, without loading it.

What changes between two that read it:

- lists, dicts, tuples and sets of plain data (also dataclasses, and numpy arrays) become one torshi stream, where stock Dask walks
  them and serializes item by item; the buffers of arrays stay frames of their own. A collection with anything inside that Dask has
  a serializer of its own for, or with markers (``to_serialize``), is walked by Dask as ever, and its parts are offered again;
- small values marked with ``to_serialize`` travel inside the message when there are many of them.

``Client(serializers=["torshi", "dask", "pickle"])`` is possible and not needed: without ``serializers`` the family is used where
it can be. With a list that lacks it, it is not.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from types import SimpleNamespace
from typing import Any, Callable

import torshi

from ._transcode import to_standard

NAME = "torshi"
VERSION = 1  # of the message format and of what a family header holds
KEY = "torshi"  # in the handshake

COLLECTIONS = (list, dict, tuple, set)
ATOMS = frozenset({int, float, complex, str, bool, type(None)})
PLAIN = ATOMS | {bytes, bytearray, set, frozenset}
FEW_ITEMS = 1000  # below this, byte strings above 64 KiB inside are better off as frames of Dask's
MANY_BUFFERS = 1024  # from here on, only buffers above SMALL_BUFFER become frames
SMALL_BUFFER = 4096
MANY_MARKERS = 16  # in one message, to make it worth while
SMALL_STREAM = 4096  # a marked value above this is a frame of its own

MAGIC = b"\xc1torshi\x01"  # C1 begins nothing in msgpack
STREAM, REST = 0x71, 0x72  # extension types within a message

_survey = torshi.function("torshi", "_survey") if torshi.native else None
if _survey is None:
    from ._extract import survey as _survey

_stock: dict[str, Any] = {}  # what is called by the functions that take their places
_replaced: list[tuple[Any, str, Any]] = []  # owner, name, what was there; empty when not enabled
_sent = {"messages": 0, "bytes": 0}  # see sent()
_sent_lock = threading.Lock()
_local = threading.local()  # .reads: whether the message being written is for one who reads torshi


def _serialize_module() -> Any:
    """The module; the attribute of that name of the package ``distributed.protocol`` is the function."""
    import distributed.protocol  # noqa: F401

    return sys.modules["distributed.protocol.serialize"]


def _reads(context: dict[str, Any] | None) -> bool:
    """Whether the other end of the connection said that it reads torshi streams. (Not asked: the protocol agreed on for pickles,
    which the scheduler keeps at 4 towards workers of whatever version.)"""
    return bool(context) and (context.get("recipient") or {}).get(KEY) == VERSION


# ---- the family --------------------------------------------------------------------------------------------------------
def _has_own_serializer(kind: type, module: Any) -> bool:
    try:
        module.dask_serialize.dispatch(kind)
    except TypeError:
        return False
    return True


def _is_plain(x: Any, module: Any) -> bool:
    """Whether a collection may become one stream: nothing inside that Dask has to look at itself."""
    import cloudpickle

    numpy = sys.modules.get("numpy")
    arrays: tuple[type, ...] = (numpy.ndarray,) if numpy else ()
    try:
        kinds, watched = _survey(list(x) if type(x) is set else x, arrays)
    except RecursionError:
        return False
    for kind in kinds:
        if kind in PLAIN or kind in arrays:
            continue
        if kind in (module.Serialize, module.Serialized, module.ToPickle, module.Pickled):
            return False
        if _has_own_serializer(kind, module):
            return False
        if cloudpickle.list_registry_pickle_by_value() and _by_value(kind.__module__):
            return False
    for item in watched:
        if type(item) in arrays:
            if 0 in item.strides and item.size:  # a view of one row many times: Dask sends the row
                return False
        elif len(x) < FEW_ITEMS:
            return False
    return True


def _by_value(module_name: str | None) -> bool:
    import cloudpickle

    return module_name in cloudpickle.list_registry_pickle_by_value()


def dumps(x: Any, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], list]:
    """Header and frames of ``x``; NotImplementedError hands it on to the next family."""
    if context is not None and not _reads(context):
        raise NotImplementedError("the other side does not read torshi streams")
    if type(x) in ATOMS:
        return {"serializer": NAME, "writeable": ()}, [torshi.dumps(x, 5)]
    module = _serialize_module()
    if type(x) in COLLECTIONS:
        if not _is_plain(x, module):
            raise NotImplementedError("for Dask to walk")
    elif type(x) is not frozenset:
        if _has_own_serializer(type(x), module) or _by_value(getattr(x, "__module__", None)):
            raise NotImplementedError("for Dask")
    frames: list[Any] = [None]

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if len(frames) > MANY_BUFFERS and raw.nbytes < SMALL_BUFFER:
            return True
        frames.append(raw)
        return False

    try:
        frames[0] = torshi.dumps(x, 5, reducers="chunked", buffer_callback=take)
    except Exception as error:  # pickle's family can ask cloudpickle, and has the error message otherwise
        raise NotImplementedError(str(error)) from error
    if b"__main__" in frames[0]:  # the other side's __main__ is another one: cloudpickle's case
        raise NotImplementedError("objects of __main__")
    return {"serializer": NAME, "writeable": tuple(not frame.readonly for frame in frames[1:])}, frames


def _buffers(header: dict[str, Any], frames: list) -> list[memoryview]:
    """The frames behind the stream, writable or not as they were; copied only where a writable one came read-only."""
    buffers = []
    for frame, writeable in zip(frames[1:], header["writeable"]):
        view = memoryview(frame)
        if writeable and view.readonly:
            view = memoryview(bytearray(view))
        buffers.append(view if writeable else view.toreadonly())
    return buffers


def loads(header: dict[str, Any], frames: list) -> Any:
    """What dumps was given."""
    return torshi.loads(frames[0], buffers=_buffers(header, frames))


def _refuse(x: Any, context: dict[str, Any] | None = None) -> Any:
    raise NotImplementedError("torshi.dask is disabled")


# ---- offering collections whole ------------------------------------------------------------------------------------------
class _Ready:
    """Stands for a marked value that is serialized already. Made a subclass of Dask's Serialize by _ready_class."""

    def __init__(self, data: Any, result: tuple[dict, list]) -> None:
        self.data = data
        self.result = result


@functools.cache
def _ready_class() -> type:
    return type("Ready", (_Ready, _serialize_module().Serialize), {})


def _is_asked_first(serializers: Any, context: dict[str, Any] | None) -> bool:
    """Whether the family comes before all that would take a plain collection too."""
    if serializers is None:
        return _reads(context)
    for name in serializers:
        if name == NAME:
            return context is None or _reads(context)
        if name not in ("dask", "cuda"):
            break
    return False


def _serialize(
    x: Any, serializers: Any = None, on_error: str = "message", context: Any = None, iterate_collection: bool | None = None
) -> tuple[dict, list]:
    """Takes the place of the function ``serialize`` in the module of that name."""
    module = _serialize_module()
    if isinstance(x, _Ready):
        return x.result
    if serializers is None and _reads(context):
        serializers = ("dask", NAME, "pickle")
    if _is_asked_first(serializers, context):
        is_marked = type(x) is module.Serialize
        data = x.data if is_marked else x
        if type(data) in ATOMS or (type(data) in COLLECTIONS and (is_marked or not iterate_collection)):
            try:
                return dumps(data, context)
            except NotImplementedError:
                pass
    return _stock["serialize"](x, serializers, on_error, context, iterate_collection)


# ---- messages ------------------------------------------------------------------------------------------------------------
def _is_small(header: dict[str, Any], frames: list) -> bool:
    """Whether the serialized value is a short torshi stream and nothing else."""
    compression = header.get("compression") or (None,)
    if header.get("serializer") != NAME or len(frames) != 1 or any(compression):
        return False
    return memoryview(frames[0]).nbytes <= SMALL_STREAM


def _count_markers(msg: Any, module: Any) -> int:
    try:
        _, watched = _survey(msg, (module.Serialize, module.Serialized))
    except RecursionError:
        return 0
    return len(watched)


def _message_dumps(
    msg: Any, serializers: Any = None, on_error: str = "message", context: Any = None, frame_split_size: Any = None
) -> list:
    """Takes the place of ``distributed.protocol.dumps``."""
    frames = _message_frames(msg, serializers, on_error, context, frame_split_size)
    size = sum(memoryview(frame).nbytes for frame in frames)
    with _sent_lock:
        _sent["messages"] += 1
        _sent["bytes"] += size
    return frames


def sent() -> dict[str, int]:
    """How many messages, of how many bytes together, this process has written since torshi.dask was imported and enabled. For
    all workers: ``client.run(torshi.dask.sent)``."""
    return dict(_sent)


def _message_frames(msg: Any, serializers: Any, on_error: str, context: Any, frame_split_size: Any) -> list:
    stock = functools.partial(
        _stock["dumps"], serializers=serializers, on_error=on_error, context=context, frame_split_size=frame_split_size
    )
    module = _serialize_module()
    _local.reads = _reads(context)
    try:
        if not _local.reads:
            return stock(_for_stranger(msg, module))
        if _is_asked_first(serializers, context) and _count_markers(msg, module) >= MANY_MARKERS:
            frames = _dumps_markers(msg, stock, module, serializers, on_error, context)
            if frames is not None:
                return frames
        return stock(msg)
    finally:
        _local.reads = False


def _dumps_markers(msg: Any, stock: Callable, module: Any, serializers: Any, on_error: str, context: Any) -> list | None:
    """The message with small marked values inside of it, what is not small following as a message of Dask's own; or None."""
    import msgpack
    from distributed.protocol.compression import maybe_compress

    rest: list = []

    def set_aside(obj: Any) -> Any:
        rest.append(obj)
        return msgpack.ExtType(REST, (len(rest) - 1).to_bytes(4, "little"))

    def encode(obj: Any) -> Any:
        if type(obj) is module.Serialize and type(obj.data) in ATOMS:
            stream = torshi.dumps(obj.data, 5)
            if len(stream) <= SMALL_STREAM:
                return msgpack.ExtType(STREAM, stream)
        if type(obj) is module.Serialize:
            header, frames = _serialize(obj, serializers, on_error, context)
            if _is_small(header, frames):
                return msgpack.ExtType(STREAM, bytes(frames[0]))
            return set_aside(_ready_class()(obj.data, (header, frames)))
        if type(obj) is module.Serialized and _is_small(obj.header, obj.frames):
            return msgpack.ExtType(STREAM, bytes(obj.frames[0]))
        if isinstance(obj, (module.Serialize, module.Serialized)):
            return set_aside(obj)
        encoded = module.msgpack_encode_default(obj)
        return set_aside(obj) if encoded is obj else encoded

    try:
        body = msgpack.dumps(msg, default=encode, use_bin_type=True)
    except Exception:  # stock Dask meets the same and knows what to do, or what to say
        return None
    compression, body = maybe_compress(body, compression=(context or {}).get("compression", "auto"))
    return [MAGIC + (compression or "").encode(), body, *(stock(rest) if rest else ())]


def _message_loads(frames: list, deserialize: bool = True, deserializers: Any = None) -> Any:
    """Takes the place of ``distributed.protocol.loads``."""
    if not frames or bytes(memoryview(frames[0])[: len(MAGIC)]) != MAGIC:
        return _stock["loads"](frames, deserialize=deserialize, deserializers=deserializers)
    import msgpack
    from distributed.protocol.compression import decompress
    from distributed.protocol.utils import msgpack_opts

    module = _serialize_module()
    if deserialize and deserializers is not None and NAME not in deserializers:
        raise TypeError(f"Data serialized with {NAME} but only able to deserialize data with {list(deserializers)}")
    compression = bytes(frames[0])[len(MAGIC) :].decode() or None
    (body,) = decompress({"compression": (compression,)}, [frames[1]])
    rest = _stock["loads"](frames[2:], deserialize=deserialize, deserializers=deserializers) if len(frames) > 2 else ()

    def decode(code: int, data: bytes) -> Any:
        if code == STREAM:
            return torshi.loads(data) if deserialize else module.Serialized({"serializer": NAME, "writeable": ()}, [data])
        if code == REST:
            return rest[int.from_bytes(data, "little")]
        return msgpack.ExtType(code, data)

    return msgpack.loads(
        body, object_hook=module.msgpack_decode_default, ext_hook=decode, use_list=False, **msgpack_opts
    )


# ---- for those who do not read it ------------------------------------------------------------------------------------------
def _for_stranger(msg: Any, module: Any) -> Any:
    """The message without our family in a request for an answer, and with torshi streams passed on turned into pickles."""
    if type(msg) is dict:
        names = msg.get("serializers")
        if type(names) in (list, tuple) and NAME in names:
            msg = {**msg, "serializers": [name for name in names if name != NAME] or ["dask", "pickle"]}
    try:
        _, held = _survey(msg, (module.Serialized,))
    except RecursionError:
        return msg
    if any(type(x) is module.Serialized and _mentions_torshi(x.header) for x in held):
        return _with_pickles(msg, module)
    return msg


def _with_pickles(x: Any, module: Any) -> Any:
    """A copy in which no serialized value is a torshi stream."""
    if type(x) is dict:
        return {key: _with_pickles(value, module) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)([_with_pickles(item, module) for item in x])
    if type(x) is module.Serialized and _mentions_torshi(x.header):
        return module.Serialized(*_translate(x.header, x.frames))
    return x


def _mentions_torshi(header: dict[str, Any]) -> bool:
    return header.get("serializer") == NAME or any(map(_mentions_torshi, header.get("sub-headers", ())))


def _translate(header: dict[str, Any], frames: list) -> tuple[dict[str, Any], list]:
    """What a torshi header and its frames hold, for one who knows Dask's families only; nothing is loaded."""
    from distributed.protocol.compression import decompress
    from distributed.protocol.utils import host_array_from_buffers

    if "compression" in header:
        frames = decompress(header, frames)
    if "split-num-sub-frames" in header:
        parts = zip(header["split-num-sub-frames"], header["split-offsets"])
        split = [frames[offset : offset + n] for n, offset in parts]
        frames = [part[0] if len(part) == 1 else host_array_from_buffers(part) for part in split]
    return _translate_whole(header, frames)


def _translate_whole(header: dict[str, Any], frames: list) -> tuple[dict[str, Any], list]:
    dropped = ("compression", "split-num-sub-frames", "split-offsets", "num-sub-frames")
    header = {key: value for key, value in header.items() if key not in dropped}
    if header.get("serializer") == NAME:
        header["serializer"] = "pickle"
        if b"torshi" not in bytes(frames[0]):  # no chunk inside: it is a standard pickle
            return header, frames
        out: list = [None]
        out[0] = to_standard(frames[0], _buffers(header, frames), lambda buffer: out.append(buffer.raw()))
        header["writeable"] = tuple(not frame.readonly for frame in out[1:])
        return header, out
    if "sub-headers" not in header:
        return header, frames
    headers, lengths, start = [], [], 0
    out = []
    for sub, length in zip(header["sub-headers"], header["frame-lengths"]):
        part = frames[start : start + length]
        start += length
        sub, part = _translate_whole(sub, part) if _mentions_torshi(sub) else (sub, part)
        headers.append(sub)
        lengths.append(len(part))
        out.extend(part)
    header.update({"sub-headers": headers, "frame-lengths": lengths})
    return header, out


# ---- pickle underneath -----------------------------------------------------------------------------------------------------
def _standard_pickle() -> tuple[Any, Any, type]:
    """Stand-ins for ``pickle``, ``cloudpickle`` and ``_DaskPickler`` in distributed.protocol.pickle, for a process whose pickle is
    the engine (the host, or after torshi.install()): chunks only in messages to those who read them."""
    import cloudpickle
    import distributed.protocol.pickle as dask_pickle

    class StandardCloudPickler(cloudpickle.Pickler):  # type: ignore[name-defined,misc]
        def persistent_id(self, obj: Any) -> None:  # a Pickler with this method writes standard opcodes
            return None

    class StandardDaskPickler(dask_pickle._DaskPickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> None:
            return None

    def pickle_dumps(x: Any, **options: Any) -> bytes:
        if getattr(_local, "reads", False):
            return pickle.dumps(x, **options)
        return torshi.dumps(x, reducers="standard", **options)

    def cloudpickle_dumps(x: Any, **options: Any) -> bytes:
        if getattr(_local, "reads", False):
            return cloudpickle.dumps(x, **options)
        import io

        out = io.BytesIO()
        StandardCloudPickler(out, **options).dump(x)
        return out.getvalue()

    def dask_pickler(*args: Any, **options: Any) -> Any:
        kind = _stock["_DaskPickler"] if getattr(_local, "reads", False) else StandardDaskPickler
        return kind(*args, **options)

    plain = SimpleNamespace(**{**vars(pickle), "dumps": pickle_dumps})
    cloud = SimpleNamespace(**{**vars(cloudpickle), "dumps": cloudpickle_dumps})
    return plain, cloud, dask_pickler  # type: ignore[return-value]


def _pickle_is_ours() -> bool:
    return b"torshi" in pickle.dumps([{"number": i, "name": str(i)} for i in range(50)], 5)


# ---- switching on and off ----------------------------------------------------------------------------------------------------
def _spill(x: Any, **options: Any) -> list:
    """Takes the place of ``serialize_bytelist`` where workers spill to disk: what is written there, this process alone reads."""
    return _serialize_module().serialize_bytelist(x, **{"serializers": (NAME, "dask", "pickle"), **options})


def _handshake_info(self: Any) -> dict[str, Any]:
    return {**_stock["handshake_info"](self), KEY: VERSION}


def enable() -> None:
    """Use torshi on the connections that this process makes from now on. Idempotent; `disable` takes it back.

    RuntimeError, and nothing changed, when this version of Dask lacks what enable replaces.
    """
    if _replaced:
        return
    import distributed.comm.core
    import distributed.protocol
    import distributed.protocol.pickle
    import distributed.spill

    module = _serialize_module()
    replacements: list[tuple[Any, str, Any]] = [
        (module, "serialize", _serialize),
        (distributed.protocol, "dumps", _message_dumps),
        (distributed.protocol, "loads", _message_loads),
        (distributed.spill, "serialize_bytelist", _spill),
        (distributed.comm.core.Comm, "handshake_info", _handshake_info),
    ]
    missing = [f"{owner.__name__}.{name}" for owner, name, _ in replacements if name not in vars(owner)]
    if missing:
        raise RuntimeError(f"torshi.dask: distributed {distributed.__version__} has no {', no '.join(missing)}")
    if _pickle_is_ours():
        names = ("pickle", "cloudpickle", "_DaskPickler")
        replacements += [(distributed.protocol.pickle, *pair) for pair in zip(names, _standard_pickle())]
    module.register_serialization_family(NAME, dumps, loads)
    for owner, name, new in replacements:
        old = vars(owner)[name]
        if old is not new:  # disable leaves our loads in place
            _stock[name] = old
        _replaced.append((owner, name, _stock[name]))
        setattr(owner, name, new)


def disable() -> None:
    """Take back what enable did. What arrives on connections made before, or was spilled to disk, can still be read."""
    if not _replaced:
        return
    for owner, name, old in _replaced:
        if name != "loads":
            setattr(owner, name, old)
    _replaced.clear()
    _serialize_module().register_serialization_family(NAME, _refuse, loads)


def dask_setup(server: Any) -> None:
    """What ``--preload torshi.dask`` calls in a scheduler or worker, before it connects to anybody."""
    enable()
    slow = getattr(getattr(getattr(server, "data", None), "slow", None), "data", None)
    if isinstance(getattr(slow, "dump", None), functools.partial):  # made before enable was called
        slow.dump = functools.partial(_spill, *slow.dump.args, **slow.dump.keywords)
