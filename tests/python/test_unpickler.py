"""The unpickler: what loads, how files and memos are handled, and who is asked and when."""

from __future__ import annotations

import collections
import copyreg
import gc
import inspect
import io
import itertools
import pickle
import re
import sys
import tempfile
import threading
import weakref

import pytest

import torshi
from stock_engine import stock

pytestmark = pytest.mark.skipif(not torshi.native, reason="the engine's unpickler")

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
DAMAGED = (torshi.UnpicklingError, pickle.UnpicklingError)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None


class Slotted:
    __slots__ = ("a", "b", "__dict__")


class Appender:
    """Neither list nor anything with extend()."""

    def __init__(self):
        self.got = []

    def append(self, item):
        self.got.append(item)


class Adder:
    def __init__(self):
        self.got = []

    def add(self, item):
        self.got.append(item)


class Mapping:
    def __init__(self):
        self.got = []

    def __setitem__(self, key, value):
        self.got.append((key, value))


VALUES = [
    None,
    [1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**63, -(2**63) - 1, 2**2000],
    [1.5, -0.0, float("inf"), float("nan")],
    ["", "a", "é", "ab", "abc", "seven77", "eight888", "x" * 15, "x" * 16, "x" * 17, "y" * 300],
    ["\ud800", "€" * 5, "\U0001f600", "a\0b", "abcdefg\x80", "\x80abcdefg", "aé" * 200],
    [b"", b"a", b"x" * 255, b"x" * 256, b"y" * 70000, bytearray(), bytearray(b"q" * 70000)],
    [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((((),),),)],
    {"k": {"k": 1, "l": []}, 1: {1: 2}, None: {}, (1, 2): {b"x": 1.5, True: "t"}},
    {i: i for i in range(1000)},
    {f"k{i}": f"v{i}" for i in range(3001)},
    {i: [i] for i in range(2500)},
    [{"x": i} for i in range(1500)],
    [{1, 2, 3}, set(), frozenset(), frozenset("ab"), {(1,): {2}}],
    collections.OrderedDict((("b", 1), ("a", 2))),
    [Plain(x=1, y=[2]), Plain(), Plain(**{f"f{i}": i for i in range(70)})],
    sys.intern,
    Plain,
]


def files(data):
    """The same bytes behind files of several kinds."""

    class Small:
        def __init__(self):
            file = io.BytesIO(data)
            self.read, self.readline = file.read, file.readline

    with tempfile.TemporaryFile() as real:
        real.write(data)
        real.seek(0)
        yield real
    yield io.BytesIO(data)
    yield Small()
    yield io.BufferedReader(io.BytesIO(data), 10)


@pytest.mark.parametrize("proto", PROTOCOLS)
@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_loads_what_stock_wrote(value, proto):
    data = stock.dumps(value, proto)
    want = repr(stock.loads(data)) if "Plain object" not in repr(value) else None
    for loaded in [torshi.loads(data)] + [torshi.load(file) for file in files(data)]:
        if want is None:
            assert loaded == value
        else:
            assert repr(loaded) == want


def test_shared_objects_are_singletons_as_stock_has_them():
    a, empty, one = torshi.loads(b"\x80\x04\x8c\x01a\x8c\x00K\x01\x87.")
    assert a is chr(97) and empty is str() and one is 1  # noqa: F632
    assert torshi.loads(b").") is ()  # noqa: F632


