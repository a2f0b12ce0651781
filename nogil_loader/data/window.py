"""Consecutive samples of a dataset as one sample."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from nogil_loader.checks import as_count, as_flag
from nogil_loader.data.derived import DerivedDataset, describe_source
from nogil_loader.data.protocols import as_positional, stream_samples


class Window(DerivedDataset):
    """A window of ``size`` consecutive samples, slid over a dataset: each sample is a list of samples.

    The dataset's length is read once, when this is made.

    Args:
        dataset: A map-style dataset read at positions.
        size: Samples in a window.
        stride: From the start of a window to the start of the next one. Windows overlap when it is below
            ``size``; when it is above, the samples between them are in no window.
        drop_last: Whether every window is full, as stacking them needs. Otherwise, if the last full window
            does not reach the end of the dataset, one more, shorter window does.

    Raises:
        TypeError: ``dataset`` is not read at positions, or another argument has the wrong type.
        ValueError: ``size`` or ``stride`` is below 1.
    """

    def __init__(self, dataset: Any, size: int, stride: int = 1, drop_last: bool = True) -> None:
        self._source_length = as_positional("dataset", dataset)
        self.dataset = dataset
        self.size = as_count("size", size, least=1)
        self.stride = as_count("stride", stride, least=1)
        self.drop_last = as_flag("drop_last", drop_last)
        # Every stride that leaves room for a window starts one …
        full = max(0, (self._source_length - self.size) // self.stride + 1)
        # … and a shorter one follows if samples lie both beyond the last full one and at its own start.
        reached = (full - 1) * self.stride + self.size if full else 0
        is_short_one_needed = max(reached, full * self.stride) < self._source_length
        self._length = full + (not self.drop_last and is_short_one_needed)

    def _sources(self) -> tuple[Any, ...]:
        return (self.dataset,)

    def __len__(self) -> int:
        return self._length

    def _span(self, position: int) -> range:
        start = position * self.stride
        return range(start, min(start + self.size, self._source_length))

    def _sample(self, position: int) -> list[Any]:
        return [self.dataset[place] for place in self._span(position)]

    def _stream(self, positions: list[int]) -> Iterator[list[Any]]:
        spans = [self._span(position) for position in positions]
        # A sample in two windows is fetched for each of them, so that no two samples share memory.
        samples = stream_samples(self.dataset, list(chain.from_iterable(spans)))
        return (list(islice(samples, len(span))) for span in spans)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({describe_source(self.dataset)}, size={self.size}, stride={self.stride}, "
            f"drop_last={self.drop_last})"
        )
