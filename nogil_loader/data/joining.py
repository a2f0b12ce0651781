"""Several datasets as one: one after the other, or side by side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from nogil_loader.checks import as_flag
from nogil_loader.data.derived import DerivedDataset, describe_source
from nogil_loader.data.positions import as_position
from nogil_loader.data.protocols import as_positional, stream_samples
from nogil_loader.errors import describe
from nogil_loader.memory.estimate import size_hint


class Concat(DerivedDataset):
    """The samples of several datasets, one dataset after the other.

    Lengths are read once, when this is made.

    Args:
        datasets: Map-style datasets read at positions; at least one.

    Raises:
        TypeError: ``datasets`` is not several datasets, or one of them is not read at positions.
        ValueError: There is none.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        if not isinstance(datasets, Iterable):
            raise TypeError(
                f"datasets={describe(datasets, 200)}: expected several, as in Concat([first, second])"
            )
        self.datasets = tuple(datasets)
        lengths = _lengths_of(self.datasets)
        # bounds[i] is where dataset i begins, and the last one is the length of all.
        self._bounds = [0, *accumulate(lengths)]

    def _sources(self) -> tuple[Any, ...]:
        return self.datasets

    def __len__(self) -> int:
        return self._bounds[-1]

    def _locate(self, position: int) -> tuple[int, int]:
        """Return which dataset has the sample, and where."""
        which = bisect_right(self._bounds, position) - 1
        return which, position - self._bounds[which]

    @property
    def nbytes(self) -> Callable[[Any], int] | None:
        """The ``nbytes`` of the dataset that has the index, None when one of them has none."""
        hints = [size_hint(dataset) for dataset in self.datasets]
        known = [hint for hint in hints if hint is not None]
        if len(known) < len(hints):
            return None

        def nbytes(index: Any) -> Any:
            number, position = self._locate(as_position(index, len(self), self))
            return known[number](position)

        return nbytes

    def _sample(self, position: int) -> Any:
        which, local = self._locate(position)
        return self.datasets[which][local]

    def _stream(self, positions: list[int]) -> Iterator[Any]:
        places = [self._locate(position) for position in positions]
        wanted: dict[int, list[int]] = {}
        for which, local in places:
            wanted.setdefault(which, []).append(local)
        streams = {which: stream_samples(self.datasets[which], local) for which, local in wanted.items()}
        return (next(streams[which]) for which, _ in places)

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(map(describe_source, self.datasets))}])"


class Zip(DerivedDataset):
    """Tuples of the samples that several datasets have at the same position.

    Args:
        *datasets: Map-style datasets read at positions; at least one.
        strict: Whether their lengths have to be equal. Otherwise the shortest one decides.

    Raises:
        TypeError: One of ``datasets`` is not read at positions.
        ValueError: There is none, or with ``strict`` their lengths differ.
    """

    def __init__(self, *datasets: Any, strict: bool = True) -> None:
        self.datasets = datasets
        self.strict = as_flag("strict", strict)
        lengths = _lengths_of(datasets)
        if self.strict and len(set(lengths)) > 1:
            odd = next(place for place, length in enumerate(lengths) if length != lengths[0])
            raise ValueError(
                f"datasets[0] ({describe_source(datasets[0])}) has {lengths[0]} samples and datasets[{odd}] "
                f"({describe_source(datasets[odd])}) has {lengths[odd]}; strict=False stops at the shortest"
            )
        self._length = min(lengths)

    def _sources(self) -> tuple[Any, ...]:
        return self.datasets

    def __len__(self) -> int:
        return self._length

    def _sample(self, position: int) -> tuple[Any, ...]:
        return tuple(dataset[position] for dataset in self.datasets)

    def _stream(self, positions: list[int]) -> Iterator[tuple[Any, ...]]:
        return zip(*(stream_samples(dataset, positions) for dataset in self.datasets), strict=True)

    def __repr__(self) -> str:
        options = "" if self.strict else ", strict=False"
        return f"{type(self).__name__}({', '.join(map(describe_source, self.datasets))}{options})"


def _lengths_of(datasets: tuple[Any, ...]) -> list[int]:
    if not datasets:
        raise ValueError("datasets is empty: expected at least one dataset")
    return [as_positional(f"datasets[{place}]", dataset) for place, dataset in enumerate(datasets)]