class TestArguments:
    def test_signatures(self):
        for name in ("load", "loads", "Unpickler"):
            ours, theirs = getattr(torshi, name), getattr(stock, name)
            assert inspect.signature(ours) == inspect.signature(theirs)
            assert ours.__doc__ and type(torshi.loads) is type(len)

    @pytest.mark.parametrize(
        "args, kwargs",
        [
            ((), {}),
            ((b"N.", True), {}),
            ((b"N.",), {"encoding": 5}),
            ((b"N.",), {"errors": None}),
            ((b"N.",), {"encoding": "a\0b"}),
            ((b"N.",), {"nonsense": 1}),
            ((b"N.",), {"buffers": 5}),
            (("text",), {}),
            ((memoryview(b"N.N.")[::2],), {}),
        ],
    )
    def test_refusals(self, args, kwargs):
        with pytest.raises(Exception) as theirs:
            stock.loads(*args, **kwargs)
        with pytest.raises(theirs.type):
            torshi.loads(*args, **kwargs)

    def test_keyword_file(self):
        assert torshi.load(file=io.BytesIO(b"K\x05.")) == 5
        assert torshi.Unpickler(file=io.BytesIO(b"K\x05."), encoding="bytes").load() == 5
        with pytest.raises(TypeError, match="'read' and 'readline'"):
            torshi.load(object())

    def test_python2_strings(self):
        for data in (b"U\x03a\xb7b.", b"T\x03\0\0\0a\xb7b.", b"S'a\\xb7b'\n."):
            assert torshi.loads(data, encoding="latin-1") == "a\xb7b"
            assert torshi.loads(data, encoding="bytes") == b"a\xb7b"
            assert torshi.loads(data, errors="replace") == "a\ufffdb"
            with pytest.raises(UnicodeDecodeError):
                torshi.loads(data)

    def test_fix_imports(self):
        assert torshi.loads(b"c__builtin__\nxrange\n.") is range
        with pytest.raises(ImportError):
            torshi.loads(b"c__builtin__\nxrange\n.", fix_imports=False)
        with pytest.raises(ImportError):
            torshi.loads(b"\x80\x03c__builtin__\nxrange\n.")

    def test_buffers(self):
        data = b"\x80\x05\x97\x97\x98\x86."
        one, two = bytearray(b"one"), bytearray(b"two")
        first, second = torshi.loads(data, buffers=[one, two])
        assert first is one and second == two and second.readonly and not memoryview(two).readonly
        with pytest.raises(DAMAGED, match="not enough out-of-band buffers"):
            torshi.loads(data, buffers=iter([one]))
        for kwargs in ({}, {"buffers": None}):
            with pytest.raises(DAMAGED, match="no \\*buffers\\* argument"):
                torshi.loads(data, **kwargs)


MALFORMED = [
    b"",
    b"N",
    b".",
    b"(.",
    b"]a.",
    b"(a.",
    b"](K\x01u.",
    b"}(K\x01u.",
    b"(K\x01d.",
    b"\x85.",
    b"K\x01\x87.",
    b"e.",
    b"t.",
    b"0.",
    b"2.",
    b"1.",
    b"s.",
    b"}K\x01s.",
    b"b.",
    b"Nb.",
    b"R.",
    b"NR.",
    b"N)R.",
    b"cbuiltins\nlen\nNR.",
    b"\x81.",
    b"N)\x81.",
    b"cbuiltins\nint\nN\x81.",
    b"cbuiltins\nint\n)N\x92.",
    b"NN}\x92.",
    b"\x93.",
    b"NN\x93.",
    b"(o.",
    b"i",
    b"cx",
    b"c\nx\n.",
    b"\x80\x06.",
    b"\x80",
    b"\xff.",
    b"?.",
    b"'.",
    b"g0\n.",
    b"h\x00.",
    b"p0\n.",
    b"]p-1\n.",
    b"\x94.",
    b"q\x00.",
    b"\x82\x00.",
    b"\x82\xfe.",
    b"\x84\xff\xff\xff\xff.",
    b"S'x\n.",
    b"S\n.",
    b"F\n.",
    b"Fx\n.",
    b"Ix\n.",
    b"I\n.",
    b"Lx\n.",
    b"\x8b\xff\xff\xff\xff.",
    b"X\x05\0\0\0ab.",
    b"X\x01\0\0\0\xff.",
    b"\x8c\x02\xff\xff.",
    b"\x8d" + b"\xff" * 8 + b".",
    b"\x8e" + b"\xff" * 8 + b".",
    b"\x96" + b"\xff" * 8 + b".",
    b"\x95" + b"\xff" * 8 + b".",
    b"\x95\x05" + b"\0" * 7 + b"N.",
    b"Px\n.",
    b"NQ.",
    b"\x90.",
    b"N(K\x01\x90.",
    b"\x91.",
    b"\x98.",
    b"N\x98.",
    b"NK\x01b.",
    b"N}K\x01\x86b.",
    b"N)N\x86b.",
    b"cos\nno_such_name\n.",
    b"\x80\x04cos\nno_such_name\n.",
    b"\x80\x04\x8c\x02os\x8c\x0cpath.missing\x93.",
    b"\x80\x04\x8c\x02os\x8c\x08<locals>\x93.",
    b"cno_such_module\nx\n.",
]


