"""A multithreaded data loader that never loses a sample, never hangs and says why it failed."""

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
    "pack_collate",
    "pad_collate",
    "resilient",
    "sample_rng",
    "testing",
]
