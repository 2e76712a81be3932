"""Object references of Ray in columns, and made in batches: `torshi.ray.enable()`.

Call it in the driver and in every worker (`ray.init(runtime_env=torshi.ray.runtime_env())` does the latter). Values that Ray
pickles are then written by Torshi, and its references as columns; what a load asks of Ray once a reference
is asked once a load. Ray's code is not changed: names in its modules are bound to other objects, and disable() binds
them back. docs/ray.md tells the rest.
"""

from __future__ import annotations

import collections
import inspect
import io
import itertools
import os
import sys
import threading
from typing import Any

import torshi

__all__ = ["disable", "enable", "enable_dicts", "enabled", "runtime_env"]

_SITE_FRAMES = 4
_FEW = 4  # smaller dicts and lists are left to msgpack


class _State:
    """What enable() found and bound."""

    def __init__(self) -> None:
        self.bound: list[tuple[Any, str, Any]] = []
        self.dicts = False


_state: _State | None = None
_local = threading.local()


# ---- the seams
def _seams() -> tuple[Any, Any, list[str]]:
    """Ray's serialization module, the ray package, and what is missing in them."""
    import ray
    import ray._private.serialization as serialization
    import ray._private.worker
    import ray._raylet

    missing = []

    def need(holder: Any, path: str, *names: str) -> Any:
        for name in names:
            if not hasattr(holder, name):
                missing.append(f"{path}.{name}")
        return holder

    need(
        serialization,
        "ray._private.serialization",
        "_object_ref_deserializer",
        "pickle",
        "MessagePackSerializer",
    )
    deserializer = getattr(serialization, "_object_ref_deserializer", None)
    if deserializer is not None and _state is None:
        names = list(inspect.signature(deserializer).parameters)
        if names != ["binary", "call_site", "owner_address", "object_status", "tensor_transport"]:
            missing.append(
                "ray._private.serialization._object_ref_deserializer with the arguments that are known"
            )
    pickle = getattr(serialization, "pickle", None)
    if pickle is not None:
        need(pickle, "ray.cloudpickle", "dumps", "loads", "CloudPickler")
        pickler = getattr(pickle, "CloudPickler", None)
        if pickler is not None:
            need(
                pickler,
                "ray.cloudpickle.CloudPickler",
                "dispatch",
                "dispatch_table",
                "reducer_override",
            )
    context = getattr(serialization, "SerializationContext", None)
    if context is None:
        missing.append("ray._private.serialization.SerializationContext")
    else:
        need(
            context, "ray._private.serialization.SerializationContext",
            "get_outer_object_ref", "is_in_band_serialization", "add_contained_object_ref",
        )  # fmt: skip
    need(ray._private.worker, "ray._private.worker", "global_worker")
    core = getattr(ray._raylet, "CoreWorker", None)
    need(
        core,
        "ray._raylet.CoreWorker",
        "deserialize_and_register_object_ref",
        "serialize_object_ref",
    )
    return serialization, ray, missing


def _bind(state: _State, holder: Any, name: str, value: Any) -> None:
    state.bound.append((holder, name, getattr(holder, name)))
    setattr(holder, name, value)


def _as_ray(function: Any, original: Any) -> Any:
    """Function in the place of one of Ray's: Ray leaves the frames of this file of its own out of call sites."""
    function.__code__ = function.__code__.replace(co_filename=original.__code__.co_filename)
    function.__module__, function.__qualname__ = original.__module__, original.__qualname__
    return function


# ---- reading
def _global_worker() -> Any:
    import ray._private.worker

    return ray._private.worker.global_worker


def _outer() -> Any:
    """The object that is being loaded, as Ray knows it."""
    import ray

    outer = _global_worker().get_serialization_context().get_outer_object_ref()
    return ray.ObjectRef.nil() if outer is None else outer


def _core_worker() -> Any:
    worker = _global_worker()
    worker.check_connected()
    return worker.core_worker


def _make_batch(original: Any, ref_type: Any) -> Any:
    """The batch function of ray.ObjectRef."""
    exhaust = collections.deque[Any](maxlen=0).extend

    def batch(
        load: Any, binaries: Any, sites: Any, owners: Any, statuses: Any, transports: Any
    ) -> list[Any]:
        _local.frame = load.once("ray frame", _known_frame) if _records_sites() else None
        try:
            # As in Ray: the reference is made first, so that it counts when its owner is told of it.
            if any(t is not None for t in transports):
                refs = []
                for b, o, s, t in zip(binaries, owners, sites, transports):
                    refs.append(ref_type(b, o, s, tensor_transport=t))
            else:
                refs = list(map(ref_type, binaries, owners, sites))
            if b"" in owners:
                told = [row for row in zip(binaries, owners, statuses) if row[1]]
                if not told:
                    return refs
                binaries, owners, statuses = zip(*told)
            register = load.worker.deserialize_and_register_object_ref
            exhaust(map(register, binaries, itertools.repeat(load.outer), owners, statuses))
        finally:
            _local.frame = None
        return refs

    return _as_ray(batch, original)