@pytest.mark.parametrize("data", MALFORMED, ids=lambda d: repr(d)[2:-1])
def test_malformed_streams_raise_what_stock_raises(data):
    def told(load, *args):
        with pytest.raises(Exception) as caught:
            load(*args)
        return type(caught.value).__name__, re.sub(" at 0x[0-9a-f]+", "", str(caught.value))

    wanted = told(stock.loads, data)
    assert told(torshi.loads, data) == wanted
    if b"\x95" not in data:
        assert told(torshi.load, io.BytesIO(data)) == wanted


class TestFiles:
    def test_stands_behind_the_pickle(self):
        parts = [stock.dumps(v, p) for v in ([1, "a"], "x" * 5000, {}) for p in PROTOCOLS]
        data = b"".join(parts) + b"rest"
        for file in files(data):
            if not hasattr(file, "tell"):
                continue
            for end in itertools.accumulate(map(len, parts)):
                torshi.load(file)
                assert file.tell() == end
            assert file.read() == b"rest"

    def test_seek_between_loads_of_one_unpickler(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"K\x01.K\x02.K\x03.")
            file.seek(0)
            unpickler = torshi.Unpickler(file)
            assert [unpickler.load(), unpickler.load()] == [1, 2]
            file.seek(0)
            assert unpickler.load() == 1

    def test_goes_on_after_an_error(self):
        for file in files(b"(K\x01\x80\x09" + b"K\x05.]."):
            unpickler = torshi.Unpickler(file)
            with pytest.raises(ValueError):
                unpickler.load()
            assert [unpickler.load(), unpickler.load()] == [5, []]
            with pytest.raises(EOFError, match="Ran out of input"):
                unpickler.load()

    def test_readinto_view_kept_by_the_file(self):
        kept = []

        class File(io.BytesIO):
            def readinto(self, view):
                kept.extend((view, view[:2]))
                view[:] = b"v" * len(view)
                return len(view)

        for opcode, kind in ((b"\x8e", bytes), (b"\x96", bytearray)):
            size = 3 << 20
            data = opcode + size.to_bytes(8, "little")

            class Then(File):
                def read(self, n):
                    return super().read(n) or b"."

            value = torshi.load(Then(data))
            assert type(value) is kind and value == b"v" * size
        assert bytes(kept[1]) == b"vv"
        if kept[1].readonly is False:
            kept[1][0] = 0  # writes to memory of its own
        with pytest.raises(ValueError):
            bytes(kept[0])

    def test_lengths_that_the_file_does_not_have(self):
        for opcode in (b"\x8e", b"\x96", b"\x8d", b"\x95"):
            data = opcode + (1 << 62).to_bytes(8, "little") + b"x" * 100
            for file in files(data):
                with pytest.raises((*DAMAGED, MemoryError)):
                    torshi.load(file)

    def test_large_values_in_pieces(self):
        value = [b"ab" * (1 << 20), bytearray(b"cd" * (1 << 20)), "é" * (1 << 20)]
        for proto in (3, 5):
            for file in files(stock.dumps(value, proto)):
                assert torshi.load(file) == value

    def test_frame_border_inside_a_value(self):
        data = b"\x80\x04\x95\x04\0\0\0\0\0\0\0\x8c\x05ab" + b"cde."
        assert torshi.loads(data) == torshi.load(io.BytesIO(data)) == "abcde"


