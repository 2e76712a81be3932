"""torshi.register, unregister and reducer: columns through the stock picklers."""

from __future__ import annotations

import collections
import copy
import copyreg
import dataclasses
import datetime
import io
import pickle
import random
import sys
import weakref

import pytest
import torshi
from plugin_support import check_code
from register_support import PROTOCOLS, READERS, Point, edition, numbers, writers
from stock_engine import stock

needs_engine = pytest.mark.skipif(not torshi.native, reason="needs the native engine")
__all__ = ["edition"]  # a fixture that each test uses


# ---- classes ---------------------------------------------------------------------------------------
class Table(dict):
    """Has attributes, too."""


class Strict(dict):
    """Sees every item that is set."""

    def __setitem__(self, key, value):
        if value is None:
            raise ValueError("None is no value here")
        super().__setitem__(key, value)


class Slotted(dict):
    __slots__ = ("note", "more")


class Rows(list):
    pass


class Counted(list):
    calls = 0

    def extend(self, items):
        Counted.calls += 1
        super().extend(items)


class Checked(list):
    """Sees every item that is added."""

    def extend(self, items):
        for item in items:
            self.append(item)

    def append(self, item):
        if item is None:
            raise ValueError("None is no value here")
        super().append(item)


class Made(dict):
    """Wants an argument."""

    def __new__(cls, name):
        self = super().__new__(cls)
        self.name = name
        return self

    def __init__(self, name):
        super().__init__()

    def __getnewargs__(self):
        return (self.name,)


class Keeper(collections.defaultdict):
    pass


class Opened(collections.defaultdict):
    def __init__(self, *args):
        super().__init__(*args)
        self.opened = True


class Marked(collections.OrderedDict):
    pass


@dataclasses.dataclass
class Series:
    name: str
    values: list
    index: dict
    points: tuple = ()


class Wide:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slots:
    __slots__ = ("name", "values", "points", "unset")


class Restored:
    def __init__(self, values):
        self.values = values

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.restored = type(state).__name__


def reduce_point(point):
    return Point, (point.x, point.y)


# ---- support ---------------------------------------------------------------------------------------
@pytest.fixture
def registered():
    """register(), undone at the end."""
    classes = []

    def register(cls, *args, **options):
        torshi.register(cls, *args, **options)
        classes.append(cls)

    before = dict(copyreg.dispatch_table)
    yield register
    for cls in classes:
        torshi.unregister(cls)
    assert copyreg.dispatch_table == before


def check(obj, same, chunked=True, protocols=(4, 5)):
    """What every writer makes is what every reader understands; `same` compares."""
    for dumps in writers():
        for protocol in protocols:
            data = dumps(obj, protocol)
            if chunked is not None:
                assert (b"torshi" in data) == chunked, dumps
            for loads in READERS:
                made = loads(data)
                assert type(made) is type(obj)
                same(made, obj)
    for copied in copy.copy(obj), copy.deepcopy(obj):
        assert type(copied) is type(obj) and copied is not obj
        same(copied, obj)


def same_items(made, obj):
    assert list(made.items()) == list(obj.items())
    assert [type(v) for v in made.values()] == [type(v) for v in obj.values()]
    assert getattr(made, "__dict__", None) == getattr(obj, "__dict__", None)
    assert getattr(made, "default_factory", None) is getattr(obj, "default_factory", None)


def same_list(made, obj):
    assert list(made) == list(obj) and made.__dict__ == obj.__dict__


def same_state(made, obj):
    assert made.__dict__ == obj.__dict__ and list(made.__dict__) == list(obj.__dict__)


# ---- subclasses of dict and list -------------------------------------------------------------------
DICTS = [
    Table,
    Strict,
    Slotted,
    Marked,
    Keeper,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
]


@pytest.mark.parametrize("cls", DICTS)
def test_dict_subclass(registered, cls):
    obj = cls()
    obj.update(numbers())
    standard = stock.dumps(obj, 5)
    registered(cls)
    check(obj, same_items)
    assert len(stock.dumps(obj, 5)) < 0.75 * len(standard)
    check(obj, same_items, None, PROTOCOLS)


@pytest.mark.parametrize("cls", DICTS)
def test_small_and_empty_ones_go_as_ever(registered, cls):
    values = [cls(), cls(a=1)]
    expected = [stock.dumps(v, 5) for v in values]
    registered(cls)
    assert [stock.dumps(v, 5) for v in values] == expected
    for value in values:
        check(value, same_items, False)


