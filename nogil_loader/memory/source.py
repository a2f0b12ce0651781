"""What the loader asks how much memory there is, under a policy.

What holds:

1. ``read`` never raises an exception of the system's or of a user's probe, and never waits for another thread.
2. A reading that it returns was taken within the last half millisecond. What is not that new is not returned
   again: the caller knows it already, and knows what it has loaded since.
3. Reading that takes long is done less often, so that it costs at most a tenth of one thread's time.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable
from numbers import Real
from typing import Any

from nogil_loader.errors import describe, describe_exception
from nogil_loader.memory.probe import MemoryProbe
from nogil_loader.memory.reading import BUSY, Busy, MemoryReading, process_probe
from nogil_loader.memory.turn import Turn
from nogil_loader.policies import MemoryPolicy

logger = logging.getLogger("nogil_loader")

# Readings of the system's take some 20 µs. From here on they rest for nine times as long as they took.
_LONG = 0.0005
_REST = 9


class ReadingSource:
    """Says what memory there is, to all threads of a loader.

    Args:
        policy: Whose limit and probe to follow. With a probe of the user's, a limit in bytes holds beside the
            probe's own, and a share is one of the probe's.
        system: What the operating system says; by default the probe that all of this process share, or one
            of its own with the policy's limit in bytes.
        clock: Seconds from any start, never going back.
    """

    def __init__(
        self,
        policy: MemoryPolicy,
        *,
        system: MemoryProbe | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = policy.limit
        self._probe = policy.probe
        self._longest_rest = policy.interval
        if system is not None:
            self._system = system
        elif isinstance(policy.limit, int) and policy.probe is None:
            self._system = MemoryProbe(limit=policy.limit)
        else:
            self._system = process_probe()
        self._clock = clock
        self._turn = Turn()
        self._due = -math.inf
        self._took = 0.0
        self._warned: set[str] = set()
        self._latest: MemoryReading | None = None

    def read(self) -> MemoryReading | Busy | None:
        """Return limit and use of the level that binds now.

        Returns:
            None if they are not known at present. `BUSY` if there is nothing new: another thread is reading,
            or reading takes so long that it is not done again yet.
        """
        begun = self._clock()
        if begun < self._due:
            return BUSY
        line, mine = self._turn.line(), object()
        try:
            line.append(mine)
            if line[0] is not mine:
                return BUSY
            reading = self._system.read_current() if self._probe is None else self._ask(self._probe)
            self._rest(begun, self._clock())
            if isinstance(reading, MemoryReading):
                reading = self._latest = self._limited(reading)
            return reading
        finally:
            line.remove(mine)

    @property
    def latest(self) -> MemoryReading | None:
        """The last reading there was, None if there was none."""
        return self._latest

    @property
    def scope(self) -> object:
        """What it is about: equal for loaders that take from the same memory."""
        # A method is another object each time it is looked up.
        return id(getattr(self._probe, "__self__", self._probe)), id(getattr(self._probe, "__func__", None))

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use up what the latest reading left: see `MemoryReading.is_shared`."""
        return self._latest is not None and self._latest.is_shared

    @property
    def is_host(self) -> bool:
        """Whether the machine itself bound at the latest reading, and no limit that somebody set."""
        return self._latest is not None and self._latest.is_host

    def _rest(self, begun: float, ended: float) -> None:
        """Put the next reading off if the last two took long; a single one may have lost its CPU meanwhile."""
        usual, self._took = min(self._took, ended - begun), ended - begun
        if usual > _LONG:
            self._due = ended + min(_REST * usual, self._longest_rest)

    def _limited(self, reading: MemoryReading) -> MemoryReading:
        if isinstance(self._limit, float):
            limit, kind = int(reading.limit * self._limit), reading.kind
            source = f"{self._limit:g} of {reading.source}"
        elif self._probe is not None and isinstance(self._limit, int) and self._limit < reading.limit:
            limit, kind, source = self._limit, "user", f"user limit on {reading.source}"
        else:
            return reading
        # What is used stays what it is, also above the limit: it tells how much has to be given up.
        return MemoryReading(limit, reading.used, max(0, limit - reading.used), source, kind)

    def _ask(self, probe: Callable[[], Any]) -> MemoryReading | None:
        """Return what a probe of the user's says, if it is something that a probe can say."""
        try:
            answer = probe()
            kind = what = _fault_of(answer)
            if not what:
                return MemoryReading.of(int(answer.limit), int(answer.used), str(answer.source), answer.kind)
        except Exception as failure:  # noqa: BLE001 - the user's code
            kind, what = type(failure).__name__, describe_exception(failure)
        else:
            what += f", {describe(answer, 200)}"
        # Out of the except block, where a log handler could keep the exception with all its frames.
        if kind not in self._warned:
            self._warned.add(kind)
            with contextlib.suppress(Exception):
                logger.warning(
                    "MemoryPolicy.probe does not tell how much memory there is: %s; going on with what was "
                    "last known",
                    what,
                )
        return None


def _fault_of(answer: Any) -> str:
    """Say why an answer is no reading; nothing if it is one."""
    if not isinstance(answer, MemoryReading):
        return "it did not return a MemoryReading"
    if not answer.is_known:
        return "it returned a reading that is not known"
    numbers: tuple[object, ...] = answer.limit, answer.used, answer.headroom
    if not all(isinstance(one, Real) and not isinstance(one, bool) for one in numbers):
        return "it returned something else than numbers"
    if not (0 <= answer.used <= answer.limit < math.inf):
        return "it returned numbers without 0 <= used <= limit"
    # A difference of 1 for the rounding of three floats; NaN is never within it.
    if not abs(answer.headroom - (answer.limit - answer.used)) <= 1:
        return "it returned numbers without headroom == limit - used"
    return ""
