"""The stock engine to compare with: `_pickle`, or what the host keeps of it."""

from __future__ import annotations

try:
    import _torshi_stock_pickle as stock
except ImportError:
    import _pickle as stock

__all__ = ["stock"]