@pytest.mark.parametrize(
    "cls", [Table, Slotted, Marked, Keeper, collections.OrderedDict, collections.defaultdict]
)
def test_mutable_values_keep_place_and_identity(registered, cls):
    registered(cls)
    shared = [1, 2]
    obj = cls()
    for i in range(100):
        obj[f"key{i}"] = shared if i % 20 == 3 else {"n": i} if i % 20 == 7 else i / 8
    check(obj, same_items)
    for loads in READERS:
        made, outside = loads(stock.dumps((obj, shared), 5))
        assert made["key3"] is made["key23"] is outside
        assert list(made) == list(obj)
    shallow, deep = copy.copy(obj), copy.deepcopy(obj)
    assert shallow["key3"] is shared and shallow["key7"] is obj["key7"]
    assert deep["key3"] is deep["key23"] is not shared and deep["key7"] is not obj["key7"]


@pytest.mark.parametrize("cls", [Table, Marked, Rows])
def test_attributes_and_cycles(registered, cls):
    registered(cls)
    obj = cls()
    if cls is Rows:
        obj.extend(range(300))
        obj[5] = obj
    else:
        obj.update(numbers())
        obj["key5"] = obj
    obj.me = obj
    obj.note = "an attribute"
    for dumps in writers():
        for loads in READERS:
            made = loads(dumps(obj, 5))
            assert made.me is made and made.note == obj.note and len(made) == len(obj)
            assert (made[5] if cls is Rows else made["key5"]) is made
    deep = copy.deepcopy(obj)
    assert deep.me is deep and (deep[5] if cls is Rows else deep["key5"]) is deep
    shallow = copy.copy(obj)
    assert shallow.me is obj and (shallow[5] if cls is Rows else shallow["key5"]) is obj


def test_defaultdict(registered):
    registered(collections.defaultdict)
    registered(Opened)
    obj = collections.defaultdict(list, numbers())
    obj["more"].append(1)
    check(obj, same_items)
    opened = Opened(int, numbers())
    check(opened, same_items, False)  # stock calls Opened(int)
    assert stock.loads(stock.dumps(opened, 5)).opened


def test_ordered_dict_keeps_its_own_order(registered):
    registered(collections.OrderedDict)
    obj = collections.OrderedDict(numbers())
    obj.move_to_end("key3")
    obj.move_to_end("key7", last=False)
    obj["key9"] = [9]
    check(obj, same_items)
    made = stock.loads(stock.dumps(obj, 5))
    assert made.popitem(last=False)[0] == "key7" and made.popitem()[0] == "key3"


def test_counter(registered):
    registered(collections.Counter)
    obj = collections.Counter({i: i % 7 for i in range(500)})
    check(obj, same_items)
    obj.update({"list": 1})
    obj["list"] = [1]
    check(obj, same_items)


def test_overridden_methods_see_no_placeholders(registered):
    for cls in Strict, Checked, Counted:
        registered(cls)
    obj = Strict(numbers())
    check(obj, same_items, True)
    dict.__setitem__(obj, "key9", [9])
    check(obj, same_items, False)
    rows = Checked(range(300))
    check(rows, same_list, True)
    list.__setitem__(rows, 9, [9])
    check(rows, same_list, False)
    Counted.calls = 0
    data = stock.dumps(Counted(range(300)), 5)
    assert stock.loads(data) == pickle._loads(data) == torshi.loads(data) == list(range(300))
    assert Counted.calls == 3


def test_arguments_of_new(registered):
    registered(Made)
    obj = Made("it")
    obj.update(numbers())
    check(obj, same_items, False)


def test_list_subclass(registered):
    registered(Rows)
    obj = Rows(range(1000))
    obj.note = "x"
    check(obj, same_list)
    obj[17] = [1]
    obj[19] = obj[17]
    obj[500] = {"a": 1}
    check(obj, same_list)
    made = stock.loads(stock.dumps(obj, 5))
    assert made[17] is made[19]
    shallow = copy.copy(obj)
    assert shallow[17] is obj[17] and shallow[500] is obj[500] and shallow.note == "x"
    check(Rows(), same_list, False)
    check(Rows([[]] * 100), same_list, False)


