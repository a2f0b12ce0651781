"""After pressure the loader is back at full speed in the time that is documented, and has told each change once.

The consumer takes a second or less for each batch, which is skipped.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from nogil_loader import DataLoader
from nogil_loader.memory.decision import Event, MemoryStatistics
from nogil_loader.memory.throttle import CALM, STEPS_TO_FULL
from tests.faults.machine import KB, KINDS, MB, Clock, HintedFiles, Machine, told

# With more of them somebody may have read ahead of a second that is skipped.
WORKERS = (0, 1)
FULL = 8
LENGTH = 600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().install(monkeypatch)


class Epoch:
    """An epoch under way, each batch of which takes the consumer some time."""

    def __init__(self, loader: DataLoader, clock: Clock) -> None:
        self.indices: list[int] = []
        self._loader = loader
        self._clock = clock
        self._batches = iter(loader)
        self._batch: Any = None

    def take(self, count: int, seconds: float) -> list[int]:
        """Consume so many batches (fewer at the end) and return their sizes."""
        sizes = []
        for _ in range(count):
            self._clock.skip(seconds)
            self._batch = next(self._batches, None)
            if self._batch is None:
                break
            self.indices += told(self._batch)
            sizes.append(len(self._batch))
        return sizes

    @property
    def memory(self) -> MemoryStatistics:
        memory = self._loader.statistics().memory
        assert memory is not None
        return memory


def epoch_on(machine: Machine, clock: Clock, workers: int, kind: str = "hinted", **changes: Any) -> Epoch:
    arguments: dict[str, Any] = {"batch_size": FULL, "collate_fn": list, "memory": machine.policy()} | changes
    return Epoch(
        DataLoader(KINDS[kind](machine, [1 * MB] * LENGTH), num_workers=workers, **arguments),
        clock,
    )


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["samples", "hinted", "stream"])
def test_batches_are_whole_again_when_it_was_calm_for_the_documented_time(
    kind: str, workers: int, clock: Clock
) -> None:
    machine = Machine(100 * MB)
    epoch = epoch_on(machine, clock, workers, kind)
    epoch.take(10, CALM)
    assert set(epoch.take(10, CALM)) == {FULL}
    machine.others = 84 * MB
    short = epoch.take(12, 0.01)
    assert min(short) < FULL
    machine.others = 0
    epoch.take(STEPS_TO_FULL + 1, CALM)
    # What was planned in parts meanwhile is still to come.
    planned = epoch.memory.in_flight_allowed + 1
    epoch.take(planned * FULL, 0.0)
    sizes = epoch.take(LENGTH, 0.0)
    assert set(sizes) == {FULL}
    assert epoch.indices == list(range(LENGTH))


def test_so_is_the_number_of_batches_in_flight_after_use_above_the_hard_mark(clock: Clock) -> None:
    machine = Machine(100 * MB)
    epoch = epoch_on(machine, clock, 1, batch_size=2, prefetch_factor=7)
    epoch.take(5, CALM)
    capacity = epoch.memory.in_flight_allowed
    assert capacity == 8
    machine.others = 97 * MB
    machine.be_asked(5)
    epoch.take(1, 0.0)
    assert epoch.memory.parks == 1
    assert epoch.memory.in_flight_allowed < capacity
    machine.others = 0
    epoch.take(STEPS_TO_FULL + 1, CALM)
    assert epoch.memory.in_flight_allowed == capacity
    assert not epoch.memory.parked
    # Down at once, up in steps, each told once and joined to the one before.
    steps = [event for event in epoch.memory.events if event.allowance == "in_flight"]
    assert steps[0].rule == "park"
    assert {event.rule for event in steps[1:]} == {"calm"}
    assert steps[0].before == steps[-1].after == capacity
    assert all(one.after == next_one.before for one, next_one in pairwise(steps))
    assert len(steps) <= 1 + STEPS_TO_FULL
    epoch.take(LENGTH, 0.0)
    assert epoch.indices == list(range(LENGTH))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(("soft", "hard"), [(0.80, 0.90), (0.70, 0.80)], ids=["soft mark", "hard mark"])
def test_c15_use_that_swings_around_a_mark_changes_what_is_allowed_once(
    soft: float, hard: float, workers: int, clock: Clock
) -> None:
    machine = Machine(100 * MB)
    loader = DataLoader(
        HintedFiles(machine, [1 * KB] * 2000),
        batch_size=FULL,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(soft=soft, hard=hard),
    )
    epoch = Epoch(loader, clock)
    machine.others = 20 * MB
    epoch.take(10, CALM)
    before = len(epoch.memory.events)
    for tick in range(30):
        machine.others = (795, 805)[tick % 2] * 100 * KB
        assert epoch.take(1, CALM) == [FULL]
    # Down, and for the soft mark perhaps in two steps: of what there is for the loader.
    assert len(epoch.memory.events) - before <= 2
    machine.others = 20 * MB
    epoch.take((STEPS_TO_FULL + 5) * (1 + 2 * workers), CALM)
    memory = epoch.memory
    assert memory.in_flight_allowed == max(1, workers * 3)
    assert memory.room == pytest.approx((soft - 0.20) * machine.limit, rel=0.01)
    quiet = len(memory.events)
    epoch.take(100, CALM)
    assert len(epoch.memory.events) == quiet
    loader.close()


@pytest.mark.parametrize("workers", WORKERS)
def test_each_change_is_logged_once(workers: int, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(100 * MB)
    with caplog.at_level(logging.INFO, logger="nogil_loader"):
        epoch = epoch_on(machine, clock, workers)
        epoch.take(10, CALM)
        machine.others = 84 * MB
        epoch.take(5, CALM)
        machine.others = 0
        epoch.take(LENGTH, CALM)
    assert epoch.indices == list(range(LENGTH))
    told = [record.args for record in caplog.records if record.args]
    logged = [args[0] for args in told if isinstance(args, tuple) and isinstance(args[0], Event)]
    assert tuple(logged) == epoch.memory.events
    assert len(set(logged)) == len(logged) > 0
    assert all(record.levelno == logging.INFO for record in caplog.records)
    assert all(event.before != event.after for event in logged)


@pytest.mark.parametrize("workers", WORKERS)
def test_nothing_is_logged_where_memory_is_plentiful(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(4000 * MB)
    with caplog.at_level(logging.DEBUG, logger="nogil_loader"):
        loader = DataLoader(
            HintedFiles(machine, [1 * MB] * 64),
            batch_size=FULL,
            num_workers=workers,
            collate_fn=list,
            memory=machine.policy(),
        )
        assert [len(batch) for batch in loader] == [FULL] * 8
    assert caplog.records == []


@pytest.mark.parametrize("workers", WORKERS)
def test_the_next_epoch_knows_the_sizes_and_starts_without_pressure(workers: int, clock: Clock) -> None:
    machine = Machine(100 * MB)
    loader = DataLoader(
        KINDS["samples"](machine, [1 * MB] * 48),
        batch_size=FULL,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(),
    )
    machine.others = 84 * MB
    first = Epoch(loader, clock)
    assert min(first.take(48, 0.01)) < FULL
    machine.others = 0
    del first
    second = Epoch(loader, clock)
    assert set(second.take(48, 0.01)) == {FULL}
    assert second.indices == list(range(48))
