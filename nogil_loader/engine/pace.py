"""When the consumer got its batches, and how long it waited for them.

Waiting is timed wherever it happens, since a thread that waits has the time. A batch that is there at once costs
nothing: how far the consumer is at which time is marked by those who load, when they time a ticket.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter

from nogil_loader.engine import listening
from nogil_loader.engine.account import Account

# Marks of the time, and waits, that are kept: ten seconds of marks, and enough waits for a 99th percentile.
_MARKS = _WAITS = 1000
# Seconds between marks at least.
_APART = 0.01
# What counts as recent, in seconds.
_RECENT = 10.0


class Pace:
    """The consumer's side of an epoch's times.

    Args:
        epoch: For those who listen.
        account: What the consumer has.

    Attributes:
        began: When the epoch began.
        ended: When it ended.
        since: When the consumer began to wait for the next batch; 0.0 while it does not.
        waited: Seconds that the consumer has waited for batches.
    """

    __slots__ = (
        *("_account", "_epoch", "_marks", "_marked", "_waits", "_waited_for"),
        *("began", "ended", "since", "waited"),
    )

    def __init__(self, epoch: int, account: Account) -> None:
        self.began = perf_counter()
        self.ended: float | None = None
        self.since = 0.0
        self.waited = 0.0
        self._epoch = epoch
        self._account = account
        # Numbers side by side, since pairs would be a thousand objects for the garbage collector to look at: when
        # a mark was made, and what had been received then; how long a wait took, and for which batch it was.
        self._marks: deque[float] = deque([self.began], maxlen=_MARKS)
        self._marked: deque[int] = deque([0], maxlen=_MARKS)
        self._waits: deque[float] = deque(maxlen=_WAITS)
        self._waited_for: deque[int] = deque(maxlen=_WAITS)

    def begin_wait(self) -> float:
        """Note that the consumer waits, if it has not begun to, and return the time."""
        now = perf_counter()
        if not self.since:
            self.since = now
        return now

    def end_wait(self) -> None:
        """Note that the batch is there which the consumer has waited for."""
        now, since = perf_counter(), self.since
        self.since = 0.0
        waited = now - since
        self.waited += waited
        self._waits.append(waited)
        self._waited_for.append(self._account.batches + 1)
        if listening.listeners:
            for listener in listening.listeners:
                listener.waited(self._epoch, since, now)

    def mark(self, now: float) -> None:
        """Mark how far the consumer is."""
        if now - self._marks[-1] >= _APART:
            self._marks.append(now)
            self._marked.append(self._account.progress.delivered)

    def end(self) -> None:
        """Note that the epoch is over."""
        if self.ended is None:
            self.ended = perf_counter()

    def waited_until(self, now: float) -> float:
        """Seconds that the consumer has waited, the present wait included."""
        since = self.since
        return self.waited + (max(0.0, now - since) if since and self.ended is None else 0.0)

    def recent_rate(self, now: float, samples: int) -> float:
        """Samples per second over the last ten seconds, or since the last mark where that is longer ago.

        Args:
            now: Up to when.
            samples: Those that the consumer has now.
        """
        marks = list(zip(list(self._marks), list(self._marked), strict=False))
        at, marked = next((mark for mark in marks if mark[0] >= now - _RECENT), marks[-1])
        return max(0, samples - marked) / (now - at) if now > at else 0.0

    def latest_waits(self) -> list[float]:
        """How long the consumer waited for each of the latest 1,000 batches; most often not at all."""
        batches = self._account.batches
        count = min(batches, _WAITS)
        pairs = zip(list(self._waited_for), list(self._waits), strict=False)
        waits = [waited for number, waited in pairs if number > batches - count]
        return [0.0] * max(0, count - len(waits)) + waits
