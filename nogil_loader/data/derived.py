"""What the datasets that rearrange other datasets have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nogil_loader.data.positions import PositionalDataset, as_position, as_positions
from nogil_loader.data.protocols import SampleStream, batched_stream


class DerivedDataset(PositionalDataset, SampleStream):
    """A dataset read at positions whose samples come from other datasets.

    It keeps nothing between calls, so any number of threads may read it if they may read its sources.
    ``__getitems__`` and ``stream`` are there when one of the sources fetches in batches, and None otherwise.
    """

    @abstractmethod
    def _sources(self) -> tuple[Any, ...]: ...

    @abstractmethod
    def _sample(self, position: int) -> Any: ...

    @abstractmethod
    def _stream(self, positions: list[int]) -> Iterator[Any]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._sample(as_position(index, len(self), self))

    @property
    def stream(self) -> Callable[[Sequence[Any]], Iterator[Any]] | None:
        """Function from indices to an iterator over their samples; None when no source fetches in batches."""
        if all(batched_stream(source) is None for source in self._sources()):
            return None
        return lambda indices: self._stream(as_positions(indices, len(self), self).tolist())

    @property
    def __getitems__(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        stream = self.stream
        return None if stream is None else lambda indices: list(stream(indices))


def describe_source(dataset: Any) -> str:
    """Return the name of a dataset for the ``repr`` of one made from it.

    Only our own are shown in full: the ``repr`` of a list is its whole contents.
    """
    is_ours = type(dataset).__module__.startswith("nogil_loader.")
    return repr(dataset) if is_ours else type(dataset).__name__
