"""Loading plugins: what fits, and the message of each refusal."""

from __future__ import annotations

import re
import sys

import pytest

import torshi
from plugin_support import EXAMPLES, FAKES, HOST, check_code, run_code

pytestmark = pytest.mark.skipif(not torshi.native, reason="plugins need the native engine")

PYTHON = "%d.%d" % sys.version_info[:2]
BUILD_BITS = int(hasattr(sys, "gettotalrefcount"))
POINTER = sys.maxsize.bit_length() // 8 + 1

# Fake plugin -> what its refusal says after the path: the field, their value, ours.
REFUSALS = {
    "abi_major": "abi_major is 2, this engine has 1",
    "abi_minor": r"abi_minor is 7, this engine has 0",
    "size_small": r"size is 4, this engine has \d+",
    "size_large": r"size is \d+, this engine has \d+",
    "python_version": f"py_version_hex is 2.7, this Python is {PYTHON}",
    "py_build": f"py_build is {BUILD_BITS ^ 1}, this engine has {BUILD_BITS}",
    "pointer_size": f"pointer_size is {POINTER // 2}, this engine has {POINTER}",
    "format_version": "format_version is 2, this engine has 1",
    "row_size": r"row_size is \d+, this engine has \d+",
    "no_name": "name is NULL",
    "no_symbol": "no symbol torshi_plugin_info_v1: not a plugin of this engine",
    "null_record": "torshi_plugin_info_v1 returned NULL",
    "no_rows": "row_count is 3, but rows is NULL",
    "duplicate_name": r"name is 'chunked', which .*chunked\.so has registered already",
    "duplicate_function": r"row 0: function torshi\.chunk is another plugin's already",
    "row_kind": r"row 0 \(fakes\.thing\): kind is 99, which this engine does not have",
    "row_incomplete": r"row 0 \(fakes\.Thing\): save is NULL",
    "init_fails": "init failed: ValueError: no licence for the moon",
    "init_fails_silently": "init failed without an exception",
}


def refusal(path) -> ImportError:
    before = torshi.registry()
    with pytest.raises(ImportError) as caught:
        torshi.load_plugin(path)
    assert torshi.registry() == before
    return caught.value


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_names_the_field_and_both_values(name):
    path = FAKES / f"{name}.so"
    error = refusal(path)
    assert re.fullmatch(f"plugin {re.escape(str(path))}: {REFUSALS[name]}", str(error))
    assert error.path == str(path)
    # Again: the first time has left nothing behind.
    assert str(refusal(path)) == str(error)


def test_every_fake_is_tried():
    others = {"sound", "chain_old", "chain_new", "reference"}
    assert {f.stem for f in FAKES.glob("*.so")} == {*REFUSALS, *others}


def test_sizes_differ_as_they_say():
    large = re.search(r"size is (\d+), this engine has (\d+)", str(refusal(FAKES / "size_large.so")))
    assert large and int(large[1]) == int(large[2]) + 8


def test_cause_of_a_failing_init_is_kept():
    error = refusal(FAKES / "init_fails.so")
    assert isinstance(error.__cause__, ValueError)
    assert str(error.__cause__) == "no licence for the moon"


def test_missing_file(tmp_path):
    path = tmp_path / "nowhere.so"
    assert str(refusal(path)) == f"plugin {path}: No such file or directory"


