"""Which places of which calls are tried, and what the other thread reads meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from nogil_loader.check.fresh import Fresh
from nogil_loader.check.outcome import Seen
from nogil_loader.check.places import Place, Profile, choose
from nogil_loader.check.reading import Within
from nogil_loader.check.serial import SerialReadings

# Places tried of one kind of call.
_MOST_PLACES = 80
# Items whose code is looked at, evenly spread from the first to the last, as long as it takes no longer than this.
_PROFILED = 48
_PROFILE_SECONDS = 1.5
# Time for the calls of the other thread in a burst: for as many items as there are, if they are quick, so that
# caches overflow meanwhile. What a call takes beside the dataset's own time counts too.
_BURST_SECONDS = 0.012
_CALL_SECONDS = 6e-5
_LEAST_BURST = 3


@dataclass(frozen=True)
class Trial:
    """One thread is stopped at a place in reading an item, another one reads the partners."""

    position: int
    place: Place
    partners: tuple[int, ...]
    on_twin: bool
    is_warm: bool


class Read(Protocol):
    """Reads an item alone; returns None if that hangs."""

    def __call__(self, position: int, dataset: Any, within: Within = ..., /) -> Seen | None:
        """Read it."""


class TrialPlan:
    """Plans trials.

    Args:
        read: Reads an item alone.
        serial: What came of reading one at a time.
        fresh: Makes datasets that have not been called yet; None if there can be none.
        home: The file that the dataset's code is in.

    Attributes:
        lines: Lines of Python that a call runs, roughly, on average.
    """

    def __init__(self, read: Read, serial: SerialReadings, fresh: Fresh | None, home: str) -> None:
        self._read = read
        self._serial = serial
        self._fresh = fresh
        self._home = home
        self.lines = 0.0

    def groups(self, positions: Sequence[int]) -> Iterator[list[Trial]]:
        """Yield groups of trials for items of one kind, at least one."""
        few = min(_PROFILED, len(positions))
        picked = [positions[at * (len(positions) - 1) // max(1, few - 1)] for at in range(few)]
        has_twins = self._fresh is not None
        burst = self._burst_of(positions)
        for is_warm in (False, True) if has_twins else (True,):
            places = self._profile(picked, is_warm=is_warm)
            beside = {each: self._beside(positions, each, 1) for each, _ in places}
            yield [Trial(at, place, beside[at], has_twins, is_warm) for at, place in places]
            if is_warm:
                yield [Trial(at, place, burst, has_twins, is_warm) for at, place in places]
            else:
                yield [Trial(at, place, (at,), has_twins, is_warm) for at, place in places]
                yield [
                    Trial(at, place, self._afar(positions, at), has_twins, is_warm) for at, place in places
                ]
        if has_twins:  # the dataset itself, as it has become by all the calls
            before = {each: self._beside(positions, each, -1) for each, _ in places}
            yield [Trial(at, place, before[at], False, True) for at, place in places]

    def _beside(self, positions: Sequence[int], position: int, step: int) -> tuple[int, ...]:
        at = positions.index(position) + step
        if not 0 <= at < len(positions):
            at -= 2 * step
        return (positions[at] if 0 <= at < len(positions) else position,)

    def _afar(self, positions: Sequence[int], position: int) -> tuple[int, ...]:
        """Return the end that is far from an item, the item itself, and the end that is near."""
        far, near = positions[-1], positions[0]
        if 2 * positions.index(position) >= len(positions):
            far, near = near, far
        return far, position, near

    def _burst_of(self, positions: Sequence[int]) -> tuple[int, ...]:
        mean = sum(self._serial.first[each].seconds for each in positions) / len(positions)
        count = max(_LEAST_BURST, min(len(positions), int(_BURST_SECONDS / (mean + _CALL_SECONDS))))
        return tuple(positions[at * len(positions) // count] for at in range(count))

    def _profile(self, positions: Sequence[int], *, is_warm: bool) -> list[tuple[int, Place]]:
        """Return places of the calls of some items, each with an item whose call passes it."""
        passing: dict[Place, list[int]] = {}
        lines: list[float] = []
        deadline = time.monotonic() + _PROFILE_SECONDS
        for position in positions:
            if lines and time.monotonic() > deadline:
                break
            profile = Profile()
            with self._fresh.lent() if self._fresh is not None else nullcontext() as dataset:
                if is_warm and self._read(position, dataset) is None:
                    break
                if self._read(position, dataset, profile.watch) is None:
                    break
            lines.append(profile.lines)
            for place in profile.places():
                passing.setdefault(place, []).append(position)
        self.lines = sum(lines) / len(lines) if lines else 0.0
        chosen = choose(list(passing), _MOST_PLACES, self._home)
        return [(passing[place][at % len(passing[place])], place) for at, place in enumerate(chosen)]
