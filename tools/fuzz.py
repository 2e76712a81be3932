"""Fuzzes the wire core, and keeps the inputs that reach new code.

    scons fuzz                          builds the targets (clang)
    tools/fuzz.py run walk --seconds 60 fuzzes with the stored corpus, then merges what is new into it
    tools/fuzz.py golden                prints the golden payloads as inputs of the walk target

A corpus is tests/fuzz/corpus/TARGET.hex, an input a line. `scons fuzz-replay` runs it without libFuzzer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def golden_inputs() -> list[bytes]:
    """The golden payloads behind the byte that says how walk calls (tests/fuzz/walk.c)."""
    inputs = []
    for path in sorted((ROOT / "tests" / "golden").glob("*/*.txt")):
        head, _, body = path.read_text(encoding="utf-8").partition("hex:")
        fields = dict(line.partition(":")[::2] for line in head.splitlines() if line[0] != "#")
        call = int("dict" in fields["target"])
        call |= ("roll" in fields) << 1 | len(fields.get("externals", "").split()) << 2
        inputs.append(bytes([call]) + bytes.fromhex(body))
    return inputs


def read_corpus(target: str) -> list[bytes]:
    path = CORPUS / f"{target}.hex"
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def write_corpus(target: str, inputs: list[bytes]) -> None:
    lines = [data.hex() for data in sorted(set(inputs), key=lambda d: (len(d), d))]
    text = (
        f"# Inputs of the fuzz target {target}, kept by tools/fuzz.py.\n" + "\n".join(lines) + "\n"
    )
    (CORPUS / f"{target}.hex").write_text(text, encoding="ascii")


def fill_folder(folder: Path, inputs: list[bytes]) -> None:
    folder.mkdir()
    for i, data in enumerate(inputs):
        (folder / f"{i:05}").write_bytes(data)


def run(target: str, seconds: int, build: Path) -> int:
    program = build / "fuzz" / target
    seeds = golden_inputs() if target == "walk" else []
    with tempfile.TemporaryDirectory() as scratch:
        found, kept, start = (Path(scratch) / name for name in ("found", "kept", "start"))
        fill_folder(start, seeds)
        fill_folder(found, read_corpus(target))
        kept.mkdir()
        options = ["-max_len=4096", f"-max_total_time={seconds}", f"-artifact_prefix={build}/fuzz/"]
        dictionary = ROOT / "tests" / "fuzz" / f"{target}.dict"
        if dictionary.exists():
            options.append(f"-dict={dictionary}")
        result = subprocess.run([program, *options, found, start]).returncode
        if result:
            return result
        subprocess.run([program, "-merge=1", kept, found], check=True, stderr=subprocess.DEVNULL)
        inputs = [path.read_bytes() for path in kept.iterdir()]
    write_corpus(target, inputs)
    print(f"{len(inputs)} inputs kept")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("run", help="fuzz a target")
    fuzz.add_argument("target")
    fuzz.add_argument("--seconds", type=int, default=60)
    fuzz.add_argument("--build", type=Path, default=ROOT / "build")
    commands.add_parser("golden", help="print the golden payloads as inputs of walk")
    options = parser.parse_args()
    if options.command == "golden":
        print("\n".join(data.hex() for data in golden_inputs()))
        return 0
    return run(options.target, options.seconds, options.build)


if __name__ == "__main__":
    sys.exit(main())
