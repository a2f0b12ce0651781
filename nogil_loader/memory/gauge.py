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
from typing import NamedTuple

from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy

# Memory is filled at about 4 GB/s per thread, and readings are 50 ms apart at most: 4 GiB kept free outlast
# twenty threads. Beyond that, a share of the limit would only leave memory unused (5 % of a large host).
_MOST_RESERVE = 4 << 30
# Parts of what others have left that the loader may always use, below the soft and the hard mark.
_SOFT_TRIFLE = 16
_HARD_TRIFLE = 8
# Readings are shared between threads for 0.5 ms; within this time they contain what is being reported.
_FRESH = 0.002
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
        self._grown = 0
        self._gone = 0
        self._gone_at = -math.inf

    def observe(self, reading: MemoryReading | None, at: float) -> None:
        """Take in what the probe said at time ``at``; None means that it does not know."""
        if at < self._answered_at:
            return
        self._answered_at = at
        if reading is not None:
            self._reading = reading
            self._read_at = at
            self._grown = 0
            if at >= self._gone_at + _DROPPING:
                self._gone = 0

    def grow(self, nbytes: int, now: float) -> None:
        """Note that the loader has filled memory."""
        if now - self._read_at > _FRESH:
            self._grown += nbytes

    def shrink(self, nbytes: int, now: float) -> None:
        """Note that the loader or the consumer has dropped memory."""
        self._gone += nbytes
        self._gone_at = now

    def is_stale(self, now: float) -> bool:
        """Whether the probe has not answered for too long."""
        return self._reading is not None and now - self._answered_at > _STALE * self._policy.interval

    def level(self, in_flight: int, now: float) -> Level | None:
        """Where memory stands with ``in_flight`` bytes of it in the loader's pieces; None if never known."""
        reading = self._reading
        if reading is None:
            return None
        settled = now - self._gone_at > _SETTLED
        used = max(0, reading.used + self._grown - (self._gone if settled else 0))
        limit = reading.limit
        soft = self._policy.soft
        reserve = min((1.0 - soft) * limit, _MOST_RESERVE)
        others = max(0, used - in_flight)
        left = max(0, limit - others)
        return Level(
            limit,
            used,
            max(int(limit - reserve), others + left // _SOFT_TRIFLE),
            max(
                int(limit - reserve * (1.0 - self._policy.hard) / (1.0 - soft)), others + left // _HARD_TRIFLE
            ),
            0 if settled else self._gone,
            reading.source,
        )
