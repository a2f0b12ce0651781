"""What the governor says: decisions, the events behind them, and the numbers when memory does not suffice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from nogil_loader.errors import MemoryBudgetError, describe_bytes, describe_index

# What is less than this part of the bytes needed is not mentioned in advice.
_WORTH_A_WORD = 10


class Action(Enum):
    """What the caller has to do."""

    ADMIT = "load the piece: its memory is reserved"
    WAIT = "ask again later, from the start: no memory for it now"
    PRESPLIT = "plan the piece as two, the first with `samples` samples, and ask again; nothing is reserved"
    GO_ON = "load the next sample"
    CUT = "hand in the `samples` samples that are done, plan the rest again"
    REVOKED = "drop what is loaded and plan the piece again; it is off the governor's book"
    FAIL = "end the epoch with `shortage.error()`"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a piece cannot be loaded.

    Attributes:
        start: The piece's first position in the epoch's order.
        samples: How many samples have to fit at once.
        needed: Bytes that they take, as far as is known.
        budget: Bytes that the loader may have in flight.
        limit: Bytes of the limit that binds.
        used: Bytes used at that level, and promised to pieces that cannot be given up.
        ceiling: Bytes up to which a last piece would have been begun.
        scratch: Bytes of those needed that are used only while a sample is loaded.
        held: Bytes in batches that the consumer has not let go of.
        source: Who set the limit.
        waited: Seconds for which nothing got better.
        fixed: Whether the batch may not be made smaller.
    """

    start: int
    samples: int
    needed: int
    budget: int
    limit: int
    used: int
    ceiling: int
    scratch: int
    held: int
    source: str
    waited: float
    fixed: bool

    def error(self, index: Any = None) -> MemoryBudgetError:
        """The error to raise; ``index`` is the dataset index of the first sample where it is known."""
        one = self.samples == 1
        what = "sample" if one else f"{self.samples} samples"
        where = f"position {self.start}" if index is None else f"index {describe_index(index)}"
        extra = ""
        if self.scratch > self.needed // _WORTH_A_WORD:
            extra = f" ({describe_bytes(self.scratch)} of it while a sample is loaded, see scratch=)"
        used, limit, held = map(describe_bytes, (self.used, self.limit, self.held))
        return MemoryBudgetError(
            f"the next {what} ({where}) need{'s' if one else ''} {describe_bytes(self.needed)}{extra}, but only "
            f"{describe_bytes(self.ceiling - self.used)} may still be used: {used} of {limit} are in use "
            f"({self.source}), of which {held} are in batches that the consumer holds. Nothing "
            f"became free in {self.waited:.1f} s.\n  what to do: {self._advice()}",
            needed=self.needed,
            budget=self.budget,
            limit=self.limit,
            used=self.used,
            held=self.held,
            source=self.source,
        )

    def _advice(self) -> str:
        ways = []
        if self.held > self.needed // _WORTH_A_WORD:
            ways.append("let go of batches before asking for the next one (del batch)")
        if self.samples > 1 and self.fixed:
            ways.append("choose a smaller batch_size, or allow smaller batches with fixed_batch_size=False")
        elif not ways:
            ways.append("make the samples smaller, or what your code takes while it makes one")
        return ";\n  ".join([*ways, f"or raise the limit ({self.source})."])


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and what else has to be done on this occasion.

    Attributes:
        action: What to do.
        samples: For PRESPLIT and CUT: the samples of the first part.
        after: For WAIT: seconds after which to ask again, unless something happens before.
        revoke: Starts of ready pieces whose batches have to be dropped and planned again. They are off the
            governor's book already.
        relief: Collect garbage and give freed memory back to the system, then take a new reading.
        shortage: For FAIL: the numbers.
    """

    action: Action
    samples: int = 0
    after: float = 0.0
    revoke: tuple[int, ...] = ()
    relief: bool = False
    shortage: Shortage | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One change of what the loader may do, with its reason.

    Attributes:
        at: When, on the caller's clock.
        allowance: ``"in_flight"`` (pieces at a time), ``"room"`` (eighths of the memory below the soft mark) or
            ``"batch"`` (samples in one piece).
        rule: Why it changed.
        before: The old value.
        after: The new value.
        used: Bytes used at that moment; 0 where nothing is known.
        limit: Bytes of the limit at that moment; 0 where nothing is known.
        start: For ``"batch"``: which piece.
    """

    at: float
    allowance: str
    rule: str
    before: int
    after: int
    used: int
    limit: int
    start: int | None = None

    def __str__(self) -> str:
        use = f"{describe_bytes(self.used)} of {describe_bytes(self.limit)} in use"
        if self.allowance == "batch":
            return f"{self.before} samples at {self.start} are loaded {self.after} first ({self.rule}; {use})"
        unit = "batches in flight" if self.allowance == "in_flight" else "eighths of the memory"
        return f"{unit} allowed: {self.before} → {self.after} ({self.rule}; {use})"


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """A snapshot of the governor.

    Attributes:
        limit: Bytes of the limit that binds; None as long as nothing is known.
        used: Bytes used at that level.
        source: Who set the limit.
        promised: Bytes reserved and not yet used.
        loading: Bytes in pieces that are being loaded.
        ready: Bytes in pieces that wait for the consumer.
        held: Bytes in batches that the consumer has.
        in_flight: Pieces that are being loaded or wait.
        in_flight_allowed: How many of them there may be.
        room: Bytes that the loader plans with.
        parked: Whether loading is held up because use is above the hard mark.
        peak: The most bytes that were in flight at once.
        waits: How often a piece had to wait.
        splits: How many pieces were made smaller before loading.
        cuts: How many were cut while loading.
        revoked: How many were given up, to be loaded again.
        parks: How often use went above the hard mark.
        last: How many were loaded alone, above the soft mark.
        reliefs: How often garbage collection was asked for.
        events: The latest changes of what may be loaded, with their reasons, the oldest first.
    """

    limit: int | None
    used: int
    source: str
    promised: int
    loading: int
    ready: int
    held: int
    in_flight: int
    in_flight_allowed: int
    room: int
    parked: bool
    peak: int
    waits: int
    splits: int
    cuts: int
    revoked: int
    parks: int
    last: int
    reliefs: int
    events: tuple[Event, ...] = ()
