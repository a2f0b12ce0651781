"""How a dataset is going to be used: what a loader over it says, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nogil_loader.check.evidence import Load
from nogil_loader.check.reading import Subject
from nogil_loader.collate import DefaultCollate
from nogil_loader.loader import DataLoader
from nogil_loader.memory.reading import read_memory
from nogil_loader.targets import is_torch_loader


@dataclass(frozen=True)
class Usage:
    """A dataset and what is known of the loader over it.

    Attributes:
        subject: The dataset, and how each thread gets it.
        collates: Whether the default function makes the batches, as far as is known.
        sampler: Gives the keys of the samples; None if that is not known.
        load: What would be in flight; None if that is not known.
    """

    subject: Subject
    collates: bool = True
    sampler: Iterable[Hashable] | None = None
    load: Load | None = None

    @classmethod
    def of(cls, what: Any) -> Usage:
        """Return how a dataset, or that of a loader, is used."""
        if isinstance(what, DataLoader):
            collates = type(what.collate_fn) is DefaultCollate and not what.collate_fn.per_key
            workers = max(1, what.num_workers)
            return cls(
                Subject(what.dataset, _clone_of(what), what.worker_init_fn),
                collates and what.batch_size is not None,
                what.sampler,
                _load_of(what.batch_size, workers * (what.prefetch_factor + 1)),
            )
        if is_torch_loader(what):
            collates = getattr(what.collate_fn, "__module__", "").startswith("torch.utils.data.")
            return cls(
                Subject(what.dataset, init=what.worker_init_fn), collates and what.batch_size is not None
            )
        return cls(Subject(what))

    def keys(self, most: int) -> list[Hashable] | None:
        """Return some keys that the loader would ask for, None if they are not known."""
        return None if self.sampler is None else list(dict.fromkeys(islice(iter(self.sampler), most)))


def dataset_of(what: Any) -> Any:
    """Return a dataset, or that of a loader."""
    return what.dataset if isinstance(what, DataLoader) or is_torch_loader(what) else what


def _clone_of(loader: DataLoader) -> Callable[[int], Any] | None:
    if callable(loader.clone_dataset):
        return loader.clone_dataset
    return (lambda worker: deepcopy(loader.dataset)) if loader.clone_dataset else None


def _load_of(batch_size: int | None, batches: int) -> Load | None:
    reading = read_memory()
    return None if reading is None else Load(batch_size or 1, batches, reading.headroom, reading.source)
