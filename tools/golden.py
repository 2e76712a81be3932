"""Writes the golden payloads, tests/golden/{ok,bad}, byte by byte from docs/format.md.

    tools/golden.py             write them
    tools/golden.py --check     fail when a file on disk differs

It shares no code with the encoders, so that files and encoders check each other.
tests/golden/README.md says how to read the files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from golden_bad import write_bad
from golden_text import files
from golden_ok import write_ok

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"


def main() -> int:
    write_ok()
    write_bad()
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
