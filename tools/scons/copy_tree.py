"""CopyTree(target, source): installs every file of a folder, keeping the sub-folders."""

from __future__ import annotations

import os


def exists(env) -> bool:
    return True


def copy_tree(env, target: str, source: str) -> list:
    """Return the target nodes. Sources are found when SCons reads its files."""
    top = env.Dir(source).srcnode().abspath
    nodes = []
    for folder, subfolders, files in os.walk(top):
        subfolders[:] = sorted(d for d in subfolders if d != "__pycache__")
        inside = os.path.relpath(folder, top)
        for name in sorted(files):
            if not name.endswith((".pyc", ".swp", "~")):
                place = os.path.normpath(os.path.join(str(target), inside, name))
                nodes += env.InstallAs(place, os.path.join(folder, name))
    return nodes


def generate(env) -> None:
    env.Tool("install")
    env.AddMethod(copy_tree, "CopyTree")