def test_not_a_library(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("this is not a library\n" * 100)
    assert f"plugin {path}: not a library that can be loaded" in str(refusal(path))
    path.write_bytes(b"")
    assert f"plugin {path}: not a library that can be loaded" in str(refusal(path))


def test_a_name_without_a_slash_is_a_file_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(refusal("libc.so.6")) == "plugin ./libc.so.6: No such file or directory"


def test_paths_of_the_wrong_kind():
    with pytest.raises(TypeError):
        torshi.load_plugin(None)
    with pytest.raises(ValueError):
        torshi.load_plugin("a\0b")
    with pytest.raises(TypeError):
        torshi.load_plugin()


def test_path_that_is_not_utf8(tmp_path):
    path = bytes(tmp_path) + b"/\xff.so"
    assert "No such file" in str(refusal(path))


def test_sound_plugin_is_listed_and_counts_its_life():
    check_code(
        f"""
import torshi
rows = torshi.registry()
before = hasattr(torshi, "fakes_count")
torshi.load_plugin({str(FAKES / 'sound.so')!r})
new = torshi.registry()[len(rows):]
assert torshi.registry()[:len(rows)] == rows
assert ("function", "fakes.count", "sound", "1") in new
assert ("loader", "fakes_sound.native", "sound", "1") in new
assert torshi.function("fakes", "count")() == [1, 0]
assert not before and torshi.fakes_count() == [1, 0]
assert "__getattr__" not in vars(torshi)  # it would slow torshi.dumps down
try:
    torshi.load_plugin({str(FAKES / 'sound.so')!r})
except ImportError as e:
    assert "name is 'sound', which" in str(e) and "sound.so has registered already" in str(e)
else:
    raise AssertionError("twice")
assert torshi.function("fakes", "count")() == [1, 0]
"""
    )


def test_loading_is_audited():
    check_code(
        f"""
import sys, torshi
seen = []
sys.addaudithook(lambda event, args: event == "torshi.load_plugin" and seen.append(args))
torshi.load_plugin({str(FAKES / 'sound.so')!r})
assert seen == [({str(FAKES / 'sound.so')!r},)], seen
"""
    )


def test_refused_plugins_leak_nothing():
    check_code(
        f"""
import torshi, gc, sys
def once():
    for name in {[n for n in REFUSALS if not n.startswith('init')]!r}:
        try:
            torshi.load_plugin({str(FAKES)!r} + "/" + name + ".so")
        except ImportError:
            pass
for i in range(50):
    once()
gc.collect()
before = sys.getallocatedblocks()
for i in range(200):
    once()
gc.collect()
assert sys.getallocatedblocks() - before < 100, sys.getallocatedblocks() - before
"""
    )


EXAMPLE = f"""
import datetime, pickle, sys
import points, torshi
P, D = points.Point, datetime.date
values = [P(1.5, -0.0), D(2026, 11, 30), [P(0, 1)] * 2, {{D(1, 1, 1): D(9999, 12, 31)}}]
without = torshi.dumps(values)
torshi.load_plugin({str(EXAMPLES / 'points.so')!r})
"""


def test_example_replaces_both_reducers():
    check_code(
        EXAMPLE
        + """
data = torshi.dumps(values)
assert b"restore" in data and b"day" in data and b"datetime" not in data
assert len(data) < len(without)
for load in torshi.loads, pickle.loads, pickle._loads:
    back = load(data)
    assert back == values and back[2][0] is back[2][1] and str(back[0].y) == "-0.0"
    assert type(back[1]) is D and back[3] == {D.min: D.max}
# what is not exactly a date has its own reducer
moment = datetime.datetime(2026, 11, 30, 12)
assert b"day" not in torshi.dumps(moment) and torshi.loads(torshi.dumps(moment)) == moment
class Sub(D): pass
sys.modules["__main__"].Sub = Sub
assert type(torshi.loads(torshi.dumps(Sub(2000, 1, 2)))) is Sub
# nor are the rows for whoever wants pickle's own bytes
assert b"day" not in torshi.dumps(values, reducers="standard")
for protocol in range(4):
    assert b"day" not in torshi.dumps(values, protocol)
    assert torshi.loads(torshi.dumps(values, protocol)) == values
"""
    )


def test_example_declines_where_hooks_want_to_see_instances():
    check_code(
        EXAMPLE
        + """
import io
seen = []
class Asks(torshi.Pickler):
    def reducer_override(self, obj):
        seen.append(type(obj))
        return NotImplemented
file = io.BytesIO()
Asks(file).dump(values)
assert D in seen and P in seen
assert b"restore" not in file.getvalue() and torshi.loads(file.getvalue()) == values
"""
    )


def test_loader_row_stands_for_the_callable_that_find_class_gives():
    check_code(
        f"""
import io, sys, types, torshi
torshi.load_plugin({str(FAKES / 'sound.so')!r})
stream = b"\\x80\\x04\\x8c\\x0bfakes_sound\\x8c\\x06native\\x93K\\x07\\x85R."
module = types.ModuleType("fakes_sound")
calls = []
def native(x):
    calls.append(x)
    return "python", x
module.native = native
sys.modules["fakes_sound"] = module
assert torshi.loads(stream) == ("native", 7) and calls == []
# by identity: another callable of this name is called
def other(x):
    return "other", x
module.native = other
assert torshi.loads(stream) == ("other", 7)
class Finds(torshi.Unpickler):
    def find_class(self, module, name):
        return {{"native": native}}[name]
assert Finds(io.BytesIO(stream)).load() == ("native", 7) and calls == []
# its errors are the call's
try:
    torshi.loads(stream.replace(b"K\\x07\\x85", b"K\\x07K\\x07\\x86"))
except TypeError as e:
    assert "one argument" in str(e) or "takes" in str(e)
else:
    raise AssertionError
"""
    )


@pytest.mark.skipif(not HOST, reason="no host given")
class TestHost:
    def test_refused_plugin_stops_it(self):
        for name in REFUSALS:
            path = str(FAKES / f"{name}.so")
            done = run_code("print('ran')", "-X", f"torshi.plugin={path}", program=HOST)
            assert done.returncode == 2 and done.stdout == "", name
            lines = done.stderr.strip().splitlines()
            assert len(lines) == 1 and path in lines[0]
            assert re.search(REFUSALS[name], lines[0]), lines[0]

    def test_optional_one_is_left_out(self):
        for name in "abi_major", "init_fails", "no_symbol", "nowhere":
            path = str(FAKES / f"{name}.so")
            done = run_code(
                "import pickle, torshi; print(pickle.loads(pickle.dumps([1])))",
                "-X", f"torshi.plugin=?{path}", program=HOST,
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "[1]\n", "")

    def test_optional_one_is_warned_about_where_that_is_asked_for(self):
        path = str(FAKES / "abi_major.so")
        done = run_code(
            "import torshi", "-W", "default", "-X", f"torshi.plugin=?{path}", program=HOST
        )
        assert done.returncode == 0
        assert f"left out: plugin {path}: abi_major is 2, this engine has 1" in done.stderr

    def test_example_by_option_and_by_environment(self):
        code = "import datetime, pickle; print(b'points' in pickle.dumps(datetime.date.today()))"
        path = str(EXAMPLES / "points.so")
        assert run_code(code, "-X", f"torshi.plugin={path}", program=HOST).stdout == "True\n"
        assert run_code(code, program=HOST, TORSHI_PLUGINS=path).stdout == "True\n"
        assert run_code(code, program=HOST).stdout == "False\n"


SHELF = """
import pickle, sys, types
import torshi
shelf = types.ModuleType("shelf")
class Tag:
    batches = 0
    def __init__(self, number, owner):
        self.number, self.owner = number, owner
    def __reduce__(self):
        raise TypeError("nobody asks the class")
class Card:
    def __init__(self, number):
        self.number = number
    def __reduce__(self):
        return Card, (self.number,)
for cls in (Tag, Card):
    cls.__module__ = "shelf"
    setattr(shelf, cls.__name__, cls)
def pairs(tags):
    return [(t.number, t.owner) for t in tags]
def refusal():
    # what load_plugin(PATH) says, which must fail
    try:
        torshi.load_plugin(PATH)
    except ImportError as error:
        return str(error)
    raise AssertionError("it was loaded")
def load():
    sys.modules["shelf"] = shelf
    torshi.load_plugin(PATH)
"""


def check_shelf(code: str) -> None:
    check_code(f"PATH = {str(FAKES / 'reference.so')!r}\n{SHELF}{code}")


def test_reference_row_writes_and_makes_columns():
    check_shelf("""
load()
assert ("reference", "shelf.Tag", "reference", "1") in torshi.registry()
tags = [Tag(i * i, f"owner {i % 3}") for i in range(300)]
data = torshi.dumps(tags, 5)
assert len(data) < len(torshi.dumps(tags, 5, reducers="standard")) / 2
for loads in (torshi.loads, pickle.loads):
    Tag.batches = 0
    assert pairs(loads(data)) == pairs(tags)
    assert Tag.batches == 1
assert pairs(pickle.loads(pickle.dumps(tags))) == pairs(tags)
two = torshi.loads(torshi.dumps([tags[0]] * 20 + tags, 5))
assert all(t is two[0] for t in two[:21]) and len(set(map(id, two))) == 300
twice = [Tag(1, "a"), Tag(1, "a")] * 20
assert len(set(map(id, torshi.loads(torshi.dumps(twice, 5))))) == 2
# Without its registration the same stream makes each through the class.
torshi.unregister_ref(Tag)
Tag.batches = 0
assert pairs(torshi.loads(data)) == pairs(tags) and Tag.batches == 0
""")


def test_errors_of_a_reference_row_are_those_of_the_call():
    check_shelf("""
load()
def fails(call, *args):
    try:
        call(*args)
    except ValueError as error:
        assert str(error) == "the owner is broken", error
    else:
        raise AssertionError("nothing was raised")
good = [Tag(i, "owner") for i in range(50)]
fails(torshi.dumps, good + [Tag(0, "broken")], 5)
data = torshi.dumps([Tag(i, "brokem") for i in range(50)], 5).replace(b"brokem", b"broken")
fails(torshi.loads, data)
assert pairs(torshi.loads(torshi.dumps(good, 5))) == pairs(good)
""")


def test_reference_row_of_a_class_that_is_not_there():
    check_shelf("""
for make, what in ((False, "ModuleNotFoundError: No module named 'shelf'"),
                   (True, "AttributeError: module 'shelf' has no attribute 'Tag'")):
    if make:
        sys.modules["shelf"] = types.ModuleType("shelf")
    before = torshi.registry()
    message = refusal()
    assert message.endswith("reference row 0 failed: " + what), message
    assert torshi.registry() == before
# The second row fails: the first is taken back.
sys.modules["shelf"].Tag = Tag
message = refusal()
assert "reference row 1 failed: AttributeError" in message, message
try:
    torshi.unregister_ref(Tag)
except ValueError:
    pass
else:
    raise AssertionError("it was registered")
load()
""")


def test_refused_plugin_takes_back_only_its_own_references():
    """What Python had registered stays in force, also where the module's class is another by then."""
    check_shelf("""
import copyreg
sys.modules["shelf"] = shelf
del shelf.Card
calls = []
def reduce_tag(tag):
    calls.append(tag)
    return Tag, (tag.number, tag.owner)
torshi.register_ref(Tag, reduce=reduce_tag)
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        # the second row asks for Card: shelf.Tag is another class then
        self.Tag = type("Tag", (), {})
        raise AttributeError(f"no {name}")
shelf.__class__ = Lazy
for _ in range(2):
    shelf.Tag = Tag
    message = refusal()
    assert "reference row 1 failed: AttributeError" in message, message
    assert shelf.Tag is not Tag and copyreg.dispatch_table[Tag] is reduce_tag
    shelf.Tag = Tag
    calls.clear()
    data = torshi.dumps([Tag(i, "owner") for i in range(50)], 5)
    assert len(calls) == 50
    assert pairs(torshi.loads(data)) == [(i, "owner") for i in range(50)]
torshi.unregister_ref(Tag)
assert Tag not in copyreg.dispatch_table
# Nobody had: nothing is left.
shelf.Tag = Tag
assert "reference row 1 failed: AttributeError" in refusal()
assert Tag not in copyreg.dispatch_table
try:
    torshi.unregister_ref(Tag)
except ValueError:
    pass
else:
    raise AssertionError("it was registered")
""")


def test_reference_row_without_functions():
    check_shelf("""
load()
cards = [Card(i * i) for i in range(300)]
data = torshi.dumps(cards, 5)
assert len(data) < len(torshi.dumps(cards, 5, reducers="standard")) / 2
assert [c.number for c in torshi.loads(data)] == [c.number for c in cards]
""")
