"""A multithreaded data loader that never loses a sample, never hangs and says why it failed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nogil_loader import testing
from nogil_loader.collate import DefaultCollate, default_collate, pack_collate, pad_collate
from nogil_loader.data import (
    ArrayDataset,
    Concat,
    IterableDataset,
    MapDataset,
    Mapper,
    Photographs,
    Sampled,
    Shuffled,
    Subset,
    Window,
    Zip,
)
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.engine.panic import catch_panics
from nogil_loader.engine.scope import get_worker_info, sample_rng
from nogil_loader.errors import (
    CollateError,
    DatasetError,
    DeadWorkerError,
    LoaderError,
    MemoryBudgetError,
    ResumeError,
    WorkerTimeoutError,
)
from nogil_loader.loader import DataLoader
from nogil_loader.policies import FailurePolicy, MemoryPolicy
from nogil_loader.resilient import resilient

if TYPE_CHECKING:
    from nogil_loader import observe, transforms
    from nogil_loader.observe.gil import gil_meter
    from nogil_loader.observe.progress import progress
    from nogil_loader.observe.trace import trace
    from nogil_loader.transforms import kernel, pixelwise

__all__ = [
    "ArrayDataset",
    "CollateError",
    "Concat",
    "DataLoader",
    "DatasetError",
    "DeadWorkerError",
    "DefaultCollate",
    "FailurePolicy",
    "IterableDataset",
    "LoaderError",
    "LoaderIterator",
    "MapDataset",
    "Mapper",
    "MemoryBudgetError",
    "MemoryPolicy",
    "Photographs",
    "ResumeError",
    "Sampled",
    "Shuffled",
    "Subset",
    "Window",
    "WorkerTimeoutError",
    "Zip",
    "catch_panics",
    "default_collate",
    "get_worker_info",
    "gil_meter",
    "kernel",
    "observe",
    "pack_collate",
    "pad_collate",
    "pixelwise",
    "progress",
    "resilient",
    "sample_rng",
    "testing",
    "trace",
    "transforms",
]

# Some sixty transforms take as long to import as all the rest, and few programs watch their loaders: only those
# that do wait for these.
_LATE = {
    "gil_meter": "nogil_loader.observe.gil",
    "kernel": "nogil_loader.transforms",
    "observe": "nogil_loader.observe",
    "pixelwise": "nogil_loader.transforms",
    "progress": "nogil_loader.observe.progress",
    "trace": "nogil_loader.observe.trace",
    "transforms": "nogil_loader.transforms",
}
_MODULES = ("observe", "transforms")


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LATE[name])
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
