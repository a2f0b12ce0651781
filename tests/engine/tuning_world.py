"""A simulated loader for the tuner: how fast each setting loads, with noise, drift, neighbours and a consumer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nogil_loader.engine.tuner import Tuner
from nogil_loader.engine.tuning import Interval, Setting

#: Samples per second that a setting loads on a quiet machine, at a time.
Load = Callable[[Setting, float], float]

BATCH = 32
# Noise is that of an interval of so many seconds; longer ones average it out.
_NOISY_SECONDS = 0.3
# How slowly the machine drifts, in seconds.
_DRIFT_SECONDS = 20.0


def cpu_bound(cores: int, rate: float = 1000.0) -> Load:
    """Compiled kernels: as fast as there are cores, and more threads than those cost a little."""
    return lambda use, _: rate * min(use.num_workers, cores) * (1 - 0.002 * max(0, use.num_workers - cores))


def gil_bound(loss: float, rate: float = 1000.0) -> Load:
    """Python that holds the GIL: each doubling of the workers loses something to their handing it around."""
    return lambda use, _: rate / (1 + loss * math.log2(use.num_workers))


def io_bound(most: int, rate: float = 100.0) -> Load:
    """Waiting for a disk or a network that serves so many requests at a time."""
    return lambda use, _: rate * min(use.num_workers, most)


def part_bound(share: float, rate: float = 500.0) -> Load:
    """Amdahl's law: a share of the work is done by one thread at a time."""
    return lambda use, _: rate / (share + (1 - share) / use.num_workers)


def peaked(best: int, fall: float, rate: float = 1000.0) -> Load:
    """Faster up to so many workers, and slower beyond by a power of how many more they are."""

    def load(use: Setting, _: float) -> float:
        workers = use.num_workers
        return rate * (workers if workers <= best else best * (best / workers) ** fall)

    return load


def bursty(hidden_by: int, rate: float = 1000.0) -> Load:
    """Now and then a slow batch, which enough batches ahead hide."""
    return lambda use, _: rate * (0.5 + 0.5 * min(1.0, use.prefetch_factor / hidden_by))


def changing(first: Load, then: Load, at: float) -> Load:
    """One load until a time, another one from then on."""
    return lambda use, now: (first if now < at else then)(use, now)


@dataclass
class World:
    """A loader, its machine and its consumer.

    Args:
        load: What settings load.
        seed: Of everything that is random.
        noise: Scatter of the rate of a short interval: 0.05 for 5 %.
        drift: Scatter of what changes over some seconds, for all settings alike.
        neighbour: Share of the rate that a neighbour takes while it runs.
        neighbour_seconds: For how long it runs, and does not, on average.
        consumer: Samples per second that the consumer can take.
        tight: Whether memory is tight at a time.
    """

    load: Load
    seed: int = 0
    noise: float = 0.0
    drift: float = 0.0
    neighbour: float = 0.0
    neighbour_seconds: float = 3.0
    consumer: float = math.inf
    tight: Callable[[float], bool] = lambda _: False

    def __post_init__(self) -> None:
        self.now = 0.0
        self.samples = 0
        self.settings: list[tuple[Setting, Interval]] = []
        self._dice = random.Random(self.seed)
        self._drifted = 0.0
        self._neighbour_runs = False
        self._before: Setting | None = None

    def run(self, tuner: Tuner, seconds: float) -> World:
        """Let the tuner tune for so many seconds."""
        until = self.now + seconds
        while self.now < until:
            setting = tuner.setting
            interval = self._interval(tuner, setting)
            self.settings.append((setting, interval))
            self._before = setting
            tuner.observe(interval)
        return self

    def rate(self, setting: Setting) -> float:
        """What the consumer would get on a quiet machine now."""
        return min(self.load(setting, self.now), self.consumer)

    def best(self, settings: Iterable[Setting]) -> float:
        """The best that any of the settings would give now."""
        return max(self.rate(setting) for setting in settings)

    def _interval(self, tuner: Tuner, setting: Setting) -> Interval:
        # Batches that were being loaded when the setting changed come as fast as they were loaded before.
        old = self._before.num_workers if self._before is not None and self._before != setting else 0
        loads = self.load(setting, self.now) * self._weather()
        before = loads if not old or self._before is None else self.load(self._before, self.now)
        batches, seconds, waited = 0, 0.0, 0.0
        while not (batches and tuner.enough(batches, seconds)):
            loading = BATCH / (before if batches < old else loads)
            using = BATCH / self.consumer
            seconds += max(loading, using)
            waited += max(0.0, loading - using)
            batches += 1
        self._pass(seconds)
        self.samples += batches * BATCH
        return Interval(seconds, batches * BATCH, waited / seconds, None, self.tight(self.now))

    def _weather(self) -> float:
        noise = self._dice.gauss(0.0, self.noise)
        return math.exp(noise + self._drifted) * (1 - self.neighbour * self._neighbour_runs)

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        kept = math.exp(-seconds / _DRIFT_SECONDS)
        self._drifted = kept * self._drifted + math.sqrt(1 - kept**2) * self._dice.gauss(0.0, self.drift)
        if self._dice.random() < 1 - math.exp(-seconds / self.neighbour_seconds):
            self._neighbour_runs = not self._neighbour_runs