class TestMemo:
    def test_from_load_to_load(self):
        unpickler = torshi.Unpickler(io.BytesIO(b"]q\x05.h\x05.]\x94h\x01\x86."))
        first = unpickler.load()
        assert unpickler.load() is first
        again, same = unpickler.load()
        assert again is same and unpickler.memo.copy() == {5: [], 1: []}

    def test_proxy(self):
        unpickler = torshi.Unpickler(io.BytesIO(b"h\x02.h\x02."))
        unpickler.memo = {2: "two", 70000: "far", 2**40: "further"}
        memo = unpickler.memo
        assert memo.copy() == {2: "two", 70000: "far", 2**40: "further"}
        assert unpickler.load() == "two"
        other = torshi.Unpickler(io.BytesIO(b"h\x02."))
        other.memo = memo
        assert other.memo.copy() == memo.copy() and other.load() == "two"
        assert pickle.loads(pickle.dumps(memo)) == memo.copy()
        memo.clear()
        assert memo.copy() == {}
        with pytest.raises(DAMAGED, match="Memo value not found at index 2"):
            unpickler.load()
        with pytest.raises(TypeError):
            hash(memo)
        with pytest.raises(TypeError):
            del unpickler.memo
        for wrong in ([], {"a": 1}, {-1: 1}):
            with pytest.raises((TypeError, ValueError)):
                unpickler.memo = wrong

    def test_sparse_indexes(self):
        data = b"]r\xff\xff\xff\xff0j\xff\xff\xff\xff."
        assert torshi.loads(data) == []
        data = b"].".join(b"" for _ in "")
        for index in (4000, 5000, 10**9, 2**40):
            data = b"]p%d\n0}p1\n0g%d\ng1\n\x86." % (index, index)
            assert torshi.loads(data) == ([], {})
        assert torshi.loads(b"]p9000000\n0}p9000000\n0g9000000\n.") == {}

    def test_replaced_entries(self):
        assert torshi.loads(b"]q\x00}q\x00h\x00\x87.") == ([], {}, {})
        assert torshi.loads(b"]q\x01}\x94h\x01\x87.") == ([], {}, {})

    def test_many_entries(self):
        value = [[i] for i in range(200_000)]
        assert torshi.loads(stock.dumps(value + value, 4)) == value + value
        assert torshi.loads(b"].") == []


class TestFilling:
    def test_without_extend_or_add(self):
        data = b"c%b\n%%b\n)R" % __name__.encode()
        assert torshi.loads(data % b"Appender" + b"(K\x01K\x02e.").got == [1, 2]
        assert torshi.loads(data % b"Appender" + b"K\x01a.").got == [1]
        assert torshi.loads(data % b"Adder" + b"(K\x01K\x02\x90.").got == [1, 2]
        assert torshi.loads(data % b"Mapping" + b"(K\x01K\x02K\x03K\x04u.").got == [(1, 2), (3, 4)]
        assert torshi.loads(data % b"Mapping" + b"K\x01K\x02s.").got == [(1, 2)]

    def test_duplicate_keys(self):
        assert torshi.loads(b"}(K\x01K\x02K\x01K\x03K\x02K\x04u.") == {1: 3, 2: 4}
        data = b"}(" + b"".join(b"K%cN" % (i % 200) for i in range(1000)) + b"u(K\x01K\x07u."
        value = torshi.loads(data)
        assert len(value) == 200 and value[1] == 7 and list(value)[:3] == [0, 1, 2]

    def test_batches_keep_order_and_size(self):
        for n in (999, 1000, 1001, 2000, 2001, 40_000):
            for value in ({i: i for i in range(n)}, {str(i): None for i in range(n)}):
                data = stock.dumps(value, 4)
                loaded = torshi.loads(data)
                assert list(loaded.items()) == list(value.items())
                assert sys.getsizeof(loaded) <= 2 * sys.getsizeof(dict(value))
                assert torshi.loads(stock.dumps([value, value.copy()], 4)) == [value, value]

    def test_batches_followed_by_something_else(self):
        # Much larger than what comes after them: the table may not be made for that.
        small = {i: i for i in range(1500)}
        value = {**small, "blob": b"x" * 50_000_000}
        loaded = torshi.loads(stock.dumps(value, 4))
        assert loaded == value and sys.getsizeof(loaded) < 10_000_000

    def test_unhashable_key(self):
        for data in (b"}]K\x01s.", b"}(K\x01K\x02]K\x03u.", b"(]K\x01d.", b"\x8f(]\x90.", b"(]\x91."):
            with pytest.raises(TypeError, match="unhashable"):
                torshi.loads(data)


