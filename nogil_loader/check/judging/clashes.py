"""Finds what should not have come while other threads read, and whose value it was. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.check.advice import is_pythons_own
from nogil_loader.check.crossing import Crossing
from nogil_loader.check.difference import Difference, tell_difference
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.fingerprint import Fingerprint
from nogil_loader.check.outcome import Raised, Value


@dataclass(frozen=True)
class Clash:
    """A crossing that should not be.

    Attributes:
        crossing: What came.
        difference: From what should have come; None if it raised.
        owner: Position of the item whose value it is, or whose part it has; None if it is nobody's.
    """

    crossing: Crossing
    difference: Difference | None = None
    owner: int | None = None


def find_clashes(evidence: Evidence) -> list[Clash]:
    """Return the crossings that should not be."""
    owners = _Owners(evidence)
    clashes = []
    for crossing in evidence.crossings:
        outcome = crossing.outcome
        if isinstance(outcome, Raised):
            if not (is_pythons_own(outcome) or _raises_alone(evidence, crossing.position, outcome)):
                clashes.append(Clash(crossing))
        elif isinstance(outcome, Value):
            difference = _difference(evidence, crossing, outcome)
            if difference is None:
                continue
            owner = owners.of(crossing, outcome, difference)
            if owner is None and difference.is_rounding:
                continue
            clashes.append(Clash(crossing, difference, owner))
    return clashes


def _difference(evidence: Evidence, crossing: Crossing, came: Value) -> Difference | None:
    """Return how a value differs from what should have come, None if it need not be the same."""
    serial = evidence.serial
    first = serial.first[crossing.position].outcome
    habit = serial.habits.get(crossing.position)
    if not isinstance(first, Value) or first.prints == came.prints or habit is None:
        return None
    if habit == "steady" or (habit == "random" and crossing.is_apart):
        return came.difference or tell_difference(first.prints, came.prints)
    second = serial.second[crossing.position].outcome
    if (
        not isinstance(second, Value)
        or first.structure != second.structure
        or came.structure == first.structure
    ):
        return None
    return tell_difference(first.prints, came.prints)


def _raises_alone(evidence: Evidence, position: int, raised: Raised) -> bool:
    serial = evidence.serial
    readings = (serial.first.get(position), serial.second.get(position))
    return any(seen is not None and seen.outcome == raised for seen in readings)


class _Owners:
    """Knows which item a value belongs to."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._wholes: dict[tuple[Fingerprint, ...], int] = {}
        self._parts: dict[tuple[str, bytes], list[int]] = {}
        for position, seen in evidence.serial.first.items():
            if not isinstance(seen.outcome, Value) or evidence.items[position].kind == "size":
                continue
            self._wholes.setdefault(seen.outcome.prints, position)
            if evidence.items[position].kind == "sample":
                for leaf in seen.outcome.prints[0].leaves:
                    self._parts.setdefault((leaf.path, leaf.digest), []).append(position)

    def of(self, crossing: Crossing, came: Value, difference: Difference) -> int | None:
        """Return the position of the item that a wrong value, or a wrong part of it, belongs to."""
        kinds = self._evidence.items
        for partner in crossing.partners:  # whoever read meanwhile is the likeliest
            seen = self._evidence.serial.first[partner]
            if isinstance(seen.outcome, Value) and seen.outcome.prints == came.prints != ():
                return partner
        whole = self._wholes.get(came.prints)
        if whole is not None and kinds[whole].kind == kinds[crossing.position].kind:
            return whole
        if kinds[crossing.position].kind != "sample":
            return None
        for leaf in came.prints[0].leaves:
            if leaf.path in difference.paths and leaf.digest:
                found = self._parts.get((leaf.path, leaf.digest), [])
                # What many samples have in common belongs to none of them.
                if found and crossing.position not in found and len(found) <= max(1, len(kinds) // 4):
                    return found[0]
        return None
