"""Writes the samples of one batch into their slots while they are fetched."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from nogil_loader.checks import as_count
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import Slots
from nogil_loader.errors import CollateError


class BatchWriter:
    """Gathers the samples of one batch: each is copied into its slot at once and not kept.

    The first sample decides what the batch looks like, and its arrays are allocated then. A sample that
    does not fit is refused and takes no slot: the batch can go on without it. Belongs to one thread at
    a time.

    Args:
        size: How many samples the batch will have, at most.
        build: Makes the tree of slots for the first sample.
    """

    __slots__ = ("_build", "_indices", "_put", "_roster", "_size", "_slots")

    def __init__(self, size: int, build: Callable[[Any, Roster], Slots]) -> None:
        self._size = as_count("size", size, least=1)
        self._indices: list[Hashable] = []  # of the samples that are in, in the order of their slots
        self._roster = Roster(self._size, self._indices)
        self._build = build
        self._slots: Slots | None = None
        self._put: Callable[[Any, int], None] = self._put_first

    def put(self, sample: Any, index: Hashable) -> None:
        """Append ``sample``, which has ``index`` in the dataset.

        Raises:
            CollateError: The sample does not fit to the first one; the message and the attributes say where.
            ValueError: The batch has all its samples already.
        """
        indices = self._indices
        position = len(indices)
        if position == self._size:
            raise ValueError(f"put() called {position + 1} times on a batch of size={position}")
        indices.append(index)
        try:
            self._put(sample, position)
        except BaseException:
            indices.pop()
            raise

    def _put_first(self, sample: Any, position: int) -> None:
        slots = self._build(sample, self._roster)
        slots.put(sample, position)
        self._slots, self._put = slots, slots.put

    def finish(self) -> Any:
        """Return the batch. The writer gives it up and must not be used again.

        Arrays have as many rows as there were samples.

        Raises:
            CollateError: There was no sample.
        """
        if self._slots is None:
            raise empty_batch()
        slots, self._slots = self._slots, None
        self._put = self._put_first
        return slots.finish(len(self._indices))


def empty_batch() -> CollateError:
    """Return the error for a batch without samples."""
    return CollateError("empty batch: there is no sample to collate")
