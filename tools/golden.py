"""Writes the golden payloads, tests/golden/ok and tests/golden/bad, byte by byte from docs/format.md.

    tools/golden.py             write them
    tools/golden.py --check     fail when a file on disk differs

It shares no code with the encoders, so that files and encoders check each other.
tests/golden/README.md says how to read the files.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
KINDS = """NONE PENDING FALSE TRUE BOOL INT PROGRESSION BIG FLOAT FLOAT_CONST STR STR_KINDS BYTES
DICTIONARY NULLABLE MIXED TUPLE STRUCT LIST MAP INSTANCE SLOTTED BARE REDUCE REFERENCE AFFIX"""
KIND = {name: code for code, name in enumerate(KINDS.split())}
BITS = (0, 1, 2, 4, 8, 16, 32, 64)
U64 = 2**64

files: dict[str, str] = {}


# ---- numbers and arrays
def uvar(v: int) -> bytes:
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    return bytes(out) + bytes([v])


def zvar(v: int) -> bytes:
    return uvar(2 * v if v >= 0 else -2 * v - 1)


def packed(items, w: int) -> bytes:
    """All items side by side in one long number, lowest first."""
    number = 0
    for i, item in enumerate(items):
        assert 0 <= item < 2 ** BITS[w] or (w == 0 and item == 0)
        number |= item << (i * BITS[w])
    return number.to_bytes((len(items) * BITS[w] + 7) // 8, "little")


def lens(lengths, w: int) -> bytes:
    base = min(lengths, default=0)
    return uvar(base) + packed([n - base for n in lengths], w)


def f8(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


# ---- columns
def head(kind: str, w: int = 0) -> bytes:
    return bytes([KIND[kind] | w << 5])


NONE, PENDING, FALSE, TRUE = (head(k) for k in ("NONE", "PENDING", "FALSE", "TRUE"))


def boolean(*bits: int) -> bytes:
    return head("BOOL") + packed(bits, 1)


def ints(values, w: int, base: int | None = None) -> bytes:
    if base is None:
        base = min(values, default=0)
    return head("INT", w) + zvar(base) + packed([(v - base) % U64 for v in values], w)


def progression(start: int, step: int) -> bytes:
    return head("PROGRESSION") + zvar(start) + zvar(step)


def big(values, w: int) -> bytes:
    raw = [v.to_bytes((v.bit_length() + 8) // 8 if v else 0, "little", signed=True) for v in values]
    return head("BIG", w) + lens([len(r) for r in raw], w) + b"".join(raw)


def floats(*values: float) -> bytes:
    return head("FLOAT") + f8(*values)


def strings(values, w: int = 3) -> bytes:
    return head("STR", w) + lens([len(v) for v in values], w) + "".join(values).encode("ascii")


def str_kind(text: str) -> int:
    top = max(map(ord, text), default=0)
    return 0 if top < 0x80 else 1 if top < 0x100 else 2 if top < 0x10000 else 3


def str_blob(text: str) -> bytes:
    size = (1, 1, 2, 4)[str_kind(text)]
    return b"".join(ord(c).to_bytes(size, "little") for c in text)


def str_kinds(values, w: int = 3) -> bytes:
    body = lens([len(v) for v in values], w) + packed([str_kind(v) for v in values], 2)
    return head("STR_KINDS", w) + body + b"".join(map(str_blob, values))


def byte_strings(values, w: int = 3) -> bytes:
    return head("BYTES", w) + lens([len(v) for v in values], w) + b"".join(values)


def dictionary(count: int, child: bytes, indexes, w: int) -> bytes:
    return head("DICTIONARY", w) + uvar(count) + child + packed(indexes, w)


def nullable(bits, child: bytes) -> bytes:
    return head("NULLABLE") + packed(bits, 1) + child


def mixed(selectors, w: int, *columns: bytes) -> bytes:
    return head("MIXED", w) + uvar(len(columns)) + packed(selectors, w) + b"".join(columns)


def tuples(*columns: bytes) -> bytes:
    return head("TUPLE") + uvar(len(columns)) + b"".join(columns)


def structs(names: bytes, *columns: bytes) -> bytes:
    return head("STRUCT") + uvar(len(columns)) + names + b"".join(columns)


def lists(lengths, w: int, child: bytes) -> bytes:
    return head("LIST", w) + lens(lengths, w) + child


def maps(lengths, w: int, keys: bytes, values: bytes) -> bytes:
    return head("MAP", w) + lens(lengths, w) + keys + values


def instances(kind: str, external: int, names: bytes, *columns: bytes) -> bytes:
    return head(kind) + uvar(external) + uvar(len(columns)) + names + b"".join(columns)


def bare(external: int) -> bytes:
    return head("BARE") + uvar(external)


def reductions(kind: str, external: int, *columns: bytes) -> bytes:
    return head(kind) + uvar(external) + uvar(len(columns)) + b"".join(columns)


def affix(prefix: bytes, suffix: bytes, child: bytes) -> bytes:
    return head("AFFIX") + uvar(len(prefix)) + prefix + uvar(len(suffix)) + suffix + child


def payload(rows: int, *columns: bytes, following: int | None = None) -> bytes:
    start = uvar(rows << 1) if following is None else uvar(rows << 1 | 1) + uvar(following)
    return start + b"".join(columns)


# ---- files
def emit(name: str, about: str, fields: dict[str, str | None], data: bytes) -> None:
    assert name not in files, name
    lines = [f"# {about}"] + [f"{key}: {value}" for key, value in fields.items() if value is not None]
    text = data.hex(" ")
    lines += ["hex:"] + ["  " + text[i : i + 96].strip() for i in range(0, len(text), 96)]
    files[name + ".txt"] = "\n".join(lines) + "\n"


def ok(
    name: str,
    about: str,
    data: bytes,
    value: str,
    target: str = "list",
    roll: str | None = None,
    externals: str | None = None,
) -> None:
    """roll: type names of what follows the target on the roll; "" for an empty one."""
    fields = {"target": target, "roll": roll, "externals": externals, "value": value}
    emit("ok/" + name, about, fields, data)


def bad(
    name: str,
    about: str,
    status: str,
    before: bytes,
    wrong: bytes = b"",
    target: str = "list",
    roll: str | None = "",
    externals: str | None = None,
    walker: str | None = None,
) -> None:
    """The first wrong byte is the first of `wrong`."""
    fields = {
        "target": target,
        "roll": roll,
        "externals": externals,
        "walker": walker,
        "status": status,
        "offset": str(len(before)),
    }
    emit("bad/" + name, about, fields, before + wrong)


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
    ok("bool_full_byte", "no padding", payload(8, boolean(*bits[:8])), f"{[bool(b) for b in bits[:8]]}")
    ok("bool_empty", "a bitmap of nothing", payload(0, boolean()), "[]")
    ok("mixed_bits", "True and False are no ints", payload(2, mixed((0, 1), 1, TRUE, ints([1], 0))), "[True, 1]")

    for w in range(8):
        top = 2 ** BITS[w] - 1
        base = -3 if w < 7 else -(2**63)
        values = [base, base + top, base + top // 2, base + top, base]
        ok(f"int_w{w}", f"{BITS[w]} bits each", payload(5, ints(values, w, base)), f"{values}")
    ok("int_empty", "the base is there", payload(0, ints([], 4)), "[]")
    wrap = ints([-1, 2**63 - 1, -(2**63), 5], 7, 5)
    ok("int_wraps", "offsets below the base, modulo 2**64", payload(4, wrap), f"{[-1, 2**63 - 1, -(2**63), 5]}")
    narrow = head("INT", 4) + zvar(2**63 - 1) + packed([0, 1], 4)
    ok("int_wraps_narrow", "the sum is modulo 2**64 at every width", payload(2, narrow), f"{[2**63 - 1, -(2**63)]}")
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
        ok(f"progression_{name}", "start and step", payload(rows, progression(start, step)), f"{values}")
    values = [2**64, -(2**64), 0, 127, 128, -128, -129, 2**200 + 1, -(2**200)]
    for w in (3, 4, 5, 6):
        if w == 3:
            values = [v for v in values if abs(v) < 2**100]
        ok(f"big_w{w}", "two's complement", payload(len(values), big(values, w)), f"{values}")
        values = [2**64, -(2**64), 0, 127, 128, -128, -129, 2**200 + 1, -(2**200)]
    for w, values in ((0, [2**64, 2**65]), (1, [2**64, 2**56]), (2, [2**64, 2**56, 2**48, 2**40])):
        ok(f"big_w{w}", "lengths nearly alike", payload(len(values), big(values, w)), f"{values}")
    long = head("BIG") + uvar(12) + (5).to_bytes(12, "little") + (-5).to_bytes(12, "little", signed=True)
    ok("big_overlong", "more bytes than needed are read", payload(2, long), "[5, -5]")

    special = "[0.0, -0.0, 1.5, bits(0x7ff0000000000000), bits(0xfff0000000000000), 5e-324]"
    raw = f8(0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324)
    ok("float", "signs, infinities, the smallest", payload(6, head("FLOAT") + raw), special)
    nans = (0x7FF8000000000000, 0xFFF8000000000001, 0x7FF80000DEADBEEF)
    raw = struct.pack("<3Q", *nans)
    ok("float_nan", "NaN payloads are kept", payload(3, head("FLOAT") + raw), "[%s]" % ", ".join(f"bits({n:#x})" for n in nans))
    ok("float_const", "minus zero in every row", payload(3, head("FLOAT_CONST") + f8(-0.0)), "[-0.0] * 3")
    nan = head("FLOAT_CONST") + struct.pack("<Q", nans[2])
    ok("float_const_nan", "a new NaN in every row", payload(2, nan), f"[bits({nans[2]:#x}), bits({nans[2]:#x})]")
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
        ok(f"str_w{w}", f"lengths of {BITS[w]} bits", payload(len(values), strings(values, w)), f"{values}")
        raw = [v.encode() for v in values]
        ok(f"bytes_w{w}", f"lengths of {BITS[w]} bits", payload(len(raw), byte_strings(raw, w)), f"{raw}")
    for w in (4, 5, 6):
        raw = [b"\x00\xff", b"", b"\x80abc"]
        ok(f"bytes_w{w}", f"lengths of {BITS[w]} bits", payload(3, byte_strings(raw, w)), f"{raw}")
    ok("str_empty", "no strings", payload(0, strings([], 0)), "[]")
    ok("str_all_empty", "empty strings", payload(3, strings(["", "", ""], 0)), "['', '', '']")
    texts = ["plain", "", "caf\xe9", "\u0142\xf3d\u017a", "\U0001f600!", "\ud800", "a\udfff\U0001f600", "\xff", "\uffff", "\U0010ffff", "\x80"]
    for w in (3, 4, 5, 6):
        ok(f"str_kinds_w{w}", "each kind; lone surrogates", payload(len(texts), str_kinds(texts, w)), ascii(texts))
    for w, values in ((0, ["\xe9\xe8", "\u20ac\u0141"]), (1, ["\xe9", "\u20ac\u0141"]), (2, ["\U0001f600", "", "abc"])):
        ok(f"str_kinds_w{w}", "lengths nearly alike", payload(len(values), str_kinds(values, w)), ascii(values))
    ok("str_kinds_ascii", "STR_KINDS without any other", payload(2, str_kinds(["a", "b"], 0)), "['a', 'b']")
    pair = "\ud83d\ude00"
    ok("surrogate_pair", "two surrogates stay two characters", payload(1, str_kinds([pair], 0)), ascii([pair]))
    ok("affix_int", "numbered names", payload(4, affix(b"user-", b"@x", ints([0, -1, 12, 300], 5))), "['user-0@x', 'user--1@x', 'user-12@x', 'user-300@x']")
    ok("affix_progression", "counted names", payload(3, affix(b"k", b"", progression(8, 1))), "['k8', 'k9', 'k10']")
    ok("affix_str", "a common ending", payload(2, affix(b"", b".txt", strings(["a", ""]))), "['a.txt', '.txt']")
    ok("affix_str_kinds", "affixes round other kinds", payload(3, affix(b"<", b">", str_kinds(["\u0142", "", "\U0001f600"]))), ascii(["<\u0142>", "<>", "<\U0001f600>"]))
    ok("affix_none", "both may be empty", payload(1, affix(b"", b"", strings(["s"], 0))), "['s']")
    ok("affix_longest", "127 bytes each", payload(1, affix(b"a" * 127, b"b" * 127, ints([7], 0))), "['a' * 127 + '7' + 'b' * 127]")
    ok("affix_empty", "no rows", payload(0, affix(b"a", b"b", ints([], 0))), "[]")


def write_wrappers() -> None:
    words = strings(["x", "yy"], 1)
    for w in range(1, 7):
        ok(f"dictionary_w{w}", f"indexes of {BITS[w]} bits", payload(5, dictionary(2, words, (0, 1, 1, 0, 1), w)), "['x', 'yy', 'yy', 'x', 'yy']")
    ok("dictionary_w0", "one value for all rows", payload(4, dictionary(1, byte_strings([b"z"], 0), (0,) * 4, 0)), "[b'z'] * 4")
    ok("dictionary_unused", "values that no row names", payload(1, dictionary(2, words, (1,), 1)), "['yy']")
    ok("dictionary_empty", "values but no rows", payload(0, dictionary(2, words, (), 1)), "[]")
    child = mixed((0, 1, 2, 0), 2, ints([5, 6], 1), strings(["q"], 0), NONE)
    ok("dictionary_mixed", "values of several kinds", payload(4, dictionary(4, child, (3, 2, 1, 0), 2)), "[6, None, 'q', 5]")
    pair = tuples(ints([1, 2], 1), strings(["a", "b"], 0))
    ok("dictionary_tuple", "tuples met again", payload(3, dictionary(2, pair, (1, 0, 1), 1)), "[(2, 'b'), (1, 'a'), (2, 'b')]")
    inner = dictionary(1, strings(["deep"], 0), (0, 0), 0)
    ok("dictionary_below", "a DICTIONARY below the child of one", payload(2, dictionary(2, nullable((1, 1), inner), (0, 1), 1)), "['deep', 'deep']")
    ok("dictionary_nan", "a new NaN in every row", payload(2, dictionary(1, head("FLOAT") + struct.pack("<Q", 0x7FF8000000000003), (0, 0), 0)), "[bits(0x7ff8000000000003), bits(0x7ff8000000000003)]")
    ok("nullable", "as many values as 1 bits", payload(5, nullable((1, 0, 0, 1, 0), ints([7, 8], 1))), "[7, None, None, 8, None]")
    ok("nullable_none", "no value at all", payload(3, nullable((0, 0, 0), ints([], 0))), "[None] * 3")
    ok("nullable_all", "a value in every row", payload(3, nullable((1, 1, 1), TRUE)), "[True] * 3")
    ok("nullable_pending", "placeholders among values", payload(2, nullable((1, 0), PENDING)), "[None] * 2")
    ok("mixed_w1", "two kinds", payload(4, mixed((0, 1, 1, 0), 1, ints([1, 2], 1), strings(["a", "b"], 0))), "[1, 'a', 'b', 2]")
    ok("mixed_w2", "three kinds, one unused", payload(3, mixed((0, 2, 0), 2, FALSE, ints([], 0), floats(2.5))), "[False, 2.5, False]")
    columns = [ints([100 + i], 0) for i in range(16)]
    ok("mixed_w3", "sixteen columns", payload(16, mixed(tuple(range(15, -1, -1)), 3, *columns)), f"{[100 + i for i in range(15, -1, -1)]}")
    ok("mixed_wide", "a width above what is needed", payload(2, mixed((1, 0), 3, NONE, TRUE)), "[True, None]")
    ok("mixed_empty", "no rows", payload(0, mixed((), 1, NONE, TRUE)), "[]")
    ok("tuple_0", "empty tuples", payload(2, tuples()), "[()] * 2")
    ok("tuple_3", "a column an item", payload(2, tuples(ints([1, 2], 1), strings(["a", "b"], 0), NONE)), "[(1, 'a', None), (2, 'b', None)]")
    ok("tuple_nested", "tuples in tuples", payload(1, tuples(tuples(tuples(TRUE)), tuples())), "[(((True,),), ())]")
    ok("tuple_255", "the largest arity", payload(1, tuples(*[NONE] * 255)), "[(None,) * 255]")
    ok("tuple_of_lists", "mutable items are read", payload(2, tuples(lists([1, 0], 1, NONE), TRUE)), "[([None], True), ([], True)]", roll="list list")
    deep = NONE
    for _ in range(15):
        deep = tuples(deep)
    ok("depth_16", "as deep as columns go", payload(1, deep), "[" + "(" * 15 + "None" + ",)" * 15 + "]")
    ok("values_most", "1,048,576 values", payload(65536, tuples(*[NONE] * 15)), "[(None,) * 15] * 65536")


def write_nested() -> None:
    names = strings(["id", "name"], 2)
    ok("struct", "dicts of one shape", payload(2, structs(names, ints([1, 2], 1), strings(["a", "b"], 0))), "[{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]", roll="dict dict")
    ok("struct_0", "empty dicts", payload(2, structs(b"")), "[{}, {}]", roll="dict dict")
    ok("struct_no_rows", "a shape nobody has", payload(0, structs(names, NONE, NONE)), "[]", roll="")
    keys = mixed((0, 1, 2, 3), 2, ints([3], 0), NONE, strings(["k"], 0), tuples(TRUE))
    ok("struct_names", "names of any plain kind", payload(1, structs(keys, TRUE, FALSE, NONE, PENDING)), "[{3: True, None: False, 'k': None, (True,): None}]", roll="dict")
    ok("struct_4096", "the most fields", payload(1, structs(progression(0, 1), *[NONE] * 4096)), "[dict.fromkeys(range(4096))]", roll="dict")
    inner = structs(strings(["x"], 0), nullable((1, 0), floats(0.5)))
    ok("struct_nested", "own objects before those of the fields", payload(2, structs(strings(["p", "q"], 0), lists([0, 1], 1, ints([4], 0)), inner)), "[{'p': [], 'q': {'x': 0.5}}, {'p': [4], 'q': {'x': None}}]", roll="dict dict list list dict dict")
    for w in (1, 2, 3, 4, 5, 6):
        ok(f"list_w{w}", f"lengths of {BITS[w]} bits", payload(3, lists([1, 0, 1], w, ints([7, 9], 2))), "[[7], [], [9]]", roll="list list list")
        ok(f"map_w{w}", f"lengths of {BITS[w]} bits", payload(2, maps([0, 1], w, strings(["k"], 0), TRUE)), "[{}, {'k': True}]", roll="dict dict")
    ok("list_w0", "lengths all alike", payload(2, lists([2, 2], 0, progression(1, 1))), "[[1, 2], [3, 4]]", roll="list list")
    ok("map_w0", "lengths all alike", payload(2, maps([1, 1], 0, ints([5, 5], 0), floats(1.0, 2.0))), "[{5: 1.0}, {5: 2.0}]", roll="dict dict")
    ok("map_twice", "first place, last value", payload(1, maps([3], 0, strings(["a", "b", "a"], 0), ints([1, 2, 3], 2))), "[{'a': 3, 'b': 2}]", roll="dict")
    ok("list_lists", "column by column", payload(2, lists([1, 2], 1, lists([0, 1, 0], 1, structs(strings(["z"], 0), TRUE)))), "[[[]], [[{'z': True}], []]]", roll="list list list list list dict")
    ok("list_nullable", "lists and None", payload(3, nullable((1, 0, 1), lists([0, 0], 0, NONE))), "[[], None, []]", roll="list list")
    ok("roll_unused", "a roll that stays short", payload(1, TRUE), "[True]", roll="")

    space = "types.SimpleNamespace"
    point = instances("INSTANCE", 0, strings(["x", "y"], 0), ints([1, 2], 1), floats(0.5, -0.5))
    ok("instance", "a state dict", payload(2, point), f"[{space}(x=1, y=0.5), {space}(x=2, y=-0.5)]", roll="SimpleNamespace SimpleNamespace", externals=space)
    ok("instance_0", "an empty state", payload(1, instances("INSTANCE", 0, b"")), f"[{space}()]", roll="SimpleNamespace", externals=space)
    two = instances("INSTANCE", 1, affix(b"f", b"", ints([1, 2], 1)), TRUE, lists([1], 0, bare(0)))
    ok("instance_second", "another external, names with an affix", payload(1, two), f"[{space}(f1=True, f2=[object()])]", roll="SimpleNamespace list object", externals=f"builtins.object {space}")
    odd = instances("INSTANCE", 0, str_kinds(["\xe9t\xe9", "\u0142"]), NONE, TRUE)
    ok("instance_names", "names beyond ASCII", payload(1, odd), f"[{space}(**{{'\\xe9t\\xe9': None, '\\u0142': True}})]", roll="SimpleNamespace", externals=space)
    half = instances("SLOTTED", 0, strings(["_numerator", "_denominator"], 2), ints([1, 3], 2), ints([2, 4], 2))
    ok("slotted", "slots set one by one", payload(2, half), "[fractions.Fraction(1, 2), fractions.Fraction(3, 4)]", roll="Fraction Fraction", externals="fractions.Fraction")
    ok("bare", "no state at all", payload(2, bare(0)), "[object(), object()]", roll="object object", externals="builtins.object")
    dates = reductions("REDUCE", 0, ints([2024, 2025], 1), ints([2, 12], 4), ints([29, 31], 2))
    ok("reduce", "a value a row, not on the roll", payload(2, dates), "[datetime.date(2024, 2, 29), datetime.date(2025, 12, 31)]", roll="", externals="datetime.date")
    ok("reduce_0", "a callable without arguments", payload(1, reductions("REDUCE", 0)), "[decimal.Decimal()]", roll="", externals="decimal.Decimal")
    ok("dictionary_reduce", "a value met again", payload(3, dictionary(1, reductions("REDUCE", 0, strings(["1.5"], 0)), (0, 0, 0), 0)), "[decimal.Decimal('1.5')] * 3", roll="", externals="decimal.Decimal")
    ok("reference", "on the roll", payload(2, reductions("REFERENCE", 0, byte_strings([b"ab", b""], 2))), "[bytearray(b'ab'), bytearray()]", roll="bytearray bytearray", externals="builtins.bytearray")


def write_dicts() -> None:
    cities, people = strings(["Oslo", "Rome", "Bonn"], 0), ints([717710, 2746984, 338396], 6)
    ok("worked_example", "the worked example of docs/format.md", payload(3, cities, people), "{'Oslo': 717710, 'Rome': 2746984, 'Bonn': 338396}", target="dict")
    rows = nullable((1, 0, 1), lists([1, 2], 1, strings(["a", "b", "c"], 0)))
    shape = structs(strings(["id", "tags"], 2), progression(7, 1), rows)
    value = "[{'id': 7, 'tags': ['a']}, {'id': 8, 'tags': None}, {'id': 9, 'tags': ['b', 'c']}]"
    ok("worked_example_nested", "the second worked example of docs/format.md", payload(3, shape), value, roll="dict dict dict list list")
    ok("dict_empty", "no rows, both columns", payload(0, NONE, NONE), "{}", target="dict")
    ok("dict_twice", "first place, last value", payload(3, mixed((0, 1, 2), 2, ints([1], 0), TRUE, floats(1.0)), strings(["a", "b", "c"], 0)), "{1: 'c'}", target="dict")
    ok("dict_keys", "keys of every plain kind", payload(6, mixed((0, 1, 2, 3, 4, 5), 3, NONE, ints([1], 0), strings(["s"], 0), byte_strings([b"s"], 0), tuples(ints([1], 0)), floats(0.5)), progression(0, 1)), "{None: 0, 1: 1, 's': 2, b's': 3, (1,): 4, 0.5: 5}", target="dict")
    ok("dict_dates", "keys that a callable makes", payload(2, reductions("REDUCE", 0, ints([2000, 2001], 1), ints([1, 1], 0), ints([1, 1], 0)), lists([0, 0], 0, NONE)), "{datetime.date(2000, 1, 1): [], datetime.date(2001, 1, 1): []}", target="dict", roll="list list", externals="datetime.date")
    ok("dict_following", "more rows announced", payload(1, strings(["k"], 0), NONE, following=2**64 - 1), "{'k': None}", target="dict")
    ok("dict_values", "dicts of dicts", payload(2, ints([1, 2], 1), maps([1, 1], 0, TRUE, structs(b""))), "{1: {True: {}}, 2: {True: {}}}", target="dict", roll="dict dict dict dict")


def write_bad() -> None:
    # Truncated inside each thing: the offset is where the thing starts.
    start = payload(3)
    for name, before, rest in (
        ("payload", b"", b""),
        ("rows", b"", b"\x86"),
        ("following", b"\x07", b"\x80"),
        ("column", start, b""),
        ("bitmap", payload(9) + head("BOOL"), b"\x00"),
        ("base", start + head("INT", 4), b"\x80"),
        ("offsets", start + head("INT", 4) + zvar(1), b"\x00\x00"),
        ("offsets_64", start + head("INT", 7) + zvar(1), bytes(23)),
        ("start", start + head("PROGRESSION"), b""),
        ("step", start + head("PROGRESSION") + zvar(1), b""),
        ("lens_base", start + head("STR", 4), b""),
        ("lens", start + head("STR", 4) + uvar(0), b"\x01"),
        ("str", start + head("STR", 0) + uvar(2), b"abcde"),
        ("str_huge", start + head("STR", 0) + uvar(2**32 - 1), b"abcde"),
        ("bytes", start + head("BYTES", 0) + uvar(2), b"abcde"),
        ("big", start + head("BIG", 0) + uvar(2), b"abcde"),
        ("kinds", payload(5) + head("STR_KINDS", 0) + uvar(0), b"\x00"),
        ("str_kinds", payload(1) + head("STR_KINDS", 0) + uvar(2) + b"\x02", b"a\x01b"),
        ("float", start + head("FLOAT"), bytes(23)),
        ("float_const", start + head("FLOAT_CONST"), bytes(7)),
        ("dictionary", start + head("DICTIONARY"), b""),
        ("dictionary_child", start + head("DICTIONARY") + uvar(1), b""),
        ("dictionary_indexes", start + head("DICTIONARY", 4) + uvar(1) + TRUE, b"\x00"),
        ("nullable", payload(9) + head("NULLABLE"), b"\x00"),
        ("nullable_child", start + head("NULLABLE") + b"\x00", b""),
        ("mixed", start + head("MIXED", 1), b""),
        ("mixed_selectors", payload(9) + head("MIXED", 1) + uvar(2), b"\x00"),
        ("mixed_child", start + head("MIXED", 1) + uvar(2) + b"\x00" + TRUE, b""),
        ("tuple", start + head("TUPLE"), b""),
        ("tuple_child", start + head("TUPLE") + uvar(2) + TRUE, b""),
        ("struct", start + head("STRUCT"), b""),
        ("struct_names", start + head("STRUCT") + uvar(1), b""),
        ("struct_field", start + head("STRUCT") + uvar(1) + TRUE, b""),
        ("list", start + head("LIST"), b""),
        ("list_child", start + head("LIST") + uvar(1), b""),
        ("map_keys", start + head("MAP") + uvar(1), b""),
        ("map_values", start + head("MAP") + uvar(1) + NONE, b""),
        ("affix", start + head("AFFIX"), b""),
        ("affix_prefix", start + head("AFFIX") + uvar(3), b"ab"),
        ("affix_suffix", start + head("AFFIX") + uvar(1) + b"a" + uvar(3), b"ab"),
        ("affix_child", start + head("AFFIX") + uvar(0) + uvar(0), b""),
    ):
        bad(f"truncated_{name}", "ends too early", "E_TRUNCATED", before, rest)
    for name, before in (
        ("instance", head("INSTANCE")),
        ("instance_fields", head("INSTANCE") + uvar(0)),
        ("instance_names", head("SLOTTED") + uvar(0) + uvar(1)),
        ("instance_field", head("INSTANCE") + uvar(0) + uvar(1) + strings(["a"], 0)),
        ("bare", head("BARE")),
        ("reduce", head("REDUCE")),
        ("reduce_arguments", head("REDUCE") + uvar(0)),
        ("reference_argument", head("REFERENCE") + uvar(0) + uvar(1)),
    ):
        bad(f"truncated_{name}", "ends too early", "E_TRUNCATED", payload(1) + before, externals="builtins.object")
    bad("truncated_dict_values", "keys alone", "E_TRUNCATED", payload(1, TRUE), target="dict")

    bad("trailing", "a byte too many", "E_TRAILING", payload(1, TRUE), b"\x00")
    bad("trailing_dict", "a third column", "E_TRAILING", payload(1, TRUE, TRUE), TRUE, target="dict")
    bad("trailing_dict_as_list", "a list has one column", "E_TRAILING", payload(1, TRUE), TRUE)

    for name, wrong in (
        ("11_bytes", b"\x80" * 10 + b"\x00"),
        ("10_continued", b"\x80" * 9 + b"\x81\x00"),
        ("2_64", b"\x80" * 9 + b"\x02"),
        ("large", b"\xff" * 9 + b"\x7f"),
    ):
        bad(f"varint_{name}", "too long, or 2**64 and above", "E_VARINT", b"", wrong)
        bad(f"varint_{name}_base", "the same as a zvar", "E_VARINT", payload(1) + head("INT"), wrong)

    widths = {"INT": range(8), "MIXED": (1, 2, 3)}
    for kind in ("BIG", "STR", "STR_KINDS", "BYTES", "DICTIONARY", "LIST", "MAP"):
        widths[kind] = range(7)
    for kind in KIND:
        for w in range(8):
            if w not in widths.get(kind, (0,)):
                bad(f"width_{kind.lower()}_{w}", "a width that the kind does not take", "E_WIDTH", payload(1), head(kind, w))
    for code in range(26, 32):
        bad(f"kind_{code}", "a reserved kind", "E_KIND", payload(1), bytes([code]))
        bad(f"kind_{code}_w7", "reserved at every width", "E_KIND", payload(1), bytes([code | 0xE0]))
    bad("kind_below", "a reserved kind in a tuple", "E_KIND", payload(1) + head("TUPLE") + uvar(2) + NONE, b"\x1a")

    bad("padding_bool", "the lowest padding bit", "E_PADDING", payload(9) + head("BOOL") + b"\xff", b"\x02")
    bad("padding_bool_high", "the highest padding bit", "E_PADDING", payload(3) + head("BOOL"), b"\x87")
    bad("padding_nullable", "a bit for a row that is not there", "E_PADDING", payload(3) + head("NULLABLE"), b"\x0f" + TRUE)
    for w, byte in ((1, 0x08), (2, 0x40), (3, 0xF0)):
        rows = 3 if w < 3 else 1
        bad(f"padding_int_w{w}", "offsets", "E_PADDING", payload(rows) + head("INT", w) + zvar(0), bytes([byte]))
        bad(f"padding_lens_w{w}", "lengths", "E_PADDING", payload(rows) + head("STR", w) + uvar(0), bytes([byte]))
        bad(f"padding_index_w{w}", "indexes", "E_PADDING", payload(rows) + head("DICTIONARY", w) + uvar(1) + NONE, bytes([byte]))
        bad(f"padding_mixed_w{w}", "selectors", "E_PADDING", payload(rows) + head("MIXED", w) + uvar(2), bytes([byte]))
    bad("padding_kinds", "kinds of strings", "E_PADDING", payload(1) + head("STR_KINDS") + uvar(1), b"\x10a")

    bad("length_base", "a base of 2**32", "E_LENGTH", payload(1) + head("STR"), uvar(2**32))
    bad("length_sum", "base and item together", "E_LENGTH", payload(2) + head("BYTES", 4), uvar(2**32 - 1) + b"\x00\x01")
    bad("length_list", "a base of 2**32", "E_LENGTH", payload(0) + head("LIST"), uvar(2**32) + NONE)

    bad("range_up", "one step above", "E_RANGE", payload(2) + head("PROGRESSION"), zvar(2**63 - 1) + zvar(1))
    bad("range_down", "one step below", "E_RANGE", payload(2) + head("PROGRESSION"), zvar(-(2**63)) + zvar(-1))
    bad("range_far", "in the last row", "E_RANGE", payload(4) + head("PROGRESSION"), zvar(-(2**63)) + zvar(2**63 - 1))
    bad("range_wraps", "a step that comes round again", "E_RANGE", payload(5) + head("PROGRESSION"), zvar(0) + zvar(2**62))

    bad("text_str", "a byte above 127", "E_TEXT", payload(2) + head("STR") + uvar(1), b"a\x80")
    late = b"a" * 70 + b"\xff"
    bad("text_str_late", "far into the blob", "E_TEXT", payload(1) + head("STR") + uvar(71), late)
    one = payload(2) + head("STR_KINDS") + uvar(1)
    bad("text_kinds_ascii", "kind 0 with a byte above 127", "E_TEXT", one + b"\x00" + b"a", b"\x80")
    bad("text_kinds_latin", "kind 1 for ASCII", "E_TEXT", one + b"\x04" + b"a", b"b")
    bad("text_kinds_ucs2", "kind 2 for Latin-1", "E_TEXT", one + b"\x08" + b"a", b"\xff\x00")
    bad("text_kinds_ucs4", "kind 3 for UCS-2", "E_TEXT", one + b"\x0c" + b"a", b"\xff\xff\x00\x00")
    bad("text_kinds_0x110000", "a character beyond Unicode", "E_TEXT", one + b"\x0c" + b"a", b"\x00\x00\x11\x00")
    empty = payload(1) + head("STR_KINDS") + uvar(0)
    for kind in (1, 2, 3):
        bad(f"text_kinds_empty_{kind}", "the empty string is ASCII", "E_TEXT", empty + bytes([kind]))
    bad("text_prefix", "a prefix beyond ASCII", "E_TEXT", payload(1) + head("AFFIX") + uvar(2), "\xe9".encode() + uvar(0) + ints([1], 0))
    bad("text_suffix", "a suffix beyond ASCII", "E_TEXT", payload(1) + head("AFFIX") + uvar(0) + uvar(1), b"\xe9" + ints([1], 0))

    words = strings(["x", "y"], 0)
    for w in range(1, 7):
        wrong = packed((1, 2 if w > 1 else 1), w)
        count = 2 if w > 1 else 1
        before = payload(2) + head("DICTIONARY", w) + uvar(count) + (words if count == 2 else NONE)
        bad(f"index_w{w}", "an index that names nothing", "E_INDEX", before, wrong)
    bad("index_mixed", "selector 3 of 3", "E_INDEX", payload(2) + head("MIXED", 2) + uvar(3), packed((0, 3), 2) + NONE * 3)
    bad("index_mixed_w3", "selector 15 of 15", "E_INDEX", payload(1) + head("MIXED", 3) + uvar(15), b"\x0f" + NONE * 15)

    tails = {"PENDING": b"", "STRUCT": uvar(0), "LIST": uvar(0) + NONE, "MAP": uvar(0) + NONE * 2, "INSTANCE": uvar(0) * 2, "SLOTTED": uvar(0) * 2, "BARE": uvar(0), "REFERENCE": uvar(0) * 2}
    for kind, tail in tails.items():
        wrong, name = head(kind) + tail, kind.lower()
        bad(f"child_key_{name}", "a key", "E_CHILD", payload(1), wrong + NONE, target="dict", externals="builtins.object")
        bad(f"child_dictionary_{name}", "a distinct value", "E_CHILD", payload(1) + head("DICTIONARY") + uvar(1), wrong, externals="builtins.object")
    below = {
        "nullable": head("NULLABLE") + b"\x01",
        "mixed": head("MIXED", 1) + uvar(2) + b"\x00",
        "tuple": head("TUPLE") + uvar(1),
        "reduce": head("REDUCE") + uvar(0) + uvar(1),
        "tuple_tuple": (head("TUPLE") + uvar(1)) * 2,
    }
    for name, wrapper in below.items():
        bad(f"child_below_{name}", "a key, one level down", "E_CHILD", payload(1) + wrapper, PENDING + NONE * 2, target="dict", externals="builtins.bytearray")
    bad("child_map_key", "a list as key", "E_CHILD", payload(1) + head("MAP") + uvar(1), head("LIST") + uvar(0) + NONE * 2)
    bad("child_struct_name", "a placeholder as name", "E_CHILD", payload(1) + head("STRUCT") + uvar(1), PENDING + NONE)
    bad("child_struct_name_below", "a dict in a tuple as name", "E_CHILD", payload(1) + head("STRUCT") + uvar(1) + head("TUPLE") + uvar(1), head("STRUCT") + uvar(0) + NONE)
    bad("child_dictionary_twice", "a DICTIONARY of a DICTIONARY", "E_CHILD", payload(1) + head("DICTIONARY") + uvar(1), dictionary(1, NONE, (0,), 0))
    for kind, tail in (("NONE", b""), ("INT", zvar(0)), ("BYTES", uvar(0)), ("DICTIONARY", uvar(1) + strings(["a"], 0)), ("NULLABLE", b"\x01" + strings(["a"], 0)), ("PENDING", b"")):
        bad(f"child_state_name_{kind.lower()}", "names of a state are strings", "E_CHILD", payload(1) + head("INSTANCE") + uvar(0) + uvar(1), head(kind) + tail + NONE, externals="types.SimpleNamespace")
    for kind, tail in (("NONE", b""), ("BIG", uvar(0)), ("BYTES", uvar(0)), ("NULLABLE", b"\x00" + NONE), ("DICTIONARY", uvar(1) + words), ("AFFIX", uvar(0) * 2 + words), ("FLOAT", bytes(8))):
        bad(f"child_affix_{kind.lower()}", "what an AFFIX may not hold", "E_CHILD", payload(1) + head("AFFIX") + uvar(0) * 2, head(kind) + tail)

    space = "types.SimpleNamespace"
    before = payload(1) + head("STRUCT") + uvar(2)
    for name, names in (
        ("str", strings(["a", "a"], 0)),
        ("empty", strings(["", ""], 0)),
        ("str_kinds", str_kinds(["\u0142", "\u0142"], 0)),
        ("affix", affix(b"p", b"s", strings(["a", "a"], 0))),
    ):
        bad(f"names_{name}", "the same name twice", "E_NAMES", before, names + NONE * 2)
        bad(f"names_state_{name}", "the same name twice", "E_NAMES", payload(1) + head("SLOTTED") + uvar(0) + uvar(2), names + NONE * 2, externals=space)
    for name, names in (
        ("int", ints([4, 4], 0)),
        ("none", NONE),
        ("progression", progression(4, 0)),
        ("affix_int", affix(b"p", b"s", ints([1, 1], 0))),
        ("equal", mixed((0, 1), 1, ints([1], 0), TRUE)),
        ("dictionary", dictionary(1, strings(["a"], 0), (0, 0), 0)),
        ("tuple", tuples(NONE)),
        ("float", floats(0.0, -0.0)),
    ):
        bad(f"names_{name}", "names that are equal as objects", "E_NAMES", before, names + NONE * 2, walker="accepts")
    many = progression(0, 1)
    bad("names_before_fields", "names are compared before fields are read", "E_NAMES", before, strings(["a", "a"], 0) + b"\xff")

    bad("limit_rows", "65,537 rows", "E_LIMIT", b"", uvar(65537 << 1) + NONE)
    bad("limit_rows_huge", "2**63 - 1 rows", "E_LIMIT", b"", uvar(2**64 - 2) + NONE)
    bad("limit_list", "65,537 items", "E_LIMIT", payload(1) + head("LIST") + uvar(65537), NONE)
    bad("limit_list_huge", "very many items", "E_LIMIT", payload(65536) + head("LIST") + uvar(2**32 - 1), NONE)
    bad("limit_map", "65,537 keys", "E_LIMIT", payload(1) + head("MAP") + uvar(65537), NONE * 2)
    bad("limit_values", "one column above 1,048,576 values", "E_LIMIT", payload(65536) + head("TUPLE") + uvar(16) + NONE * 15, NONE)
    bad("limit_values_dict", "values of all columns count", "E_LIMIT", payload(65536, NONE) + head("TUPLE") + uvar(15) + NONE * 14, NONE, target="dict")
    bad("limit_dictionary_0", "no value", "E_LIMIT", payload(0) + head("DICTIONARY"), uvar(0) + NONE)
    bad("limit_dictionary", "65,537 values", "E_LIMIT", payload(1) + head("DICTIONARY", 6), uvar(65537) + NONE + bytes(4))
    for k in (0, 1, 17):
        bad(f"limit_mixed_{k}", "2 to 16 columns", "E_LIMIT", payload(1) + head("MIXED", 3), uvar(k) + b"\x00" + NONE * k)
    bad("limit_tuple", "arity 256", "E_LIMIT", payload(1) + head("TUPLE"), uvar(256) + NONE * 256)
    bad("limit_struct", "4,097 fields", "E_LIMIT", payload(1) + head("STRUCT"), uvar(4097) + many)
    bad("limit_instance", "4,097 fields", "E_LIMIT", payload(1) + head("INSTANCE") + uvar(0), uvar(4097) + many, externals=space)
    bad("limit_reduce", "256 arguments", "E_LIMIT", payload(1) + head("REDUCE") + uvar(0), uvar(256) + NONE * 256, externals=space)
    bad("limit_prefix", "128 bytes", "E_LIMIT", payload(1) + head("AFFIX"), uvar(128) + b"a" * 128 + uvar(0) + ints([1], 0))
    bad("limit_suffix", "128 bytes", "E_LIMIT", payload(1) + head("AFFIX") + uvar(0), uvar(128) + b"a" * 128 + ints([1], 0))

    for name, wrapper in (("tuple", head("TUPLE") + uvar(1)), ("nullable", head("NULLABLE") + b"\x01"), ("list", head("LIST") + uvar(1))):
        bad(f"depth_{name}", "level 17", "E_DEPTH", payload(1) + wrapper * 16, NONE)
    bad("depth_keys", "keys nest like values", "E_DEPTH", payload(1) + (head("TUPLE") + uvar(1)) * 16, NONE * 2, target="dict")
    bad("depth_names", "names are one level down", "E_DEPTH", payload(1) + (head("TUPLE") + uvar(1)) * 15 + head("STRUCT") + uvar(1), strings(["a"], 0) + NONE)
    bad("depth_dictionary", "distinct values are one level down", "E_DEPTH", payload(1) + (head("TUPLE") + uvar(1)) * 15 + head("DICTIONARY") + uvar(1), NONE)

    for kind, tail in tails.items():
        if kind != "PENDING":
            bad(f"roll_{kind.lower()}", "a call without roll", "E_ROLL", payload(1), head(kind) + tail, roll=None)
    for kind in ("INSTANCE", "SLOTTED", "BARE", "REDUCE", "REFERENCE"):
        bad(f"external_{kind.lower()}", "number 1 of 1", "E_EXTERNAL", payload(1) + head(kind), uvar(1) + uvar(0), externals="builtins.object")
        bad(f"external_{kind.lower()}_huge", "number 2**64 - 1", "E_EXTERNAL", payload(1) + head(kind), uvar(2**64 - 1) + uvar(0), externals="builtins.object")
    bad("external_none", "no roll, so no externals", "E_EXTERNAL", payload(1) + head("REDUCE"), uvar(0) * 2, roll=None)
    bad("external_no_rows", "checked though nobody needs it", "E_EXTERNAL", payload(0) + head("REDUCE"), uvar(0) * 2)

    # A column byte that breaks several rules.
    deep = payload(1) + (head("TUPLE") + uvar(1)) * 16
    bad("order_kind_width", "E_KIND before E_WIDTH", "E_KIND", payload(1), b"\xff")
    bad("order_width_depth", "E_WIDTH before E_DEPTH", "E_WIDTH", deep, head("NONE", 1))
    wide = payload(1) + (head("TUPLE") + uvar(1)) * 15 + head("LIST") + uvar(65537)
    bad("order_depth_limit", "E_DEPTH before E_LIMIT", "E_DEPTH", wide, NONE)
    bad("order_limit_child", "E_LIMIT before E_CHILD", "E_LIMIT", payload(1) + head("MAP") + uvar(65537), head("LIST"))
    bad("order_child_roll", "E_CHILD before E_ROLL", "E_CHILD", payload(1), head("LIST") + uvar(0) + NONE * 2, target="dict", roll=None)
    bad("order_padding_index", "E_PADDING before E_INDEX", "E_PADDING", payload(1) + head("DICTIONARY", 2) + uvar(1) + NONE, b"\x13")


def main() -> int:
    for part in (write_scalars, write_text, write_wrappers, write_nested, write_dicts, write_bad):
        part()
    there = {str(p.relative_to(FOLDER)) for p in FOLDER.glob("*/*.txt")}
    if "--check" in sys.argv[1:]:
        stale = there ^ files.keys()
        stale |= {n for n in there & files.keys() if (FOLDER / n).read_text() != files[n]}
        for name in sorted(stale):
            print(f"tests/golden/{name} is not what tools/golden.py writes", file=sys.stderr)
        return 1 if stale else 0
    for name in there - files.keys():
        (FOLDER / name).unlink()
    for name, text in files.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
