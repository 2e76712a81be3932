"""Payloads that must be refused: every rule of docs/format.md broken; for tools/golden.py."""

from __future__ import annotations

from golden_columns import (
    KIND,
    NONE,
    PENDING,
    TRUE,
    affix,
    bare,
    big,
    dictionary,
    floats,
    head,
    ints,
    lens,
    mixed,
    nullable,
    packed,
    payload,
    progression,
    str_kinds,
    strings,
    tuples,
    uvar,
    zvar,
)
from golden_text import bad

DEPTH = 32  # as deep as columns go
SPACE = "types.SimpleNamespace"
WORDS = strings(["x", "y"], 0)
MANY = progression(0, 1)
# The least body of each kind that is not plain.
BODIES = {
    "PENDING": b"",
    "STRUCT": uvar(0),
    "LIST": uvar(0) + NONE,
    "MAP": uvar(0) + NONE * 2,
    "INSTANCE": uvar(0) * 2,
    "SLOTTED": uvar(0) * 2,
    "BARE": uvar(0),
    "REFERENCE": uvar(0) * 2,
}


def write_cut() -> None:
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
        ("external", head("EXTERNAL")),
    ):
        bad(
            f"truncated_{name}",
            "ends too early",
            "E_TRUNCATED",
            payload(1) + before,
            externals="builtins.object",
        )
    bad("truncated_dict_values", "keys alone", "E_TRUNCATED", payload(1, TRUE), target="dict")


def write_heads() -> None:
    bad("trailing", "a byte too many", "E_TRAILING", payload(1, TRUE), b"\x00")
    bad(
        "trailing_dict", "a third column", "E_TRAILING", payload(1, TRUE, TRUE), TRUE, target="dict"
    )
    bad("trailing_dict_as_list", "a list has one column", "E_TRAILING", payload(1, TRUE), TRUE)

    for name, wrong in (
        ("11_bytes", b"\x80" * 10 + b"\x00"),
        ("10_continued", b"\x80" * 9 + b"\x81\x00"),
        ("2_64", b"\x80" * 9 + b"\x02"),
        ("large", b"\xff" * 9 + b"\x7f"),
    ):
        bad(f"varint_{name}", "too long, or 2**64 and above", "E_VARINT", b"", wrong)
        bad(
            f"varint_{name}_base", "the same as a zvar", "E_VARINT", payload(1) + head("INT"), wrong
        )

    widths = {"INT": range(8), "MIXED": (1, 2, 3)}
    for kind in ("BIG", "STR", "STR_KINDS", "BYTES", "DICTIONARY", "LIST", "MAP", "EXTERNAL"):
        widths[kind] = range(7)
    for kind in KIND:
        for w in range(8):
            if w not in widths.get(kind, (0,)):
                bad(
                    f"width_{kind.lower()}_{w}",
                    "a width that the kind does not take",
                    "E_WIDTH",
                    payload(1),
                    head(kind, w),
                )
    for code in range(27, 32):
        bad(f"kind_{code}", "a reserved kind", "E_KIND", payload(1), bytes([code]))
        bad(
            f"kind_{code}_w7", "reserved at every width", "E_KIND", payload(1), bytes([code | 0xE0])
        )
    bad(
        "kind_below",
        "a reserved kind in a tuple",
        "E_KIND",
        payload(1) + head("TUPLE") + uvar(2) + NONE,
        b"\x1b",
    )


