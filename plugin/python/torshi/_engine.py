"""Finds the native engine: built into the host, beside this file, or not there (None)."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType


def find_engine() -> ModuleType | None:
    """The module `_torshi`, or None where there is none for this interpreter.

    A native engine that is there and refuses to start is an error, not a reason to go on without.
    """
    if "_torshi" in sys.builtin_module_names:
        return importlib.import_module("_torshi")
    if os.environ.get("TORSHI_PURE", "0") not in ("", "0"):
        return None
    name = f"{__package__}._torshi"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


engine = find_engine()
