"""Samples of a dataset chosen by index: given, shuffled or drawn at random."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nogil_loader.checks import as_count, as_flag
from nogil_loader.data.derived import DerivedDataset, describe_source
from nogil_loader.data.positions import PositionalDataset, as_position, as_positions
from nogil_loader.data.protocols import (
    BatchSource,
    Table,
    as_positional,
    batched_fetch,
    check_map_style,
    stream_samples,
)
from nogil_loader.errors import describe
from nogil_loader.memory.estimate import size_hint
from nogil_loader.plan.mixing import GOLDEN, MASK64, derive_keys, mix, mix_array
from nogil_loader.plan.permutation import Permutation

# Permutations are computed piecewise: the temporaries of a piece stay in the CPU's cache.
_PIECE = 1 << 16
# Keeps these orders apart from those that a loader with the same seed shuffles by.
_SHUFFLED = int.from_bytes(b"shuffled", "big")
_SAMPLED = int.from_bytes(b"sampled", "big")


class Subset(DerivedDataset, BatchSource):
    """The samples ``dataset[indices[0]]``, ``dataset[indices[1]]`` and so on.

    Args:
        dataset: A map-style dataset, read by position or by key.
        indices: Positions or keys in it, in any order, any number of times. Copied.

    Raises:
        TypeError: ``dataset`` is not map-style, or ``indices`` are bools (a mask selects by
            ``numpy.flatnonzero(mask)``).
        IndexError: One of ``indices`` is out of range, where ``dataset`` is known to be read at positions.
    """

    def __init__(self, dataset: Any, indices: Iterable[Any]) -> None:
        check_map_style(dataset)
        self.dataset = dataset
        self.indices = _as_keys(indices)
        if isinstance(dataset, (Sequence, np.ndarray, PositionalDataset)):
            # Only to find a wrong one now rather than in the middle of an epoch.
            as_positions(self.indices, len(dataset), dataset)

    def _sources(self) -> tuple[Any, ...]:
        return (self.dataset,)

    def __len__(self) -> int:
        return len(self.indices)

    def _sample(self, position: int) -> Any:
        (key,) = self._keys([position])
        return self.dataset[key]

    def _stream(self, positions: list[int]) -> Iterator[Any]:
        return stream_samples(self.dataset, self._keys(positions))

    @property
    def nbytes(self) -> Callable[[Any], int] | None:
        """The dataset's own ``nbytes`` at the chosen index, None when it has none."""
        nbytes = size_hint(self.dataset)
        if nbytes is None:
            return None
        return lambda index: nbytes(*self._keys([as_position(index, len(self), self)]))

    @property
    def take(self) -> Callable[[Any], Any] | None:
        """The dataset's own ``take`` at the chosen indices, None when it has none."""
        take = batched_fetch(self.dataset, "take")
        if take is None:
            return None
        return lambda indices: take(self._keys(as_positions(indices, len(self), self)))

    @property
    def table(self) -> Table | None:
        """The dataset's own arrays, read at the chosen indices; None when it has none."""
        table: Table | None = self.dataset.table if self.take is not None else None
        if table is None:
            return None
        locate = table.locate
        return replace(
            table, locate=lambda indices: locate(self._keys(as_positions(indices, len(self), self)))
        )

    def _keys(self, positions: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        if isinstance(self.indices, np.ndarray):
            # Plain ints: a dataset should not have to care that they were stored in an array.
            keys: list[Any] = self.indices[positions].tolist()
            return keys
        return [self.indices[position] for position in positions]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_source(self.dataset)}, {len(self)} indices)"


