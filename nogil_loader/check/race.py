"""Reads in two threads of which one is stopped in the middle of its call: finds races without luck.

For each place in the code of a call (see `places`): one thread is stopped there, another one does whole calls,
then the first one goes on. What both return has to be what they return alone.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from nogil_loader.check.crew import Crew, Hand, Report
from nogil_loader.check.crossing import Crossing, Loss, Stall, Tally, Twice
from nogil_loader.check.fresh import Fresh
from nogil_loader.check.outcome import Hung, Seen
from nogil_loader.check.places import Stop
from nogil_loader.check.reading import Reader, Within
from nogil_loader.check.serial import ONE_DRAW, SerialReadings
from nogil_loader.check.states import States
from nogil_loader.check.trials import Trial, TrialPlan
from nogil_loader.check.twin import state_of

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
        twice: Handles that two calls opened, by the way to them.
        stalls: Calls that never returned.
        places: How many places were chosen.
        tried: How many of them were tried.
        lines: Lines of Python that a call runs, roughly, on average.
    """

    tally: Tally = field(default_factory=Tally)
    losses: dict[str, Loss] = field(default_factory=dict)
    twice: dict[str, Twice] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    places: int = 0
    tried: int = 0
    lines: float = 0.0


class Race:
    """Makes the trials.

    Args:
        reader: Reads the items.
        crew: At least two threads.
        serial: What came of reading one at a time.
        fresh: Makes datasets that have not been called yet; None if there can be none.
        seed: Of the order of the trials.
        clock: Seconds from any start.
    """

    def __init__(
        self,
        reader: Reader,
        crew: Crew,
        serial: SerialReadings,
        fresh: Fresh | None,
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
        plan = TrialPlan(self._read, self._serial, self._fresh, self._home())
        groups = list(plan.groups(positions)) if positions else []
        self._found.lines = plan.lines
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

    def _home(self) -> str:
        method = getattr(type(self._reader.subject.dataset), "__getitem__", None)
        return str(getattr(getattr(method, "__code__", None), "co_filename", ""))

    # One trial

    def _try(self, trial: Trial) -> None:
        with self._lent(trial.on_twin) as dataset:
            if not trial.is_warm or self._read(trial.position, dataset) is not None:
                self._overlap(trial, dataset)

    def _overlap(self, trial: Trial, dataset: Any) -> None:
        crew, first, other = self._crew, self._crew.hands[0], self._crew.hands[1]
        stop = Stop(trial.place, lambda: first.say(0, None), 2 * crew.seconds)
        first_job = crew.begin(first, lambda hand: [self._call(hand, trial.position, dataset, stop.watch)])
        report = crew.next_report(crew.seconds)
        if report is None or report.is_end:  # it never came to that place
            results = {first: report.result} if report else self._collect({first_job: first})
            self._note(results, trial, is_alone=True)
            return
        states = self._reader.randomness.read() if self._draws else {}
        other_job = crew.begin(
            other, lambda hand: [self._call(hand, each, dataset) for each in trial.partners]
        )
        report = self._wait_for(other, trial.partners)
        opened: dict[str, Any] = {}
        if report is not None:
            self._reader.randomness.write(states)
            if self._fresh is not None and dataset is not None:
                opened = self._fresh.handles(dataset)
        first.at = trial.position, time.monotonic()  # it was kept, it is not late
        stop.let_go()
        if report is not None:
            results = {other: report.result, **self._collect({first_job: first})}
        else:
            results = self._collect({first_job: first, other_job: other})
        self._note(results, trial, is_alone=False, is_apart=report is not None)
        if report is not None and dataset is not None and len(results) == 2:
            self._compare(trial, dataset, opened, stop.between)

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

    def _collect(self, pending: dict[int, Hand]) -> dict[Hand, list[Seen]]:
        def note(late: list[Hand]) -> None:
            at = tuple(hand.at[0] for hand in late if hand.at is not None)
            stacks = tuple(hand.stack() for hand in late)
            self._found.stalls.append(Stall(at, stacks, self._crew.seconds))

        return self._crew.collect(pending, note)

    def _note(
        self, results: dict[Hand, list[Seen]], trial: Trial, *, is_alone: bool, is_apart: bool = False
    ) -> None:
        place = "" if is_alone else trial.place.name
        for seen in itertools.chain.from_iterable(results.values()):
            partners: tuple[int, ...] = ()
            if not is_alone:
                partners = trial.partners if seen.position == trial.position else (trial.position,)
            self._found.tally.add(
                Crossing(seen.position, seen.outcome, 1, partners, place, is_alone or is_apart)
            )

    def _compare(self, trial: Trial, dataset: Any, opened: dict[str, Any], between: frozenset[str]) -> None:
        """Look at what two calls have left that overlapped on a fresh dataset."""
        if self._fresh is not None and opened:
            for path, what in self._fresh.lost(opened, dataset):
                self._found.twice.setdefault(path, Twice(path, what, trial.place.name))
        if not between or len(trial.partners) > 1:
            return
        before = (trial.position,) * trial.is_warm
        for path, reached, expected in self._states.losses(
            before, trial.position, trial.partners[0], dataset
        ):
            if path not in self._found.losses and _writes(between, path):
                self._found.losses[path] = Loss(path, reached, expected, trial.place.name)

    def _after(self, *positions: int) -> dict[str, float] | None:
        with self._lent(True) as dataset:
            done = [self._read(each, dataset) for each in positions]
            return None if None in done else state_of(dataset)

    def _lent(self, is_fresh: bool) -> AbstractContextManager[Any]:
        """Lend a fresh dataset for a block, or None, which stands for the dataset itself."""
        return self._fresh.lent() if is_fresh and self._fresh is not None else contextlib.nullcontext()

    # Calls

    def _read(self, position: int, dataset: Any, within: Within = contextlib.nullcontext) -> Seen | None:
        """Read an item alone; None if that hangs, which ends the trials."""
        hand = self._crew.hands[0]
        seen = self._crew.do(hand, lambda hand: self._call(hand, position, dataset, within))
        if isinstance(seen, Hung):
            self._found.stalls.append(Stall((position,), (seen.stack,), seen.seconds))
            return None
        assert isinstance(seen, Seen)
        return seen

    def _call(self, hand: Hand, position: int, dataset: Any, within: Within = contextlib.nullcontext) -> Seen:
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
