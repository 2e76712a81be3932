"""torshi.ray against a local Ray: references in columns, and all that Ray does with them besides."""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torshi

ray = pytest.importorskip("ray", reason="Ray is not installed")
torshi_ray = pytest.importorskip("torshi.ray")
if not torshi.native:
    pytest.skip("torshi.ray needs the native engine", allow_module_level=True)

import ray._private.serialization as serialization

SETTINGS: dict[str, Any] = {
    "num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False, "log_to_driver": False,
    "logging_level": logging.ERROR,
}  # fmt: skip


@dataclasses.dataclass
class Holder:
    ref: Any
    n: int


class Getter:
    """Gets an object in the middle of being loaded."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __setstate__(self, state: Any) -> None:
        self.ref = state["ref"]
        self.value = ray.get(self.ref)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    torshi_ray.enable()
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    ray.init(**SETTINGS, runtime_env=torshi_ray.runtime_env({"env_vars": {"PYTHONPATH": path}}))
    yield
    ray.shutdown()
    torshi_ray.disable()


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    torshi_ray.enable()
    yield
    torshi_ray.enable()


def context() -> Any:
    return ray._private.worker.global_worker.get_serialization_context()


def put(n: int = 50) -> list[Any]:
    return [ray.put(i) for i in range(n)]


def reference_counts() -> dict[str, dict[str, int]]:
    counts = ray._private.worker.global_worker.core_worker.get_all_reference_counts()
    return {id.decode(): count for id, count in counts.items()}


def wait_for(what: Any, seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.05)
    return True


def same(a: Any, b: Any) -> None:
    assert [r.binary() for r in a] == [r.binary() for r in b]
    assert [r.owner_address() for r in a] == [r.owner_address() for r in b] and all(
        r.owner_address() for r in a
    )
    assert [r.call_site() for r in a] == [r.call_site() for r in b]


SHAPES: dict[str, Any] = {
    "list": (lambda rs: rs, lambda v: v),
    "tuple": (tuple, list),
    "values": (lambda rs: dict(enumerate(rs)), lambda v: list(v.values())),
    "keys": (lambda rs: {r: i for i, r in enumerate(rs)}, list),
    "dataclasses": (
        lambda rs: [Holder(r, i) for i, r in enumerate(rs)],
        lambda v: [h.ref for h in v],
    ),
    "one dataclass": (lambda rs: Holder(rs, 1), lambda v: v.ref),
    "nested": (
        lambda rs: Holder([{"r": r, "n": [i]} for i, r in enumerate(rs)], 1),
        lambda v: [x["r"] for x in v.ref],
    ),
}


@pytest.mark.parametrize("dicts", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_that_hold_references(shape: str, dicts: bool) -> None:
    torshi_ray.enable(dicts=dicts)
    make, refs_of = SHAPES[shape]
    refs = put()
    outer = ray.put(make(refs))
    loaded = ray.get(outer)
    same(refs_of(loaded), refs)
    assert ray.get(refs_of(loaded)) == list(range(50))
    torshi_ray.disable()
    same(refs_of(ray.get(outer)), refs)  # read without us, by name, one by one


def test_bytes_a_reference() -> None:
    refs = put(1000)
    ours = context().serialize(refs).total_bytes
    torshi_ray.disable()
    stock = context().serialize(refs).total_bytes
    assert ours / 1000 <= 45 < 160 < stock / 1000


def test_contained_references() -> None:
    for value, refs in [
        (lambda r: r, put()),
        (lambda r: Holder(r, 1), put()),
        (lambda r: {"a": tuple(r)}, put()),
    ]:
        contained = context().serialize(value(refs)).contained_object_refs
        assert {r.binary() for r in contained} == {r.binary() for r in refs}
    outer = ray.put(put(20))
    gc.collect()
    assert ray.get(ray.get(outer)[7]) == 7  # kept alive by the outer object alone


def test_contained_references_are_cleared_when_dumping_fails() -> None:
    class Refuses:
        def __reduce__(self) -> Any:
            raise ValueError("not today")

    with pytest.raises(ValueError):
        context().serialize(Holder([put(), Refuses()], 1))
    assert not context().serialize(Holder(None, 1)).contained_object_refs
    assert not context().is_in_band_serialization()


def test_outer_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    torshi_ray.disable()
    monkeypatch.setattr(
        torshi_ray, "_outer", lambda ask=torshi_ray._outer: seen.append(ask()) or seen[-1]
    )
    torshi_ray.enable()
    outer = ray.put(Holder(put(), 1))
    ray.get(outer)
    assert seen == [outer]
    nested = ray.put(Holder([Getter(outer), *put()], 1))
    assert len(ray.get(nested).ref[0].value.ref) == 50
    assert sorted(r.hex() for r in seen[1:]) == sorted([nested.hex(), outer.hex()])
    out_of_band = serialization.pickle.dumps(put())
    serialization.pickle.loads(out_of_band)
    assert seen[-1] == ray.ObjectRef.nil()
    torshi_ray.disable()


def test_out_of_band_references_are_pinned_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = serialization.pickle.dumps(Holder(put(10), 1))
    gc.collect()
    assert ray.get(serialization.pickle.loads(stream).ref) == list(range(10))
    monkeypatch.setattr(serialization, "ALLOW_OUT_OF_BAND_OBJECT_REF_SERIALIZATION", False)
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException):
        serialization.pickle.dumps(put(10))
    ray.put(put(10))


def test_plain_pickle_stays_plain() -> None:
    ref = ray.put(1)
    for dumps in (pickle.dumps, torshi.dumps):
        again = pickle.loads(dumps([ref] * 2 + put(20)))
        assert again[0] == ref and again[0] is again[1] and not again[0].owner_address()


def test_one_reference_met_twice_and_equal_ids() -> None:
    refs = put(20)
    again = ray.get(ray.put(Holder([*refs, *refs], 1))).ref
    assert all(a is b for a, b in zip(again[:20], again[20:]))
    twice = ray.get(ray.put(Holder(refs + ray.get(ray.put(refs)), 1))).ref
    assert all(a is not b and a == b for a, b in zip(twice[:20], twice[20:]))


@ray.remote
def twice(refs: list[Any], holder: Any) -> Any:
    assert len(ray.get(refs)) == len(refs)
    return torshi_ray.enabled(), refs, Holder([ray.put(i) for i in range(20)], 1), holder


@ray.remote
class Actor:
    def __init__(self) -> None:
        self.kept: Any = None

    def keep(self, refs: Any) -> int:
        self.kept = refs
        return len(refs)

    def total(self) -> int:
        return sum(ray.get(self.kept))

    def drop(self) -> None:
        self.kept = None
        gc.collect()


def test_tasks_and_actors() -> None:
    refs = put()
    worker_enabled, returned, made, holder = ray.get(
        twice.remote(refs, Holder({"r": refs[3]}, 5)), timeout=60
    )
    assert worker_enabled
    same(returned, refs)
    same([holder.ref["r"]], [refs[3]])
    assert ray.get(made.ref) == list(range(20))  # owned by the worker
    del worker_enabled, returned, made, holder
    actor = Actor.remote()
    handle = ray.get(ray.put([actor, *refs]))[0]
    assert ray.get(handle.keep.remote(refs), timeout=60) == 50
    del refs
    gc.collect()
    assert ray.get(actor.total.remote()) == sum(
        range(50)
    )  # borrowed: alive because the actor has them
    ray.get(actor.drop.remote())
    ray.kill(actor)


def test_mixed_writers_and_readers() -> None:
    refs = put()
    ours = ray.put(refs)
    torshi_ray.disable()
    stock = ray.put(refs)
    same(ray.get(ours), refs)
    same(ray.get(stock), refs)
    torshi_ray.enable()
    same(ray.get(stock), refs)


def test_a_reader_without_torshi_gets_the_plain_error() -> None:
    context().set_in_band_serialization()
    try:
        stream = serialization.pickle.dumps(put())
    finally:
        context().set_out_of_band_serialization()
        context().get_and_clear_contained_object_refs()
    code = "import pickle, sys; sys.modules['torshi'] = None; pickle.load(sys.stdin.buffer)"
    run = subprocess.run([sys.executable, "-S", "-c", code], input=stream, capture_output=True)
    assert b"ModuleNotFoundError" in run.stderr and b"torshi" in run.stderr


def test_counts_fall_to_zero() -> None:
    gc.collect()
    before = set(reference_counts())
    refs = put()
    outer = ray.put(Holder(refs, 1))
    loaded = [ray.get(outer) for _ in range(3)]
    ids = {r.hex() for r in refs} | {outer.hex()}
    counts = reference_counts()
    assert ids <= counts.keys() and all(counts[r.hex()]["local"] == 4 for r in refs)
    with pytest.raises(Exception):
        torshi.loads(torshi.dumps(loaded)[:-20])
    del refs, outer, loaded
    assert wait_for(lambda: not (set(reference_counts()) - before) & ids)


def test_dicts() -> None:
    table = {f"key{i}": {"n": i, "text": "t" * (i % 7)} for i in range(500)}
    stock = context().serialize(table)
    torshi_ray.enable(dicts=True)
    ours = context().serialize(table)
    assert ours.total_bytes < stock.total_bytes / 2
    assert ray.get(ray.put(table)) == table
    assert ray.get(ray.put({"a": 1})) == {"a": 1} and ray.get(ray.put([1, [2]])) == [1, [2]]
    assert context().serialize({"a": 1}).metadata == stock.metadata != ours.metadata
    outer = ray.put(table)
    torshi_ray.disable()
    assert ray.get(outer) == table


def test_buffers_stay_out_of_band() -> None:
    numpy = pytest.importorskip("numpy")
    torshi_ray.enable(dicts=True)
    value = {f"a{i}": numpy.arange(10000) + i for i in range(8)}
    loaded = ray.get(ray.put(value))
    assert all((loaded[k] == value[k]).all() for k in value)
    assert not loaded["a3"].flags.owndata and not loaded["a3"].flags.writeable


def test_functions_and_classes_still_go_by_value() -> None:
    factor = 3
    local = type("Local", (), {"times": lambda self, x: x * factor})
    loaded = ray.get(ray.put([lambda x: x * factor, local(), *put(10)]))
    assert loaded[0](2) == 6 and loaded[1].times(2) == 6


def test_a_missing_seam_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torshi_ray.disable()
    before = dict(vars(serialization))
    monkeypatch.delattr(serialization.SerializationContext, "get_outer_object_ref")
    monkeypatch.delattr(serialization, "MessagePackSerializer")
    with pytest.raises(
        RuntimeError, match="no .*MessagePackSerializer.*get_outer_object_ref.*nothing was changed"
    ):
        torshi_ray.enable()
    monkeypatch.undo()
    assert vars(serialization) == before and not torshi_ray.enabled()
    monkeypatch.setattr(serialization, "_object_ref_deserializer", lambda binary, other: None)
    with pytest.raises(RuntimeError, match="with the arguments that are known"):
        torshi_ray.enable()
    with pytest.raises(ValueError):
        torshi.unregister_ref(ray.ObjectRef)


def test_disable_puts_everything_back() -> None:
    torshi_ray.enable(dicts=True)
    torshi_ray.disable()
    torshi_ray.disable()
    assert serialization.pickle is ray.cloudpickle
    assert serialization._object_ref_deserializer.__code__.co_filename == serialization.__file__
    assert serialization.MessagePackSerializer is ray._raylet.MessagePackSerializer


SITES = """
import logging, os, sys
import ray, torshi.ray
from ray._private.internal_api import memory_summary
ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)