def test_more_rows_than_a_payload_holds(registered):
    registered(Rows)
    registered(Table)
    rows = Rows(i * 7 % 1000 for i in range(140_000))
    rows[70_000] = []
    for dumps in (stock.dumps, torshi.dumps):
        data = dumps(rows, 5)
        assert len(data) < 300_000
        for loads in READERS:
            assert loads(data) == rows
    table = Table((i, float(i)) for i in range(70_000))
    for loads in READERS:
        assert list(loads(stock.dumps(table, 5)).items()) == list(table.items())


def test_values_of_known_types(registered):
    registered(Rows)
    day = datetime.date(2026, 1, 1)
    obj = Rows(day + datetime.timedelta(i) for i in range(300))
    check(obj, same_list)
    obj[3] = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    obj[4] = float("inf")
    check(obj, same_list)


def test_random_contents(registered):
    rng = random.Random(5)
    for cls in Table, Rows, Marked, collections.OrderedDict:
        registered(cls)

    def value():
        kind = rng.randrange(12)
        plain = [
            None,
            True,
            rng.randrange(-9, 1 << 40),
            1 << 70,
            rng.random(),
            "text",
            b"bytes",
            (1, "a"),
            "long" * 1100,
        ]
        return (
            plain[kind]
            if kind < len(plain)
            else rng.choice([[kind], {"k": kind}, {kind}, Point(1, kind)])
        )

    for _ in range(30):
        for cls in Table, Marked, collections.OrderedDict:
            obj = cls(
                (rng.choice([i, str(i), float(i), (i, "x"), b"%d" % i]), value())
                for i in range(rng.randrange(300))
            )
            check(obj, same_items, None)
        check(Rows(value() for _ in range(rng.randrange(300))), same_list, None)


# ---- state -----------------------------------------------------------------------------------------
def test_wide_state(registered):
    registered(Wide)
    obj = Wide(**{f"a{i}": i for i in range(50)}, rows=[1, 2], **{f"b{i}": "x" for i in range(50)})
    check(obj, same_state)
    assert copy.copy(obj).rows is obj.rows
    assert copy.deepcopy(obj).rows is not obj.rows
    made, rows = stock.loads(stock.dumps((obj, obj.rows), 5))
    assert made.rows is rows
    small = Wide(a=1)
    check(small, same_state, False)


def test_large_tuple_in_state(registered):
    """A column for each item of a tuple is not shorter than the tuple."""
    obj = Series("s", [1, 2], {"a": [1]}, tuple(float(i) for i in range(200)))
    standard = pickle._dumps(obj, 5)
    registered(Series)
    check(obj, same_state, False)
    assert len(stock.dumps(obj, 5)) <= len(standard)


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("count", [1, 100])
def test_state_is_never_longer(count, owned):
    def make(name):
        values = {
            "lists": lambda i, k: [i, k],
            "half": lambda i, k: i * k if i % 2 else [i],
            "ints": lambda i, k: i * k,
            "floats": lambda i, k: i / 7 + k,
            "tuple": lambda i, k: tuple(range(k, k + 64)) if i == 0 else k,
        }[name]
        return [Wide(**{f"a{i}": values(i, k) for i in range(20)}) for k in range(count)]

    for name in ("lists", "half", "ints", "floats", "tuple"):
        objs = make(name)
        standard = stock.dumps(objs, 5)
        torshi.register(Wide, owned=owned)
        try:
            data = stock.dumps(objs, 5)
        finally:
            torshi.unregister(Wide)
        assert len(data) <= len(standard), name
        for made, obj in zip(stock.loads(data), objs):
            same_state(made, obj)


def test_owned_state(registered):
    obj = Series("s", [float(i % 8) for i in range(5000)], {f"k{i}": i for i in range(500)})
    obj.index["rows"] = [{"id": i, "name": f"n{i}"} for i in range(300)]
    standard = stock.dumps(obj, 5)
    registered(Series, owned=True)
    check(obj, same_state)
    check([obj], lambda made, _: same_state(made[0], obj), None)
    assert len(stock.dumps(obj, 5)) < 0.8 * len(standard)
    shallow = copy.copy(obj)
    assert shallow.values is obj.values and shallow.index is obj.index
    deep = copy.deepcopy(obj)
    assert deep.values is not obj.values and deep.index["rows"][0] is not obj.index["rows"][0]


