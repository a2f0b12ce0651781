"""Thousands of failures of all kinds at once, and the stream is still the undisturbed one."""

from __future__ import annotations

import itertools
import random
import secrets
import threading
from collections import Counter
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader import DataLoader, FailurePolicy
from tests.faults.traps import KINDS, Spring, killed, make, raises, stream, strike

SPRINGS: list[Spring] = [
    raises(ValueError),
    raises(OSError("transient")),
    raises(SystemExit(2)),
    raises(StopIteration),
    raises(GeneratorExit),
    killed(),
]
# Rare, since each one is answered by a collection of garbage, which takes a tenth of a second.
RARE = raises(MemoryError)


class Chaos:
    """Fails at random, but the same way for the same seed: by index and by how often it was asked for.

    Args:
        seed: Of the failures.
        share: How many of the calls fail.
        calls: How often each sample may fail at most. A stream is read from its beginning after each failure,
            so it would never come far without an end to them.
    """

    def __init__(self, seed: int, share: float, calls: int = 1000) -> None:
        self.failures = 0
        self._calls = calls
        self._seed = seed
        self._share = share
        self._asked: Counter[int] = Counter()
        self._lock = threading.Lock()

    def __call__(self, index: int) -> None:
        with self._lock:
            self._asked[index] += 1
            dice = random.Random(f"{self._seed} {index} {self._asked[index]}")
            if self._asked[index] > self._calls or dice.random() >= self._share:
                return
            self.failures += 1
        spring = RARE if dice.random() < 0.01 else dice.choice(SPRINGS)
        spring(index)


@pytest.fixture
def seed() -> Any:
    seed = secrets.randbits(32)
    print(f"seed = {seed}")  # shown if the test fails; put it here to repeat its failures
    return seed


def loader_of(kind: str, length: int, trap: Spring, **arguments: Any) -> DataLoader:
    shuffle = None if kind == "stream" else True
    return DataLoader(make(kind, length, trap), batch_size=4, shuffle=shuffle, seed=3, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_failures_inside_of_samples(kind: str, workers: int, seed: int) -> None:
    length = 80 if kind == "stream" else 400
    undisturbed = loader_of(kind, length, lambda index: None, num_workers=0)
    chaos = Chaos(seed, 0.25, 1 if kind == "stream" else 1000)
    loader = loader_of(kind, length, chaos, num_workers=workers, on_failure=FailurePolicy(rebuild=1000))
    # Sample by sample: a batch for which memory ran out twice comes in halves.
    came, meant = ([sample for batch in stream(each) for sample in batch] for each in (loader, undisturbed))
    assert came == meant
    assert chaos.failures > length / 10
    loader.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_are_killed_from_outside_at_any_moment(kind: str, workers: int, seed: int) -> None:
    dice = random.Random(seed)
    length = 240 if kind == "stream" else 600
    victims: set[threading.Thread] = set()
    killed_ones: set[threading.Thread] = set()

    def show_yourself(index: int) -> None:
        victims.add(threading.current_thread())

    undisturbed = loader_of(kind, length, lambda index: None, num_workers=0)
    loader = loader_of(
        kind, length, show_yourself, num_workers=workers, on_failure=FailurePolicy(rebuild=1000)
    )
    for _ in range(3):
        received = []
        for batch in loader:
            received.append(batch.tolist())
            # Each at most once: what a dying thread is called by may belong to another one the next moment.
            ready = sorted(victims - killed_ones, key=lambda thread: thread.name)
            if ready and dice.random() < 0.5:
                victim = dice.choice(ready)
                killed_ones.add(victim)
                if victim.is_alive():
                    strike(victim.ident)
        assert received == stream(undisturbed)
    assert len(killed_ones) > 10
    loader.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_everything_at_once_with_skips_and_unordered_delivery(workers: int, seed: int) -> None:
    bad = set(random.Random(seed).sample(range(600), 30))
    chaos = Chaos(seed, 0.1, 3)  # over before a bad sample has used up the rebuilds of its batch

    def trap(index: int) -> None:
        if index in bad:
            _refuse(index)
        chaos(index)

    loader = loader_of(
        "samples",
        600,
        trap,
        num_workers=workers,
        in_order=False,
        on_failure=FailurePolicy(rebuild=20, skip=30),
    )
    received = [int(row[0]) for batch in loader for row in batch]
    assert sorted(received) == sorted(set(range(600)) - bad)
    assert {record.index for record in loader.skipped} == bad
    loader.close()


def _refuse(index: int) -> NoReturn:
    raise ValueError(index)


@pytest.mark.slow
def test_epochs_left_at_any_point_with_failures_under_way(seed: int) -> None:
    dice = random.Random(seed)
    loader = loader_of("samples", 60, Chaos(seed, 0.2), num_workers=2, on_failure=FailurePolicy(rebuild=1000))
    clean = loader_of("samples", 60, lambda index: None, num_workers=0)
    for epoch in range(60):
        stop = dice.randrange(16)
        clean.set_epoch(epoch)
        meant = [sample for batch in stream(clean) for sample in batch]
        iterator = iter(loader)
        # Sample by sample: a batch for which memory ran out twice comes in halves.
        came = [sample for batch in stream(itertools.islice(iterator, stop)) for sample in batch]
        assert came == meant[: len(came)]
        assert len(came) >= stop
        if dice.random() < 0.5:
            iterator.close()
        del iterator
    assert np.isfinite(loader.statistics().rebuilds)
    loader.close()
