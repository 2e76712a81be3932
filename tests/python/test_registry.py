"""The registration table: function objects, chains of savers, one table an interpreter."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import pydoc
import weakref

import pytest

import torshi
from plugin_support import FAKES, check_code

pytestmark = pytest.mark.skipif(not torshi.native, reason="the table is the native engine's")


def test_rows_of_the_chunked_plugin():
    rows = torshi.registry()
    assert all(len(row) == 4 and all(type(part) is str for part in row) for row in rows)
    kinds = {(kind, name): (plugin, version) for kind, name, plugin, version in rows}
    for row in (
        ("function", "torshi.chunk"),
        ("loader", "torshi.chunk"),
        ("saver", "builtins.dict"),
    ):
        assert kinds[row] == ("chunked", torshi.__version__)
    # a new list each time
    torshi.registry().clear()
    assert torshi.registry() == rows


class TestFunction:
    """torshi.chunk stands for every function row."""

    def test_looks_like_a_builtin_function(self):
        chunk = torshi.chunk
        assert (chunk.__module__, chunk.__name__, chunk.__qualname__) == ("torshi",) + ("chunk",) * 2
        assert repr(chunk) == "<torshi function torshi.chunk>"
        assert callable(chunk) and inspect.isroutine(chunk)
        parameters = inspect.signature(chunk).parameters
        assert list(parameters)[:2] == ["target", "payload"]
        assert "chunk(target" in pydoc.render_doc(chunk, renderer=pydoc.plaintext)
        assert not chunk.__doc__.startswith("chunk(")

    def test_is_one_object_pickled_by_name(self):
        chunk = torshi.chunk
        assert torshi.function("torshi", "chunk") is chunk
        assert copy.copy(chunk) is chunk and copy.deepcopy(chunk) is chunk
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for dumps in pickle.dumps, pickle._dumps, torshi.dumps:
                data = dumps(chunk, protocol)
                assert b"torshi" in data and b"chunk" in data
                for loads in pickle.loads, pickle._loads, torshi.loads:
                    assert loads(data) is chunk

    def test_does_not_bind(self):
        class Holder:
            chunk = torshi.chunk

        assert Holder().chunk is Holder.chunk is torshi.chunk

    def test_is_immutable_and_not_made_by_hand(self):
        kind = type(torshi.chunk)
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(TypeError):
            kind.__call__ = None
        with pytest.raises(AttributeError):
            torshi.chunk.anything = 1
        with pytest.raises(AttributeError):
            torshi.chunk.__name__ = "other"
        assert gc.is_tracked(torshi.chunk) and kind in gc.get_referents(torshi.chunk)
        assert weakref.ref(torshi.chunk)() is torshi.chunk
        assert hash(torshi.chunk) == hash(torshi.chunk)

    def test_arguments_arrive_as_given(self):
        check_code(
            f"""
import functools, inspect, torshi
torshi.load_plugin({str(FAKES / 'sound.so')!r})
echo = torshi.function("fakes", "echo")
assert echo() == ((), {{}})
assert echo(1, 2, a=3, b=4) == ((1, 2), {{"a": 3, "b": 4}})
assert echo(*range(50), **{{"k%d" % i: i for i in range(50)}})[1]["k49"] == 49
assert echo.__call__(1, a=2) == ((1,), {{"a": 2}})
assert functools.partial(echo, 1)(2) == ((1, 2), {{}})
assert list(map(echo, [1, 2])) == [((1,), {{}}), ((2,), {{}})]
assert str(inspect.signature(echo)) == "(first=1, /, *rest)"
assert echo.__doc__ == "Give back the arguments."
method = torshi.function("fakes", "Space.method")
assert method.__name__ == "method" and method.__qualname__ == "Space.method"
assert method.__doc__ == "No signature here." and method.__text_signature__ is None
assert method.__reduce__() == "Space.method"
count = torshi.function("fakes", "count")
assert count.__doc__ is None
import pickle
exception = torshi.function("fakes", "exception")
assert [exception(i) for i in range(3)] == [
    torshi.PickleError, torshi.PicklingError, torshi.UnpicklingError
]
assert torshi.PickleError is pickle.PickleError
"""
        )

    def test_those_that_are_not_there(self):
        with pytest.raises(LookupError, match="no plugin has a function torshi.nothing"):
            torshi.function("torshi", "nothing")
        for arguments in ((), ("torshi",), ("torshi", 1), ("torshi", "chunk", 1)):
            with pytest.raises(TypeError):
                torshi.function(*arguments)
        with pytest.raises(AttributeError):
            torshi.nothing
        with pytest.raises(AttributeError):
            torshi._nothing


CHAIN = f"""
import sys, torshi
torshi.load_plugin({str(FAKES / 'chain_old.so')!r})
class Thing:
    def __init__(self, wants): self.wants = wants
    def __reduce__(self): return str, ("built-in",)
class Outer:
    class Thing(Thing): pass
for c in Thing, Outer, Outer.Thing:
    c.__module__ = "chained"
Outer.Thing.__qualname__ = "Outer.Thing"
def both(obj): return torshi.loads(torshi.dumps(obj))
"""


def test_newest_row_is_asked_first_and_declining_goes_back():
    check_code(
        CHAIN
        + f"""
assert both(Thing("old")) == "old" and both(Thing("new")) == "built-in"
torshi.load_plugin({str(FAKES / 'chain_new.so')!r})
for kind in Thing, Outer.Thing:
    for wants, gets in ("old", "old"), ("new", "new"), ("none", "built-in"):
        assert both(kind(wants)) == gets, (kind, wants)