class TestBuild:
    def test_names_are_interned(self):
        for cls, obj in ((Plain, Plain(**{"made_" + "here": 1})), (Slotted, Slotted())):
            if cls is Slotted:
                obj.a, obj.made_here = 1, 2
            for proto in range(2, 6):
                loaded = torshi.loads(stock.dumps(obj, proto))
                assert next(iter(vars(loaded))) is sys.intern("made_here")

    def test_keys_of_other_types(self):
        obj = Plain()
        vars(obj).update({5: "five", "n": 1})
        for proto in PROTOCOLS:
            assert vars(torshi.loads(stock.dumps(obj, proto))) == {5: "five", "n": 1}

    def test_state_shared_with_something_else(self):
        state = {"a": 1}
        data = b"\x80\x04c%b\nPlain\n)\x81}\x94\x8c\x01aK\x01sbh\x00\x86." % __name__.encode()
        obj, loaded = torshi.loads(data)
        assert vars(obj) == state == loaded and vars(obj) is not loaded

    def test_instance_has_its_own_setstate(self):
        called = []

        class Late(Plain):
            def __new__(cls):
                obj = object.__new__(cls)
                vars(obj)["__setstate__"] = called.append
                return obj

        globals()["Late"] = Late
        Late.__qualname__ = "Late"
        torshi.loads(b"\x80\x04c%b\nLate\n)\x81}\x8c\x01aK\x01sb." % __name__.encode())
        assert called == [{"a": 1}]

    def test_twice(self):
        data = b"\x80\x04c%b\nPlain\n)\x81}\x8c\x01aK\x01sb}\x8c\x01bK\x02sb." % __name__.encode()
        assert vars(torshi.loads(data)) == {"a": 1, "b": 2}


class TestAsking:
    def test_find_class_for_every_opcode(self):
        asked = []

        class Asking(torshi.Unpickler):
            def find_class(self, module, name):
                asked.append((module, name))
                return super().find_class(module, name)

        for data in (
            b"ccollections\nOrderedDict\n.",
            b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93.",
            b"(icollections\nOrderedDict\n.",
            b"(ccollections\nOrderedDict\no.",
        ):
            Asking(io.BytesIO(data)).load()
        assert asked == [("collections", "OrderedDict")] * 4

    def test_find_class_of_an_instance(self):
        class Sub(torshi.Unpickler):
            pass

        unpickler = Sub(io.BytesIO(b"cos\nsystem\n."))
        unpickler.find_class = lambda module, name: (module, name)
        assert unpickler.load() == ("os", "system")

    def test_extension_codes(self):
        copyreg.add_extension(__name__, "Plain", 0xF1)
        try:
            asked = []

            class Asking(torshi.Unpickler):
                def find_class(self, module, name):
                    asked.append(name)
                    return super().find_class(module, name)

            for _ in range(2):
                assert Asking(io.BytesIO(b"\x82\xf1.")).load() is Plain
            assert asked == ["Plain"]
            assert torshi.loads(b"\x83\xf1\0.") is torshi.loads(b"\x84\xf1\0\0\0.") is Plain
        finally:
            copyreg.remove_extension(__name__, "Plain", 0xF1)
            copyreg.clear_extension_cache()

    def test_audit_event(self):
        seen = []
        active = [True]

        def hook(event, args):
            if active and event == "pickle.find_class":
                seen.append(args)

        sys.addaudithook(hook)
        torshi.loads(b"c__builtin__\nxrange\n.")
        torshi.Unpickler(io.BytesIO(b"\x80\x04cos\npath.join\n.")).load()
        active.clear()
        assert seen == [("__builtin__", "xrange"), ("os", "path.join")]

    def test_import_function_is_respected(self, monkeypatch):
        import builtins

        original, seen = builtins.__import__, []

        def replaced(name, *args):
            seen.append(name)
            return original(name, *args)

        monkeypatch.setattr(builtins, "__import__", replaced)
        torshi.loads(b"cstring\ndigits\n.")
        assert seen == ["string"]

    def test_persistent_load(self):
        text, binary = b"Pid\n.", b"K\x07Q."

        class Sub(torshi.Unpickler):
            def persistent_load(self, pid):
                return ["class", pid]

        assert Sub(io.BytesIO(text)).load() == ["class", "id"]
        unpickler = Sub(io.BytesIO(binary))
        unpickler.persistent_load = lambda pid: ["instance", pid]
        assert unpickler.load() == ["instance", 7]
        plain = torshi.Unpickler(io.BytesIO(binary + text))
        plain.persistent_load = str
        assert plain.load() == "7" and plain.persistent_load is str
        del plain.persistent_load
        with pytest.raises(DAMAGED, match="no persistent_load function"):
            plain.load()

        class Super(torshi.Unpickler):
            def persistent_load(self, pid):
                return super().persistent_load(pid)

        with pytest.raises(DAMAGED, match="no persistent_load function"):
            Super(io.BytesIO(binary)).load()

    def test_modules_being_imported_are_waited_for(self):
        """As import does: a module in sys.modules that is not ready is gone through import."""
        import importlib.machinery
        import types

        module = types.ModuleType("half_made")
        module.__spec__ = importlib.machinery.ModuleSpec("half_made", None)
        module.__spec__._initializing = True
        module.value = 5
        sys.modules["half_made"] = module
        try:
            assert torshi.loads(b"chalf_made\nvalue\n.") == 5
        finally:
            del sys.modules["half_made"]


