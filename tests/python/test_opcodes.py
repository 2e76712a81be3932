"""embed/engine/opcodes.def says what pickletools says."""

from __future__ import annotations

import importlib.util
import os
import pickletools
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("TORSHI_ROOT", Path(__file__).resolve().parents[2]))


def tool():
    spec = importlib.util.spec_from_file_location("opcodes_tool", ROOT / "tools/opcodes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPCODES = {row.name: row for row in tool().rows()}


def test_same_names_and_bytes():
    assert {n: r.byte for n, r in OPCODES.items()} == {
        op.name: ord(op.code) for op in pickletools.opcodes
    }
    assert len({r.byte for r in OPCODES.values()}) == len(OPCODES)


@pytest.mark.parametrize("op", pickletools.opcodes, ids=lambda op: op.name)
def test_row(op):
    row = OPCODES[op.name]
    before = [kind.name for kind in op.stack_before]
    if "mark" in before:
        # OBJ has its class above the mark
        assert row.to_mark and row.pops == before.index("mark")
    else:
        assert not row.to_mark and row.pops == len(before)
    assert row.pushes == len(op.stack_after)
    assert row.proto == op.proto
    assert row.argument == (op.arg.name if op.arg else "none")
    assert row.doc


def test_every_row_is_read():
    with pytest.raises(ValueError, match="1 of 1 rows"):
        tool().rows('OP(BAD, 0x1, 0, none, 0, 1, "one digit")\n')
    assert tool().table().count("\n") == len(OPCODES) + 1
