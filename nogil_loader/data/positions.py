"""Datasets whose indices are the positions 0 … length - 1, counted from the end when negative."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_position(index: Any, length: int, owner: object) -> int:
    """Return ``index`` as a position from 0 to ``length`` - 1.

    Args:
        index: An integer; a negative one counts from the end.
        length: Number of samples.
        owner: The dataset that was asked, named in the messages.

    Raises:
        TypeError: ``index`` is not an integer.
        IndexError: ``index`` is out of range.
    """
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(
            f"an index of {type(owner).__name__} is an integer, not {type(index).__name__}; "
            f"Subset(dataset, indices) is a dataset of several"
        ) from None
    if not -length <= position < length:
        raise IndexError(f"index {position} is out of range for {type(owner).__name__} of length {length}")
    return position + length if position < 0 else position


def as_positions(indices: Sequence[Any] | NDArray[Any], length: int, owner: object) -> NDArray[np.int64]:
    """Return many indices as positions, each treated as `as_position` treats it.

    Returns:
        Shape ``(len(indices),)``, int64, C-contiguous, every value from 0 to ``length`` - 1.

    Raises:
        TypeError: One of ``indices`` is not an integer.
        IndexError: One of ``indices`` is out of range.
    """
    if isinstance(indices, np.ndarray) and indices.ndim == 1 and indices.dtype.kind == "i":
        positions = indices.astype(np.int64)
    else:
        try:
            positions = np.fromiter(map(operator.index, indices), np.int64, len(indices))
        except (TypeError, OverflowError):
            # The slow way names the index that is wrong.
            positions = np.array([as_position(index, length, owner) for index in indices], np.int64)
    positions[positions < 0] += length
    outside = (positions < 0) | (positions >= length)
    if outside.any():
        as_position(indices[int(outside.argmax())], length, owner)
    return positions


class PositionalDataset(ABC):
    """A map-style dataset read at positions.

    It iterates by its length. Python's fallback for classes without ``__iter__`` would take an `IndexError`
    raised by the user's code for the end of the data.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Any: ...

    def __iter__(self) -> Iterator[Any]:
        for position in range(len(self)):
            yield self[position]