COLLECTING: list[bool] = []


class Watcher:
    """Notes whether the collector is on whenever code of its own runs."""

    def __new__(cls, *args):
        COLLECTING.append(gc.isenabled())
        return object.__new__(cls)

    def __setstate__(self, state):
        COLLECTING.append(gc.isenabled())

    def __hash__(self):
        COLLECTING.append(gc.isenabled())
        return 1

    def __eq__(self, other):
        COLLECTING.append(gc.isenabled())
        return self is other

    def __del__(self):
        COLLECTING.append(gc.isenabled())


class TestCollector:
    data = (
        b"\x80\x04]\x94(c%b\nWatcher\n\x94)\x81}b0"  # __new__, __setstate__, __del__
        b"}(h\x01)RNh\x01)RNu"  # __hash__, __eq__
        b"\x8f(h\x01)Rh\x01)R\x90(h\x01)R\x91e." % __name__.encode()
    )

    def test_is_on_while_user_code_runs(self):
        COLLECTING.clear()
        value = torshi.loads(self.data)
        assert len(COLLECTING) > 12 and all(COLLECTING) and gc.isenabled()
        del value

    @pytest.mark.parametrize("on", [True, False])
    def test_is_left_as_it_was(self, on):
        (gc.enable if on else gc.disable)()
        try:
            torshi.loads(b"].")
            with pytest.raises(EOFError):
                torshi.loads(b"]")
            assert gc.isenabled() is on
            COLLECTING.clear()
            torshi.loads(self.data)
            assert set(COLLECTING) == {on}
        finally:
            gc.enable()

    def test_user_code_may_switch_it(self):
        try:
            torshi.loads(b"\x80\x04cgc\ndisable\n)R]\x94]\x87.")
            assert not gc.isenabled()
            torshi.loads(b"\x80\x04cgc\nenable\n)R]\x94]\x87.")
            assert gc.isenabled()
        finally:
            gc.enable()

    def test_an_unpickler_in_a_cycle_goes(self):
        class Sub(torshi.Unpickler):
            pass

        unpickler = Sub(io.BytesIO(b"]\x94."))
        unpickler.load().append(unpickler)
        gone = weakref.ref(unpickler)
        del unpickler
        gc.collect()
        assert gone() is None


