"""
CheckSymbols(library): the link fails when a shared library uses a function that neither Python nor
libc has. Without this, only loading the library would tell.
"""

from __future__ import annotations

import re
import subprocess

from SCons.Action import Action

# Python's API comes from the program that loads the library; libc's names have a version.
KNOWN = re.compile(r"^_?Py[A-Z_]|@|^_(ITM|_gmon|_cxa)_")


def exists(env) -> bool:
    return True


def undefined(path: str) -> list[str]:
    table = subprocess.run(
        ["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True
    ).stdout
    names = (line.split()[-1] for line in table.splitlines())
    return [name for name in names if not KNOWN.search(name)]


def check(target, source, env) -> int:
    missing = undefined(target[0].abspath)
    for name in missing:
        print(f"{target[0]}: nobody defines {name}")
    return 1 if missing else 0


def check_symbols(env, library):
    if env["variant"] in ("release", "debug"):
        env.AddPostAction(library, Action(check, lambda *_: None))


def generate(env) -> None:
    env.AddMethod(check_symbols, "CheckSymbols")