class Shuffled(Subset):
    """The samples of a dataset in a random order, the same one every epoch.

    A loader's ``shuffle=True`` draws a new order for each epoch; this is for an order that belongs to the
    data, such as a fixed split.

    Args:
        dataset: A map-style dataset read at positions.
        seed: From 0 to 2**64 - 1; the order is a pure function of it and of the length. None draws one.

    Attributes:
        seed: The seed, also when it was drawn.

    Raises:
        TypeError: ``dataset`` is not read at positions, or ``seed`` is no integer.
        ValueError: ``seed`` is out of range.
    """

    def __init__(self, dataset: Any, seed: int | None = None) -> None:
        length = as_positional("dataset", dataset)
        self.seed = _as_seed(seed)
        super().__init__(dataset, _permuted(length, length, mix(self.seed ^ _SHUFFLED)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_source(self.dataset)}, seed={self.seed})"


class Sampled(Subset):
    """Samples drawn at random from a dataset, the same ones every epoch.

    Args:
        dataset: A map-style dataset read at positions.
        size: How many to draw.
        replacement: Whether a sample may be drawn more than once.
        seed: From 0 to 2**64 - 1; the draw is a pure function of it, ``size``, ``replacement`` and the
            dataset's length. None draws a seed.

    Attributes:
        seed: The seed, also when it was drawn.

    Raises:
        TypeError: ``dataset`` is not read at positions, or another argument has the wrong type.
        ValueError: ``seed`` is out of range, or ``size`` is more than there is to draw.
    """

    def __init__(self, dataset: Any, size: int, replacement: bool = True, seed: int | None = None) -> None:
        length = as_positional("dataset", dataset)
        size = as_count("size", size, least=0)
        self.replacement = as_flag("replacement", replacement)
        self.seed = _as_seed(seed)
        if size > length and (not self.replacement or length == 0):
            raise ValueError(
                f"size={size}: {describe_source(dataset)} has {length} samples"
                + ("; replacement=True draws samples more than once" if length else " to draw from")
            )
        seed = mix(self.seed ^ _SAMPLED)
        draw = _drawn if self.replacement else _permuted
        super().__init__(dataset, draw(length, size, seed))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({describe_source(self.dataset)}, size={len(self)}, "
            f"replacement={self.replacement}, seed={self.seed})"
        )


def _as_keys(indices: Iterable[Any]) -> NDArray[np.int64] | list[Any]:
    """Return a copy of ``indices``: an array where they are integers, else a list of keys."""
    if isinstance(indices, (str, bytes)) or not isinstance(indices, Iterable):
        raise TypeError(f"indices={describe(indices, 200)}: expected several positions or keys")
    if hasattr(indices, "__array__") or isinstance(indices, range):
        array = np.asarray(indices)
        if array.ndim != 1:
            raise ValueError(f"indices of shape {array.shape}: expected one dimension")
    else:
        keys = list(indices)
        kinds = {type(key) for key in keys}
        if not all(issubclass(kind, (int, np.integer, np.bool_)) for kind in kinds):
            return keys
        array = np.array(keys) if not kinds & {bool, np.bool_} else np.empty(0, np.bool_)
    if array.dtype.kind == "b":
        raise TypeError("indices are bools: for a mask, pass numpy.flatnonzero(mask)")
    if array.size == 0 or np.can_cast(array.dtype, np.int64):
        return array.astype(np.int64)
    return list(array.tolist())


def _as_seed(seed: int | None) -> int:
    if seed is None:
        return int.from_bytes(os.urandom(7), "little")
    return as_count("seed", seed, least=0, most=MASK64)


def _permuted(length: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return ``size`` different positions below ``length``."""
    order = Permutation(length, seed, 0)
    positions = np.empty(size, np.int64)
    for start in range(0, size, _PIECE):
        stop = min(start + _PIECE, size)
        positions[start:stop] = order.indices(start, stop)
    return positions


def _drawn(length: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return ``size`` independent positions below ``length``: SplitMix64, reduced by the remainder.

    The remainder favours small positions by less than ``length`` / 2**64.
    """
    (key,) = derive_keys(seed, 0, 1)
    bits = mix_array(np.uint64(key) + np.arange(size, dtype=np.uint64) * np.uint64(GOLDEN))
    return (bits % np.uint64(max(length, 1))).astype(np.int64)
