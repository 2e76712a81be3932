#!/usr/bin/env python3
"""The opcode table of embed/engine/opcodes.def, for documents and tests.

    tools/opcodes.py --table     a Markdown table, by opcode byte
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

DEFINITION = Path(__file__).resolve().parent.parent / "embed/engine/opcodes.def"
ROW = re.compile(
    r'^OP\((\w+),\s*0x([0-9a-f]{2}),\s*(\d),\s*(\w+),\s*([\w +]+?),\s*(\d),\s*"([^"]*)"\)$', re.M
)


class Opcode(NamedTuple):
    """One row: what the stack loses and gains, and how the argument is laid out."""

    name: str
    byte: int
    proto: int
    argument: str
    pops: int
    to_mark: bool
    pushes: int
    doc: str


def rows(text: str | None = None) -> list[Opcode]:
    """Parse the table; every line that begins a row must be one."""
    if text is None:
        text = DEFINITION.read_text(encoding="utf-8")
    found = []
    for name, byte, proto, argument, pops, pushes, doc in ROW.findall(text):
        to_mark = "DOWN_TO_MARK" in pops
        count = int(pops.replace("DOWN_TO_MARK", "").replace("+", "").strip() or 0)
        found.append(
            Opcode(name, int(byte, 16), int(proto), argument, count, to_mark, int(pushes), doc)
        )
    written = sum(line.startswith("OP(") for line in text.splitlines())
    if written != len(found):
        raise ValueError(f"opcodes.def: {written - len(found)} of {written} rows not understood")
    return found


def shown(byte: int) -> str:
    """The byte, with its character where it has one that a Markdown table can hold."""
    char = chr(byte)
    return f"{byte:02x} `{char}`" if char.isprintable() and byte < 0x7F else f"{byte:02x}"


def table() -> str:
    """A Markdown table of all opcodes, by byte."""
    lines = ["| byte | opcode | protocol | argument | stack | |", "|---|---|---|---|---|---|"]
    for row in sorted(rows(), key=lambda r: r.byte):
        pops = " + ".join([str(row.pops)] * (row.pops > 0) + ["mark and above"] * row.to_mark)
        stack = f"{pops or '0'} → {row.pushes}"
        argument = "" if row.argument == "none" else row.argument
        lines.append(
            f"| {shown(row.byte)} | {row.name} | {row.proto} | {argument} | {stack} | {row.doc} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", action="store_true", help="print a Markdown table")
    if parser.parse_args().table:
        print(table())
    else:
        parser.print_help()


if __name__ == "__main__":
    main()
