"""Reads in two threads of which one is stopped in the middle of its call: finds races without luck.

For each place in the code of a call (see `places`): one thread is stopped there, another one does whole calls,
then the first one goes on. What both return has to be what they return alone.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nogil_loader.check.crew import Crew, Hand, Report
from nogil_loader.check.crossing import Crossing, Loss, Stall, Tally
from nogil_loader.check.outcome import Hung, Seen
from nogil_loader.check.places import Place, Profile, Stop, choose
from nogil_loader.check.reading import Reader
from nogil_loader.check.serial import ONE_DRAW, SerialReadings
from nogil_loader.check.states import States

_Within: TypeAlias = Callable[[], AbstractContextManager[object]]

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
# Time for all of it, if samples are slow; so many trials are made in any case.
_MOST_SECONDS = 12.0
_LEAST_TRIALS = 40
# How long the other thread may take, beside three times what its calls take alone, until it is looked at whether
# it waits for the stopped one, as it does for a lock; and how long it may take in any case.
_PATIENCE = 0.002
_MOST_PATIENCE = 0.5


@dataclass
class RaceFindings:
    """What came of it.

    Attributes:
        tally: What came of each call.
        losses: Counts that came out too low, by the way to them.
        stalls: Calls that never returned.
        places: How many places were chosen.
        tried: How many of them were tried.
        lines: Lines of Python that a call runs, roughly, on average.
    """

    tally: Tally = field(default_factory=Tally)
    losses: dict[str, Loss] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    places: int = 0
    tried: int = 0
    lines: float = 0.0


@dataclass(frozen=True)
class _Trial:
    """One thread is stopped at a place in reading an item, another one reads the partners."""

    position: int
    place: Place
    partners: tuple[int, ...]
    on_twin: bool
    is_warm: bool


class Race:
    """Makes the trials.

    Args:
        reader: Reads the items.
        crew: At least two threads.
        serial: What came of reading one at a time.
        fresh: Makes a dataset that has not been called yet; None if there can be none.
        seed: Of the order of the trials.
        clock: Seconds from any start.
    """

    def __init__(
        self,
        reader: Reader,
        crew: Crew,
        serial: SerialReadings,
        fresh: Callable[[], Any] | None,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._crew = crew
        self._serial = serial
        self._fresh = fresh
        self._rng = random.Random(seed)
        self._clock = clock
        self._found = RaceFindings()
        self._draws = "random" in serial.habits.values()
        self._states = States(self._after)

    def run(self, positions: Sequence[int]) -> RaceFindings:
        """Try the places in the calls of some items, all of one kind."""
        groups = list(self._plan(positions)) if positions else []
        self._found.places = len({(trial.place, trial.position) for group in groups for trial in group})
        for group in groups:
            self._rng.shuffle(group)  # so that the time is spent evenly, should it not be enough
        trials = [each for row in itertools.zip_longest(*groups) for each in row if each is not None]
        deadline = self._clock() + _MOST_SECONDS
        tried = set()
        for number, trial in enumerate(trials):
            if self._found.stalls or (number >= _LEAST_TRIALS and self._clock() > deadline):
                break
            self._try(trial)
            tried.add((trial.place, trial.position))
        self._found.tried = len(tried)
        return self._found

    # What to try

    def _plan(self, positions: Sequence[int]) -> Iterator[list[_Trial]]:
        """Yield groups of trials."""
        few = min(_PROFILED, len(positions))
        picked = [positions[at * (len(positions) - 1) // max(1, few - 1)] for at in range(few)]
        has_twins = self._fresh is not None
        burst = self._burst_of(positions)
        for is_warm in (False, True) if has_twins else (True,):
            places = self._profile(picked, is_warm=is_warm)
            beside = {each: self._beside(positions, each, 1) for each, _ in places}
            yield [_Trial(at, place, beside[at], has_twins, is_warm) for at, place in places]
            if is_warm:
                yield [_Trial(at, place, burst, has_twins, is_warm) for at, place in places]
            else:
                yield [
                    _Trial(at, place, self._afar(positions, at), has_twins, is_warm) for at, place in places
                ]
        if has_twins:  # the dataset itself, as it has become by all the calls
            before = {each: self._beside(positions, each, -1) for each, _ in places}
            yield [_Trial(at, place, before[at], False, True) for at, place in places]

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
        deadline = self._clock() + _PROFILE_SECONDS
        for position in positions:
            if lines and self._clock() > deadline:
                break
            dataset = None if self._fresh is None else self._fresh()
            if is_warm and self._read(position, dataset) is None:
                break
            profile = Profile()
            if self._read(position, dataset, profile.watch) is None:
                break
            lines.append(profile.lines)
            for place in profile.places():
                passing.setdefault(place, []).append(position)
        self._found.lines = sum(lines) / len(lines) if lines else 0.0
        chosen = choose(list(passing), _MOST_PLACES, self._home())
        return [(passing[place][at % len(passing[place])], place) for at, place in enumerate(chosen)]

    def _home(self) -> str:
        method = getattr(type(self._reader.subject.dataset), "__getitem__", None)
        return str(getattr(getattr(method, "__code__", None), "co_filename", ""))

    # One trial

    def _try(self, trial: _Trial) -> None:
        crew, first, other = self._crew, self._crew.hands[0], self._crew.hands[1]
        dataset = self._fresh() if trial.on_twin and self._fresh is not None else None
        if trial.is_warm and self._read(trial.position, dataset) is None:
            return
        stop = Stop(trial.place, lambda: first.say(0, None), 2 * crew.seconds)
        first_job = crew.begin(first, lambda hand: [self._call(hand, trial.position, dataset, stop.watch)])
        report = crew.next_report(crew.seconds)
        if report is None or report.is_end:  # it never came to that place
            results = {first: report.result} if report else self._collect({first_job: first}, trial)
            self._note(results, trial, is_alone=True)
            return
        states = self._reader.randomness.read() if self._draws else {}
        other_job = crew.begin(
            other, lambda hand: [self._call(hand, each, dataset) for each in trial.partners]
        )
        report = self._wait_for(other, trial.partners)
        if report is not None:
            self._reader.randomness.write(states)
        first.at = trial.position, time.monotonic()  # it was kept, it is not late
        stop.let_go()
        if report is not None:
            results = {other: report.result, **self._collect({first_job: first}, trial)}
        else:
            results = self._collect({first_job: first, other_job: other}, trial)
        self._note(results, trial, is_alone=False, is_apart=report is not None)
        if report is not None and dataset is not None and len(trial.partners) == 1 and len(results) == 2:
            self._compare_states(trial, dataset, stop.between)

    def _wait_for(self, hand: Hand, partners: Sequence[int]) -> Report | None:
        """Wait until a hand is done while the other one is stopped; None if it waits for that one."""
        alone = sum(self._serial.first[each].seconds for each in partners)
        report = self._crew.next_report(_PATIENCE + 3 * alone)
        deadline = self._clock() + _MOST_PATIENCE
        before: object = None
        while report is None and self._clock() < deadline:
            spot = hand.spot()
            if hand.is_asleep() and spot == before:
                break
            before = spot
            report = self._crew.next_report(_PATIENCE)
        return report

    def _collect(self, pending: dict[int, Hand], trial: _Trial) -> dict[Hand, list[Seen]]:
        def note(late: list[Hand]) -> None:
            at = tuple(hand.at[0] for hand in late if hand.at is not None)
            stacks = tuple(hand.stack() for hand in late)
            self._found.stalls.append(Stall(at, stacks, self._crew.seconds))

        return self._crew.collect(pending, note)

    def _note(
        self, results: dict[Hand, list[Seen]], trial: _Trial, *, is_alone: bool, is_apart: bool = False
    ) -> None:
        place = "" if is_alone else trial.place.name
        for seen in itertools.chain.from_iterable(results.values()):
            partners: tuple[int, ...] = ()
            if not is_alone:
                partners = trial.partners if seen.position == trial.position else (trial.position,)
            self._found.tally.add(
                Crossing(seen.position, seen.outcome, 1, partners, place, is_alone or is_apart)
            )

    def _compare_states(self, trial: _Trial, dataset: Any, between: frozenset[str]) -> None:
        if not between:
            return
        before = (trial.position,) * trial.is_warm
        for path, reached, expected in self._states.losses(
            before, trial.position, trial.partners[0], dataset
        ):
            if path not in self._found.losses and _writes(between, path):
                self._found.losses[path] = Loss(path, reached, expected, trial.place.name)

    def _after(self, *positions: int) -> Any:
        dataset = None if self._fresh is None else self._fresh()
        done = [self._read(each, dataset) for each in positions]
        return None if None in done else dataset

    # Calls

    def _read(self, position: int, dataset: Any, within: _Within = contextlib.nullcontext) -> Seen | None:
        """Read an item alone; None if that hangs, which ends the trials."""
        hand = self._crew.hands[0]
        seen = self._crew.do(hand, lambda hand: self._call(hand, position, dataset, within))
        if isinstance(seen, Hung):
            self._found.stalls.append(Stall((position,), (seen.stack,), seen.seconds))
            return None
        assert isinstance(seen, Seen)
        return seen

    def _call(
        self, hand: Hand, position: int, dataset: Any, within: _Within = contextlib.nullcontext
    ) -> Seen:
        return self._reader.read(
            hand,
            position,
            dataset=dataset,
            draw=ONE_DRAW if self._draws else None,
            expected=self._serial.first[position].outcome,
            within=within,
        )


def _writes(between: frozenset[str], path: str) -> bool:
    """Whether what is being written is what a path leads to."""
    if path.endswith("]") or path.startswith("sum("):
        return "[]" in between
    return path.rstrip(")").rpartition(".")[2] in between
