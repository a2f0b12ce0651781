"""When the consumer got its batches, and how long it waited for them."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import NamedTuple

from nogil_loader.engine import listening

# Batches of which time and waiting are kept: enough for a 99th percentile.
_KEPT = 1000
# What counts as recent, in seconds.
_RECENT = 10.0


class Delivery(NamedTuple):
    """One batch.

    Attributes:
        at: When the consumer got it.
        samples: How many there are in it.
        waited: Seconds that the consumer waited for it.
    """

    at: float
    samples: int
    waited: float


class Pace:
    """The consumer's side of an epoch's times, written by the consumer alone.

    Args:
        epoch: For those who listen.

    Attributes:
        began: When the epoch began.
        waited: Seconds that the consumer has waited for batches.
    """

    __slots__ = ("_at", "_epoch", "_samples", "_since", "_waits", "began", "ended", "waited")

    def __init__(self, epoch: int) -> None:
        self.began = perf_counter()
        self.ended: float | None = None
        self.waited = 0.0
        self._epoch = epoch
        self._since = 0.0
        # Numbers, which the garbage collector need not look at.
        self._at: deque[float] = deque(maxlen=_KEPT)
        self._samples: deque[int] = deque(maxlen=_KEPT)
        self._waits: deque[float] = deque(maxlen=_KEPT)

    def wait(self) -> float:
        """Note that the consumer has to wait for the next batch, and return the time."""
        now = perf_counter()
        if not self._since:
            self._since = now
        return now

    def deliver(self, samples: int) -> None:
        """Note that the consumer gets a batch now."""
        now = perf_counter()
        since = self._since
        waited = 0.0
        if since:
            self._since = 0.0
            waited = now - since
            self.waited += waited
            for listener in listening.listeners:
                listener.waited(self._epoch, since, now)
        self._at.append(now)
        self._samples.append(samples)
        self._waits.append(waited)

    def end(self) -> None:
        """Note that the epoch is over."""
        if self.ended is None:
            self.ended = perf_counter()

    def waited_until(self, now: float) -> float:
        """Seconds that the consumer has waited, the present wait included."""
        since = self._since
        return self.waited + (max(0.0, now - since) if since and self.ended is None else 0.0)

    @property
    def latest(self) -> list[Delivery]:
        """The latest batches, the oldest first."""
        # Those that came last are in all three; another thread may be about to add one.
        lists = (reversed(list(each)) for each in (self._waits, self._samples, self._at))
        return [Delivery(at, samples, waited) for waited, samples, at in zip(*lists, strict=False)][::-1]


def recent_rate(latest: list[Delivery], now: float) -> float:
    """Return samples per second over the batches of the last ten seconds, 0.0 if there are fewer than two.

    Args:
        latest: The latest batches, the oldest first.
        now: Up to when; a loader that stands still becomes slower.
    """
    window = [each for each in latest if each.at >= now - _RECENT]
    if len(window) < 2 or now <= window[0].at:
        return 0.0
    return sum(each.samples for each in window[1:]) / (now - window[0].at)