@ray.remote
class Actor:
    def hold(self, on, outer):
        (torshi.ray.enable if on else torshi.ray.disable)()
        self.value = None
        self.value = self.load(outer)
    def load(self, outer):
        return ray.get(outer[0])

actor = Actor.remote()
found = []
for writer, reader in [(0, 0), (0, 1), (1, 1), (1, 0)]:
    (torshi.ray.enable if writer else torshi.ray.disable)()
    refs = [ray.put(i) for i in range(20)]
    ray.get(actor.hold.remote(reader, [ray.put(refs)]))
    lines = [l for l in memory_summary(ray.get_runtime_context().gcs_address, line_wrap=False).splitlines() if "| Worker" in l and "LOCAL_REFERENCE" in l]
    found.append({line.split("| Worker")[1].rsplit("|", 5)[0].strip() for line in lines})
    assert len(lines) >= 20, lines
assert all(f == found[0] for f in found), found
assert any(":load:" in site for site in found[0]), found
print("sites are alike")
"""


def test_creation_sites_are_seen_as_before() -> None:
    pytest.importorskip("grpc", reason="Ray's memory summary needs grpc")
    env = dict(os.environ, RAY_record_ref_creation_sites="1")
    run = subprocess.run(
        [sys.executable, "-c", SITES], env=env, capture_output=True, text=True, timeout=80
    )
    assert run.stdout.endswith("sites are alike\n"), run.stdout + run.stderr
