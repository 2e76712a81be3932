"""Object references: torshi.ObjectRef, register_ref, batches and what a load has in common."""

from __future__ import annotations

import collections
import copy
import gc
import pickle
import random
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torshi
from torshi import _refs as pure

OWNERS = [b"owner of nineteen b%d" % i for i in range(10)]


class Ref:
    """A plain Python reference class that counts."""

    live = 0
    log: list[Any] = []

    def __init__(self, id: bytes, owner: bytes = b"", site: str = "") -> None:
        self.id, self.owner, self.site = id, owner, site
        Ref.live += 1

    def __del__(self) -> None:
        Ref.live -= 1

    def __eq__(self, other: object) -> bool:
        return type(other) is Ref and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> Any:
        Ref.log.append(self.id)
        return make_ref, (self.id, self.owner, self.site)


def make_ref(id: bytes, owner: bytes, site: str) -> Ref:
    if id == b"bad":
        raise KeyError("no such object")
    return Ref(id, owner, site)


def batch(load: Any, *columns: Any) -> list[Ref]:
    return [make_ref(*row) for row in zip(*columns)]


class Holder:
    def __init__(self, ref: Any, n: int) -> None:
        self.ref, self.n = ref, n


@pytest.fixture
def registered() -> Iterator[None]:
    torshi.register_ref(Ref, batch=batch, callables=[make_ref])
    Ref.log.clear()
    yield
    torshi.unregister_ref(Ref)


def refs(n: int) -> list[Any]:
    return [
        torshi.ObjectRef(b"%028d" % i, owner=OWNERS[i % 10], site=f"f:{i % 3}") for i in range(n)
    ]


def py_refs(n: int) -> list[Ref]:
    return [Ref(b"%028d" % i, OWNERS[i % 10], f"f:{i % 3}") for i in range(n)]


def fields(ref: Any) -> Any:
    return ref.id, ref.owner, ref.site


# ---- ObjectRef
@pytest.mark.parametrize("module", [torshi, pure])
def test_object_ref(module: Any) -> None:
    ref = module.ObjectRef(b"\x01\xff", owner=b"o", site="here")
    assert fields(ref) == (b"\x01\xff", b"o", "here") and ref.hex() == "01ff"
    assert repr(ref) == "torshi.ObjectRef(01ff)" and hash(ref) == hash(b"\x01\xff")
    assert ref == module.ObjectRef(b"\x01\xff") != module.ObjectRef(b"") and ref != b"\x01\xff"
    assert fields(module.ObjectRef(b"")) == (b"", b"", None)
    assert module.ref_count(b"\x01\xff") == 1 and module.ref_counts() == {b"\x01\xff": 1}
    again = [copy.copy(ref), module.object_ref(*fields(ref))]
    assert all(fields(r) == fields(ref) for r in again) and module.ref_count(ref.id) == 3
    gone = weakref.ref(ref)
    del ref, again
    assert gone() is None and module.ref_counts() == {}
    for wrong in ["text", bytearray(b"x"), None]:
        with pytest.raises(TypeError, match="id must be bytes"):
            module.ObjectRef(wrong)
    with pytest.raises(TypeError):
        module.ObjectRef(b"", b"owner by position")
    with pytest.raises(TypeError, match="owner must be bytes"):
        module.object_ref(b"", "x", None)
    with pytest.raises(TypeError, match="site must be str or None"):
        module.object_ref(b"", b"", b"x")


def test_counts_under_churn() -> None:
    r, live = random.Random(1), []
    for i in range(5000):
        live.append(torshi.ObjectRef(b"%d" % r.randrange(100)))
        if r.random() < 0.6 and len(live) > 1:
            live.pop(r.randrange(len(live)))
        if i % 97 == 0:
            assert torshi.ref_counts() == collections.Counter(ref.id for ref in live)
            assert torshi.ref_count(live[-1].id) == sum(ref.id == live[-1].id for ref in live)
    del live, r
    assert torshi.ref_counts() == {}


