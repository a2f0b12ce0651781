"""A dataset with a function applied to each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nogil_loader.data.derived import describe_source
from nogil_loader.data.protocols import (
    SampleStream,
    batched_stream,
    check_map_style,
    dataset_length,
)
from nogil_loader.errors import describe


class Mapper(SampleStream):
    """The samples ``fn(dataset[key])``; a key means what it means to ``dataset``.

    Args:
        dataset: A map-style dataset, read by position or by key.
        fn: Function of one sample. Called from the worker threads, at the same time for different samples.

    Raises:
        TypeError: ``dataset`` is not map-style, or ``fn`` cannot be called.
    """

    def __init__(self, dataset: Any, fn: Callable[[Any], Any]) -> None:
        check_map_style(dataset)
        if not callable(fn):
            raise TypeError(f"fn={describe(fn, 200)}: expected a function of one sample")
        self.dataset = dataset
        self.fn = fn

    def __len__(self) -> int:
        length = dataset_length(self.dataset)
        if length is None:
            raise TypeError(f"{type(self.dataset).__name__}, which is mapped, does not tell its length")
        return length

    def __getitem__(self, key: Any) -> Any:
        return self.fn(self.dataset[key])

    def __iter__(self) -> Iterator[Any]:
        # By length, not until an IndexError: one raised in ``fn`` is a failure, not the end.
        for position in range(len(self)):
            yield self[position]

    @property
    def stream(self) -> Callable[[Sequence[Any]], Iterator[Any]] | None:
        """Function from keys to an iterator over samples; None when ``dataset`` does not fetch in batches."""
        draw = batched_stream(self.dataset)
        return None if draw is None else lambda keys: self._mapped(draw(keys))

    def _mapped(self, samples: Iterator[Any]) -> Iterator[Any]:
        # Not ``map``: it would take a StopIteration raised in ``fn`` for the end of the samples.
        return (self.fn(sample) for sample in samples)

    @property
    def __getitems__(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        stream = self.stream
        return None if stream is None else lambda keys: list(stream(keys))

    def __repr__(self) -> str:
        name = getattr(self.fn, "__qualname__", None) or describe(self.fn, 200)
        return f"{type(self).__name__}({describe_source(self.dataset)}, {name})"
