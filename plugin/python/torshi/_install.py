"""Puts the engine behind the module `pickle` of this process, and takes it away again."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType

from ._engine import engine

NAMES = ("Pickler", "Unpickler", "dump", "dumps", "load", "loads")

# What install() replaced: ours first, then what was there. Empty when not installed.
_replaced: dict[str, tuple[object, object]] = {}
_replaced_module: list[tuple[ModuleType, ModuleType | None]] = []


def install() -> None:
    """Put the engine behind `pickle` for this process; `uninstall` takes it away again.

    `pickle.Pickler`, `Unpickler`, `dump`, `dumps`, `load` and `loads` become the engine's, and
    `import _pickle` gives the engine's module. Everything that looks them up when it needs them
    (`pickle.dumps(...)`), or is imported from now on, uses it.

    Not reached is what has taken these names, or made subclasses, before: a module that ran
    `from pickle import dumps` or `from pickle import Pickler` (shelve), and classes derived from
    `pickle.Pickler` or `Unpickler` at their import (multiprocessing.reduction.ForkingPickler,
    cloudpickle.Pickler, concurrent.futures by way of multiprocessing). So call it first thing, or
    run the program under the torshi host, where nothing is too early. Child processes that do not
    inherit memory (spawn, forkserver) have to call it themselves. `copyreg`, the exception
    classes and `pickle._Pickler` and `_Unpickler`, which are written in Python, stay as they are.

    Without effect when installed already, or in a host whose `pickle` is the engine's anyway.
    RuntimeError without the native engine.
    """
    if engine is None:
        raise RuntimeError("torshi.install() needs the native engine, which this Python lacks")
    if _replaced:
        return
    info = engine.info()
    if info["in_host"] and info["mode"] != "off":
        return
    ours = engine.pickle_module()
    _replaced_module.append((ours, sys.modules.get("_pickle")))
    sys.modules["_pickle"] = ours
    for name in NAMES:
        _replaced[name] = getattr(ours, name), getattr(pickle, name)
        setattr(pickle, name, _replaced[name][0])


def uninstall() -> None:
    """Undo `install`. What somebody else has replaced since then is left alone.

    Modules imported in between keep what they have taken from `pickle`. Without effect when
    nothing is installed.
    """
    for name, (ours, before) in _replaced.items():
        if getattr(pickle, name, None) is ours:
            setattr(pickle, name, before)
    _replaced.clear()
    while _replaced_module:
        module, previous = _replaced_module.pop()
        if sys.modules.get("_pickle") is not module:
            continue
        if previous is None:
            del sys.modules["_pickle"]
        else:
            sys.modules["_pickle"] = previous