def _make_deserializer(original: Any, ref_type: Any) -> Any:
    """_object_ref_deserializer for one reference, as stock Ray writes them."""
    worker = _global_worker()
    nil = ref_type.nil

    def _object_ref_deserializer(
        binary: Any, call_site: Any, owner_address: Any, object_status: Any, tensor_transport: Any
    ) -> Any:
        ref = ref_type(binary, owner_address, call_site, tensor_transport=tensor_transport)
        if owner_address:
            worker.check_connected()
            outer = worker.get_serialization_context().get_outer_object_ref()
            worker.core_worker.deserialize_and_register_object_ref(
                binary, nil() if outer is None else outer, owner_address, object_status
            )
        return ref

    return _as_ray(_object_ref_deserializer, original)


# ---- call sites
def _records_sites() -> bool:
    return os.environ.get("RAY_record_ref_creation_sites", "0").lower() not in ("0", "", "false")


class _KnownCode:
    def __init__(self, co_filename: str, co_name: str) -> None:
        self.co_filename = co_filename
        self.co_name = co_name


class _KnownFrame:
    """One frame that reads, where Ray formats its frames, as all that it would have found."""

    def __init__(self, text: str) -> None:
        filename, name, line = text.rsplit(":", 2)
        self.f_code = _KnownCode(filename, name)
        self.f_lineno = line
        self.f_back = None


def _known_frame() -> Any:
    """What Ray would say of the code that loads, found once; None when it cannot be said in one frame."""
    frame: Any = sys._getframe(1)
    lines: list[str] = []
    while frame is not None and len(lines) < _SITE_FRAMES:
        filename, name = frame.f_code.co_filename, frame.f_code.co_name
        module = frame.f_globals.get("__name__", "")
        if module == "torshi" or module.startswith("torshi."):
            pass
        elif filename.endswith("_private/worker.py"):
            if name == "put":
                lines = ["(put object) "]
        elif filename.endswith("_private/workers/default_worker.py"):
            pass
        elif filename.endswith("ray/remote_function.py"):
            lines = ["(task call) "]
        elif filename.endswith("ray/actor.py"):
            lines = ["(actor call) "]
        elif filename.endswith("_private/serialization.py"):
            if name == "id_deserializer":
                lines = ["(deserialize task arg) "]
        else:
            lines.append(f"{filename}:{name}:{frame.f_lineno}")
        frame = frame.f_back
    text = " | ".join(lines)
    return _KnownFrame(text) if text.count(":") >= 2 else None


def _current_frame() -> Any:
    """inspect.currentframe, which within a batch is the one frame of _known_frame."""
    known = getattr(_local, "frame", None)
    return known if known is not None else sys._getframe(1)


# ---- writing
def _is_unmanaged(worker: Any) -> bool:
    """Whether no reference of this process stands for a tensor that goes its own way."""
    manager = getattr(worker, "_rdt_manager", worker)
    return manager is None or not getattr(manager, "_managed_rdt_metadata", True)


def _make_reducer(original: Any) -> Any:
    """The reducer of ray.ObjectRef for one dump: Ray's own, with what is constant in a dump looked up once."""
    import ray._private.serialization as serialization

    worker = _global_worker()
    deserializer = serialization._object_ref_deserializer
    allowed = getattr(serialization, "ALLOW_OUT_OF_BAND_OBJECT_REF_SERIALIZATION", True)
    context: Any = None
    contained: Any = None
    serialize: Any = None
    local: Any = None
    last_owner = last_status = b""

    def reduce(ref: Any) -> Any:
        nonlocal context, contained, serialize, local, last_owner, last_status
        if context is None:
            worker.check_connected()
            context = worker.get_serialization_context()
            contained = context.add_contained_object_ref
            serialize = worker.core_worker.serialize_object_ref if _is_unmanaged(worker) else None
            local = getattr(context, "_thread_local", None)
        if serialize is None:
            return original(ref)
        site = ref.call_site()
        try:
            if not local.in_band:
                raise AttributeError
            local.object_refs.add(ref)
        except AttributeError:  # out of band, or the first one in band
            contained(ref, allow_out_of_band_serialization=allowed, call_site=site)
        ref, owner, status = serialize(ref)
        if owner == last_owner:  # one object for all is found again faster than equal ones
            owner = last_owner
        else:
            last_owner = owner
        if status == last_status:
            status = last_status
        else:
            last_status = status
        return deserializer, (ref.binary(), site, owner, status, ref.tensor_transport())

    return reduce