def write_values() -> None:
    bad(
        "padding_bool",
        "the lowest padding bit",
        "E_PADDING",
        payload(9) + head("BOOL") + b"\xff",
        b"\x02",
    )
    bad(
        "padding_bool_high",
        "the highest padding bit",
        "E_PADDING",
        payload(3) + head("BOOL"),
        b"\x87",
    )
    bad(
        "padding_nullable",
        "a bit for a row that is not there",
        "E_PADDING",
        payload(3) + head("NULLABLE"),
        b"\x0f" + TRUE,
    )
    for w, byte in ((1, 0x08), (2, 0x40), (3, 0xF0)):
        rows = 3 if w < 3 else 1
        bad(
            f"padding_int_w{w}",
            "offsets",
            "E_PADDING",
            payload(rows) + head("INT", w) + zvar(0),
            bytes([byte]),
        )
        bad(
            f"padding_lens_w{w}",
            "lengths",
            "E_PADDING",
            payload(rows) + head("STR", w) + uvar(0),
            bytes([byte]),
        )
        bad(
            f"padding_index_w{w}",
            "indexes",
            "E_PADDING",
            payload(rows) + head("DICTIONARY", w) + uvar(1) + NONE,
            bytes([byte]),
        )
        bad(
            f"padding_mixed_w{w}",
            "selectors",
            "E_PADDING",
            payload(rows) + head("MIXED", w) + uvar(2),
            bytes([byte]),
        )
    bad(
        "padding_kinds",
        "kinds of strings",
        "E_PADDING",
        payload(1) + head("STR_KINDS") + uvar(1),
        b"\x10a",
    )

    bad("length_base", "a base of 2**32", "E_LENGTH", payload(1) + head("STR"), uvar(2**32))
    bad(
        "length_sum",
        "base and item together",
        "E_LENGTH",
        payload(2) + head("BYTES", 4),
        uvar(2**32 - 1) + b"\x00\x01",
    )
    bad("length_list", "a base of 2**32", "E_LENGTH", payload(0) + head("LIST"), uvar(2**32) + NONE)

    bad(
        "range_up",
        "one step above",
        "E_RANGE",
        payload(2) + head("PROGRESSION"),
        zvar(2**63 - 1) + zvar(1),
    )
    bad(
        "range_down",
        "one step below",
        "E_RANGE",
        payload(2) + head("PROGRESSION"),
        zvar(-(2**63)) + zvar(-1),
    )
    bad(
        "range_far",
        "in the last row",
        "E_RANGE",
        payload(4) + head("PROGRESSION"),
        zvar(-(2**63)) + zvar(2**63 - 1),
    )
    bad(
        "range_wraps",
        "a step that comes round again",
        "E_RANGE",
        payload(5) + head("PROGRESSION"),
        zvar(0) + zvar(2**62),
    )

    bad("text_str", "a byte above 127", "E_TEXT", payload(2) + head("STR") + uvar(1), b"a\x80")
    late = b"a" * 70 + b"\xff"
    bad("text_str_late", "far into the blob", "E_TEXT", payload(1) + head("STR") + uvar(71), late)
    one = payload(2) + head("STR_KINDS") + uvar(1)
    bad("text_kinds_ascii", "kind 0 with a byte above 127", "E_TEXT", one + b"\x00" + b"a", b"\x80")
    bad("text_kinds_latin", "kind 1 for ASCII", "E_TEXT", one + b"\x04" + b"a", b"b")
    bad("text_kinds_ucs2", "kind 2 for Latin-1", "E_TEXT", one + b"\x08" + b"a", b"\xff\x00")
    bad("text_kinds_ucs4", "kind 3 for UCS-2", "E_TEXT", one + b"\x0c" + b"a", b"\xff\xff\x00\x00")
    bad(
        "text_kinds_0x110000",
        "a character beyond Unicode",
        "E_TEXT",
        one + b"\x0c" + b"a",
        b"\x00\x00\x11\x00",
    )
    empty = payload(1) + head("STR_KINDS") + uvar(0)
    for kind in (1, 2, 3):
        bad(
            f"text_kinds_empty_{kind}", "the empty string is ASCII", "E_TEXT", empty + bytes([kind])
        )
    bad(
        "text_prefix",
        "a prefix beyond ASCII",
        "E_TEXT",
        payload(1) + head("AFFIX") + uvar(2),
        "\xe9".encode() + uvar(0) + ints([1], 0),
    )
    bad(
        "text_suffix",
        "a suffix beyond ASCII",
        "E_TEXT",
        payload(1) + head("AFFIX") + uvar(0) + uvar(1),
        b"\xe9" + ints([1], 0),
    )

    for w in range(1, 7):
        wrong = packed((1, 2 if w > 1 else 1), w)
        count = 2 if w > 1 else 1
        before = payload(2) + head("DICTIONARY", w) + uvar(count) + (WORDS if count == 2 else NONE)
        bad(f"index_w{w}", "an index that names nothing", "E_INDEX", before, wrong)
    bad(
        "index_mixed",
        "selector 3 of 3",
        "E_INDEX",
        payload(2) + head("MIXED", 2) + uvar(3),
        packed((0, 3), 2) + NONE * 3,
    )
    bad(
        "index_mixed_w3",
        "selector 15 of 15",
        "E_INDEX",
        payload(1) + head("MIXED", 3) + uvar(15),
        b"\x0f" + NONE * 15,
    )


