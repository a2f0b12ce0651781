"""``nogil-loader bench``: how fast a dataset loads, what holds it back, and which setting to use."""

from __future__ import annotations

from nogil_loader.bench.result import Result, ResultError

__all__ = ["Result", "ResultError"]
