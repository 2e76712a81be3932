"""The pickler: hooks, memo, depth, errors, use by several, and what it leaves behind."""

import copyreg
import functools
import gc
import importlib
import inspect
import io
import os
import pickle
import re
import sys
import threading
import weakref
from typing import Any, Callable

import pytest

import torshi

try:  # in the host _pickle is the engine itself
    stock = importlib.import_module("_torshi_stock_pickle")
except ImportError:
    stock = importlib.import_module("_pickle")

STANDARD = {"reducers": "standard"}
DEPTH = 1_000_000


class Node:
    pass


class Slots:
    __slots__ = ("value", "other")


class Both(Slots):
    pass


def give(result: Any, *args: Any) -> Any:
    return result


def dumps(obj: Any, protocol: int = 5) -> bytes:
    return torshi.dumps(obj, protocol, reducers="standard")


def outcome(call: Callable[[], bytes]) -> Any:
    """The bytes, or the kind of error and its message without addresses."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, re.sub("0x[0-9a-f]+", "0x", str(error))


def alike(obj: Any, protocol: int = 5) -> Any:
    """Both engines write the same, or refuse alike."""
    want = outcome(lambda: stock.dumps(obj, protocol))
    assert outcome(lambda: dumps(obj, protocol)) == want
    return want


# ---- signatures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dump", "dumps", "Pickler"])
def test_signatures_are_stock_and_reducers(name: str) -> None:
    ours = list(inspect.signature(getattr(torshi, name)).parameters.values())
    theirs = list(inspect.signature(getattr(stock, name)).parameters.values())
    assert ours[-1].name == "reducers"
    assert [(p.name, p.kind, p.default) for p in ours[:-1]] == [
        (p.name, p.kind, p.default) for p in theirs
    ]


@pytest.mark.parametrize(
    "args, options",
    [
        ((), {}),
        ((1, 2, 3, 4, 5, 6), {}),
        ((1, "x"), {}),
        ((1, 99), {}),
        ((1,), {"obj": 2}),
        ((1,), {"protocol": 4, "buffer_callback": print}),
        ((1, 2**70), {}),
    ],
)
def test_bad_calls(args: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        stock.dumps(*args, **options)
    with pytest.raises(Exception) as ours:
        torshi.dumps(*args, **options)
    assert ours.type is theirs.type
    if len(args) < 6:
        assert str(ours.value) == str(theirs.value)


def test_keyword_arguments() -> None:
    assert torshi.dumps(obj=[1], protocol=2, fix_imports=False, reducers=None) == stock.dumps([1], 2)
    sink = io.BytesIO()
    torshi.dump([1], file=sink, protocol=0)
    assert sink.getvalue() == stock.dumps([1], 0)
    with pytest.raises(ValueError, match="reducers must be"):
        torshi.dumps(1, reducers="fast")
    with pytest.raises(TypeError, match="reducers must be"):
        torshi.dumps(1, reducers=3)


def test_types_are_immutable_and_collected() -> None:
    for kind in (torshi.Pickler, type(torshi.Pickler(io.BytesIO()).memo)):
        with pytest.raises(TypeError):
            kind.new_attribute = 1
        assert gc.is_tracked(kind)


# ---- depth ----------------------------------------------------------------------------------------


def nest(kind: str) -> Any:
    value: Any = None
    for _ in range(DEPTH):
        if kind == "list":
            value = [value]
        elif kind == "dict":
            value = {"k": value}
        elif kind == "tuple":
            value = (value,)
        elif kind == "instance":
            node = Node()
            node.value = value
            value = node
        else:
            slots = Slots()
            slots.value = value
            value = slots
    return value


def unnest(value: Any) -> None:
    """Take it apart from the top: freeing it at once would recurse."""
    while value is not None:
        if isinstance(value, list):
            value = value.pop()
        elif isinstance(value, dict):
            value = value.pop("k")
        elif isinstance(value, tuple):
            (value,) = value
        else:
            inner, value.value = value.value, None
            value = inner


@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "instance", "slots"])
def test_a_million_deep(kind: str) -> None:
    value = nest(kind)
    try:
        for protocol in (2, 4):
            data = dumps(value, protocol)
            assert data.endswith(b".") and len(data) > DEPTH
    finally:
        unnest(value)


def test_sets_nested_deeply_below_protocol_4() -> None:
    value = frozenset()
    for _ in range(5000):
        value = frozenset([value])
    for protocol in range(6):
        assert dumps(value, protocol).endswith(b".")


class Endless:
    def __reduce__(self) -> Any:
        return Endless, (Endless(),)


class EndlessSelf:
    def __reduce__(self) -> Any:
        return EndlessSelf, (self,)


class EndlessState:
    def __reduce_ex__(self, protocol: int) -> Any:
        return EndlessState, ([EndlessState()],)


@pytest.mark.parametrize("kind", [Endless, EndlessSelf, EndlessState])
def test_endless_reductions(kind: type) -> None:
    for protocol in (0, 2, 5):
        with pytest.raises(RecursionError) as info:
            dumps(kind(), protocol)
        assert str(info.value) == "maximum recursion depth exceeded while pickling an object"


def test_endless_persistent_ids() -> None:
    class Ids(torshi.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return [obj]

    with pytest.raises(RecursionError, match="while pickling an object"):
        Ids(io.BytesIO(), 4).dump(1)


class Link:
    """Not on the default path: a reduction for each link of a chain."""

    def __init__(self, after: Any = None) -> None:
        self.after = after

    def __reduce__(self) -> Any:
        return Link, (self.after,)


def test_reductions_may_be_many_times_the_recursion_limit_deep() -> None:
    chain = None
    for _ in range(20 * sys.getrecursionlimit()):
        chain = Link(chain)
    assert dumps(chain).endswith(b".")
    while chain is not None:
        chain.after, chain = None, chain.after


# ---- hooks ----------------------------------------------------------------------------------------


def test_persistent_id_of_the_instance_comes_before_the_class() -> None:
    class Ids(torshi.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return "class" if obj == "x" else None

    sink = io.BytesIO()
    pickler = Ids(sink, 4)
    pickler.persistent_id = lambda obj: "instance" if obj == "x" else None
    pickler.dump("x")
    del pickler.persistent_id
    pickler.dump("x")
    assert b"instance" in sink.getvalue() and b"class" in sink.getvalue()
    with pytest.raises(AttributeError):
        del pickler.persistent_id
    with pytest.raises(TypeError, match="callable"):
        pickler.persistent_id = 3


def test_super_persistent_id() -> None:
    class Ids(torshi.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return super().persistent_id(obj)

    sink = io.BytesIO()
    Ids(sink, 4, **STANDARD).dump([1, "x"])
    assert sink.getvalue() == stock.dumps([1, "x"], 4)


def test_text_ids_must_fit_a_line() -> None:
    pickler = torshi.Pickler(io.BytesIO(), 0)
    for bad in ("two\nlines", "é"):
        pickler.persistent_id = lambda obj, bad=bad: bad
        with pytest.raises(pickle.PicklingError, match="persistent IDs in protocol 0"):
            pickler.dump(1)


def test_an_instance_attribute_shadows_the_reducer() -> None:
    for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        node = Node()
        result = (Node, ()) if name != "__getstate__" else {"other": 2}
        vars(node)[name] = functools.partial(give, result)
        alike([Node(), node])


def test_a_class_may_change_between_dumps() -> None:
    class Changing:
        pass

    Changing.__qualname__ = "Changing"
    globals()["Changing"] = Changing
    obj = Changing()
    obj.value = 1
    states: list[Callable[[], None]] = [
        lambda: None,
        lambda: setattr(Changing, "__getstate__", lambda self: {"got": 1}),
        lambda: delattr(Changing, "__getstate__"),
        lambda: setattr(Changing, "__reduce__", lambda self: (Node, ())),
        lambda: delattr(Changing, "__reduce__"),
        lambda: copyreg.pickle(Changing, lambda self: (Node, (), {"by": "table"})),
        lambda: copyreg.dispatch_table.pop(Changing),
        lambda: setattr(Changing, "__getnewargs__", lambda self: (1,)),
        lambda: delattr(Changing, "__getnewargs__"),
        lambda: setattr(Changing, "__getattribute__", lambda self, name: object.__getattribute__(self, name)),
    ]
    for change in states:
        change()
        for _ in range(2):
            assert dumps([obj, obj]) == stock.dumps([obj, obj], 5)
    del globals()["Changing"]


def test_a_class_may_change_while_it_is_pickled() -> None:
    class Meddler:
        def __reduce__(self) -> Any:
            Node.__getstate__ = lambda self: {"meddled": True}
            return Node, ()

    def graph() -> list[Any]:
        a, b = Node(), Node()
        a.value = b.value = 1
        return [a, Meddler(), b]

    results = []
    for call in (stock.dumps, dumps):
        results.append(call(graph(), 5))
        del Node.__getstate__
    assert results[0] == results[1]


def test_slots_are_what_they_were() -> None:
    """What a reducer does to slots that are still to be written comes too late, as in stock."""
    for kind in (Slots, Both):

        class Clears:
            def __init__(self, target: Any) -> None:
                self.target = target

            def __reduce__(self) -> Any:
                self.target.other = "changed"
                return Node, ()

        def graph() -> Any:
            obj = kind()
            obj.value, obj.other = Clears(obj), [1]
            if kind is Both:
                obj.extra = Clears(obj)
            return [obj, obj]

        assert dumps(graph()) == stock.dumps(graph(), 5)


def test_hooks_see_what_stock_shows_them() -> None:
    def run(module: Any, **options: Any) -> tuple[bytes, list[str]]:
        seen: list[str] = []

        class Hooked(module.Pickler):
            def persistent_id(self, obj: Any) -> Any:
                seen.append(f"id {obj!r:.20}")
                return None

            def reducer_override(self, obj: Any) -> Any:
                seen.append(f"override {type(obj).__name__}")
                return NotImplemented

        sink = io.BytesIO()
        node = Node()
        node.value = (1, [2, {"k": b"v"}])
        slots = Both()
        slots.value = {3}
        slots.extra = Node
        Hooked(sink, 4, **options).dump([node, slots, 1.5, len, node])
        return sink.getvalue(), seen

    def without_addresses(result: tuple[bytes, list[str]]) -> Any:
        return result[0], [re.sub("0x.*", "", line) for line in result[1]]

    assert without_addresses(run(torshi, **STANDARD)) == without_addresses(run(stock))


def test_dispatch_table_may_be_any_mapping() -> None:
    class Table:
        def __getitem__(self, kind: type) -> Any:
            if kind is Node:
                return lambda obj: (Node, (), {"by": "mapping"})
            raise KeyError(kind)

    for module, options in ((stock, {}), (torshi, STANDARD)):
        sink = io.BytesIO()
        pickler = module.Pickler(sink, 4, **options)
        pickler.dispatch_table = Table()
        pickler.dump([Node(), 1j, Slots])
        assert b"mapping" in sink.getvalue()

        class Broken(module.Pickler):
            dispatch_table = {Node: 3}

        with pytest.raises(TypeError, match="not callable"):
            Broken(io.BytesIO(), **options).dump(Node())


# ---- errors ---------------------------------------------------------------------------------------


class Returns:
    """Its reducer returns what `value()` gives."""

    value: Callable[[], Any]

    def __reduce__(self) -> Any:
        return type(self).value()


@pytest.mark.parametrize(
    "value",
    [
        lambda: (),
        lambda: (1,),
        lambda: (Node, (), None, None, None, None, None),
        lambda: (3, ()),
        lambda: (Node, []),
        lambda: (Node, (), None, [1]),
        lambda: (Node, (), None, None, [1]),
        lambda: (Node, (), None, None, None, 3),
        lambda: (Node, (), None, iter([1]), iter([1])),
        lambda: (Node, (), None, None, iter([(1, 2), (1,)])),
        lambda: (Node, (), None, None, iter([[1, 2]])),
        lambda: (copyreg.__newobj__, ()),
        lambda: (copyreg.__newobj__, (3,)),
        lambda: (copyreg.__newobj__, (Node,)),
        lambda: (copyreg.__newobj_ex__, ()),
        lambda: (copyreg.__newobj_ex__, (3, (), {})),
        lambda: (copyreg.__newobj_ex__, (Node, [], {})),
        lambda: (copyreg.__newobj_ex__, (Node, (), [])),
        lambda: (copyreg.__newobj_ex__, (Node, (1,), {"k": 2})),
        lambda: 3,
        lambda: "no_such_name",
        lambda: "Node",
        lambda: "a.b",
        lambda: "a.<locals>.b",
    ],
)
def test_bad_results_of_reducers(value: Callable[[], Any]) -> None:
    Returns.value = staticmethod(value)
    for protocol in (0, 2, 4):
        alike(Returns(), protocol)


def test_unpicklable_things() -> None:
    def local() -> None:
        pass

    class Local:
        pass

    odd = type("Odd", (), {"__module__": "no.such.module"})
    for obj in (local, Local, Local(), lambda: 0, sys, odd, iter({}.keys()), type(sys)):
        for protocol in (0, 3, 5):
            alike(obj, protocol)


def test_mutation_while_pickling() -> None:
    class Grows:
        def __init__(self, target: Any) -> None:
            self.target = target

        def __reduce__(self) -> Any:
            if isinstance(self.target, dict):
                self.target["new"] = 1
            else:
                self.target.add("new")
            return Node, ()

    for kind in ({}, set()):

        def graph() -> Any:
            target = kind.copy()
            if isinstance(target, dict):
                target.update(a=Grows(target), b=2)
            else:
                target.update([Grows(target), 2])
            return target

        messages = []
        for call in (stock.dumps, dumps):
            with pytest.raises(RuntimeError) as info:
                call(graph(), 5)
            messages.append(str(info.value))
        assert messages[0] == messages[1]


def test_state_is_consistent_after_an_error() -> None:
    class Fails:
        fail = True

        def __reduce__(self) -> Any:
            if self.fail:
                raise KeyError("reducer")
            return Node, ()

    sink = io.BytesIO()
    pickler = torshi.Pickler(sink, 4, **STANDARD)
    shared = ["shared"]
    pickler.dump(shared)
    before = sink.tell()
    with pytest.raises(KeyError):
        pickler.dump([shared, ["new"], Fails()])
    assert sink.tell() == before
    pickler.clear_memo()
    pickler.dump([shared])
    assert sink.getvalue()[before:] == stock.dumps([shared], 4)


def test_uninitialised() -> None:
    class Sub(torshi.Pickler):
        def __init__(self) -> None:
            pass

    for pickler in (torshi.Pickler.__new__(torshi.Pickler), Sub()):
        with pytest.raises(pickle.PicklingError, match="__init__"):
            pickler.dump(1)
        pickler.clear_memo()
        assert pickler.memo.copy() == {}
        pickler.memo = {}
    pickler = torshi.Pickler(io.BytesIO())
    with pytest.raises(TypeError):
        pickler.__init__(3)


# ---- in use ---------------------------------------------------------------------------------------


def test_reentry_is_refused() -> None:
    attempts: list[str] = []
    sink = io.BytesIO()

    class Inner:
        def __reduce__(self) -> Any:
            for name in ("dump", "clear", "copy", "set", "init"):
                with pytest.raises(RuntimeError, match="already used"):
                    if name == "dump":
                        pickler.dump(1)
                    elif name == "clear":
                        pickler.clear_memo()
                    elif name == "copy":
                        pickler.memo.copy()
                    elif name == "set":
                        pickler.memo = {}
                    else:
                        pickler.__init__(sink)
                attempts.append(name)
            return Node, ()

    pickler = torshi.Pickler(sink, 4, **STANDARD)
    pickler.dump([Inner()])
    assert len(attempts) == 5


def test_reentry_from_the_file() -> None:
    class File:
        def write(self, data: bytes) -> None:
            with pytest.raises(RuntimeError):
                pickler.dump(1)

    pickler = torshi.Pickler(File(), 4)
    pickler.dump("x" * 200_000)


def test_dumps_within_dumps() -> None:
    class Nested:
        def __reduce__(self) -> Any:
            return bytes, (dumps([1, "inner", self.__class__.__name__]),)

    value = [["outer"], Nested(), ["outer"], Nested()]
    assert dumps(value) == stock.dumps(value, 5)


def test_threads_share_nothing_but_the_error() -> None:
    class Slow:
        def __reduce__(self) -> Any:
            started.set()
            go_on.wait(10)
            return Node, ()

    started, go_on = threading.Event(), threading.Event()
    pickler = torshi.Pickler(io.BytesIO(), 4)
    thread = threading.Thread(target=pickler.dump, args=(Slow(),))
    thread.start()
    started.wait(10)
    with pytest.raises(RuntimeError, match="already used"):
        pickler.dump(1)
    assert dumps([1]) == stock.dumps([1], 5)
    go_on.set()
    thread.join()
    pickler.dump(1)


# ---- memo -----------------------------------------------------------------------------------------


def test_memo_copy_and_assignment() -> None:
    shared = [["x"], "y"]
    node = Both()
    node.value, node.extra = shared, 1
    streams = []
    for module, options in ((stock, {}), (torshi, STANDARD)):
        sink = io.BytesIO()
        pickler = module.Pickler(sink, 2, **options)
        pickler.dump([node, shared])
        copied = pickler.memo.copy()
        assert all(key == id(obj) for key, (_, obj) in copied.items())
        for memo in (copied, pickler.memo):
            again = module.Pickler(sink, 2, **options)
            again.memo = memo
            again.dump([shared, node, vars(node), ["z"]])
        assert pickle.loads(pickle.dumps(pickler.memo)) is not None if module is stock else True
        streams.append(sink.getvalue())
    assert streams[0] == streams[1]


def test_memo_with_odd_numbers() -> None:
    shared = ["x"]
    for numbers in (0, 1, 300, 70_000):
        streams = []
        for module, options in ((stock, {}), (torshi, STANDARD)):
            sink = io.BytesIO()
            pickler = module.Pickler(sink, 3, **options)
            pickler.memo = {id(shared): (numbers, shared)}
            pickler.dump([shared, "new", ["newer"]])
            streams.append(sink.getvalue())
        assert streams[0] == streams[1]
    pickler = torshi.Pickler(io.BytesIO())
    for bad in ({1: 2}, {1: (1,)}, {1: ("a", "b")}):
        with pytest.raises(TypeError):
            pickler.memo = bad
    with pytest.raises(TypeError, match="must be a PicklerMemoProxy"):
        pickler.memo = []
    with pytest.raises(TypeError, match="deletion"):
        del pickler.memo


def test_memo_keeps_and_gives_back() -> None:
    class Weak:
        pass

    Weak.__qualname__ = "Node"
    obj = Node()
    ref = weakref.ref(obj)
    pickler = torshi.Pickler(io.BytesIO(), 4)
    pickler.dump(obj)
    del obj
    assert ref() is not None
    pickler.clear_memo()
    assert ref() is None


def test_pickler_in_a_cycle_is_collected() -> None:
    class Ids(torshi.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return None

    pickler = Ids(io.BytesIO())
    node = Node()
    node.pickler = pickler
    pickler.memo = {id(node): (0, node)}
    pickler.dump([1])
    ref = weakref.ref(node)
    del node, pickler
    gc.collect()
    assert ref() is None


def test_temporaries_do_not_confuse_the_memo() -> None:
    class Fresh:
        def __init__(self, n: int) -> None:
            self.n = n

        def __reduce__(self) -> Any:
            return Fresh, (self.n, [self.n], (self.n, str(self.n) * 3), b"b%d" % self.n)

    values = [Fresh(i) for i in range(2000)]
    globals()["Fresh"] = Fresh
    Fresh.__qualname__ = "Fresh"
    assert dumps(values) == stock.dumps(values, 5)
    del globals()["Fresh"]


def test_interned_temporaries_are_met_again() -> None:
    class Interns:
        def __reduce__(self) -> Any:
            return str, (sys.intern("".join(["interned", " by a reducer"])),)

    value = [Interns(), Interns()]
    assert dumps(value) == stock.dumps(value, 5)


def test_no_dict_is_left_behind() -> None:
    gc.collect()
    nodes = [Node() for _ in range(100)]
    for node in nodes:
        node.first, node.second = 1, ["x"]

    def made_dicts() -> int:
        return sum(isinstance(r, dict) for node in nodes for r in gc.get_referents(node))

    before = made_dicts()
    want = len(dumps(nodes))
    if not torshi_has_internals():
        pytest.skip("only where inline values can be read")
    assert made_dicts() == before
    assert len(stock.dumps(nodes, 5)) == want


def torshi_has_internals() -> bool:
    return os.environ.get("TORSHI_INTERNALS") != "0" and "torshi.internals" not in sys._xoptions


def test_a_dict_made_later_is_the_one_written() -> None:
    class Shows:
        def __init__(self, node: Any) -> None:
            self.node = node

        def __reduce__(self) -> Any:
            return Node, (), {"seen": vars(self.node)}

    def graph() -> Any:
        node = Node()
        node.value = [1]
        return [node, Shows(node), Shows(node)]

    for protocol in (2, 4, 5):
        assert dumps(graph(), protocol) == stock.dumps(graph(), protocol)


# ---- out of band ----------------------------------------------------------------------------------


def test_buffer_callback() -> None:
    for data in (b"r" * 10, bytearray(b"w" * 10), b"R" * 70_000, bytearray(b"W" * 70_000)):
        for answer in (None, True, False, 1):
            streams = []
            for module, options in ((stock, {}), (torshi, STANDARD)):
                seen: list[Any] = []

                def callback(buffer: Any) -> Any:
                    seen.append(bytes(buffer))
                    return answer

                obj = [pickle.PickleBuffer(data)] * 2
                streams.append((module.dumps(obj, 5, buffer_callback=callback, **options), seen))
            assert streams[0] == streams[1]


def test_released_in_the_callback() -> None:
    for answer in (True, False):

        def callback(buffer: Any) -> Any:
            buffer.release()
            return answer

        obj = pickle.PickleBuffer(bytearray(b"x" * 100))
        if answer:
            with pytest.raises(ValueError):
                torshi.dumps(obj, 5, buffer_callback=callback)
        else:
            assert torshi.dumps(obj, 5, buffer_callback=callback)


def test_large_buffers_reach_the_file_with_a_length() -> None:
    parts: list[Any] = []

    class File:
        def write(self, data: Any) -> None:
            parts.append(len(data))

    for obj in (pickle.PickleBuffer(b"r" * 70_000), pickle.PickleBuffer(bytearray(70_000))):
        torshi.dump([obj], File(), 5)
    assert parts.count(70_000) == 2


def test_names_of_python_2() -> None:
    import collections
    import itertools

    for obj in (range, map, functools.reduce, itertools.zip_longest, collections.ChainMap, KeyError, int):
        for protocol in range(4):
            for fix in (True, False):
                assert torshi.dumps(obj, protocol, fix_imports=fix, **STANDARD) == stock.dumps(
                    obj, protocol, fix_imports=fix
                )


def test_extension_registry() -> None:
    for code in (1, 255, 256, 65535, 65536, 0x7FFFFFFF):
        copyreg.add_extension(__name__, "Node", code)
        try:
            for protocol in range(6):
                value = [Node(), Node, Node()]
                assert dumps(value, protocol) == stock.dumps(value, protocol)
        finally:
            copyreg.remove_extension(__name__, "Node", code)


@pytest.mark.parametrize("code", [object(), None, -1, 0, 2**31, 2**1000, True, "x", 1.0], ids=lambda c: type(c).__name__)
def test_extension_codes_that_are_none(monkeypatch: pytest.MonkeyPatch, code: object) -> None:
    """The registry is a dict that anyone can write to: the errors are those of this Python's _pickle."""
    monkeypatch.setitem(copyreg._extension_registry, (__name__, "Node"), code)  # type: ignore[attr-defined]

    def outcome(dumps_: Callable[..., bytes]) -> object:
        try:
            return dumps_(Node, 2)
        except Exception as error:
            return type(error).__name__, str(error)  # the host has a PicklingError of its own

    assert outcome(dumps) == outcome(stock.dumps)
