"""What a thread reports while it loads a piece that the governor has on its book."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nogil_loader.engine.outcome import Failure, GivenBack
from nogil_loader.engine.scope import MEMORY, current_scope
from nogil_loader.memory.decision import Action, Decision
from nogil_loader.memory.peak import PeakMeter

if TYPE_CHECKING:
    from nogil_loader.engine.rations import Rations
    from nogil_loader.engine.run import EpochRun
    from nogil_loader.engine.ticket import Lease

# The governor is asked once for so many bytes: for each sample of 10 KB it would cost more than loading it.
QUANTUM = 1 << 20


class Halt(Exception):
    """Loading has to stop, and nothing of it is kept.

    Attributes:
        outcome: What becomes of the ticket.
    """

    def __init__(self, outcome: GivenBack | Failure) -> None:
        super().__init__()
        self.outcome = outcome


class Watch:
    """Reports the samples of one piece; made when the governor has admitted it, for one thread.

    Args:
        rations: Whom to report to.
        run: The epoch.
        start: Position of the piece's first sample in the epoch's order.
        lease: The ticket that is loaded; None for what a reader reads.
        meter: Measures the memory that loading a sample takes, while this piece is the only one; else None.
        known: Whether sizes are known, so that not every sample has to be reported.

    Attributes:
        waiting: Whether the thread waits for memory.
    """

    def __init__(
        self,
        rations: Rations,
        run: EpochRun,
        start: int,
        lease: Lease | None,
        *,
        meter: PeakMeter | None,
        known: bool,
    ) -> None:
        self.start = start
        self.known = known
        self.waiting = False
        self._rations = rations
        self._run = run
        self._lease = lease
        self._sizes: list[int] = []
        self._unreported = 0
        self._changes = rations.changes
        self._meter = meter if meter is not None and meter.start() else None

    def enough(self, nbytes: int) -> bool:
        """Note that a sample of ``nbytes`` bytes is loaded; True if the piece has to end with it.

        Raises:
            Halt: What is loaded has to be dropped.
        """
        if self._meter is not None:
            self._measure(self._meter, nbytes)
        self._sizes.append(nbytes)
        self._unreported += nbytes
        if self._unreported < QUANTUM and self.known:
            return False
        sizes, self._sizes = self._sizes, []
        self._unreported = 0
        self.known = True
        decision = self._rations.progress(self._run, self.start, self._lease, sizes)
        if decision is not None and decision.action is Action.WAIT:
            decision = self._wait(decision.after)
        return self._obey(decision)

    def is_blind(self, keys: Sequence[Any]) -> bool:
        """Whether samples that come all at once are of unknown size, and one of them would tell."""
        return not self.known and len(keys) > 1

    def size_up(self, nbytes: int) -> None:
        """Note what a sample takes that was loaded only to know it, before all are fetched at once.

        Raises:
            Halt: Always: the piece has to be asked for anew, now that sizes are known.
        """
        if self._meter is not None:
            self._measure(self._meter, nbytes)
        self._rations.size_up(self._run, self.start, nbytes)
        raise Halt(GivenBack())

    def _wait(self, seconds: float) -> Decision | None:
        """Wait until the piece may go on, for a bounded time: nobody else might be left to end the epoch."""
        rations = self._rations
        scope = current_scope.get()
        stage = "" if scope is None else scope.stage
        if scope is not None:
            scope.stage = MEMORY
        self.waiting = True
        try:
            for _ in range(math.ceil(rations.stall / seconds) + 1):
                rations.wait(seconds)
                decision = rations.progress(self._run, self.start, self._lease, ())
                if decision is None or decision.action is not Action.WAIT:
                    return decision
        finally:
            self.waiting = False
            if scope is not None:
                scope.stage = stage
        # A ticket can be loaded again, what a reader has read cannot.
        return None if self._lease is not None else Decision(Action.GO_ON)

    def end(self, count: int) -> None:
        """Note that a reader has read so many samples and no more; 0 if there is nothing to be planned."""
        self._rations.read(self._run, self.start, count)

    def _measure(self, meter: PeakMeter, nbytes: int) -> None:
        growth = meter.growth()
        if growth is not None:
            self._rations.calibrate(self._run, growth, nbytes, self._changes)
        self._meter = None

    def _obey(self, decision: Decision | None) -> bool:
        if decision is None:
            raise Halt(GivenBack())
        if decision.action is Action.REVOKED and self._lease is not None:  # what a reader has read stays
            raise Halt(GivenBack())
        if decision.shortage is not None:
            raise Halt(self._rations.shortage(decision.shortage, self._lease))
        return decision.action is Action.CUT
