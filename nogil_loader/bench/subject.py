"""What is measured: a dataset, and which arguments of the loader over it are kept in all settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from nogil_loader.bench.data import check_path, open_path
from nogil_loader.collate import DefaultCollate
from nogil_loader.data.protocols import dataset_length, is_map_style
from nogil_loader.errors import describe
from nogil_loader.loader import DataLoader
from nogil_loader.targets import Target, TargetError, call, is_readable, is_torch_loader

Place: TypeAlias = Target | Path

# Common for small images; a dataset alone does not say.
_BATCH_SIZE = 32
_SHOWN = 120
# Arguments of our loader that are public attributes under the same name.
_KEPT = (
    *("sampler", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn", "persistent_workers"),
    *("in_order", "transform", "clone_dataset"),
)


@dataclass(frozen=True)
class Subject:
    """A dataset, and how it is loaded.

    Attributes:
        dataset: Map-style or iterable.
        arguments: Of a `DataLoader` over it, those that are measured excepted.
        is_loader: Whether a loader was named, and not a dataset alone.
    """

    dataset: Any
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"batch_size": _BATCH_SIZE})
    is_loader: bool = False

    def loader(
        self, *, num_workers: int, prefetch_factor: int, batch_size: int | None = None, seed: int = 0
    ) -> DataLoader:
        """Make a loader with these settings; ``batch_size=None`` for the subject's own.

        Raises:
            ValueError: It has a batch sampler, which decides about the size itself.
        """
        arguments = dict(self.arguments)
        if batch_size is not None:
            if arguments.get("batch_sampler") is not None:
                raise ValueError(f"batch_size={batch_size}: the loader's batch_sampler decides about that")
            arguments["batch_size"] = batch_size
        return DataLoader(
            self.dataset, num_workers=num_workers, prefetch_factor=prefetch_factor, seed=seed, **arguments
        )

    @property
    def collate_fn(self) -> Any:
        """The caller's own collation, None for the default one."""
        chosen = self.arguments.get("collate_fn")
        plain = type(chosen) is DefaultCollate and not chosen.per_key
        return None if plain else chosen

    @property
    def length(self) -> int | None:
        """Samples of the dataset; None where it does not tell."""
        return dataset_length(self.dataset)

    @property
    def no_peers(self) -> str:
        """Why no other loader can load this; empty where they can."""
        if not is_map_style(self.dataset):
            return "the dataset is an iterable; other loaders are compared on datasets that are read by index"
        if self.length is None and not (self.arguments.get("sampler") or self.arguments.get("batch_sampler")):
            return "the dataset has no length"
        if self.arguments.get("transform") is not None:
            return "the loader has a transform, which other loaders do not have; they would do less"
        return ""

    def __str__(self) -> str:
        kind = type(self.dataset)
        tells = getattr(kind, "__repr__", None) is not object.__repr__
        own = tells and kind.__module__ not in ("builtins", "numpy")
        told = " ".join(describe(self.dataset, _SHOWN).split()) if own else kind.__name__
        return told if self.length is None else f"{told}, {self.length:,} samples"


def parse_place(text: str) -> Place:
    """Read what a command line names: code, or data.

    Raises:
        ValueError: It is neither; the message says what was expected.
    """
    path = Path(text)
    if text and path.exists() and path.suffix != ".py":
        check_path(path)
        return path
    try:
        return Target.parse(text)
    except ValueError:
        raise ValueError(
            f"target {text!r}: expected module:name or path.py:name of a dataset or a loader, or a folder of "
            f"images or a .npy or .npz file that exists"
        ) from None


def find_subject(place: Place) -> Subject:
    """Return what is named.

    Raises:
        TargetError: There is no such thing, it is something else, or the user's code fails.
    """
    if isinstance(place, Path):
        try:
            return Subject(open_path(place))
        except (OSError, ValueError, ImportError) as failure:
            raise TargetError(str(failure)) from failure
    found, made = place.load(), ""
    if callable(found) and not is_readable(found):
        found, made = call(place, found), "()"
    if isinstance(found, DataLoader):
        return Subject(found.dataset, _arguments_of(found), is_loader=True)
    if is_torch_loader(found):
        return Subject(found.dataset, _arguments_of_torch(found), is_loader=True)
    if not is_readable(found):
        raise TargetError(
            f"{place}{made} is {type(found).__name__} {describe(found, 100)}; expected a dataset or a DataLoader, "
            f"or a function without arguments that returns one"
        )
    return Subject(found)


def _arguments_of(loader: DataLoader) -> dict[str, Any]:
    arguments = {name: getattr(loader, name) for name in _KEPT}
    arguments["shuffle"] = loader.state_dict()["sampler"] == "random"
    arguments["on_failure"] = loader.failure_policy
    arguments["memory"] = "off" if loader.memory_policy is None else loader.memory_policy
    arguments["output"] = loader.output
    if loader.batch_sampler is None:
        arguments["batch_size"] = loader.batch_size
    else:
        arguments["batch_sampler"] = loader.batch_sampler
    return arguments


def _arguments_of_torch(loader: Any) -> dict[str, Any]:
    data = sys.modules["torch.utils.data"]
    usual = getattr(loader.collate_fn, "__module__", "").startswith("torch.utils.data.")
    arguments: dict[str, Any] = {"collate_fn": None if usual else loader.collate_fn, "output": "torch"}
    arguments["worker_init_fn"] = loader.worker_init_fn
    if loader.batch_size is None and loader.batch_sampler is not None:
        return {**arguments, "batch_sampler": loader.batch_sampler}
    arguments.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    if is_map_style(loader.dataset):
        sampler = loader.sampler
        # As torch makes it for shuffle=True; with replacement or of another length it is somebody's own.
        whole = type(sampler) is data.RandomSampler and not sampler.replacement
        arguments["shuffle"] = whole and len(sampler) == len(loader.dataset)
        if not arguments["shuffle"] and type(sampler) is not data.SequentialSampler:
            arguments["sampler"] = sampler
    return arguments
