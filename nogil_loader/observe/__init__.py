"""Readers of what a loader measures: progress bars, exporters, traces, the GIL."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nogil_loader.observe import gil, logs, progress, prometheus, trace

__all__ = ["gil", "logs", "progress", "prometheus", "trace"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
