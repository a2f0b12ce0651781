"""How much may be in flight: given up at once and by halves, given back slowly and in eighths.

Guarantees of this file:

* Two allowances: ``in_flight`` (pieces at a time) and ``room`` (bytes that pieces are planned with). Neither falls
  below one worker with the smallest piece.
* Use above the hard mark halves one of them, the first in the policy's order that is not at its least, once:
  the next time counts only after use was back below the soft mark.
* ``room`` falls at once to what others leave below the soft mark.
* Each second without use above the soft mark is calm and gives an eighth of the full allowance back, ``room`` only
  after four pieces without a cut. So `STEPS_TO_FULL` calm seconds restore everything, and use that swings
  around a mark changes an allowance once, not with each swing.
* A refusal by the allocator halves one of them, too, once until a second has passed; the calm begins anew.
* Every change is an event, once; a change of ``room`` when it is an eighth of the whole.
"""

from __future__ import annotations

import math

from nogil_loader.memory.decision import Event
from nogil_loader.memory.gauge import Level
from nogil_loader.policies import MemoryPolicy

# Seconds below the soft mark after which an allowance grows by one step.
CALM = 1.0
#: Calm seconds after which any allowance is full again.
STEPS_TO_FULL = 8
# A cut shows that pieces were planned too large; they grow when so many have come through whole.
_PIECES_WITHOUT_CUT = 4


class Throttle:
    """The two allowances.

    Args:
        policy: What is given up in which order.
        workers: Threads that load, 1 for the consumer's own.
        capacity: Pieces in flight at most.
        fixed: Whether pieces may not be made smaller.
    """

    def __init__(self, policy: MemoryPolicy, *, workers: int, capacity: int, fixed: bool) -> None:
        self._policy = policy
        self._fixed = fixed
        self._told_in_flight = -1
        self.in_flight = -1
        self._capacity = -1
        self.resize(workers, capacity)
        self.room: int | None = None
        self.parked = False
        self.parks = 0
        self._calm_since: float | None = None
        self._refused_at = -math.inf
        self._without_cut = _PIECES_WITHOUT_CUT
        self._told_room: int | None = None

    def resize(self, workers: int, capacity: int) -> None:
        """Let so many threads load from here on, and so many pieces be in flight.

        Args:
            workers: As above.
            capacity: As above.
        """
        was_full = self.is_full
        self._capacity = max(1, capacity)
        self._workers = max(1, min(workers, self._capacity))
        self._least = min(self._policy.min_workers, self._workers)
        if was_full:  # what was taken away because of memory is given back step by step
            self.in_flight = self._told_in_flight = self._capacity
        self.in_flight = min(self.in_flight, self._capacity)
        # The batch that the consumer holds, and those in flight whose number is not given up before batches
        # are made smaller; two of them at least where there are two places, or nothing overlaps.
        kept = self._capacity
        for step in self._policy.order[: self._policy.order.index("batch")]:
            kept = min(kept, max(2, self._workers if step == "prefetch" else self._least))
        self._pieces = 1 + kept

    def share(self, scratch: int) -> int | None:
        """Bytes that one piece should stay below; None as long as nothing is known.

        ``scratch`` bytes of it are used only while a sample is loaded, however many samples there are. They are
        set aside for those alone who keep loading under pressure.
        """
        if self.room is None:
            return None
        return max(0, self.room - self._least * scratch) // self._pieces + scratch

    def count_whole(self) -> None:
        """Note that a piece was loaded as it was planned."""
        self._without_cut += 1

    def count_cut(self) -> None:
        """Note that a piece was cut."""
        self._without_cut = -1  # its first part is still to be counted as loaded

    @property
    def is_full(self) -> bool:
        """Whether as many pieces may be in flight as there may ever be."""
        return self.in_flight == self._capacity

    def observe(self, level: Level, room: int, excess: bool, now: float) -> list[Event]:
        """Follow memory.

        Args:
            level: Where it stands.
            room: Bytes that others leave to the loader below the soft mark.
            excess: Whether use is above the hard mark and the loader has something to give up.
            now: The time.
        """
        rule = "room"
        if self.room is None or room < self.room:
            self.room = room
        if excess and not self.parked:
            self.parked = True
            self.parks += 1
            self._step_down()
            rule = "park"
        elif level.used <= level.soft:
            self.parked = False
        steps = self._steps_due(level.used <= level.soft, now)
        self._step_up(steps)
        if steps and self._without_cut >= _PIECES_WITHOUT_CUT:
            self.room = min(room, self.room + steps * -(-level.soft // STEPS_TO_FULL))
        return self._changes(rule, level, now)

    def observe_nothing(self, now: float) -> list[Event]:
        """Let time pass while nothing is known about memory."""
        self._step_up(self._steps_due(True, now))
        return self._changes("room", None, now)

    def refuse(self, level: Level | None, now: float) -> list[Event]:
        """Note that memory was refused although there should have been enough."""
        self._calm_since = now
        if now - self._refused_at >= CALM:
            self._refused_at = now
            self._step_down()
        return self._changes("refused", level, now)

    def _steps_due(self, calm: bool, now: float) -> int:
        """How many seconds were calm since the last step; a consumer that takes long asks seldom."""
        if not calm:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= CALM:
            steps = min(STEPS_TO_FULL, int((now - self._calm_since) / CALM))
            self._calm_since = now
            return steps
        return 0

    def _step_down(self) -> None:
        for step in self._policy.order:
            if step == "batch":
                if not self._fixed and self.room:
                    self.room //= 2
                    return
                continue
            least = self._workers if step == "prefetch" else self._least
            if self.in_flight > least:
                self.in_flight = max(least, self.in_flight // 2)
                return

    def _step_up(self, steps: int) -> None:
        self.in_flight = min(self._capacity, self.in_flight + steps * -(-self._capacity // STEPS_TO_FULL))

    def _changes(self, down: str, level: Level | None, now: float) -> list[Event]:
        changes = []
        if self.in_flight != self._told_in_flight:
            changes.append(("in_flight", self._told_in_flight, self.in_flight))
            self._told_in_flight = self.in_flight
        if self.room is not None and level is not None and level.soft > 0:
            eighths = min(float(STEPS_TO_FULL), STEPS_TO_FULL * self.room / level.soft)
            if self._told_room is None:
                self._told_room = round(eighths)
            elif abs(eighths - self._told_room) >= 1.0:
                changes.append(("room", self._told_room, round(eighths)))
                self._told_room = round(eighths)
        if not changes:
            return []
        used, limit = (0, 0) if level is None else (level.used, level.limit)
        return [
            Event(now, name, "calm" if new > old else down, old, new, used, limit)
            for name, old, new in changes
        ]
