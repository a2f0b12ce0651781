"""Everything that was seen of a dataset, before anybody has judged it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from nogil_loader.check.crossing import Crossing, Loss, Stall, Twice
from nogil_loader.check.ends import Ends
from nogil_loader.check.fingerprint import Fingerprint
from nogil_loader.check.item import Item, Kind
from nogil_loader.check.outcome import Seen, Value
from nogil_loader.check.serial import SerialReadings


@dataclass(frozen=True)
class Load:
    """What a loader would have in flight.

    Attributes:
        batch_size: Samples of a batch.
        batches: How many batches at most.
        room: Bytes that may be used for them now.
        source: Who says so.
    """

    batch_size: int
    batches: int
    room: int
    source: str


@dataclass(frozen=True)
class Evidence:
    """What was seen.

    Attributes:
        name: Of the dataset's class.
        items: What was asked for, by position.
        length: What ``len()`` says; None if nothing.
        serial: What came of reading one at a time.
        crossings: What came while other threads read.
        stalls: Calls that did not return then.
        losses: Counts that came out too low.
        twice: Handles that two calls opened.
        again: What came of reading one at a time afterwards.
        ends: Where the samples end; None if that was not looked at.
        handles: Open files and the like that it holds: the way there and what it is.
        has_hint: Whether it tells sizes beforehand.
        collates: Whether batches are made by the default collate function, as far as is known.
        load: What a loader would have in flight; None if that is not known.
    """

    name: str
    items: Sequence[Item]
    serial: SerialReadings
    length: int | None = None
    crossings: Sequence[Crossing] = ()
    stalls: Sequence[Stall] = ()
    losses: Sequence[Loss] = ()
    twice: Sequence[Twice] = ()
    again: Mapping[int, Seen] = field(default_factory=dict)
    ends: Ends | None = None
    handles: Sequence[tuple[str, str]] = ()
    has_hint: bool = False
    collates: bool = True
    load: Load | None = None

    def key(self, position: int) -> Hashable:
        """Return the key of a sample."""
        return self.items[position].keys[0]

    def positions(self, kind: Kind) -> list[int]:
        """Return the positions of all items of a kind that were read."""
        return [position for position in self.serial.first if self.items[position].kind == kind]

    def samples(self) -> list[tuple[int, Fingerprint]]:
        """Return positions and fingerprints of the samples that could be read."""
        found = []
        for position in self.positions("sample"):
            seen = self.reading(position)
            if isinstance(seen.outcome, Value):
                found.append((position, seen.outcome.prints[0]))
        return found

    def reading(self, position: int) -> Seen:
        """Return what came of an item read alone: in the caller's thread if it came only there."""
        first, here = self.serial.first[position], self.serial.caller.get(position)
        if here is not None and isinstance(here.outcome, Value) and not isinstance(first.outcome, Value):
            return here
        return first