# a row that names the type and one that points to it are one chain
assert both({{"old", 1}}) == "old" and both({{"new", 1}}) == "new" and both({{1, 2}}) == {{1, 2}}
assert both({{"old", "new"}}) == "new"
# containers with fewer items than the row wants are not offered
assert both({{"new"}}) == {{"new"}}
"""
    )


def test_rows_are_for_exactly_their_type():
    check_code(
        CHAIN
        + """
class Sub(Thing): pass
assert both(Sub("old")) == "built-in"
class Named(Thing): pass
Named.__qualname__ = "Thing"
assert both(Named("old")) == "built-in"     # __main__.Thing
Late = type("Thing", (Thing,), {"__module__": "chained"})
assert both(Late("old")) == "old"           # made after the row, of its name
assert both(Late("new")) == "built-in"
# a name that was assigned to changes what the type is called
Late.__qualname__ = "Other"
class SubSet(set): pass
sys.modules["__main__"].SubSet = SubSet
assert type(both(SubSet({"old", 1}))) is SubSet
assert both(frozenset({"old", 1})) == {"old", 1}
"""
    )


def test_matching_a_name_runs_no_code_of_the_class():
    check_code(
        CHAIN
        + """
class Key(str):
    def __hash__(self): return hash("__module__")
    def __eq__(self, other):
        if armed:
            raise AssertionError("asked")
        return False
armed = False
class Meta(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__"):
            raise AssertionError("asked for " + name)
        return super().__getattribute__(name)
Odd = type.__new__(Meta, "Thing", (Thing,), {"__module__": "chained", Key("x"): 1})
armed = True
assert both(Odd("old")) == "old"
"""
    )


def test_error_of_a_save_function_is_the_error_of_dumps():
    check_code(
        CHAIN
        + """
thing = Thing("old")
del thing.wants
for i in range(3):
    try:
        torshi.dumps([thing])
    except AttributeError as e:
        assert "wants" in str(e)
    else:
        raise AssertionError
"""
    )


def test_rows_of_a_plugin_loaded_while_a_pickler_is_at_work():
    check_code(
        CHAIN
        + f"""
class Loads:
    def __reduce__(self):
        torshi.load_plugin({str(FAKES / 'chain_new.so')!r})
        return str, ("loaded",)
assert both([Thing("new"), Loads(), Thing("new"), Thing("old")]) == [
    "built-in", "loaded", "new", "old"
]
"""
    )


SUBINTERPRETERS = f"""
import sys, gc, torshi
try:
    import _interpreters as si
except ImportError:
    import _xxsubinterpreters as si
run = getattr(si, "exec", None) or si.run_string
sound = {str(FAKES / 'sound.so')!r}
torshi.load_plugin(sound)
count = torshi.function("fakes", "count")
body = '''
import sys
sys.path[:] = %r
import torshi
if not [r for r in torshi.registry() if r[2] == "sound"]:
    torshi.load_plugin(%r)
class X:
    pass
import __main__; __main__.X = X
X.keep = torshi
import copyreg
copyreg.pickle(X, lambda x: (X, ()))
d = {{"a": [1, None], 5: {{"b": (1, 2)}}, "x": X()}}
v = torshi.loads(torshi.dumps(d))
assert v["a"] == [1, None] and type(v["x"]) is X
big = {{i: i for i in range(100)}}
assert torshi.loads(torshi.dumps(big)) == big
''' % (sys.path, sound)
def check(result):
    assert not result, result
"""


def test_each_interpreter_has_its_own_table():
    check_code(
        SUBINTERPRETERS
        + """
kept = []
for i in range(12):
    s = si.create()
    check(run(s, body))
    assert count() == [i + 2, i - len(kept)], (i, count())
    if i % 3:
        si.destroy(s)
    else:
        kept.append(s)
    assert torshi.loads(torshi.dumps({i: [i]})) == {i: [i]}
for s in kept:
    check(run(s, body))
    si.destroy(s)
gc.collect()
assert count() == [13, 12], count()
"""
    )


def test_function_outlives_its_engine_in_late_finalisers():
    check_code(
        f"""
import torshi
torshi.load_plugin({str(FAKES / 'sound.so')!r})
class Late:
    def __init__(self): self.echo = torshi.function("fakes", "echo"); self.dumps = torshi.dumps
    def __del__(self):
        try:
            self.echo(1); self.dumps([1, {{"a": 2}}])
        except RuntimeError:
            pass
late = Late()
class Cycle(Late): pass
c = Cycle(); c.me = c; c.torshi = torshi
import builtins; builtins.late = Late()
"""
    )


def test_dumps_does_not_leak_through_the_table():
    check_code(
        CHAIN
        + """
import gc
things = [Thing("old"), {"old", 1}, Thing("none"), {1, 2}]
def once():
    # a new class each time, that a row matches
    Late = type("Thing", (Thing,), {"__module__": "chained"})
    torshi.loads(torshi.dumps([Late("old"), *things]))
for i in range(1000):
    once()
gc.collect()
before = sys.getallocatedblocks()
for i in range(2000):
    once()
gc.collect()
# one a round would be 2000; caches of the interpreter and the engine fill up slowly
assert sys.getallocatedblocks() - before < 1000, sys.getallocatedblocks() - before
"""
    )