SHAPES: dict[str, Any] = {
    "alone": lambda rs: rs[0],
    "list": lambda rs: rs,
    "dict values": lambda rs: dict(enumerate(rs)),
    "dict keys": lambda rs: {r: i for i, r in enumerate(rs)},
    "keys and values": lambda rs: {r: r for r in rs},
    "keys of structs": lambda rs: {r: {"n": i, "more": [r, i]} for i, r in enumerate(rs)},
    "keys of other references": lambda rs: dict(zip(rs, rs[1:] + rs[:1])),
    "mixed keys": lambda rs: {k: r for r in rs for k in (r, r.id)},
    "nested keys": lambda rs: [
        {"by": {r: i for i, r in enumerate(rs)}},
        {"by": dict.fromkeys(rs[:3])},
    ],
    "structs": lambda rs: [{"n": i, "ref": r} for i, r in enumerate(rs)],
    "nested": lambda rs: [{"n": i, "refs": [r, r], "t": (r,)} for i, r in enumerate(rs)],
    "attributes": lambda rs: [Holder(r, i) for i, r in enumerate(rs)],
    "with None": lambda rs: [r if i % 3 else None for i, r in enumerate(rs)],
    "mixed": lambda rs: [x for i, r in enumerate(rs) for x in (r, i, str(i))],
    "twice": lambda rs: rs + rs,
    "set and tuple": lambda rs: [set(rs), tuple(rs), rs],
}


def plain(x: Any, seen: dict[int, int]) -> Any:
    """Comparable form: references by fields and by which of them are one object."""
    if type(x) in (torshi.ObjectRef, Ref):
        return fields(x), seen.setdefault(id(x), len(seen))
    if type(x) in (list, tuple):
        return [plain(v, seen) for v in x]
    if type(x) is set:
        return [plain(v, seen) for v in sorted(x, key=lambda ref: ref.id)]
    if type(x) is dict:
        return [(plain(k, seen), plain(v, seen)) for k, v in x.items()]
    return plain(x.__dict__, seen) if type(x) is Holder else x


@pytest.mark.parametrize("load", [torshi.loads, pickle.loads])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 10, 300])
@pytest.mark.parametrize("make", [refs, py_refs])
def test_round_trips(make: Any, n: int, shape: str, load: Any, registered: None) -> None:
    value = SHAPES[shape](make(n))
    stream = torshi.dumps(value)
    loaded = load(stream)
    assert plain(loaded, {}) == plain(value, {})
    assert plain(load(torshi.dumps(value, reducers="standard")), {}) == plain(value, {})
    if n == 300 and shape in ("list", "dict values", "dict keys", "structs", "attributes"):
        assert b"chunk" in stream and len(stream) < n * 45


@pytest.mark.parametrize(
    "shape", sorted(SHAPES.keys() - {"set and tuple"})
)  # there, the list's are reduced first
def test_reduced_once_each_in_the_order_of_pickle(shape: str, registered: None) -> None:
    for n in (1, 5, 20, 300):
        value = SHAPES[shape](py_refs(n))
        Ref.log.clear()
        pickle.dumps(value)
        stock = Ref.log[:]
        Ref.log.clear()
        torshi.dumps(value)
        assert Ref.log == stock


def test_equal_ids_stay_two(registered: None) -> None:
    value = py_refs(20) + py_refs(20)
    made = torshi.loads(torshi.dumps(value))
    assert len({id(r) for r in made}) == 40 and made[:20] == made[20:]


# ---- registering
def test_register_and_unregister() -> None:
    with pytest.raises(ValueError, match="not registered"):
        torshi.unregister_ref(Ref)
    for wrong in [{"reduce": 5}, {"batch": "x"}, {"outer": 1}, {"worker": 1}, {"callables": [1]}]:
        with pytest.raises(TypeError):
            torshi.register_ref(Ref, **wrong)
    with pytest.raises(TypeError):
        torshi.register_ref("Ref")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        torshi.register_ref(Ref, other=1)  # type: ignore[call-arg]
    torshi.register_ref(Ref)
    torshi.register_ref(Ref, batch=batch)
    torshi.unregister_ref(Ref)
    with pytest.raises(ValueError):
        torshi.unregister_ref(Ref)


