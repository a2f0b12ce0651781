"""Which samples of an epoch its consumer has received."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from nogil_loader.plan.digest import KeyDigest


class Run(NamedTuple):
    """Consecutive positions of an epoch that are all received or all missing."""

    start: int
    stop: int
    received: bool


class Received:
    """The positions of one epoch that reached the consumer: a prefix, and intervals ahead of it.

    With ordered delivery there is only the prefix. With unordered delivery, batches may arrive ahead of a
    gap; the intervals are kept sorted, disjoint and apart from each other and from the prefix, so there is one
    representation for each set of positions.

    Args:
        prefix: Positions 0 to ``prefix`` are received.
        ahead: Sorted intervals (start, stop) beyond the prefix that are received too.
        digest: Digest of the keys at these positions, for samplers whose order only their author knows; None
            where the order is a function of the seed.
    """

    __slots__ = ("_starts", "_stops", "digest", "prefix")

    def __init__(
        self, prefix: int = 0, ahead: Iterable[tuple[int, int]] = (), digest: KeyDigest | None = None
    ) -> None:
        intervals = list(ahead)
        self.prefix = prefix
        self._starts = [start for start, _ in intervals]
        self._stops = [stop for _, stop in intervals]
        self.digest = digest

    def __repr__(self) -> str:
        return f"Received(prefix={self.prefix}, ahead={list(self.ahead)}, digest={self.digest!r})"

    @property
    def ahead(self) -> tuple[tuple[int, int], ...]:
        """The intervals (start, stop) received beyond the prefix, in ascending order."""
        return tuple(zip(self._starts, self._stops, strict=True))

    @property
    def count(self) -> int:
        """How many samples were received."""
        return self.prefix + sum(self._stops) - sum(self._starts)

    @property
    def end(self) -> int:
        """The position after the last one that was received."""
        return self._stops[-1] if self._stops else self.prefix

    def __contains__(self, position: int) -> bool:
        if position < self.prefix:
            return position >= 0
        following = bisect_left(self._starts, position + 1)
        return following > 0 and position < self._stops[following - 1]

    def add(self, start: int, stop: int, keys: Sequence[Any] | None = None) -> None:
        """Count the positions ``start`` to ``stop`` as received.

        Args:
            start: First position.
            stop: Position after the last one; equal to ``start`` adds nothing.
            keys: The keys at these positions. Needed where a digest is kept, ignored where not.

        Raises:
            ValueError: A position was received before, or keys are needed and are not as many as positions.
        """
        if self.digest is not None and (keys is None or len(keys) != stop - start):
            raise ValueError(f"positions {start} to {stop} need as many keys for the digest, got {keys!r}")
        if start == self.prefix and not self._starts:
            if stop < start:
                raise ValueError(f"positions {start} to {stop}: expected start ≤ stop")
            self.prefix = stop
        elif start != stop:
            self._insert(start, stop)
        if self.digest is not None and keys:
            self.digest.add(start, keys)

    def _insert(self, start: int, stop: int) -> None:
        place = bisect_left(self._starts, start)
        before = self._stops[place - 1] if place else self.prefix
        after = self._starts[place] if place < len(self._starts) else stop
        if stop < start or start < before or stop > after:
            raise ValueError(f"positions {start} to {stop} overlap with what was received before: {self!r}")
        self._starts.insert(place, start)
        self._stops.insert(place, stop)
        # Close up with the neighbours, later one first so that the places stay valid.
        if place + 1 < len(self._starts) and self._starts[place + 1] == stop:
            del self._starts[place + 1], self._stops[place]
        if place and start == before:
            del self._starts[place], self._stops[place - 1]
        if self._starts[0] == self.prefix:
            self.prefix = self._stops[0]
            del self._starts[0], self._stops[0]

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """Cut the positions ``start`` to ``stop`` into runs that are wholly received or wholly missing."""
        for low, high in [(0, self.prefix), *self.ahead]:
            if high <= start:
                continue
            if low >= stop:
                break
            if start < low:
                yield Run(start, low, received=False)
                start = low
            yield Run(start, min(high, stop), received=True)
            start = min(high, stop)
        if start < stop:
            yield Run(start, stop, received=False)
