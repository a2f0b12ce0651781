"""``nogil-loader bench``: how fast a dataset loads, what holds it back, and which setting to use."""

from __future__ import annotations

from nogil_loader.bench.order import Bench
from nogil_loader.bench.result import Result, ResultError, read_result
from nogil_loader.bench.sweep import Step, run_bench

__all__ = ["Bench", "Result", "ResultError", "Step", "read_result", "run_bench"]