def reduce_short(ref: Ref) -> Any:
    Ref.log.append("short")
    return make_ref, (ref.id, b"", "short")


def test_own_reduce() -> None:
    torshi.register_ref(Ref, reduce=reduce_short)
    try:
        for value in (py_refs(50), py_refs(1), py_refs(1)[0]):
            Ref.log.clear()
            made = torshi.loads(torshi.dumps(value))
            made = made if isinstance(made, list) else [made]
            assert {r.site for r in made} == {"short"} and Ref.log == ["short"] * len(made)
    finally:
        torshi.unregister_ref(Ref)
    assert torshi.loads(torshi.dumps(py_refs(5)))[4].owner == OWNERS[4]


def test_arguments_that_no_column_holds(registered: None) -> None:
    value = py_refs(40)
    for ref in value[10:20]:
        ref.owner = [ref.owner]  # type: ignore[assignment]
    Ref.log.clear()
    made = torshi.loads(torshi.dumps([{"r": r} for r in value]))
    assert [fields(x["r"]) for x in made] == [fields(r) for r in value] and len(Ref.log) == 40


def test_reducer_that_raises(registered: None) -> None:
    value = py_refs(30)
    value[20].__class__ = type("Sub", (Ref,), {"__reduce__": lambda self: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        torshi.dumps(value)

    def failing(ref: Ref) -> Any:
        raise KeyError(ref.id)

    torshi.register_ref(Ref, reduce=failing)
    with pytest.raises(KeyError):
        torshi.dumps(py_refs(30))


def test_reducer_that_changes_what_is_dumped(registered: None) -> None:
    value: dict[int, Any] = dict(enumerate(py_refs(30)))

    def grow(ref: Ref) -> Any:
        value[len(value)] = None
        return make_ref, fields(ref)

    torshi.register_ref(Ref, reduce=grow)
    with pytest.raises(RuntimeError, match="changed size"):
        torshi.dumps(value)
    items: list[Any] = py_refs(30)

    def drop(ref: Ref) -> Any:
        if len(items) > 5:
            items.pop()
        return make_ref, fields(ref)

    torshi.register_ref(Ref, reduce=drop)
    assert len(torshi.loads(torshi.dumps(items))) == 5


# ---- batches
def test_one_batch_a_column() -> None:
    calls = []

    def count(load: Any, *columns: Any) -> Any:
        calls.append((len(columns), len(columns[0])))
        return tuple(batch(load, *columns))

    torshi.register_ref(Ref, batch=count)  # make_ref is learned from the first dump
    try:
        stream = torshi.dumps([{"a": r, "b": [r2]} for r, r2 in zip(py_refs(50), py_refs(50))])
        torshi.loads(stream)
        assert calls == [(3, 50), (3, 50)]
        calls.clear()
        torshi.loads(torshi.dumps(py_refs(1)[0]))
        assert calls == []
    finally:
        torshi.unregister_ref(Ref)
    assert len(torshi.loads(stream)) == 50 and calls == []


@pytest.mark.parametrize("answer", [None, 5, [], [1] * 49])
def test_wrong_batches(answer: Any, registered: None) -> None:
    torshi.register_ref(Ref, batch=lambda load, *columns: answer)
    stream = torshi.dumps(py_refs(50))
    with pytest.raises((TypeError, ValueError)):
        torshi.loads(stream)


def outer_function(stream: bytes, load: Any) -> Any:
    return load(stream)


@pytest.mark.parametrize(
    "load_it",
    [torshi.loads, pickle.loads, lambda s: torshi.Unpickler(__import__("io").BytesIO(s)).load()],
)
def test_what_a_load_has_in_common(load_it: Any) -> None:
    seen: list[Any] = []
    asked = collections.Counter[str]()

    def ask(name: str) -> str:
        asked[name] += 1
        return name

    def look(load: Any, *columns: Any) -> Any:
        assert load.once("key", lambda: ask("once")) == "once"
        assert load.outer == "outer" and load.worker == "worker" and load.outer == "outer"
        assert load.call_site() is load.call_site()
        seen.append((load, load.call_site()))
        return batch(load, *columns)

    torshi.register_ref(Ref, batch=look, outer=lambda: ask("outer"), worker=lambda: ask("worker"))
    try:
        stream = torshi.dumps([{"a": r, "b": r2} for r, r2 in zip(py_refs(50), py_refs(50))])
        outer_function(stream, load_it)
        assert (
            len(seen) == 2
            and seen[0][0] is seen[1][0]
            and asked == {"once": 1, "outer": 1, "worker": 1}
        )
        site = seen[0][1]
        assert __file__ in site and "outer_function" in site and "torshi/" not in site
        outer_function(stream, load_it)
        assert asked == {"once": 2, "outer": 2, "worker": 2} and seen[2][0] is not seen[0][0]
        for use in ("call_site()", "outer", "worker", "once(1, int)"):
            with pytest.raises(RuntimeError, match="load is over"):
                eval(f"load.{use}", {"load": seen[0][0]})
    finally:
        torshi.unregister_ref(Ref)


def test_nothing_is_asked_for_without_need(registered: None) -> None:
    torshi.register_ref(Ref, batch=batch, outer=lambda: 1 / 0, worker=lambda: 1 / 0)
    assert len(torshi.loads(torshi.dumps(py_refs(50)))) == 50


def test_nothing_is_kept_beyond_the_load(registered: None) -> None:
    class Thing:
        pass

    made = []

    def keep(load: Any, *columns: Any) -> Any:
        thing = load.once("thing", Thing)
        load.once("itself", lambda: load)
        made.append(weakref.ref(thing))
        return batch(load, *columns)

    torshi.register_ref(Ref, batch=keep)
    stream = torshi.dumps(py_refs(50))
    for load in (torshi.loads, pickle.loads):
        load(stream)
        assert made[-1]() is None


def test_nested_loads_have_their_own(registered: None) -> None:
    inner = torshi.dumps(py_refs(30))
    loads: list[Any] = []

    def nest(load: Any, *columns: Any) -> Any:
        loads.append(load)
        load.once("depth", lambda: len(loads))
        if len(loads) == 1:
            torshi.loads(inner)
            pickle.loads(inner)
        assert load.once("depth", lambda: None) == loads.index(load) + 1
        return batch(load, *columns)

    torshi.register_ref(Ref, batch=nest)
    torshi.loads(torshi.dumps(py_refs(40)))
    assert len(loads) == 3 and len({id(load) for load in loads}) == 3


def test_threads_have_their_own(registered: None) -> None:
    failures: list[Any] = []

    def own(load: Any, *columns: Any) -> Any:
        me = load.once("thread", threading.get_ident)
        if me != threading.get_ident():
            failures.append(me)
        return batch(load, *columns)

    torshi.register_ref(Ref, batch=own)
    stream = torshi.dumps([py_refs(30) for _ in range(20)])
    threads = [
        threading.Thread(target=lambda: [torshi.loads(stream) for _ in range(20)]) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_unregistered_in_the_middle(registered: None) -> None:
    def leave(load: Any, *columns: Any) -> Any:
        torshi.unregister_ref(Ref)
        gc.collect()
        torshi.register_ref(Ref, batch=batch, callables=[make_ref])
        assert load.call_site() and load.outer is None
        return batch(load, *columns)

    torshi.register_ref(Ref, batch=leave, callables=[make_ref])
    assert len(torshi.loads(torshi.dumps(py_refs(50)))) == 50


def test_instances_helper(registered: None) -> None:
    class Slotted:
        __slots__ = ("id", "owner")

    def make(load: Any, ids: Any, owners: Any, sites: Any) -> Any:
        for wrong in [
            (),
            (Ref,),
            (Ref, ("id",)),
            (Ref, ("id", "x"), ids),
            (5, ("id",), ids),
            (Ref, (1,), ids),
        ]:
            with pytest.raises(TypeError):
                load.instances(*wrong)
        with pytest.raises(ValueError):
            load.instances(Holder, ("a", "b"), ids, owners[1:])
        slotted = load.instances(Slotted, ("id", "owner"), ids, tuple(owners))
        assert [(s.id, s.owner) for s in slotted] == list(zip(ids, owners))
        made = load.instances(Holder, ("ref", "n"), ids, owners)
        assert [vars(h) for h in made] == [{"ref": i, "n": o} for i, o in zip(ids, owners)]
        return made

    torshi.register_ref(Ref, batch=make)
    assert type(torshi.loads(torshi.dumps(py_refs(50)))[7]) is Holder


# ---- failure
@pytest.mark.parametrize("with_batch", [True, False])
@pytest.mark.parametrize("load", [torshi.loads, pickle.loads])
def test_a_failed_load_releases_each_once(load: Any, with_batch: bool) -> None:
    torshi.register_ref(Ref, batch=batch if with_batch else None, callables=[make_ref])
    try:
        base = Ref.live
        value: Any = [{"a": r, "b": [r2]} for r, r2 in zip(py_refs(50), py_refs(50))]
        stream = torshi.dumps(value)
        value[40]["b"][0].id = b"bad"
        failing = torshi.dumps(value)
        del value
        assert Ref.live == base
        with pytest.raises(KeyError):
            load(failing)
        assert Ref.live == base
        for end in range(0, len(stream), 7):
            with pytest.raises(Exception):
                load(stream[:end])
            assert Ref.live == base
        for at in range(0, len(stream), 3):
            try:
                made = load(stream[:at] + bytes([stream[at] ^ 1]) + stream[at + 1 :])
                del made
            except Exception:
                pass
            assert Ref.live == base
    finally:
        torshi.unregister_ref(Ref)


def test_object_refs_are_released_when_a_load_fails() -> None:
    base = torshi.ref_counts()
    stream = torshi.dumps([{"a": r, "b": r} for r in refs(50)])
    for at in range(len(stream)):
        for damaged in (stream[:at], stream[:at] + bytes([stream[at] ^ 1]) + stream[at + 1 :]):
            try:
                torshi.loads(damaged)
            except Exception:
                pass
    gc.collect()
    assert torshi.ref_counts() == base


def test_dumping_pins_nothing(registered: None) -> None:
    for make in (refs, py_refs):
        value = make(50)
        gone = [weakref.ref(r) for r in value]
        torshi.dumps(value)
        torshi.dumps({r: r for r in value})
        pickler = torshi.Pickler(__import__("io").BytesIO())
        pickler.dump(value)
        pickler.clear_memo()
        del value, pickler
        assert not any(r() for r in gone)


def test_pure_reader_makes_the_same(registered: None) -> None:
    from torshi import _pure

    pure.register_ref(Ref, batch=batch, callables=[make_ref])
    try:
        value = [
            {"n": i, "ref": r, "own": o} for i, (r, o) in enumerate(zip(py_refs(50), refs(50)))
        ]
        assert plain(_pure.loads(torshi.dumps(value)), {}) == plain(value, {})
    finally:
        pure.unregister_ref(Ref)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [refs, py_refs])
def test_the_pure_writer_makes_the_same_bytes(make: Any, shape: str, registered: None) -> None:
    from torshi import _pure

    for reduce in (None, reduce_short):
        pure.register_ref(Ref, batch=batch, callables=[make_ref], reduce=reduce)
        torshi.register_ref(Ref, batch=batch, callables=[make_ref], reduce=reduce)
        try:
            for n in (1, 7, 8, 20, 300):
                value = SHAPES[shape](make(n))
                assert _pure.dumps(value, 5) == torshi.dumps(value, 5)
        finally:
            torshi.register_ref(Ref, batch=batch, callables=[make_ref])
            pure.unregister_ref(Ref)


def test_the_pure_writer_reduces_as_often(registered: None) -> None:
    from torshi import _pure

    pure.register_ref(Ref)
    try:
        value = py_refs(40)
        for ref in value[10:20]:
            ref.owner = [ref.owner]  # type: ignore[assignment]
        Ref.log.clear()
        assert _pure.dumps([{"r": r} for r in value]) == torshi.dumps([{"r": r} for r in value])
        assert Ref.log == [r.id for r in value] * 2
    finally:
        pure.unregister_ref(Ref)
