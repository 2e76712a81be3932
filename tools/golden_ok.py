"""Payloads that must be accepted: every kind at every width; for tools/golden.py."""

from __future__ import annotations

import struct

from golden_columns import (
    BITS,
    FALSE,
    NONE,
    PENDING,
    TRUE,
    affix,
    bare,
    big,
    boolean,
    byte_strings,
    dictionary,
    externals,
    f8,
    floats,
    head,
    instances,
    ints,
    lists,
    maps,
    mixed,
    nullable,
    packed,
    payload,
    progression,
    reductions,
    str_kinds,
    strings,
    structs,
    tuples,
    uvar,
    zvar,
)
from golden_text import ok


def write_scalars() -> None:
    for column in ("NONE", "PENDING", "FALSE", "TRUE"):
        value = "None" if column in ("NONE", "PENDING") else column.title()
        ok(column.lower(), "no body at all", payload(3, head(column)), f"[{value}] * 3")
    ok("empty", "no rows", payload(0, NONE), "[]")
    ok("rows_most", "as many rows as there may be", payload(65536, TRUE), "[True] * 65536")
    ok("following", "more rows announced", payload(2, FALSE, following=10**6), "[False] * 2")
    ok("overlong", "overlong numbers are read", b"\x84\x80\x00" + FALSE, "[False] * 2")
    bits = (1, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1)
    ok("bool", "eleven bits", payload(11, boolean(*bits)), f"{[bool(b) for b in bits]}")
    ok(
        "bool_full_byte",
        "no padding",
        payload(8, boolean(*bits[:8])),
        f"{[bool(b) for b in bits[:8]]}",
    )
    ok("bool_empty", "a bitmap of nothing", payload(0, boolean()), "[]")
    ok(
        "mixed_bits",
        "True and False are no ints",
        payload(2, mixed((0, 1), 1, TRUE, ints([1], 0))),
        "[True, 1]",
    )

    for w in range(8):
        top = 2 ** BITS[w] - 1
        base = -3 if w < 7 else -(2**63)
        values = [base, base + top, base + top // 2, base + top, base]
        ok(f"int_w{w}", f"{BITS[w]} bits each", payload(5, ints(values, w, base)), f"{values}")
    ok("int_empty", "the base is there", payload(0, ints([], 4)), "[]")
    wrap = ints([-1, 2**63 - 1, -(2**63), 5], 7, 5)
    ok(
        "int_wraps",
        "offsets below the base, modulo 2**64",
        payload(4, wrap),
        f"{[-1, 2**63 - 1, -(2**63), 5]}",
    )
    narrow = head("INT", 4) + zvar(2**63 - 1) + packed([0, 1], 4)
    ok(
        "int_wraps_narrow",
        "the sum is modulo 2**64 at every width",
        payload(2, narrow),
        f"{[2**63 - 1, -(2**63)]}",
    )
    for name, start, step, rows in (
        ("up", 10, 7, 4),
        ("down", 5, -3, 4),
        ("still", 9, 0, 3),
        ("all", -(2**63), 2**63 - 1, 3),
        ("all_down", 2**63 - 1, -(2**63), 2),
        ("one", 2**63 - 1, 2**63 - 1, 1),
        ("empty", 2**63 - 1, 1, 0),
    ):
        values = [start + i * step for i in range(rows)]
        ok(
            f"progression_{name}",
            "start and step",
            payload(rows, progression(start, step)),
            f"{values}",
        )
    values = [2**64, -(2**64), 0, 127, 128, -128, -129, 2**200 + 1, -(2**200)]
    for w in (3, 4, 5, 6):
        if w == 3:
            values = [v for v in values if abs(v) < 2**100]
        ok(f"big_w{w}", "two's complement", payload(len(values), big(values, w)), f"{values}")
        values = [2**64, -(2**64), 0, 127, 128, -128, -129, 2**200 + 1, -(2**200)]
    for w, values in ((0, [2**64, 2**65]), (1, [2**64, 2**56]), (2, [2**64, 2**56, 2**48, 2**40])):
        ok(f"big_w{w}", "lengths nearly alike", payload(len(values), big(values, w)), f"{values}")
    long = (
        head("BIG")
        + uvar(12)
        + (5).to_bytes(12, "little")
        + (-5).to_bytes(12, "little", signed=True)
    )
    ok("big_overlong", "more bytes than needed are read", payload(2, long), "[5, -5]")

    special = "[0.0, -0.0, 1.5, bits(0x7ff0000000000000), bits(0xfff0000000000000), 5e-324]"
    raw = f8(0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324)
    ok("float", "signs, infinities, the smallest", payload(6, head("FLOAT") + raw), special)
    nans = (0x7FF8000000000000, 0xFFF8000000000001, 0x7FF80000DEADBEEF)
    raw = struct.pack("<3Q", *nans)
    ok(
        "float_nan",
        "NaN payloads are kept",
        payload(3, head("FLOAT") + raw),
        "[%s]" % ", ".join(f"bits({n:#x})" for n in nans),
    )
    ok(
        "float_const",
        "minus zero in every row",
        payload(3, head("FLOAT_CONST") + f8(-0.0)),
        "[-0.0] * 3",
    )
    nan = head("FLOAT_CONST") + struct.pack("<Q", nans[2])
    ok(
        "float_const_nan",
        "a new NaN in every row",
        payload(2, nan),
        f"[bits({nans[2]:#x}), bits({nans[2]:#x})]",
    )
    ok("float_const_empty", "the eight bytes are there", payload(0, nan), "[]")


def write_text() -> None:
    words = ["Oslo", "", "Reykjavik", "Bonn", "A", "\x00\x7f"]
    for w in (4, 5, 6):
        ok(f"str_w{w}", f"lengths of {BITS[w]} bits", payload(6, strings(words, w)), f"{words}")
    for w, values in (
        (0, ["ab", "cd", "ef"]),
        (1, ["a", "bc", "d"]),
        (2, ["", "a", "bb", "ccc"]),
        (3, ["x" * 15, "", "yz"]),
    ):
        ok(
            f"str_w{w}",
            f"lengths of {BITS[w]} bits",
            payload(len(values), strings(values, w)),
            f"{values}",
        )
        raw = [v.encode() for v in values]
        ok(
            f"bytes_w{w}",
            f"lengths of {BITS[w]} bits",
            payload(len(raw), byte_strings(raw, w)),
            f"{raw}",
        )
    for w in (4, 5, 6):
        raw = [b"\x00\xff", b"", b"\x80abc"]
        ok(f"bytes_w{w}", f"lengths of {BITS[w]} bits", payload(3, byte_strings(raw, w)), f"{raw}")
    ok("str_empty", "no strings", payload(0, strings([], 0)), "[]")
    ok("str_all_empty", "empty strings", payload(3, strings(["", "", ""], 0)), "['', '', '']")
    texts = [
        "plain",
        "",
        "caf\xe9",
        "\u0142\xf3d\u017a",
        "\U0001f600!",
        "\ud800",
        "a\udfff\U0001f600",
        "\xff",
        "\uffff",
        "\U0010ffff",
        "\x80",
    ]
    for w in (3, 4, 5, 6):
        ok(
            f"str_kinds_w{w}",
            "each kind; lone surrogates",
            payload(len(texts), str_kinds(texts, w)),
            ascii(texts),
        )
    for w, values in (
        (0, ["\xe9\xe8", "\u20ac\u0141"]),
        (1, ["\xe9", "\u20ac\u0141"]),
        (2, ["\U0001f600", "", "abc"]),
    ):
        ok(
            f"str_kinds_w{w}",
            "lengths nearly alike",
            payload(len(values), str_kinds(values, w)),
            ascii(values),
        )
    ok(
        "str_kinds_ascii",
        "STR_KINDS without any other",
        payload(2, str_kinds(["a", "b"], 0)),
        "['a', 'b']",
    )
    pair = "\ud83d\ude00"
    ok(
        "surrogate_pair",
        "two surrogates stay two characters",
        payload(1, str_kinds([pair], 0)),
        ascii([pair]),
    )
    ok(
        "affix_int",
        "numbered names",
        payload(4, affix(b"user-", b"@x", ints([0, -1, 12, 300], 5))),
        "['user-0@x', 'user--1@x', 'user-12@x', 'user-300@x']",
    )
    ok(
        "affix_progression",
        "counted names",
        payload(3, affix(b"k", b"", progression(8, 1))),
        "['k8', 'k9', 'k10']",
    )
    ok(
        "affix_str",
        "a common ending",
        payload(2, affix(b"", b".txt", strings(["a", ""]))),
        "['a.txt', '.txt']",
    )
    ok(
        "affix_str_kinds",
        "affixes round other kinds",
        payload(3, affix(b"<", b">", str_kinds(["\u0142", "", "\U0001f600"]))),
        ascii(["<\u0142>", "<>", "<\U0001f600>"]),
    )
    ok("affix_none", "both may be empty", payload(1, affix(b"", b"", strings(["s"], 0))), "['s']")
    ok(
        "affix_longest",
        "127 bytes each",
        payload(1, affix(b"a" * 127, b"b" * 127, ints([7], 0))),
        "['a' * 127 + '7' + 'b' * 127]",
    )
    ok("affix_empty", "no rows", payload(0, affix(b"a", b"b", ints([], 0))), "[]")


def write_wrappers() -> None:
    words = strings(["x", "yy"], 1)
    for w in range(1, 7):
        ok(
            f"dictionary_w{w}",
            f"indexes of {BITS[w]} bits",
            payload(5, dictionary(2, words, (0, 1, 1, 0, 1), w)),
            "['x', 'yy', 'yy', 'x', 'yy']",
        )
    ok(
        "dictionary_w0",
        "one value for all rows",
        payload(4, dictionary(1, byte_strings([b"z"], 0), (0,) * 4, 0)),
        "[b'z'] * 4",
    )
    ok(
        "dictionary_unused",
        "values that no row names",
        payload(1, dictionary(2, words, (1,), 1)),
        "['yy']",
    )
    ok("dictionary_empty", "values but no rows", payload(0, dictionary(2, words, (), 1)), "[]")
    child = mixed((0, 1, 2, 0), 2, ints([5, 6], 1), strings(["q"], 0), NONE)
    ok(
        "dictionary_mixed",
        "values of several kinds",
        payload(4, dictionary(4, child, (3, 2, 1, 0), 2)),
        "[6, None, 'q', 5]",
    )
    pair = tuples(ints([1, 2], 1), strings(["a", "b"], 0))
    ok(
        "dictionary_tuple",
        "tuples met again",
        payload(3, dictionary(2, pair, (1, 0, 1), 1)),
        "[(2, 'b'), (1, 'a'), (2, 'b')]",
    )
    inner = dictionary(1, strings(["deep"], 0), (0, 0), 0)
    ok(
        "dictionary_below",
        "a DICTIONARY below the child of one",
        payload(2, dictionary(2, nullable((1, 1), inner), (0, 1), 1)),
        "['deep', 'deep']",
    )
    ok(
        "dictionary_nan",
        "a new NaN in every row",
        payload(2, dictionary(1, head("FLOAT") + struct.pack("<Q", 0x7FF8000000000003), (0, 0), 0)),
        "[bits(0x7ff8000000000003), bits(0x7ff8000000000003)]",
    )
    ok(
        "nullable",
        "as many values as 1 bits",
        payload(5, nullable((1, 0, 0, 1, 0), ints([7, 8], 1))),
        "[7, None, None, 8, None]",
    )
    ok(
        "nullable_none",
        "no value at all",
        payload(3, nullable((0, 0, 0), ints([], 0))),
        "[None] * 3",
    )
    ok("nullable_all", "a value in every row", payload(3, nullable((1, 1, 1), TRUE)), "[True] * 3")
    ok(
        "nullable_pending",
        "placeholders among values",
        payload(2, nullable((1, 0), PENDING)),
        "[None] * 2",
    )
    ok(
        "mixed_w1",
        "two kinds",
        payload(4, mixed((0, 1, 1, 0), 1, ints([1, 2], 1), strings(["a", "b"], 0))),
        "[1, 'a', 'b', 2]",
    )
    ok(
        "mixed_w2",
        "three kinds, one unused",
        payload(3, mixed((0, 2, 0), 2, FALSE, ints([], 0), floats(2.5))),
        "[False, 2.5, False]",
    )
    columns = [ints([100 + i], 0) for i in range(16)]
    ok(
        "mixed_w3",
        "sixteen columns",
        payload(16, mixed(tuple(range(15, -1, -1)), 3, *columns)),
        f"{[100 + i for i in range(15, -1, -1)]}",
    )
    ok(
        "mixed_wide",
        "a width above what is needed",
        payload(2, mixed((1, 0), 3, NONE, TRUE)),
        "[True, None]",
    )
    ok("mixed_empty", "no rows", payload(0, mixed((), 1, NONE, TRUE)), "[]")
    ok("tuple_0", "empty tuples", payload(2, tuples()), "[()] * 2")
    ok(
        "tuple_3",
        "a column an item",
        payload(2, tuples(ints([1, 2], 1), strings(["a", "b"], 0), NONE)),
        "[(1, 'a', None), (2, 'b', None)]",
    )
    ok(
        "tuple_nested",
        "tuples in tuples",
        payload(1, tuples(tuples(tuples(TRUE)), tuples())),
        "[(((True,),), ())]",
    )
    ok("tuple_255", "the largest arity", payload(1, tuples(*[NONE] * 255)), "[(None,) * 255]")
    ok(
        "tuple_of_lists",
        "mutable items are read",
        payload(2, tuples(lists([1, 0], 1, NONE), TRUE)),
        "[([None], True), ([], True)]",
        roll="list list",
    )
    deep = NONE
    for _ in range(31):
        deep = tuples(deep)
    value = "[" + "(" * 31 + "None" + ",)" * 31 + "]"
    ok("depth_most", "as deep as columns go", payload(1, deep), value)
    ok(
        "values_most",
        "1,048,576 values",
        payload(65536, tuples(*[NONE] * 15)),
        "[(None,) * 15] * 65536",
    )


def write_nested() -> None:
    names = strings(["id", "name"], 2)
    ok(
        "struct",
        "dicts of one shape",
        payload(2, structs(names, ints([1, 2], 1), strings(["a", "b"], 0))),
        "[{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]",
        roll="dict dict",
    )
    ok("struct_0", "empty dicts", payload(2, structs(b"")), "[{}, {}]", roll="dict dict")
    ok(
        "struct_no_rows",
        "a shape nobody has",
        payload(0, structs(names, NONE, NONE)),
        "[]",
        roll="",
    )
    keys = mixed((0, 1, 2, 3), 2, ints([3], 0), NONE, strings(["k"], 0), tuples(TRUE))
    ok(
        "struct_names",
        "names of any plain kind",
        payload(1, structs(keys, TRUE, FALSE, NONE, PENDING)),
        "[{3: True, None: False, 'k': None, (True,): None}]",
        roll="dict",
    )
    ok(
        "struct_4096",
        "the most fields",
        payload(1, structs(progression(0, 1), *[NONE] * 4096)),
        "[dict.fromkeys(range(4096))]",
        roll="dict",
    )
    inner = structs(strings(["x"], 0), nullable((1, 0), floats(0.5)))
    ok(
        "struct_nested",
        "own objects before those of the fields",
        payload(2, structs(strings(["p", "q"], 0), lists([0, 1], 1, ints([4], 0)), inner)),
        "[{'p': [], 'q': {'x': 0.5}}, {'p': [4], 'q': {'x': None}}]",
        roll="dict dict list list dict dict",
    )
    for w in (1, 2, 3, 4, 5, 6):
        ok(
            f"list_w{w}",
            f"lengths of {BITS[w]} bits",
            payload(3, lists([1, 0, 1], w, ints([7, 9], 2))),
            "[[7], [], [9]]",
            roll="list list list",
        )
        ok(
            f"map_w{w}",
            f"lengths of {BITS[w]} bits",
            payload(2, maps([0, 1], w, strings(["k"], 0), TRUE)),
            "[{}, {'k': True}]",
            roll="dict dict",
        )
    ok(
        "list_w0",
        "lengths all alike",
        payload(2, lists([2, 2], 0, progression(1, 1))),
        "[[1, 2], [3, 4]]",
        roll="list list",
    )
    ok(
        "map_w0",
        "lengths all alike",
        payload(2, maps([1, 1], 0, ints([5, 5], 0), floats(1.0, 2.0))),
        "[{5: 1.0}, {5: 2.0}]",
        roll="dict dict",
    )
    ok(
        "map_twice",
        "first place, last value",
        payload(1, maps([3], 0, strings(["a", "b", "a"], 0), ints([1, 2, 3], 2))),
        "[{'a': 3, 'b': 2}]",
        roll="dict",
    )
    ok(
        "list_lists",
        "column by column",
        payload(2, lists([1, 2], 1, lists([0, 1, 0], 1, structs(strings(["z"], 0), TRUE)))),
        "[[[]], [[{'z': True}], []]]",
        roll="list list list list list dict",
    )
    ok(
        "list_nullable",
        "lists and None",
        payload(3, nullable((1, 0, 1), lists([0, 0], 0, NONE))),
        "[[], None, []]",
        roll="list list",
    )
    ok("roll_unused", "a roll that stays short", payload(1, TRUE), "[True]", roll="")

    space = "types.SimpleNamespace"
    point = instances("INSTANCE", 0, strings(["x", "y"], 0), ints([1, 2], 1), floats(0.5, -0.5))
    ok(
        "instance",
        "a state dict",
        payload(2, point),
        f"[{space}(x=1, y=0.5), {space}(x=2, y=-0.5)]",
        roll="SimpleNamespace SimpleNamespace",
        externals=space,
    )
    ok(
        "instance_0",
        "an empty state",
        payload(1, instances("INSTANCE", 0, b"")),
        f"[{space}()]",
        roll="SimpleNamespace",
        externals=space,
    )
    two = instances("INSTANCE", 1, affix(b"f", b"", ints([1, 2], 1)), TRUE, lists([1], 0, bare(0)))
    ok(
        "instance_second",
        "another external, names with an affix",
        payload(1, two),
        f"[{space}(f1=True, f2=[object()])]",
        roll="SimpleNamespace list object",
        externals=f"builtins.object {space}",
    )
    odd = instances("INSTANCE", 0, str_kinds(["\xe9t\xe9", "\u0142"]), NONE, TRUE)
    ok(
        "instance_names",
        "names beyond ASCII",
        payload(1, odd),
        f"[{space}(**{{'\\xe9t\\xe9': None, '\\u0142': True}})]",
        roll="SimpleNamespace",
        externals=space,
    )
    half = instances(
        "SLOTTED", 0, strings(["_numerator", "_denominator"], 2), ints([1, 3], 2), ints([2, 4], 2)
    )
    ok(
        "slotted",
        "slots set one by one",
        payload(2, half),
        "[fractions.Fraction(1, 2), fractions.Fraction(3, 4)]",
        roll="Fraction Fraction",
        externals="fractions.Fraction",
    )
    ok(
        "bare",
        "no state at all",
        payload(2, bare(0)),
        "[object(), object()]",
        roll="object object",
        externals="builtins.object",
    )
    dates = reductions("REDUCE", 0, ints([2024, 2025], 1), ints([2, 12], 4), ints([29, 31], 2))
    ok(
        "reduce",
        "a value a row, not on the roll",
        payload(2, dates),
        "[datetime.date(2024, 2, 29), datetime.date(2025, 12, 31)]",
        roll="",
        externals="datetime.date",
    )
    ok(
        "reduce_0",
        "a callable without arguments",
        payload(1, reductions("REDUCE", 0)),
        "[decimal.Decimal()]",
        roll="",
        externals="decimal.Decimal",
    )
    ok(
        "external",
        "an external itself, and several",
        payload(3, tuples(externals(2), externals(1, (0, 1, 0), 1))),
        "[(bytes, float), (bytes, bytes), (bytes, float)]",
        roll="",
        externals="builtins.int builtins.float builtins.bytes",
    )
    for w in range(2, 7):
        ok(
            f"external_w{w}",
            "numbers of other widths",
            payload(2, externals(0, (1, 0), w)),
            "[float, int]",
            roll="",
            externals="builtins.int builtins.float",
        )
    ok(
        "dictionary_reduce",
        "a value met again",
        payload(3, dictionary(1, reductions("REDUCE", 0, strings(["1.5"], 0)), (0, 0, 0), 0)),
        "[decimal.Decimal('1.5')] * 3",
        roll="",
        externals="decimal.Decimal",
    )
    ok(
        "reference",
        "on the roll",
        payload(2, reductions("REFERENCE", 0, byte_strings([b"ab", b""], 2))),
        "[bytearray(b'ab'), bytearray()]",
        roll="bytearray bytearray",
        externals="builtins.bytearray",
    )
    ok(
        "reference_keys",
        "keys on the roll",
        payload(2, reductions("REFERENCE", 0, byte_strings([b"ab", b"cd"], 0)), TRUE),
        "{b'ab': True, b'cd': True}",
        target="dict",
        roll="bytes bytes",
        externals="builtins.bytes",
    )


def write_dicts() -> None:
    cities, people = strings(["Oslo", "Rome", "Bonn"], 0), ints([717710, 2746984, 338396], 6)
    ok(
        "worked_example",
        "the worked example of docs/format.md",
        payload(3, cities, people),
        "{'Oslo': 717710, 'Rome': 2746984, 'Bonn': 338396}",
        target="dict",
    )
    rows = nullable((1, 0, 1), lists([1, 2], 1, strings(["a", "b", "c"], 0)))
    shape = structs(strings(["id", "tags"], 2), progression(7, 1), rows)
    value = "[{'id': 7, 'tags': ['a']}, {'id': 8, 'tags': None}, {'id': 9, 'tags': ['b', 'c']}]"
    ok(
        "worked_example_nested",
        "the second worked example of docs/format.md",
        payload(3, shape),
        value,
        roll="dict dict dict list list",
    )
    ok("dict_empty", "no rows, both columns", payload(0, NONE, NONE), "{}", target="dict")
    ok(
        "dict_twice",
        "first place, last value",
        payload(
            3, mixed((0, 1, 2), 2, ints([1], 0), TRUE, floats(1.0)), strings(["a", "b", "c"], 0)
        ),
        "{1: 'c'}",
        target="dict",
    )
    ok(
        "dict_keys",
        "keys of every plain kind",
        payload(
            6,
            mixed(
                (0, 1, 2, 3, 4, 5),
                3,
                NONE,
                ints([1], 0),
                strings(["s"], 0),
                byte_strings([b"s"], 0),
                tuples(ints([1], 0)),
                floats(0.5),
            ),
            progression(0, 1),
        ),
        "{None: 0, 1: 1, 's': 2, b's': 3, (1,): 4, 0.5: 5}",
        target="dict",
    )
    ok(
        "dict_dates",
        "keys that a callable makes",
        payload(
            2,
            reductions("REDUCE", 0, ints([2000, 2001], 1), ints([1, 1], 0), ints([1, 1], 0)),
            lists([0, 0], 0, NONE),
        ),
        "{datetime.date(2000, 1, 1): [], datetime.date(2001, 1, 1): []}",
        target="dict",
        roll="list list",
        externals="datetime.date",
    )
    ok(
        "dict_following",
        "more rows announced",
        payload(1, strings(["k"], 0), NONE, following=2**64 - 1),
        "{'k': None}",
        target="dict",
    )
    ok(
        "dict_values",
        "dicts of dicts",
        payload(2, ints([1, 2], 1), maps([1, 1], 0, TRUE, structs(b""))),
        "{1: {True: {}}, 2: {True: {}}}",
        target="dict",
        roll="dict dict dict dict",
    )


def write_ok() -> None:
    for part in (write_scalars, write_text, write_wrappers, write_nested, write_dicts):
        part()
