"""Pieces that are loaded without asking the governor, while memory is plentiful."""

from __future__ import annotations

from collections.abc import Callable

# What is taken for the size of a batch about which nothing is known yet, where nobody has set a limit and batches
# of this size would be free. Then nobody waits for the first sample of the first epoch.
_UNKNOWN_BATCH = 64 << 20


class FreePieces:
    """How many pieces, of which size, are free until the next reading.

    Args:
        capacity: Pieces that may be under way at a time.
        interval: Seconds for which a reading holds at most.
        clock: Seconds from any start, never going back.
    """

    def __init__(self, capacity: int, interval: float, clock: Callable[[], float]) -> None:
        self._capacity = capacity
        self._interval = interval
        self._clock = clock
        self._pieces = self._samples = 0
        self._bytes = self._rest = 0
        self._until = -1.0

    def refill(self, now: float, allowance: int, patience: float) -> None:
        """Start anew after a reading.

        Args:
            now: When it was taken.
            allowance: Bytes that each of ``capacity`` pieces may have.
            patience: Seconds after which another reading is due.
        """
        self._pieces = 0
        self._bytes, self._rest = allowance, allowance * self._capacity
        self._until = now + min(self._interval, patience)

    def grant(self, samples: int, size: int | None, *, like_others: bool, limited: bool) -> bool:
        """Whether a piece is free.

        Args:
            samples: How many it has.
            size: Bytes that it will hardly exceed, None if nothing is known.
            like_others: Whether the same goes for any other piece of so many samples.
            limited: Whether there is a limit below what the machine has.
        """
        if size is None and limited:
            return False
        nbytes = _UNKNOWN_BATCH if size is None else size
        if nbytes > min(self._bytes, self._rest):
            return False
        if size is None or not like_others:
            self._rest -= nbytes
        else:
            self._samples = samples
            self._pieces = self._rest // max(1, nbytes) - 1
            self._rest = 0
        return True

    def take(self, samples: int) -> bool:
        """Whether a piece of so many samples is free like those before. Called by all threads for each ticket."""
        if samples > self._samples or self._pieces <= 0 or self._clock() >= self._until:
            return False
        self._pieces -= 1  # two threads may count as one here; the allowance is far from the limit
        return True

    def resize(self, capacity: int) -> None:
        """Let so many pieces be under way from here on; the next one asks."""
        self._capacity = capacity
        self.stop()

    def stop(self) -> None:
        """Let the next piece ask."""
        self._pieces = self._rest = 0
