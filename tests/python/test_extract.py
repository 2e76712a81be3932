"""extract_serialize and insert_serialized: native and pure Python on the same inputs, and the contract's corners."""

from __future__ import annotations

import random
import types
from typing import Any

import pytest

import torshi
from torshi import _extract as pure

PAIRS = [(torshi.extract_serialize, torshi.insert_serialized), (pure.extract_serialize, pure.insert_serialized)]
IDS = ["native", "pure"]
BIG = 2**16


class Mark:
    def __init__(self, data: Any) -> None:
        self.data = data


class Done(Mark):
    pass


NAMESPACE = types.SimpleNamespace(Serialize=Mark, Serialized=Done, to_serialize=Mark)


def tree(r: random.Random, depth: int = 0) -> Any:
    kind = r.random()
    if depth < 5 and kind < 0.25:
        return [tree(r, depth + 1) for _ in range(r.randrange(5))]
    if depth < 5 and kind < 0.5:
        keys = [r.choice([i, str(i), None, (i, "t"), 1.5, b"k", True]) for i in range(r.randrange(6))]
        return {k: tree(r, depth + 1) for k in keys}
    make = r.choice([
        lambda: Mark(1), lambda: Done(2), lambda: r.random(), lambda: "s", lambda: None, lambda: (Mark(3),),
        lambda: bytes(BIG), lambda: bytes(BIG + 1), lambda: bytearray(BIG + 1), lambda: {1, 2},
    ])  # fmt: skip
    return make()


def shape(x: Any) -> Any:
    """Comparable form: containers by content, everything else by identity or value."""
    if type(x) is dict:
        return ("dict", [(k, shape(v)) for k, v in x.items()])
    if type(x) is list:
        return ("list", [shape(v) for v in x])
    if isinstance(x, Mark):
        return (type(x).__name__, id(x.data) if isinstance(x.data, (bytes, bytearray)) else x.data)
    return ("leaf", id(x))


def test_native_and_pure_agree_on_random_trees() -> None:
    for seed in range(400):
        x = tree(random.Random(seed))
        before = shape(x)
        results = []
        for extract, insert in PAIRS:
            rest, ser, big = extract(x, types=NAMESPACE)
            results.append((shape(rest), [(k, shape(v)) for k, v in ser.items()], big))
            assert shape(x) == before
            if type(x) in (dict, list):
                back = insert(rest, ser, big)
                assert back is rest
                assert extract(back, types=NAMESPACE)[1].keys() == ser.keys()
        assert results[0] == results[1], seed


@pytest.mark.parametrize("extract,insert", PAIRS, ids=IDS)
def test_list_round_trip_is_exact(extract: Any, insert: Any) -> None:
    s = Mark(1)
    x = [s, [1, s, bytes(BIG + 1)], {"k": 1}]
    rest, ser, big = extract(x, types=NAMESPACE)
    assert rest == [None, [1, None, None], {"k": 1}] and big == {(1, 2)}
    assert insert(rest, ser, big) == x


@pytest.mark.parametrize("extract,insert", PAIRS, ids=IDS)
def test_dict_entries_come_back_at_the_end(extract: Any, insert: Any) -> None:
    s = Mark(1)
    rest, ser, big = extract({"a": s, "b": 2}, types=NAMESPACE)
    assert list(insert(rest, ser, big)) == ["b", "a"]


@pytest.mark.parametrize("extract,insert", PAIRS, ids=IDS)
@pytest.mark.parametrize("x", [(Mark(1),), 5, None, Mark(1), "s", {Mark(2)}, type("D", (dict,), {})(a=Mark(1))])
def test_other_top_levels_come_back_as_they_are(extract: Any, insert: Any, x: Any) -> None:
    rest, ser, big = extract(x, types=NAMESPACE)
    assert rest is x and ser == {} and big == set()


@pytest.mark.parametrize("extract,insert", PAIRS, ids=IDS)
def test_cycle_and_depth_raise_with_the_path(extract: Any, insert: Any) -> None:
    cycle: dict = {"first": []}
    cycle["first"].append({"again": cycle})
    deep: list = []
    for _ in range(50_000):
        deep = [deep]
    for bad, beginning in ((cycle, "('first', 0, 'again'"), (deep, "(0, 0, 0")):
        with pytest.raises(RecursionError, match="path begins") as caught:
            extract(bad)
        assert beginning in str(caught.value)
    assert extract({"a": 1}) == ({"a": 1}, {}, set())
    while deep:
        deep = deep[0]


@pytest.mark.parametrize("extract,insert", PAIRS, ids=IDS)
def test_errors_of_user_code_come_through(extract: Any, insert: Any) -> None:
    def refuse(data: Any) -> Any:
        raise KeyError("mine")

    space = types.SimpleNamespace(Serialize=Mark, Serialized=Done, to_serialize=refuse)
    with pytest.raises(KeyError, match="mine"):
        extract([bytes(BIG + 1)], types=space)
    with pytest.raises(AttributeError):
        extract([1], types=types.SimpleNamespace())
    with pytest.raises(TypeError):
        extract()
    with pytest.raises(TypeError):
        insert([1], {(): 1})
    with pytest.raises(KeyError):
        insert({}, {("a", "b"): 1})


@pytest.mark.parametrize("source", [torshi, pure], ids=IDS)
def test_wrapper_classes(source: Any) -> None:
    s = source.Serialize([1])
    assert s.data == [1] and s == source.Serialize([1]) and s != source.Serialize([2]) and repr(s) == "<Serialize: [1]>"
    assert hash(source.Serialize("a")) == hash("a")
    with pytest.raises(TypeError):
        hash(s)
    done = source.Serialized({"h": 1}, [b"f"])
    assert done == source.Serialized({"h": 1}, [b"f"]) and done != source.Serialized({"h": 2}, [b"f"]) and done != s
    with pytest.raises(TypeError):
        source.Serialize()
    assert source.to_serialize is source.Serialize
    rest, ser, _ = source.extract_serialize({"a": s, "b": [done]})
    assert rest == {"b": [None]} and ser == {("a",): s, ("b", 0): done}