def test_owned_state_keeps_sharing_within(registered):
    registered(Series, owned=True)
    rows = [{"id": i} for i in range(5000)]
    obj = Series("s", rows, {f"k{i}": row for i, row in enumerate(rows)})
    for loads in READERS:
        made = loads(stock.dumps(obj, 5))
        assert all(made.index[f"k{i}"] is row for i, row in enumerate(made.values))
    obj = Series("s", rows[:100], {"first": rows[0], "all": rows})
    for loads in READERS:
        made = loads(stock.dumps(obj, 5))
        assert made.index["first"] is made.values[0] is made.index["all"][0]
    obj = Series("s", [], {f"k{i}": i for i in range(100)})
    obj.values.append(obj)
    for loads in READERS:
        made = loads(stock.dumps(obj, 5))
        assert made.values[0] is made


def test_slots_and_setstate(registered):
    registered(Slots, owned=True)
    registered(Restored, owned=True)
    obj = Slots()
    obj.name, obj.values, obj.points = "s", [1.5] * 100, tuple(range(100))
    for dumps in writers():
        data = dumps(obj, 5)
        assert b"torshi" in data
        for loads in READERS:
            made = loads(data)
            assert (made.name, made.values, made.points) == (obj.name, obj.values, obj.points)
            assert not hasattr(made, "unset")
    assert copy.copy(obj).values is obj.values and copy.deepcopy(obj).values == obj.values
    restored = Restored([1.5] * 100)
    made = stock.loads(stock.dumps(restored, 5))
    assert made.values == restored.values and made.restored == "dict"
    assert copy.copy(restored).restored == "dict"


def test_own_dict_of_an_object(registered):
    registered(Wide)
    obj = Wide(**{f"a{i}": i for i in range(50)}, rows=[1, 2])
    for loads in READERS:
        made, attributes = loads(stock.dumps([obj, vars(obj)], 5))
        assert made.__dict__ == attributes == obj.__dict__ and made.rows is attributes["rows"]


def test_loaded_instances_share_their_keys(registered):
    registered(Wide)
    obj = Wide(**{f"attribute{i}": i for i in range(40)})
    made = stock.loads(stock.dumps(obj, 5))
    assert vars(made) == vars(obj) and all(sys.intern(name) is name for name in vars(made))


# ---- registering -----------------------------------------------------------------------------------
def test_errors_are_those_of_copyreg():
    for args in [(Table, 5), (Table, "f"), (Table, reduce_point, 5)]:
        errors = []
        for function in copyreg.pickle, torshi.register:
            with pytest.raises(TypeError) as caught:
                function(*args)
            errors.append(str(caught.value))
            copyreg.dispatch_table.pop(Table, None)
        assert errors[0] == errors[1]
    for wrong in ["Table", None, 5, Table()]:
        with pytest.raises(TypeError, match="a class is needed"):
            torshi.register(wrong)
    for wrong in [
        dict,
        list,
        tuple,
        set,
        frozenset,
        str,
        bytes,
        bytearray,
        int,
        float,
        bool,
        type(None),
        type,
    ]:
        with pytest.raises(TypeError, match="never asks"):
            torshi.register(wrong)
        with pytest.raises(TypeError, match="never asks"):
            torshi.reducer(wrong)
    for wrong in [Table, dict, 5]:
        with pytest.raises(ValueError, match="is not registered"):
            torshi.unregister(wrong)
    with pytest.raises(TypeError):
        torshi.register()
    with pytest.raises(TypeError):
        torshi.register(Table, None, None, True)
    assert Table not in copyreg.dispatch_table


def test_unregister_restores():
    before = dict(copyreg.dispatch_table)
    torshi.register(Table)
    assert Table in copyreg.dispatch_table
    torshi.register(Table, owned=True)  # twice is once
    torshi.unregister(Table)
    assert copyreg.dispatch_table == before
    with pytest.raises(ValueError):
        torshi.unregister(Table)

    copyreg.pickle(Point, reduce_point)
    try:
        torshi.register(Point)
        torshi.register(Point)
        assert copyreg.dispatch_table[Point] is not reduce_point
        torshi.unregister(Point)
        assert copyreg.dispatch_table[Point] is reduce_point
        torshi.register(Point)
        copyreg.pickle(Point, reduce_point)  # somebody else's now
        torshi.unregister(Point)
        assert copyreg.dispatch_table[Point] is reduce_point
    finally:
        del copyreg.dispatch_table[Point]
    assert copyreg.dispatch_table == before


