"""What a bar shows, taken from an epoch's counts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.observe.watching import WatchedIterator
from nogil_loader.observe.words import duration, notes, rate, share_of_total

# Seconds between two readings of statistics, which take up to some milliseconds; to count takes a microsecond.
_STATISTICS_PERIOD = 0.5


@dataclass(frozen=True)
class Reading:
    """Where an epoch stands.

    Attributes:
        done: Samples behind the consumer, skipped ones and those received before a resume included.
        total: Samples of the epoch, None while unknown.
        seconds: Since the epoch began.
        rate: Samples per second, lately.
        notes: What else there is to say.
    """

    done: int
    total: int | None
    seconds: float = 0.0
    rate: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def figures(self) -> str:
        """What a line has to show in any case."""
        parts = [share_of_total(self.done, self.total)]
        time = duration(self.seconds)
        if self.total:
            parts.append(f"{min(1.0, self.done / self.total):.0%}")
            if self.rate > 0 and self.done < self.total:
                time += f" < {duration((self.total - self.done) / self.rate)}"
        return "  ".join([*parts, time, rate(self.rate)])

    @property
    def remarks(self) -> str:
        """What it shows where there is room."""
        return ", ".join(self.notes)


class Eye:
    """Reads an epoch without keeping it alive.

    Args:
        iterator: The epoch's.
    """

    def __init__(self, iterator: LoaderIterator | WatchedIterator) -> None:
        self._iterator: Callable[[], LoaderIterator | WatchedIterator | None] = weakref.ref(iterator)
        self._last = Reading(0, None)
        self._due = 0.0
        self.read()

    def read(self, *, afresh: bool = False) -> Reading:
        """Read the epoch, or repeat the last reading when it is gone; ``afresh``, with new statistics."""
        iterator = self._iterator()
        if iterator is None:
            return self._last
        last = self._count(iterator)
        now = monotonic()
        if afresh or now >= self._due:
            statistics = iterator.statistics()
            # Sooner in the beginning, when there is hardly anything to tell yet.
            self._due = now + min(_STATISTICS_PERIOD, statistics.seconds)
            last = replace(
                last,
                seconds=statistics.seconds,
                rate=statistics.recent_samples_per_second,
                notes=tuple(notes(statistics)),
            )
        self._last = last
        return last

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing to read any more."""
        return self._iterator() is None

    def last(self, how: str) -> Reading:
        """The reading that stays, with how it ended. Takes no lock, since a finaliser may ask."""
        last = self.read(afresh=True)
        return last if how == "complete" else replace(last, notes=(how, *last.notes))

    def _count(self, iterator: LoaderIterator | WatchedIterator) -> Reading:
        progress = iterator.progress()
        return replace(self._last, done=progress.items_processed, total=progress.items_total)
