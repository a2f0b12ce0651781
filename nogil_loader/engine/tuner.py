"""What ``num_workers="auto"`` and ``prefetch_factor="auto"`` do: find the setting that loads fastest, by trying.

Nobody can tell from a dataset how many threads serve it best. Compiled kernels want as many as there are cores,
Python that holds the GIL wants one, and waiting for a disk or a network wants dozens. So the tuner starts with the
core count and, when there is cause, tries. It is pure: it is told what intervals of an epoch measured, and says
which setting to use in the next one.

* Nothing is tried unless the consumer waits for data: a loader that keeps up is fast enough.
* A change has to gain something, shown by intervals of both settings that take turns (`Trial`). Among settings
  that are about as fast the one nearest to the core count is taken, and the present one among those below it.
* What is tried next follows from what was found (`climb`).
* Then it settles. It looks again when the rate shifts by `SHIFT`, and otherwise after rests that double.
* Trying costs little: while settings are only tried, the consumer waits for no longer than a `Purse` allows.
* While memory is tight nothing is tried, and a trial ends at once.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

from nogil_loader.engine.climb import climb
from nogil_loader.engine.purse import Purse
from nogil_loader.engine.trial import Noise, Trial
from nogil_loader.engine.tuning import Axis, Interval, Setting, TuningEvent, capacity_of, in_words

#: Shares of its time from which on the consumer waits for data, and below which the loader keeps up.
WAITS = 0.05
KEEPS_UP = 0.02
#: Change of the rate's logarithm that starts another search: a quarter more or a fifth less.
SHIFT = math.log(1.25)
#: Seconds until the next search while nothing shifts, after one that changed something, and the most. They double
#: with each search that changes nothing.
FIRST_REST = 120.0
LAST_REST = 1920.0
#: Intervals in a row without tight memory after which a search that it ended begins anew. They double, too.
CALM = 8
LAST_CALM = 1024
#: The largest ``prefetch_factor`` to try. Beyond it a single slow batch is hidden by more workers at less memory.
MOST_PREFETCH = 16
# An interval takes so many seconds (at rest, where nothing is urgent, more) and so many batches, but of a slow
# loader no more batches than two rounds of its workers.
_INTERVAL = 0.3
_RESTING_INTERVAL = 1.0
_BATCHES = 10
_SLOW = 2.0
_ROUNDS = 8
# How many intervals show that the consumer waits, and how many give a rate of which one outlier is no part.
_EVIDENCE = 4
_LEVEL = 5
# The part of the purse without which no search begins, after a shift or a rest: it would end before it found much.
_SHIFT_PURSE = 0.25
_REST_PURSE = 0.5
# What is taken for the rate at rest follows a slow drift, within so many intervals.
_FORGET = 100
# An interval without waiting that brought less than this share is a pause of the consumer's, a checkpoint being
# saved, say. After so many of them the consumer is what takes the time.
_PAUSE_RATE = 0.7
_PAUSES = 5
_EVENTS = 100

_T = TypeVar("_T")
# A part of tuning: yields the setting to use next, and is sent what an interval with it measured.
_Course = Generator[Setting, Interval, _T]


class _GivenUp(Exception):
    """The search ends with what is in use."""


class _MemoryTight(Exception):
    """Whatever is tried ends, until there is memory again."""


class Tuner:
    """Tunes one loader, over all its epochs.

    Whoever measures counts batches and seconds from the moment when a setting is in use, and asks after each batch
    whether that is `enough`. If so it tells `observe` what it measured and uses the setting that it gets for the
    next interval. An epoch in which everything starts up anew is announced (`begin_epoch`), and what was counted
    before it is dropped.

    Args:
        start: Workers to begin with.
        most: The most workers to try.
        least: The fewest.
        prefetch: Batches ahead per worker to begin with.
        most_prefetch: The most of them to try.
        tunes_workers: Whether the number of workers may be changed.
        tunes_prefetch: Whether the batches ahead may be.

    Attributes:
        setting: What is in use, be it for a trial.
        kept: What was found best so far.
        seconds: How long has been observed.
        purse: What trying has cost, and may cost still.
        settled: Whether nothing is being looked for.
    """

    def __init__(
        self,
        *,
        start: int,
        most: int,
        least: int = 1,
        prefetch: int = 2,
        most_prefetch: int = MOST_PREFETCH,
        tunes_workers: bool = True,
        tunes_prefetch: bool = False,
    ) -> None:
        self.kept = self.setting = Setting(start, prefetch)
        self.seconds = 0.0
        self.settled = False
        self._ranges: dict[Axis, tuple[int, int]] = {}
        if tunes_workers:
            self._ranges["num_workers"] = (min(least, start), max(start, most))
        if tunes_prefetch:
            self._ranges["prefetch_factor"] = (prefetch, max(prefetch, most_prefetch))
        self._events: deque[TuningEvent] = deque(maxlen=_EVENTS)
        self._noise = Noise()
        self.purse = Purse()
        self._home: dict[Axis, int] = {"num_workers": start, "prefetch_factor": prefetch}
        self._rest_seconds = FIRST_REST / 2
        self._shift = SHIFT
        self._calm = CALM
        self._fewer_first = True
        # Batches that were on their way when the setting changed or the epoch began; None once they are through.
        self._leftover: int | None = start
        self._latest = Interval(1.0, 0, 0.0)
        self._axis: Axis = next(iter(self._ranges), "num_workers")
        self._course = self._tune()
        next(self._course)

    @property
    def events(self) -> tuple[TuningEvent, ...]:
        """The latest of what was tried and changed."""
        return tuple(self._events)

    def enough(self, batches: int, seconds: float) -> bool:
        """Whether an interval of so many batches and seconds may end here.

        Workers that began together deliver together, again and again, so an interval has whole rounds of them, or
        so many that a part of one hardly counts.
        """
        if self._leftover is not None:
            return batches >= self._leftover
        workers = self.setting.num_workers
        least = _RESTING_INTERVAL if self.settled else _INTERVAL
        rounds = (batches % workers == 0 and batches > 0) or batches >= _ROUNDS * workers
        return rounds and seconds >= least and (batches >= _BATCHES or seconds >= _SLOW)

    def begin_epoch(self) -> None:
        """Note that an epoch begins: in its first interval everything starts up."""
        self._leftover = self.setting.num_workers

    def observe(self, interval: Interval) -> Setting:
        """Take in what an interval with `setting` measured; return the setting for the next one."""
        self.seconds += interval.seconds
        if self.setting == self.kept:
            self.purse.earn(interval.seconds)
        else:
            self.purse.spend(interval.seconds * interval.wait_share)
        transient, self._leftover = self._leftover is not None, None
        larger = capacity_of(self.setting) > capacity_of(self.kept)
        # What the governor holds back after a step down is what there is too much of.
        if transient and not (interval.memory_tight and larger):
            return self.setting
        used, self.setting = self.setting, self._course.send(interval)
        if self.setting != used:
            # Where the loader keeps up, all that it may have ahead is there.
            ahead = used.prefetch_factor if interval.wait_share < KEEPS_UP else 0
            self._leftover = max(used.num_workers * (1 + ahead), self.setting.num_workers)
        return self.setting

    # The course of tuning

    def _tune(self) -> _Course[None]:
        while True:
            yield from self._wait_for_cause()
            before = self.kept
            try:
                yield from self._search()
                self._calm = CALM
                outcome = "nothing else that was tried loads faster"
            except _MemoryTight:
                self._tell(self._value, f"memory is tight; stays with {self._found}")
                yield from self._wait_for_calm()
                continue
            except _GivenUp as given_up:
                outcome = str(given_up)
            busy = self._latest.cpu_share
            cpus = "" if busy is None else f" (the process keeps {busy:.1f} CPUs busy)"
            self._tell(self._value, f"settled on {self._found}{cpus}: {outcome}")
            if self.kept != before:
                self._rest_seconds, self._shift = FIRST_REST, SHIFT
            else:
                self._rest_seconds, self._shift = min(LAST_REST, 2 * self._rest_seconds), 1.25 * self._shift
            self.settled = True
            yield from self._rest()
            self.settled = False

    def _wait_for_cause(self) -> _Course[None]:
        """Watch until the consumer waits for data."""
        latest: deque[Interval] = deque(maxlen=_EVIDENCE)
        while len(latest) < _EVIDENCE or statistics.fmean(one.wait_share for one in latest) < WAITS:
            interval = yield self.kept
            if interval.memory_tight:
                latest.clear()
                continue
            if latest:
                self._noise.learn(math.log(interval.rate / latest[-1].rate))
            latest.append(interval)
        self._latest = latest[-1]
        self.purse.fit(statistics.fmean(one.seconds for one in latest))
        waits = statistics.fmean(one.wait_share for one in latest)
        self._tell(
            self._value, f"the consumer waits for data {waits:.0%} of its time: trying what loads faster"
        )

    def _wait_for_calm(self) -> _Course[None]:
        """Wait until memory has not been tight for a while, longer each time."""
        calm = 0
        while calm < self._calm:
            interval = yield self.kept
            calm = 0 if interval.memory_tight else calm + 1
        self._calm = min(2 * self._calm, LAST_CALM)

    def _search(self) -> _Course[None]:
        """Look for the best value on each axis, beginning with the other direction than the last time."""
        self._fewer_first = not self._fewer_first
        for axis, (least, most) in self._ranges.items():
            self._axis = axis
            way = climb(
                self._value, least=least, most=most, home=self._home[axis], fewer_first=self._fewer_first
            )
            with contextlib.suppress(StopIteration):
                candidate = next(way)
                while True:
                    candidate = way.send((yield from self._try(*candidate)))

    def _try(self, value: int, by: float) -> _Course[Trial]:
        """Compare what is in use with another value of the axis, and use that if it is faster by so much.

        Raises:
            _GivenUp: The loader keeps up, or enough was spent.
            _MemoryTight: The governor holds the loader back.
        """
        kept, other = self.kept, replace(self.kept, **{self._axis: value})
        if self.setting != kept or self._latest.memory_tight:
            self._latest = yield from self._measure(kept)
        if self._latest.wait_share < KEEPS_UP:
            raise _GivenUp("the loader keeps up with the consumer")
        trial = Trial(self._noise, by)
        won = trial.take(self._latest.rate)
        while won is None:
            interval = yield from self._measure(other if trial.challenges else kept)
            won = trial.take(interval.rate)
            if self.setting == (other if won else kept):
                self._latest = interval
        trial.teach()
        before = self._value
        if won:
            self.kept = other
        ours, theirs = trial.rates
        compared = f"{theirs:,.0f} samples/s with {in_words(self._axis, value)}, {ours:,.0f} with {before}"
        share = f"{theirs / ours - 1:+.0%} over {trial.intervals} intervals"
        self._tell(before, f"{compared} ({share}): {'taken' if won else 'no change'}")
        return trial

    def _measure(self, setting: Setting) -> _Course[Interval]:
        for _ in range(_PAUSES):
            interval = yield setting
            if interval.memory_tight:
                raise _MemoryTight
            if self.purse.fullness < 0 and setting != self.kept:
                raise _GivenUp("enough was tried for now")
            if interval.wait_share >= KEEPS_UP or interval.rate >= _PAUSE_RATE * self._latest.rate:
                return interval
        raise _GivenUp("the consumer is busy with something else")

    def _rest(self) -> _Course[None]:
        """Stay with what was found until it is due, or seems worth, to look again."""
        until = self.seconds + self._rest_seconds
        level: float | None = None
        latest: deque[float] = deque(maxlen=_LEVEL)
        while True:
            interval = yield self.kept
            if interval.memory_tight:
                latest.clear()
                continue
            latest.append(math.log(interval.rate))
            if len(latest) < _LEVEL:
                continue
            now = statistics.median(latest)
            level = now if level is None else level + (now - level) / _FORGET
            if abs(now - level) > self._shift and self.purse.fullness >= _SHIFT_PURSE:
                rates = f"{math.exp(level):,.0f} to {math.exp(now):,.0f} samples/s"
                self._tell(self._value, f"the rate went from {rates}")
                return
            if self.seconds >= until and self.purse.fullness >= _REST_PURSE:
                return

    @property
    def _found(self) -> str:
        return " and ".join(in_words(axis, getattr(self.kept, axis)) for axis in self._ranges)

    @property
    def _value(self) -> int:
        return int(getattr(self.kept, self._axis))

    def _tell(self, before: int, reason: str) -> None:
        self._events.append(TuningEvent(self.seconds, self._axis, before, self._value, reason))
