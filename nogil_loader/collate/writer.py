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

    __slots__ = ("_build", "_filled", "_indices", "_put", "_roster", "_slots")

    def __init__(self, size: int, build: Callable[[Any, Roster], Slots]) -> None:
        size = as_count("size", size, least=1)
        self._indices: list[Hashable] = [None] * size
        self._roster = Roster(size, self._indices)
        self._build = build
        self._slots: Slots | None = None
        self._put: Callable[[Any, int], None] = self._put_first
        self._filled = 0

    def put(self, sample: Any, index: Hashable) -> None:
        """Append ``sample``, which has ``index`` in the dataset.

        Raises:
            CollateError: The sample does not fit to the first one; the message and the attributes say where.
            ValueError: The batch has all its samples already.
        """
        position = self._filled
        try:
            self._indices[position] = index
        except IndexError:
            raise ValueError(f"put() called {position + 1} times on a batch of size={position}") from None
        self._put(sample, position)
        self._filled = position + 1

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
        return slots.finish(self._filled)


def empty_batch() -> CollateError:
    """Return the error for a batch without samples."""
    return CollateError("empty batch: there is no sample to collate")
