"""What ``num_workers="auto"`` and ``prefetch_factor="auto"`` do: find the setting that loads fastest, by trying.

Nobody can tell from a dataset how many threads serve it best. Compiled kernels want as many as there are cores,
Python that holds the GIL wants one, and waiting for a disk or a network wants dozens. So the tuner starts with the
core count and, when there is cause, tries. It is pure: it is told what intervals of an epoch measured, and says
which setting to use in the next one.

* Nothing is tried unless the consumer waits for data: a loader that keeps up is fast enough.
* A change has to gain `GAIN`, shown by intervals of both settings that take turns (`Trial`). Among settings that
  are about as fast the present one stays; only where growth may have overshot, the smaller one is taken.
* More workers are tried by doubling. Where twice as many are no faster, fewer are tried: one, then halves. Last
  comes what lies between the best setting and its neighbours.
* Then it settles. It looks again when the rate shifts by `SHIFT`, and otherwise after rests that double.
* Trying costs little: settings that are only tried are in use for at most the seconds in a purse, which is full
  once, and `SHARE` of all time.
* While memory is tight nothing grows and nothing is tried.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

from nogil_loader.engine.trial import Noise, Trial
from nogil_loader.engine.tuning import Axis, Interval, Setting, TuningEvent

#: How much faster a setting has to be to be taken. Less is hard to tell from noise within seconds.
GAIN = 0.05
#: How much slower a smaller setting may be where growth may have overshot.
LOSS = 0.02
#: Shares of its time from which on the consumer waits for data, and below which the loader keeps up.
WAITS = 0.05
KEEPS_UP = 0.02
#: Change of the rate's logarithm that starts another search: a quarter more or a fifth less.
SHIFT = math.log(1.25)
#: Share of all time that may be spent trying, beyond the purse.
SHARE = 0.03
#: What is in the purse: seconds, or intervals if those take longer.
PURSE_SECONDS = 30.0
PURSE_INTERVALS = 40
#: Seconds until the next search while nothing shifts, after one that changed something, and the most. They double
#: with each search that changes nothing.
FIRST_REST = 120.0
LAST_REST = 1920.0
#: The largest ``prefetch_factor`` to try. Beyond it a single slow batch is hidden by more workers at less memory.
MOST_PREFETCH = 16
# An interval takes so many seconds (at rest, where nothing is urgent, more) and so many batches, but of a slow
# loader no more batches than two rounds of its workers.
_INTERVAL = 0.3
_RESTING_INTERVAL = 1.0
_BATCHES = 10
_SLOW = 2.0
# How many intervals show that the consumer waits, and how many give a rate of which one outlier is no part.
_EVIDENCE = 4
_LEVEL = 5
# The part of the purse without which no search begins: it would end before it found anything.
_ENOUGH_PURSE = 0.25
# What lies between settings that differ by less than this factor is not worth a trial.
_CLOSE = 1.5
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


class Tuner:
    """Tunes one loader, over all its epochs.

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
        tried_seconds: How much of it was spent with settings that were only tried.
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
        self.tried_seconds = 0.0
        self.settled = False
        self._ranges: dict[Axis, tuple[int, int]] = {}
        if tunes_workers:
            self._ranges["num_workers"] = (min(least, start), max(start, most))
        if tunes_prefetch:
            self._ranges["prefetch_factor"] = (prefetch, max(prefetch, most_prefetch))
        self._events: deque[TuningEvent] = deque(maxlen=_EVENTS)
        self._noise = Noise()
        self._purse = self._purse_size = PURSE_SECONDS
        self._rest_seconds = FIRST_REST / 2
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

        Workers that began together deliver together, again and again, so an interval has whole rounds of them.
        """
        if self._leftover is not None:
            return batches >= self._leftover
        workers = self.setting.num_workers
        if batches % workers or batches < 2 * workers:
            return False
        least = _RESTING_INTERVAL if self.settled else _INTERVAL
        return seconds >= least and (batches >= _BATCHES or seconds >= _SLOW)

    def begin_epoch(self) -> None:
        """Note that an epoch begins: in its first interval everything starts up."""
        self._leftover = self.setting.num_workers

    def observe(self, interval: Interval) -> Setting:
        """Take in what an interval with `setting` measured; return the setting for the next one."""
        self.seconds += interval.seconds
        if self.setting == self.kept:
            self._purse = min(self._purse_size, self._purse + SHARE * interval.seconds)
        else:
            self._purse -= interval.seconds
            self.tried_seconds += interval.seconds
        transient, self._leftover = self._leftover is not None, None
        if transient and not interval.memory_tight:
            return self.setting
        used, self.setting = self.setting, self._course.send(interval)
        if self.setting != used:
            # Where the loader keeps up, all that it may have ahead is there.
            ahead = used.prefetch_factor if interval.wait_share < KEEPS_UP else 0
            self._leftover = used.num_workers * (1 + ahead) + self.setting.num_workers
        return self.setting

    # The course of tuning

    def _tune(self) -> _Course[None]:
        while True:
            yield from self._wait_for_cause()
            before = self.kept
            try:
                for axis in self._ranges:
                    yield from self._climb(axis)
                outcome = "nothing else that was tried loads faster"
            except _GivenUp as given_up:
                outcome = str(given_up)
            self._tell(self._value, f"settled on {_words(self.kept)}: {outcome}")
            changed = self.kept != before
            self._rest_seconds = FIRST_REST if changed else min(LAST_REST, 2 * self._rest_seconds)
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
        size = max(PURSE_SECONDS, PURSE_INTERVALS * statistics.fmean(one.seconds for one in latest))
        if self.tried_seconds == 0:
            self._purse = size
        self._purse_size = size
        waits = statistics.fmean(one.wait_share for one in latest)
        self._tell(
            self._value, f"the consumer waits for data {waits:.0%} of its time: trying what loads faster"
        )

    def _climb(self, axis: Axis) -> _Course[None]:
        """Find the best value on one axis, taking it that the rate rises towards it and falls beyond it."""
        self._axis = axis
        least, most = self._ranges[axis]
        start = here = self._value
        # The nearest values that are known to be no better; out of range for none.
        lower, upper, falls = 0, most + 1, False
        while here < most < upper:
            trial = yield from self._try(min(most, 2 * here), GAIN)
            if trial.won:
                lower, here = here, self._value
            else:
                upper, falls = min(most, 2 * here), trial.gain < -LOSS
        if here == start > least:
            # One worker is far slower than several or, where only the GIL counts, the best: soon told.
            candidate = least
            while lower < candidate < here:
                if (yield from self._try(candidate, GAIN)).won:
                    upper, falls, here = here, True, candidate
                else:
                    lower = candidate
                candidate = here // 2
        while here != start and lower < (middle := _middle(lower, here)) < here:
            # Growth may have gone too far; what shrank is content with where it is unless there is a gain.
            if (yield from self._try(middle, -LOSS if here > start else GAIN)).won:
                upper, falls, here = here, False, middle
            else:
                lower = middle
        while falls and here < (middle := _middle(here, upper)) < upper:
            if (yield from self._try(middle, GAIN)).won:
                here = middle
            else:
                upper = middle

    def _try(self, value: int, by: float) -> _Course[Trial]:
        """Compare what is in use with another value of the axis, and use that if it is faster by so much.

        Raises:
            _GivenUp: The loader keeps up, memory is tight, or too much was spent.
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
        noun = "workers" if self._axis == "num_workers" else "batches ahead per worker"
        self._tell(
            before,
            f"{value} {noun} load {theirs:,.0f} samples/s, {before} {ours:,.0f} "
            f"({trial.gain:+.0%}, seen in {trial.intervals} intervals)",
        )
        return trial

    def _measure(self, setting: Setting) -> _Course[Interval]:
        for _ in range(_PAUSES):
            interval = yield setting
            if interval.memory_tight:
                raise _GivenUp("memory is tight")
            if self._purse < 0 and setting != self.kept:
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
            level = now if level is None else level
            shifted = abs(now - level) > SHIFT
            if (shifted or self.seconds >= until) and self._purse >= _ENOUGH_PURSE * self._purse_size:
                if shifted:
                    self._rest_seconds = FIRST_REST / 2
                    self._tell(
                        self._value,
                        f"the rate went from {math.exp(level):,.0f} to {math.exp(now):,.0f} samples/s",
                    )
                return

    @property
    def _value(self) -> int:
        return int(getattr(self.kept, self._axis))

    def _tell(self, before: int, reason: str) -> None:
        self._events.append(TuningEvent(self.seconds, self._axis, before, self._value, reason))


def _words(setting: Setting) -> str:
    return f"{setting.num_workers} workers with {setting.prefetch_factor} batches ahead each"


def _middle(low: int, high: int) -> int:
    """The geometric mean, or ``low`` where the two are close."""
    return round(math.sqrt(low * high)) if high > _CLOSE * low else low
