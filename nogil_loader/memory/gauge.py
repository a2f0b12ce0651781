"""What is used now, from readings that may be a little old, or not come at all.

Guarantees of this file:

* The marks follow the limit of the latest reading, so a limit that is changed while running holds at once.
* What the loader has loaded since the reading was taken is added. What it has dropped since is taken away only
  when a later reading should have come and has not.
* A reading that is older than the one known is ignored: two threads may read, and report in the other order.
* A probe that answers "unknown" leaves everything as it was; one that does not answer makes readings stale.
* However full the memory is with what belongs to others, the loader may use a small part of what is left:
  giving that up would help nobody.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy

# Memory is filled at about 4 GB/s per thread, and readings are 50 ms apart at most: 4 GiB kept free outlast
# twenty threads. Beyond that, a share of the limit would only leave memory unused (5 % of a large host).
_MOST_RESERVE = 4 << 30
# Parts of what others have left that the loader may always use, below the soft and the hard mark.
_SOFT_TRIFLE = 16
_HARD_TRIFLE = 8
# Changes that are kept apart between two readings.
_PARTS = 256
# Readings are stale after this many intervals without an answer.
_STALE = 5
# Giving memory back to the system takes a while: a reading taken this soon after may not show it.
_DROPPING = 0.01
# What was dropped is believed to be gone after this time, also without a reading that shows it.
_SETTLED = 0.1


class Level(NamedTuple):
    """Where memory stands.

    Attributes:
        limit: Bytes that may be used.
        used: Bytes that are used.
        soft: Bytes up to which pieces are admitted.
        hard: Bytes above which pieces are given up.
        leaving: Bytes of ``used`` that were dropped after they were counted.
        source: Who set the limit.
    """

    limit: int
    used: int
    soft: int
    hard: int
    leaving: int
    source: str


class _Since:
    """Bytes with the time of each, of which the older ones are forgotten."""

    def __init__(self) -> None:
        self.total = 0
        self.latest = -math.inf
        self._parts: deque[tuple[float, int]] = deque()

    def add(self, nbytes: int, now: float) -> None:
        if nbytes:
            self.total += nbytes
            self.latest = max(self.latest, now)
            self._parts.append((now, nbytes))
            if len(self._parts) > _PARTS:  # a probe that knows nothing any more
                _, oldest = self._parts.popleft()
                at, next_oldest = self._parts.popleft()
                self._parts.appendleft((at, oldest + next_oldest))

    def forget(self, until: float) -> None:
        while self._parts and self._parts[0][0] <= until:
            self.total -= self._parts.popleft()[1]


class Gauge:
    """The latest reading and what has changed since.

    Args:
        policy: For the marks and for when readings are stale.
    """

    def __init__(self, policy: MemoryPolicy) -> None:
        self._policy = policy
        self._reading: MemoryReading | None = None
        self._read_at = -math.inf
        self._answered_at = -math.inf
        self._grown = _Since()
        self._gone = _Since()
        # The marks, as far as they follow from the limit alone.
        self._soft = 0
        self._hard = 0

    def observe(self, reading: MemoryReading | None, at: float) -> None:
        """Take in what the probe said at time ``at``; None means that it does not know."""
        if at < self._answered_at:
            return
        self._answered_at = at
        if reading is not None:
            if self._reading is None or reading.limit != self._reading.limit:
                self._set_marks(reading.limit)
            self._reading = reading
            self._read_at = at
            self._grown.forget(at)
            self._gone.forget(at - _DROPPING)

    def _set_marks(self, limit: int) -> None:
        soft, hard = self._policy.soft, self._policy.hard
        reserve = min((1.0 - soft) * limit, _MOST_RESERVE)
        self._soft = int(limit - reserve)
        self._hard = int(limit - reserve * (1.0 - hard) / (1.0 - soft))

    def grow(self, nbytes: int, now: float) -> None:
        """Note that the loader has filled memory, up to time ``now``."""
        if now > self._read_at:
            self._grown.add(nbytes, now)

    def shrink(self, nbytes: int, now: float) -> None:
        """Note that the loader or the consumer has dropped memory, or is about to."""
        self._gone.add(nbytes, now)

    def is_stale(self, now: float) -> bool:
        """Whether the probe has not answered for too long."""
        return self._reading is not None and now - self._answered_at > _STALE * self._policy.interval

    def is_old(self, now: float) -> bool:
        """Whether nothing was read for too long, be it that the probe does not answer or that it does not know."""
        return now - self._read_at > _STALE * self._policy.interval

    def level(self, in_flight: int, now: float) -> Level | None:
        """Where memory stands with ``in_flight`` bytes of it in the loader's pieces; None if never known."""
        reading = self._reading
        if reading is None:
            return None
        limit, used, leaving = reading.limit, reading.used + self._grown.total, self._gone.total
        if leaving and now - self._gone.latest > _SETTLED:
            used, leaving = max(0, used - leaving), 0
        others = max(0, used - in_flight)
        left = max(0, limit - others)
        return Level(
            limit,
            used,
            max(self._soft, others + left // _SOFT_TRIFLE),
            max(self._hard, others + left // _HARD_TRIFLE),
            leaving,
            reading.source,
        )
