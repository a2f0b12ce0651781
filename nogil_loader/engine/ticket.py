"""A ticket and the states it goes through: *planned → leased → ready → delivered*, or emptied, or failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from nogil_loader.engine.outcome import UNWEIGHED, Failure, Weight


class Skip(NamedTuple):
    """A sample that is left out of a ticket.

    Attributes:
        position: Its place in the epoch's order.
        key: Its key in the dataset.
        failure: Why.
    """

    position: int
    key: Any
    failure: Failure


@dataclass(frozen=True, slots=True)
class Ticket:
    """One slice of the plan, as handed to a worker.

    Attributes:
        number: The batch's number in the epoch.
        start: Position of the first sample in the epoch's order.
        span: Positions covered; ``len(keys)`` plus what was skipped.
        keys: Dataset keys to load.
        samples: The samples themselves where a reader has read them already, parallel to ``keys``.
        rebuilds: How often it was loaded again on a rebuilt worker.
        memory_retries: How often it was tried again after a MemoryError.
        isolate: Load sample by sample, because it is not known which one fails.
        skips: Samples left out of it.
    """

    number: int
    start: int
    span: int
    keys: list[Any]
    samples: list[Any] | None = None
    rebuilds: int = 0
    memory_retries: int = 0
    isolate: bool = False
    skips: tuple[Skip, ...] = ()

    def position(self, offset: int) -> int:
        """The place in the epoch's order of ``keys[offset]``."""
        gone = {skip.position for skip in self.skips}
        here = [place for place in range(self.start, self.start + self.span) if place not in gone]
        return here[offset]

    def planned_keys(self) -> list[Any]:
        """The keys of all positions, those that were skipped included."""
        if not self.skips:
            return self.keys
        gone = {skip.position: skip.key for skip in self.skips}
        rest = iter(self.keys)
        places = range(self.start, self.start + self.span)
        return [gone[place] if place in gone else next(rest) for place in places]

    def cut(self, offset: int) -> tuple[Ticket, Ticket]:
        """Two tickets that cover the same positions, the second one from ``keys[offset]`` on."""
        middle = self.position(offset)
        samples = self.samples
        head = replace(
            self,
            span=middle - self.start,
            keys=self.keys[:offset],
            samples=samples and samples[:offset],
            skips=tuple(skip for skip in self.skips if skip.position < middle),
        )
        tail = replace(
            self,
            start=middle,
            span=self.start + self.span - middle,
            keys=self.keys[offset:],
            samples=samples and samples[offset:],
            skips=tuple(skip for skip in self.skips if skip.position >= middle),
        )
        return head, tail

    def without(self, offset: int, failure: Failure) -> Ticket:
        """The ticket without one sample; what is left gets all its attempts anew."""
        samples = self.samples
        skip = Skip(self.position(offset), self.keys[offset], failure)
        return replace(
            self,
            keys=self.keys[:offset] + self.keys[offset + 1 :],
            samples=samples and samples[:offset] + samples[offset + 1 :],
            rebuilds=0,
            memory_retries=0,
            isolate=False,
            skips=tuple(sorted((*self.skips, skip), key=lambda one: one.position)),
        )


class Planned(NamedTuple):
    """Waits for a worker."""

    ticket: Ticket


class Lease:
    """A worker's right to hand in an outcome for a ticket; void as soon as the ledger holds another entry.

    Each lease is a new object, so its identity is the ticket's generation: whoever comes back with an old one
    is told so, and the outcome is thrown away.
    """

    __slots__ = ("ticket", "worker")

    def __init__(self, ticket: Ticket, worker: Any) -> None:
        self.ticket = ticket
        self.worker = worker


class Ready(NamedTuple):
    """Loaded, waits for its turn."""

    ticket: Ticket
    batch: Any
    weight: Weight = UNWEIGHED


class Emptied(NamedTuple):
    """Every sample was skipped: nothing to deliver, but its positions are accounted for."""

    ticket: Ticket


class Failed(NamedTuple):
    """Given up on; the epoch ends here."""

    ticket: Ticket | None
    failure: Failure
    why: str = ""


class Progress(NamedTuple):
    """What was delivered so far."""

    delivered: int = 0
    skipped: int = 0
    batches: int = 0


class Verdict(Enum):
    """What follows from a failure."""

    STALE = "the lease was void: throw the outcome away"
    RETRY = "load it again; the worker is not to blame"
    REBUILD = "a fresh worker has to take the place"
    FATAL = "the epoch ends with this failure"


Entry = Planned | Lease | Ready | Emptied | Failed
