"""Who has made no progress for too long: pure, and told the time.

What is watched is a *mark*, any value that changes whenever a worker gets on: a new ticket, the next sample,
the next stage. Time counts from when the watchdog first saw the mark, so a machine that was suspended, or a
consumer that was away, does not make anyone late. A worker without a mark (idle, starting up, compiling) is
not on the clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

W = TypeVar("W", bound=Hashable)


class Watchdog(Generic[W]):
    """Notices the stuck.

    Args:
        timeout: Seconds without progress after which a worker counts as stuck; 0 means never.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._seen: dict[W, tuple[object, float]] = {}

    def stuck(self, now: float, marks: Iterable[tuple[W, object | None]]) -> list[W]:
        """Return who has shown the same mark for ``timeout`` seconds.

        Args:
            now: Monotonic time in seconds.
            marks: Everyone who is watched, with the present mark; None for who is not on the clock.
        """
        before, self._seen = self._seen, {}
        late = []
        for who, mark in marks:
            if mark is None:
                continue
            known, since = before.get(who, (None, now))
            if known != mark:
                since = now
            self._seen[who] = (mark, since)
            if self.timeout and now - since >= self.timeout:
                late.append(who)
        return late