def write_children() -> None:
    for kind, tail in BODIES.items():
        wrong, name = head(kind) + tail, kind.lower()
        reference = kind == "REFERENCE"  # which a whole column of keys may be, but no part of it
        bad(
            f"child_key_{name}",
            "within a key" if reference else "a key",
            "E_CHILD",
            payload(1) + (head("TUPLE") + uvar(1) if reference else b""),
            wrong + NONE,
            target="dict",
            externals="builtins.object",
        )
        bad(
            f"child_dictionary_{name}",
            "a distinct value",
            "E_CHILD",
            payload(1) + head("DICTIONARY") + uvar(1),
            wrong,
            externals="builtins.object",
        )
    below = {
        "nullable": head("NULLABLE") + b"\x01",
        "mixed": head("MIXED", 1) + uvar(2) + b"\x00",
        "tuple": head("TUPLE") + uvar(1),
        "reduce": head("REDUCE") + uvar(0) + uvar(1),
        "tuple_tuple": (head("TUPLE") + uvar(1)) * 2,
    }
    for name, wrapper in below.items():
        bad(
            f"child_below_{name}",
            "a key, one level down",
            "E_CHILD",
            payload(1) + wrapper,
            PENDING + NONE * 2,
            target="dict",
            externals="builtins.bytearray",
        )
    bad(
        "child_map_key",
        "a list as key",
        "E_CHILD",
        payload(1) + head("MAP") + uvar(1),
        head("LIST") + uvar(0) + NONE * 2,
    )
    bad(
        "child_struct_name",
        "a placeholder as name",
        "E_CHILD",
        payload(1) + head("STRUCT") + uvar(1),
        PENDING + NONE,
    )
    bad(
        "child_struct_name_below",
        "a dict in a tuple as name",
        "E_CHILD",
        payload(1) + head("STRUCT") + uvar(1) + head("TUPLE") + uvar(1),
        head("STRUCT") + uvar(0) + NONE,
    )
    bad(
        "child_dictionary_twice",
        "a DICTIONARY of a DICTIONARY",
        "E_CHILD",
        payload(1) + head("DICTIONARY") + uvar(1),
        dictionary(1, NONE, (0,), 0),
    )
    for kind, tail in (
        ("NONE", b""),
        ("INT", zvar(0)),
        ("BYTES", uvar(0)),
        ("DICTIONARY", uvar(1) + strings(["a"], 0)),
        ("NULLABLE", b"\x01" + strings(["a"], 0)),
        ("PENDING", b""),
    ):
        bad(
            f"child_state_name_{kind.lower()}",
            "names of a state are strings",
            "E_CHILD",
            payload(1) + head("INSTANCE") + uvar(0) + uvar(1),
            head(kind) + tail + NONE,
            externals="types.SimpleNamespace",
        )
    for kind, tail in (
        ("NONE", b""),
        ("BIG", uvar(0)),
        ("BYTES", uvar(0)),
        ("NULLABLE", b"\x00" + NONE),
        ("DICTIONARY", uvar(1) + WORDS),
        ("AFFIX", uvar(0) * 2 + WORDS),
        ("FLOAT", bytes(8)),
    ):
        bad(
            f"child_affix_{kind.lower()}",
            "what an AFFIX may not hold",
            "E_CHILD",
            payload(1) + head("AFFIX") + uvar(0) * 2,
            head(kind) + tail,
        )

    before = payload(1) + head("STRUCT") + uvar(2)
    for name, names in (
        ("str", strings(["a", "a"], 0)),
        ("empty", strings(["", ""], 0)),
        ("str_kinds", str_kinds(["\u0142", "\u0142"], 0)),
        ("affix", affix(b"p", b"s", strings(["a", "a"], 0))),
    ):
        bad(f"names_{name}", "the same name twice", "E_NAMES", before, names + NONE * 2)
        bad(
            f"names_state_{name}",
            "the same name twice",
            "E_NAMES",
            payload(1) + head("SLOTTED") + uvar(0) + uvar(2),
            names + NONE * 2,
            externals=SPACE,
        )
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
        bad(
            f"names_{name}",
            "names that are equal as objects",
            "E_NAMES",
            before,
            names + NONE * 2,
            walker="accepts",
        )
    bad(
        "names_before_fields",
        "names are compared before fields are read",
        "E_NAMES",
        before,
        strings(["a", "a"], 0) + b"\xff",
    )