def test_own_pickle_function(registered):
    calls = []

    def reduce_table(table):
        calls.append(table)
        return copyreg.__newobj__, (Table,), {"by": "function"}, None, iter(table.items())

    registered(Table, reduce_table, Table)
    obj = Table(numbers())
    data = stock.dumps(obj, 5)
    made = stock.loads(data)
    assert b"torshi" in data and calls and made == obj and made.by == "function"
    registered_point = Point(1, 2)
    torshi.register(Point, lambda point: "a_name")
    try:
        with pytest.raises(stock.PicklingError):
            stock.dumps(registered_point)
    finally:
        torshi.unregister(Point)


def test_what_was_registered_before_is_the_start(registered):
    copyreg.pickle(
        Table, lambda t: (copyreg.__newobj__, (Table,), {"by": "before"}, None, iter(t.items()))
    )
    try:
        torshi.register(Table)
        data = stock.dumps(Table(numbers()), 5)
        assert b"torshi" in data and stock.loads(data).by == "before"
        torshi.unregister(Table)
        assert b"torshi" not in stock.dumps(Table(numbers()), 5)
    finally:
        del copyreg.dispatch_table[Table]


@pytest.mark.parametrize("chained", [False, True])
def test_dispatch_table_of_a_pickler(chained):
    obj = collections.OrderedDict(numbers())
    table = {collections.OrderedDict: torshi.reducer(collections.OrderedDict)}
    if chained:
        table = collections.ChainMap(table, copyreg.dispatch_table)
    for cls in stock.Pickler, pickle._Pickler, torshi.Pickler:
        file = io.BytesIO()
        pickler = cls(file, 5)
        pickler.dispatch_table = table
        pickler.dump([obj, Table(numbers())])
        assert file.getvalue().count(b"chunk") == 1 or cls is torshi.Pickler
        for loads in READERS:
            made = loads(file.getvalue())
            assert made[0] == obj and type(made[0]) is collections.OrderedDict
    assert b"torshi" not in stock.dumps(obj, 5)


def test_extension_code(registered):
    registered(Table)
    obj = Table(numbers())
    plain = stock.dumps(obj, 5)
    copyreg.add_extension("torshi", "chunk", 0x71)
    try:
        for dumps in writers():
            data = dumps(obj, 5)
            assert b"torshi" not in data and b"\x82\x71" in data
            for loads in READERS:
                assert loads(data) == obj
        assert len(stock.dumps(obj, 5)) <= len(plain) - 15
    finally:
        copyreg.remove_extension("torshi", "chunk", 0x71)


def test_value_like(registered, edition):
    points = [Point(i, i / 2) for i in range(500)]
    for function in None, reduce_point:
        torshi.register(Point, function, value=True)
        try:
            assert copyreg.dispatch_table.get(Point) is function
            for data in (
                torshi.dumps(points),
                torshi.dumps(points, reducers="standard"),
                stock.dumps(points, 5),
            ):
                for loads in READERS:
                    assert loads(data) == points
            if torshi.native:
                assert len(torshi.dumps(points)) < 0.55 * len(stock.dumps(points, 5))
            assert copy.deepcopy(points) == points
        finally:
            torshi.unregister(Point)
        assert Point not in copyreg.dispatch_table
        with pytest.raises(ValueError):
            torshi.unregister_ref(Point)


# ---- chunk itself ----------------------------------------------------------------------------------
def edition_chunk(edition):
    from torshi import _pure_read

    return torshi.chunk if edition == "native" else _pure_read.chunk


def test_chunk_makes_the_target(edition):
    chunk = edition_chunk(edition)
    payload = b"\x06\x06\x02\x02"  # 1, 2, 3
    for cls in list, Rows, Counted:
        made = chunk(cls, payload)
        assert type(made) is cls and made == [1, 2, 3]
        roll = []
        made = chunk(cls, payload, roll)
        assert roll == [made] and roll[0] is made
        assert chunk(cls, (payload, payload)) == [1, 2, 3] * 2
        assert chunk(cls, ()) == []
    assert chunk([], (payload, payload)) == [1, 2, 3] * 2
    pairs = payload + b"\x00"  # None each
    for cls in [
        dict,
        Table,
        Marked,
        collections.OrderedDict,
        collections.defaultdict,
        collections.Counter,
    ]:
        made = chunk(cls, pairs)
        assert type(made) is cls and list(made.items()) == [(1, None), (2, None), (3, None)]
    with pytest.raises(ValueError, match="no value here"):
        chunk(Strict, pairs)
    with pytest.raises(TypeError):
        chunk(Made, pairs)
    for wrong in [int, object, tuple, Rows(), Table(), 5, None, type]:
        with pytest.raises(TypeError, match="target must be a dict or a list"):
            chunk(wrong, payload)
    for wrong in [(1,), (payload, "x"), bytearray(payload), "x", None]:
        with pytest.raises(TypeError, match="payload must be bytes"):
            chunk(list, wrong)
    with pytest.raises(pickle.UnpicklingError, match="truncated"):
        chunk(Rows, (payload, b"\x06"))

    class Odd(list):
        def __new__(cls):
            return 5

    with pytest.raises(TypeError, match="must make a dict or a list"):
        chunk(Odd, payload)