def _make_pickler(cloud: Any, ref_type: Any) -> Any:
    """ray.cloudpickle's Pickler over Torshi's."""

    class Pickler(torshi.Pickler):  # type: ignore[misc]
        def __init__(
            self, file: Any, protocol: int | None = None, buffer_callback: Any = None
        ) -> None:
            super().__init__(file, protocol=protocol, buffer_callback=buffer_callback)
            self.globals_ref: dict[int, Any] = {}
            self.proto = 5 if protocol is None else int(protocol)
            original = cloud.dispatch.get(ref_type)
            first = {} if original is None else {ref_type: _make_reducer(original)}
            self.dispatch_table = collections.ChainMap(first, *cloud.dispatch_table.maps)

        def dump(self, obj: Any) -> None:
            try:
                return super().dump(obj)
            except RecursionError as error:
                message = "Could not pickle object as excessively deep recursion required."
                raise torshi.PicklingError(message) from error

    hidden = {"__init__", "dump", "dispatch_table", "dispatch"}
    for name, value in vars(cloud).items():
        if name not in hidden and not (name.startswith("__") and name.endswith("__")):
            setattr(Pickler, name, value)
    for base in cloud.__mro__[1:]:
        if base.__module__.startswith("ray."):
            for name, value in vars(base).items():
                if name not in hidden and not hasattr(Pickler, name):
                    setattr(Pickler, name, value)
    return Pickler


class _Cloudpickle:
    """ray.cloudpickle as ray._private.serialization sees it: dumps and loads are ours."""

    def __init__(self, original: Any, pickler: Any) -> None:
        self._original = original
        self._pickler = pickler
        self.loads = torshi.loads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def dumps(self, obj: Any, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
        with io.BytesIO() as file:
            self._pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)
            return file.getvalue()


class _Whole:
    """A container on its way past msgpack to the pickler."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _make_msgpack(original: Any) -> Any:
    """MessagePackSerializer that leaves dicts and lists to the pickler."""

    class MessagePackSerializer(original):  # type: ignore[misc]
        @classmethod
        def dumps(cls, value: Any, python_serializer: Any = None) -> Any:
            if python_serializer is not None and type(value) in (dict, list) and len(value) >= _FEW:
                return original.dumps(
                    _Whole(value), lambda o: python_serializer(o.value if type(o) is _Whole else o)
                )
            return original.dumps(value, python_serializer)

    return MessagePackSerializer


# ---- on and off
def enable(*, dicts: bool = False) -> None:
    """Bind Torshi in this process's Ray. RuntimeError, and nothing changed, when Ray has no such seams.

    dicts: plain dicts and lists, which Ray sends through msgpack, are pickled (and so chunked) too; readers in other
    languages cannot read those.
    """
    global _state
    if _state is not None:
        if _state.dicts == dicts:
            return
        disable()
    serialization, ray, missing = _seams()
    if missing:
        raise RuntimeError(
            f"torshi.ray: Ray {ray.__version__} has no {', no '.join(missing)}; nothing was changed"
        )
    state = _State()
    state.dicts = dicts
    ref_type = ray.ObjectRef
    cloudpickle = serialization.pickle
    original = serialization._object_ref_deserializer
    deserializer = _make_deserializer(original, ref_type)
    batch = _make_batch(original, ref_type)
    torshi.register_ref(
        ref_type, batch=batch, callables=[deserializer], outer=_outer, worker=_core_worker
    )
    _bind(state, serialization, "_object_ref_deserializer", deserializer)
    _bind(
        state,
        serialization,
        "pickle",
        _Cloudpickle(cloudpickle, _make_pickler(cloudpickle.CloudPickler, ref_type)),
    )
    if dicts:
        _bind(
            state,
            serialization,
            "MessagePackSerializer",
            _make_msgpack(serialization.MessagePackSerializer),
        )
    if _records_sites():
        _bind(state, inspect, "currentframe", _current_frame)
    _state = state


def enable_dicts() -> None:
    """enable(dicts=True), by a name that a worker's setup hook can have."""
    enable(dicts=True)


def disable() -> None:
    """Undo enable(): Ray is as it was. What was written meanwhile is read all the same."""
    global _state
    if _state is None:
        return
    for holder, name, original in reversed(_state.bound):
        setattr(holder, name, original)
    import ray

    torshi.unregister_ref(ray.ObjectRef)
    _state = None


def enabled() -> bool:
    """Whether Torshi is bound in this process's Ray."""
    return _state is not None


def runtime_env(base: dict[str, Any] | None = None, *, dicts: bool = False) -> dict[str, Any]:
    """A runtime_env for ray.init with which every worker enables Torshi before its first task."""
    return {
        **(base or {}),
        "worker_process_setup_hook": "torshi.ray.enable_dicts" if dicts else "torshi.ray.enable",
    }
