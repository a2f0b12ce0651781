"""What came of calls while other threads called the same dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nogil_loader.check.outcome import Outcome, Seen


@dataclass(frozen=True)
class Crossing:
    """One thing that came of an item, as often as it came.

    Attributes:
        position: Of the item.
        outcome: What came.
        count: How often.
        partners: Positions of the items that another thread read meanwhile, where that is known.
        place: The line of code where this thread, or the other one, was stopped meanwhile; empty if neither was.
        is_apart: Whether nobody else drew random numbers meanwhile.
    """

    position: int
    outcome: Outcome
    count: int = 1
    partners: tuple[int, ...] = ()
    place: str = ""
    is_apart: bool = False


@dataclass(frozen=True)
class Stall:
    """Calls that did not return while several threads read.

    Attributes:
        positions: Of the items that they were asked for.
        stacks: Where each of them was, innermost call last.
        seconds: How long they had.
    """

    positions: tuple[int, ...]
    stacks: tuple[tuple[str, ...], ...]
    seconds: float


@dataclass(frozen=True)
class Loss:
    """A count in the dataset that came out too low after two calls that overlapped.

    Attributes:
        path: The way to it from the dataset.
        reached: What it reached.
        expected: What it reaches when the calls come one after the other.
        place: The line of code between reading and writing it where one call was stopped.
    """

    path: str
    reached: float
    expected: float
    place: str


@dataclass(frozen=True)
class Twice:
    """A handle that two calls opened that overlapped; one of the two is lost.

    Attributes:
        path: The way to it from the dataset.
        what: What it is.
        place: The line of code where one call was stopped when the other one opened it.
    """

    path: str
    what: str
    place: str


@dataclass
class Tally:
    """Counts equal crossings instead of keeping each."""

    counts: dict[Crossing, int] = field(default_factory=dict)
    calls: int = 0

    def add(self, crossing: Crossing) -> None:
        """Count one."""
        self.calls += 1
        self.counts[crossing] = self.counts.get(crossing, 0) + 1

    def add_all(self, seen: Iterable[Seen]) -> None:
        """Count what one thread has seen."""
        for each in seen:
            self.add(Crossing(each.position, each.outcome))

    def crossings(self) -> Sequence[Crossing]:
        """Return each crossing once, with its count."""
        return [
            Crossing(each.position, each.outcome, count, each.partners, each.place, each.is_apart)
            for each, count in self.counts.items()
        ]