def test_targets_are_released():
    for _ in range(3):
        made = torshi.chunk(Table, b"\x06\x06\x02\x02\x00")
        gone = weakref.ref(made)
        del made
        assert gone() is None


# ---- what contains chunks --------------------------------------------------------------------------
def big():
    return {i: i / 8 for i in range(300)}


@pytest.mark.parametrize(
    "obj",
    [
        (big(),),
        (1, (2, big())),
        collections.deque([big(), big()]),
        collections.OrderedDict(a=big()),
        collections.defaultdict(list, a=big()),
        Table(a=big(), b=[1.5] * 300),
        Rows([big(), [1.5] * 300]),
        Wide(rows=big()),
        {"array": bytearray(b"x" * 50), "more": big()},
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_content_of_other_containers(obj):
    data = torshi.dumps(obj)
    assert b"torshi" in data and len(data) < 0.95 * len(stock.dumps(obj, 5))
    for loads in READERS:
        made = loads(data)
        assert type(made) is type(obj)
        assert made == obj if type(obj) is not Wide else made.rows == obj.rows


def test_content_of_set_members():
    class_member = Wide(rows=big())
    obj = {class_member, 1}
    data = torshi.dumps(obj)
    assert b"torshi" in data
    for loads in READERS:
        made = next(m for m in loads(data) if m != 1)
        assert made.rows == class_member.rows


def test_transcoding_a_registered_class(registered):
    from torshi._transcode import to_standard

    for cls in collections.OrderedDict, Table, Rows:
        registered(cls)
    rows = Rows(range(300))
    rows[5] = [5]
    for obj in (
        collections.OrderedDict(numbers()),
        Table(numbers(), key7=[7]),
        rows,
        [rows, {"a": rows}],
    ):
        data = to_standard(stock.dumps(obj, 5), (), None)
        assert b"torshi" not in data
        for loads in READERS:
            made = loads(data)
            assert made == obj and type(made) is type(obj)


# ---- without the extension -------------------------------------------------------------------------
@needs_engine
def test_pure_edition_writes_the_same(registered):
    code = """
import collections, pickle, sys, torshi
kind = sys.modules["_pickle"] if "_torshi_stock_pickle" not in sys.builtin_module_names else __import__("_torshi_stock_pickle")
torshi.register(collections.OrderedDict)
obj = collections.OrderedDict((f"k{i}", [i] if i % 50 == 0 else i) for i in range(300))
rows = torshi.Chunked([{"id": i, "name": str(i)} for i in range(300)] + [[1.5] * 5000])
data = kind.dumps((obj, rows), 5)
assert b"torshi" in data
for loads in kind.loads, pickle._loads, torshi.loads:
    made = loads(data)
    assert made[0] == obj and made[1] == rows.obj
print(torshi.native, data.hex())
"""
    outputs = [check_code(code), check_code(code, TORSHI_PURE="1")]
    natives, streams = zip(*(output.split() for output in outputs))
    assert streams[0] == streams[1] and natives[0] == "True"


@pytest.mark.parametrize("kinds", [14, 15, 16, 17, 20])
def test_more_kinds_than_a_column_takes(kinds: int) -> None:
    rows = [(0,) * (i % kinds) for i in range(kinds * 10)]
    mixed = [*rows, {1, 2}, [1], None]
    for obj in (rows, mixed):
        for read in (pickle.loads, pickle._loads, torshi.loads):  # type: ignore[attr-defined]
            assert read(pickle.dumps(torshi.Chunked(obj), 5)) == obj
    torshi.register(collections.OrderedDict)
    try:
        pairs = collections.OrderedDict(enumerate(mixed))
        assert pickle.loads(pickle.dumps(pairs, 5)) == pairs
    finally:
        torshi.unregister(collections.OrderedDict)