class TestBusy:
    def test_inner_use_is_refused(self):
        errors = []

        def attempt(*calls):
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    errors.append(str(error))

        class Sub(torshi.Unpickler):
            def find_class(self, module, name):
                def set_memo():
                    self.memo = {}

                attempt(
                    self.load,
                    lambda: self.__init__(io.BytesIO(b"N.")),
                    set_memo,
                    self.memo.clear,
                )
                assert self.memo.copy() == {0: []}
                return super().find_class(module, name)

        unpickler = Sub(io.BytesIO(b"]\x94cos\ngetcwd\n\x86.N."))
        assert unpickler.load()[0] == [] and len(errors) == 4
        assert unpickler.load() is None

    def test_other_loads_inside_a_load(self):
        inner = stock.dumps([{"k": i} for i in range(2000)], 4)
        depth = []

        def nest(n):
            depth.append(n)
            return (torshi.loads(inner) and n) if n == 0 else torshi.loads(data(n - 1))

        def data(n):
            return b"\x80\x04]\x94(c%b\nNEST\nK%c\x85RK\x01e." % (__name__.encode(), n)

        globals()["NEST"] = nest
        assert torshi.loads(data(4)) == [[[[[0, 1], 1], 1], 1], 1]
        assert depth == [4, 3, 2, 1, 0]

    def test_threads(self):
        data = b"".join(stock.dumps([Plain(a=i), {i: "x"}], 4) for i in range(300))
        unpickler = torshi.Unpickler(io.BytesIO(data * 20))
        problems = []

        def work():
            for _ in range(300):
                try:
                    value = unpickler.load()
                    if value[1].popitem()[1] != "x":
                        problems.append(value)
                except (RuntimeError, EOFError, *DAMAGED):
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems


class TestObject:
    def test_without_init(self):
        for cls in (torshi.Unpickler, type("Sub", (torshi.Unpickler,), {"__init__": lambda s: None})):
            unpickler = cls.__new__(cls)
            with pytest.raises(DAMAGED, match="was not called by"):
                unpickler.load()
            assert unpickler.memo.copy() == {}
            assert unpickler.find_class("builtins", "len") is len

    def test_init_again(self):
        unpickler = torshi.Unpickler(io.BytesIO(b"]\x94.h\x00."), buffers=[])
        unpickler.load()
        unpickler.__init__(io.BytesIO(b"h\x00."))
        with pytest.raises(DAMAGED, match="Memo value"):
            unpickler.load()
        with pytest.raises(TypeError):
            unpickler.__init__(5)
        with pytest.raises(DAMAGED, match="was not called by"):
            unpickler.load()

    def test_type_cannot_be_changed(self):
        with pytest.raises(TypeError):
            torshi.Unpickler.load = None
        assert sys.getsizeof(torshi.Unpickler(io.BytesIO())) > 100

    def test_no_leaks(self):
        data = [stock.dumps(v, p) for v in VALUES[:8] for p in PROTOCOLS]
        data += [d[:-3] for d in data] + MALFORMED

        def work():
            for d in data:
                for load in (torshi.loads, lambda d: torshi.Unpickler(io.BytesIO(d)).load()):
                    try:
                        load(d)
                    except Exception:
                        pass

        for _ in range(3):
            work()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(5):
            work()
        gc.collect()
        assert sys.getallocatedblocks() - before < 200

    def test_deep_nesting(self):
        n = 300_000
        for data in (
            b"\x80\x02" + b"]" * n + b"a" * (n - 1) + b".",
            b"\x80\x02N" + b"\x85" * n + b".",
            b"\x80\x02" + b"}K\x01" * n + b"N" + b"s" * n + b".",
            b"(" * n + b"t" * n + b".",
        ):
            torshi.loads(data)

    def test_calls_without_a_tuple(self):
        call = b"\x80\x04cbuiltins\n%b\n"
        assert torshi.loads(call % b"len" + b")\x85R.") == 0
        assert torshi.loads(call % b"divmod" + b"K\x07K\x02\x86R.") == (3, 1)
        assert torshi.loads(call % b"pow" + b"K\x02K\x05K\x07\x87R.") == 4
        assert torshi.loads(call % b"max" + b"(K\x01K\x04K\x03K\x02tR.") == 4
        assert torshi.loads(call % b"list" + b"(tR.") == []
        with pytest.raises(ZeroDivisionError):
            torshi.loads(b"](" + call % b"divmod" + b"K\x07K\x00\x86R.")
        for data in (b"(K\x01tR.", b"K\x01\x85R.", b"((K\x01tR.", b"N(K\x01\x85R."):
            with pytest.raises(DAMAGED):
                torshi.loads(data)


# ---- arguments -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["loads", "load", "Unpickler"])
@pytest.mark.parametrize("args", [(1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("kwargs", [{}, {"encoding": "ascii"}])
def test_wrong_number_of_arguments(name, args, kwargs):
    messages = []
    for module in (stock, torshi):
        with pytest.raises(TypeError) as caught:
            getattr(module, name)(*args, **kwargs)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
