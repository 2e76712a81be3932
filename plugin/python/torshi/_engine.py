"""Finds the native engine: built into the host, beside this file, or not there (None)."""

from __future__ import annotations

import os
import sys
from types import ModuleType


def find_engine() -> ModuleType | None:
    """The module `_torshi`, or None where there is none for this interpreter.

    A native engine that is there and refuses to start is an error, not a reason to go on without.
    """
    if "_torshi" in sys.builtin_module_names:
        import _torshi

        return _torshi
    if os.environ.get("TORSHI_PURE", "0") not in ("", "0"):
        return None
    try:
        import torshi._torshi as engine
    except ModuleNotFoundError as error:
        if error.name != "torshi._torshi":
            raise
        return None
    return engine


engine = find_engine()