def write_limits() -> None:
    bad("limit_rows", "65,537 rows", "E_LIMIT", b"", uvar(65537 << 1) + NONE)
    bad("limit_rows_huge", "2**63 - 1 rows", "E_LIMIT", b"", uvar(2**64 - 2) + NONE)
    bad("limit_list", "65,537 items", "E_LIMIT", payload(1) + head("LIST") + uvar(65537), NONE)
    bad(
        "limit_list_huge",
        "very many items",
        "E_LIMIT",
        payload(65536) + head("LIST") + uvar(2**32 - 1),
        NONE,
    )
    bad("limit_map", "65,537 keys", "E_LIMIT", payload(1) + head("MAP") + uvar(65537), NONE * 2)
    bad(
        "limit_values",
        "one column above 1,048,576 values",
        "E_LIMIT",
        payload(65536) + head("TUPLE") + uvar(16) + NONE * 15,
        NONE,
    )
    bad(
        "limit_values_dict",
        "values of all columns count",
        "E_LIMIT",
        payload(65536, NONE) + head("TUPLE") + uvar(15) + NONE * 14,
        NONE,
        target="dict",
    )
    bad(
        "limit_dictionary_0", "no value", "E_LIMIT", payload(0) + head("DICTIONARY"), uvar(0) + NONE
    )
    bad(
        "limit_dictionary",
        "65,537 values",
        "E_LIMIT",
        payload(1) + head("DICTIONARY", 6),
        uvar(65537) + NONE + bytes(4),
    )
    for k in (0, 1, 17):
        bad(
            f"limit_mixed_{k}",
            "2 to 16 columns",
            "E_LIMIT",
            payload(1) + head("MIXED", 3),
            uvar(k) + b"\x00" + NONE * k,
        )
    bad("limit_tuple", "arity 256", "E_LIMIT", payload(1) + head("TUPLE"), uvar(256) + NONE * 256)
    bad("limit_struct", "4,097 fields", "E_LIMIT", payload(1) + head("STRUCT"), uvar(4097) + MANY)
    bad(
        "limit_instance",
        "4,097 fields",
        "E_LIMIT",
        payload(1) + head("INSTANCE") + uvar(0),
        uvar(4097) + MANY,
        externals=SPACE,
    )
    bad(
        "limit_reduce",
        "256 arguments",
        "E_LIMIT",
        payload(1) + head("REDUCE") + uvar(0),
        uvar(256) + NONE * 256,
        externals=SPACE,
    )
    bad(
        "limit_prefix",
        "128 bytes",
        "E_LIMIT",
        payload(1) + head("AFFIX"),
        uvar(128) + b"a" * 128 + uvar(0) + ints([1], 0),
    )
    bad(
        "limit_suffix",
        "128 bytes",
        "E_LIMIT",
        payload(1) + head("AFFIX") + uvar(0),
        uvar(128) + b"a" * 128 + ints([1], 0),
    )

    for name, wrapper in (
        ("tuple", head("TUPLE") + uvar(1)),
        ("nullable", head("NULLABLE") + b"\x01"),
        ("list", head("LIST") + uvar(1)),
    ):
        bad(f"depth_{name}", "level 33", "E_DEPTH", payload(1) + wrapper * DEPTH, NONE)
    bad(
        "depth_keys",
        "keys nest like values",
        "E_DEPTH",
        payload(1) + (head("TUPLE") + uvar(1)) * DEPTH,
        NONE * 2,
        target="dict",
    )
    bad(
        "depth_names",
        "names are one level down",
        "E_DEPTH",
        payload(1) + (head("TUPLE") + uvar(1)) * (DEPTH - 1) + head("STRUCT") + uvar(1),
        strings(["a"], 0) + NONE,
    )
    bad(
        "depth_dictionary",
        "distinct values are one level down",
        "E_DEPTH",
        payload(1) + (head("TUPLE") + uvar(1)) * (DEPTH - 1) + head("DICTIONARY") + uvar(1),
        NONE,
    )

    for kind, tail in BODIES.items():
        if kind != "PENDING":
            bad(
                f"roll_{kind.lower()}",
                "a call without roll",
                "E_ROLL",
                payload(1),
                head(kind) + tail,
                roll=None,
            )
    for kind in ("INSTANCE", "SLOTTED", "BARE", "REDUCE", "REFERENCE"):
        bad(
            f"external_{kind.lower()}",
            "number 1 of 1",
            "E_EXTERNAL",
            payload(1) + head(kind),
            uvar(1) + uvar(0),
            externals="builtins.object",
        )
        bad(
            f"external_{kind.lower()}_huge",
            "number 2**64 - 1",
            "E_EXTERNAL",
            payload(1) + head(kind),
            uvar(2**64 - 1) + uvar(0),
            externals="builtins.object",
        )
    bad(
        "external_external",
        "number 2 of 2",
        "E_EXTERNAL",
        payload(1) + head("EXTERNAL"),
        uvar(2),
        externals="builtins.object builtins.int",
    )
    bad(
        "external_external_beyond",
        "the last row's number is 2 of 2",
        "E_EXTERNAL",
        payload(2) + head("EXTERNAL", 1) + uvar(1),
        b"\x02",
        externals="builtins.object builtins.int",
    )
    bad(
        "external_external_no_rows",
        "the base is checked though nobody needs it",
        "E_EXTERNAL",
        payload(0) + head("EXTERNAL"),
        uvar(0),
    )
    bad(
        "external_none",
        "no roll, so no externals",
        "E_EXTERNAL",
        payload(1) + head("REDUCE"),
        uvar(0) * 2,
        roll=None,
    )
    bad(
        "external_no_rows",
        "checked though nobody needs it",
        "E_EXTERNAL",
        payload(0) + head("REDUCE"),
        uvar(0) * 2,
    )

    # A column byte that breaks several rules.
    deep = payload(1) + (head("TUPLE") + uvar(1)) * DEPTH
    bad("order_kind_width", "E_KIND before E_WIDTH", "E_KIND", payload(1), b"\xff")
    bad("order_width_depth", "E_WIDTH before E_DEPTH", "E_WIDTH", deep, head("NONE", 1))
    wide = payload(1) + (head("TUPLE") + uvar(1)) * (DEPTH - 1) + head("LIST") + uvar(65537)
    bad("order_depth_limit", "E_DEPTH before E_LIMIT", "E_DEPTH", wide, NONE)
    bad(
        "order_limit_child",
        "E_LIMIT before E_CHILD",
        "E_LIMIT",
        payload(1) + head("MAP") + uvar(65537),
        head("LIST"),
    )
    bad(
        "order_child_roll",
        "E_CHILD before E_ROLL",
        "E_CHILD",
        payload(1),
        head("LIST") + uvar(0) + NONE * 2,
        target="dict",
        roll=None,
    )
    bad(
        "order_padding_index",
        "E_PADDING before E_INDEX",
        "E_PADDING",
        payload(1) + head("DICTIONARY", 2) + uvar(1) + NONE,
        b"\x13",
    )


def write_bad() -> None:
    for part in (write_cut, write_heads, write_values, write_children, write_limits):
        part()
