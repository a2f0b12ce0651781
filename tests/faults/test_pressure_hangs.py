"""Nobody hangs while memory is short: probes that block or raise, consumers that leave, workers that die (G7)."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from nogil_loader import (
    DataLoader,
    DeadWorkerError,
    FailurePolicy,
    LoaderError,
    MemoryBudgetError,
    WorkerTimeoutError,
)
from nogil_loader.memory.reading import UNKNOWN, MemoryReading
from tests.conftest import loader_threads
from tests.faults.machine import KINDS, MB, Consumer, Files, FileStream, Machine, told
from tests.faults.traps import PATIENCE, cut, kill, kill_for_good

WORKERS = (0, 2)
# A thread may be killed where Python ignores it: in a callback of the garbage collector.
killing = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
COUNT = 48
ALL = list(range(COUNT))


def loader_on(machine: Machine, kind: str, workers: int, trap: Any = None, **changes: Any) -> DataLoader:
    arguments: dict[str, Any] = {
        "batch_size": 8,
        "collate_fn": list,
        "memory": machine.policy(stall=PATIENCE),
    }
    traps = [] if trap is None else [trap]
    return DataLoader(
        KINDS[kind](machine, [1 * MB] * COUNT, *traps), num_workers=workers, **(arguments | changes)
    )


# Probes


class Nonsense:
    """Looks like a reading and is none."""

    limit = used = headroom = "much"
    source = "nowhere"


FAULTS: dict[str, Any] = {
    "PermissionError": PermissionError,
    "FileNotFoundError": FileNotFoundError,
    "ValueError": ValueError,
    "ImportError": ImportError,
    "RuntimeError": RuntimeError,
    "None": None,
    "a number": 5,
    "nonsense": Nonsense(),
    "unknown": UNKNOWN,
    "negative": MemoryReading(-5, 0, -5, "?"),
    "above the limit": MemoryReading(5, 10, 0, "?"),
    "no sum": MemoryReading(10, 5, 10, "?"),
    "text": MemoryReading("10", "5", "5", "?"),  # type: ignore[arg-type]
    "infinite": MemoryReading(float("inf"), 0, float("inf"), "?"),  # type: ignore[arg-type]
    "nan": MemoryReading(float("nan"), 0, float("nan"), "?"),  # type: ignore[arg-type]
}


class Failing(Machine):
    """A machine that tells nothing (any more) from some reading on."""

    def __init__(self, limit: int, fault: Any, after: int, until: float = float("inf")) -> None:
        super().__init__(limit)
        self.fault = fault
        self.after = after
        self.until = until

    def probe(self) -> Any:
        reading = super().probe()
        if not self.after < self.readings <= self.until:
            return reading
        if isinstance(self.fault, type):
            raise self.fault("no reading")
        return self.fault


@pytest.mark.parametrize(("workers", "after"), [(2, 0), (0, 4)])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_c13_a_probe_that_fails_costs_one_warning(
    fault: Any, after: int, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Failing(400 * MB, fault, after)
    loader = loader_on(machine, "samples", workers)
    assert [told(batch) for batch in loader] == cut(COUNT, 8)
    assert machine.readings > after
    memory = loader.statistics().memory
    assert memory is not None
    assert memory.limit == (None if after == 0 else 400 * MB)  # what was last known
    assert [told(batch) for batch in loader] == cut(COUNT, 8)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "MemoryPolicy.probe" in warnings[0].getMessage()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_c13_a_probe_that_recovers_is_followed_again(kind: str, workers: int) -> None:
    machine = Failing(20 * MB, OSError, after=2, until=8)
    assert [index for batch in loader_on(machine, kind, workers) for index in told(batch)] == ALL
    assert machine.readings > 8


class Blocking(Machine):
    """A machine whose probe blocks once, in whichever thread it is then."""

    def __init__(self, limit: int, at: int) -> None:
        super().__init__(limit)
        self.at = at
        self.blocked = threading.Event()
        self.go_on = threading.Event()

    def probe(self) -> MemoryReading:
        with self._asked:
            self.readings += 1
            blocks = self.readings == self.at
        if blocks:
            self.blocked.set()
            assert self.go_on.wait(PATIENCE)
        return MemoryReading.of(self.limit, self.used, "machine")


@pytest.mark.parametrize("kind", ["samples", "hinted", "stream"])
@pytest.mark.parametrize("at", [3, 4, 9])
def test_c16_nobody_outruns_a_reading_that_blocks(kind: str, at: int) -> None:
    machine = Blocking(24 * MB, at)
    consumer = Consumer(loader_on(machine, kind, 3))
    assert machine.blocked.wait(PATIENCE)
    # In this time the others would load everything that they may.
    for _ in range(3):
        gc.collect()
    machine.go_on.set()
    assert consumer.join().indices == ALL
    assert consumer.error is None
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("kind", ["samples", "stream"])
def test_c16_closing_does_not_wait_for_a_reading_that_blocks(kind: str) -> None:
    machine = Blocking(24 * MB, 4)
    batches = iter(loader_on(machine, kind, 2))
    consumer = Consumer(batches)
    assert machine.blocked.wait(PATIENCE)
    batches.close()
    consumer.join()
    machine.go_on.set()
    assert isinstance(consumer.error, LoaderError)


# Consumers


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_closing_from_another_thread_ends_a_consumer_that_waits_for_memory(kind: str, workers: int) -> None:
    machine = Machine(24 * MB)
    loader = loader_on(machine, kind, workers)
    batches = iter(loader)
    del loader
    next(batches)
    machine.others = 24 * MB
    consumer = Consumer(batches)
    machine.be_asked(10)
    batches.close()
    consumer.join()
    assert type(consumer.error) is LoaderError
    assert "closed" in str(consumer.error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_is_away_finds_its_batches_when_it_comes_back(kind: str) -> None:
    machine = Machine(24 * MB)
    loader = loader_on(machine, kind, 2, memory=machine.policy(stall=0.01))
    batches = iter(loader)
    indices = told(next(batches))
    machine.others = 24 * MB
    machine.be_asked(30)  # far longer than anybody would wait for a consumer that waits
    machine.others = 0
    for batch in batches:
        indices += told(batch)
    assert indices == ALL


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_while_threads_wait_for_memory_ends_them(kind: str) -> None:
    machine = Machine(24 * MB)
    for batch in loader_on(machine, kind, 2):
        del batch
        machine.others = 24 * MB
        machine.be_asked(10)
        break
    # that no thread is left is looked at after each test


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_comes_back_wakes_whoever_waits(kind: str, workers: int) -> None:
    machine = Machine(24 * MB)
    batches = iter(loader_on(machine, kind, workers))
    indices = told(next(batches))
    machine.others = 24 * MB
    consumer = Consumer(batches)
    machine.be_asked(10)
    machine.others = 0
    assert indices + consumer.join().indices == ALL
    assert consumer.error is None


# Workers that die or get stuck


@killing
@pytest.mark.parametrize("kind", ["samples", "batches"])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_worker_killed_while_it_waits_for_memory_is_replaced(kind: str, fixed: bool) -> None:
    machine = Machine(24 * MB)
    loader = loader_on(
        machine,
        kind,
        1,
        on_failure=FailurePolicy(rebuild=3),
        memory=machine.policy(stall=PATIENCE, fixed_batch_size=fixed),
    )
    before = loader_threads()
    batches = iter(loader)
    indices = told(next(batches))
    (worker,) = loader_threads() - before
    machine.others = 24 * MB
    consumer = Consumer(batches)
    machine.be_asked(10)
    kill_for_good(worker)
    machine.be_asked(10)
    machine.others = 0
    assert indices + consumer.join().indices == ALL
    assert consumer.error is None
    assert loader.statistics().rebuilds >= 1


@killing
def test_with_the_policy_raise_the_epoch_ends_with_what_was_loaded() -> None:
    machine = Machine(24 * MB)
    loader = loader_on(machine, "samples", 1)
    before = loader_threads()
    batches = iter(loader)
    next(batches)
    (worker,) = loader_threads() - before
    machine.others = 24 * MB
    consumer = Consumer(batches)
    machine.be_asked(10)
    kill_for_good(worker)
    consumer.join()
    assert isinstance(consumer.error, DeadWorkerError)
    assert isinstance(consumer.error.__cause__, SystemExit)
    machine.others = 0
    loader.rebuild()
    assert [index for batch in loader for index in told(batch)] == ALL


@killing
def test_a_reader_killed_while_it_waits_for_memory_begins_anew() -> None:
    machine = Machine(24 * MB)
    loader = loader_on(machine, "stream", 1, on_failure=FailurePolicy(rebuild=5))
    before = loader_threads()
    batches = iter(loader)
    indices = told(next(batches))
    (reader,) = (thread for thread in loader_threads() - before if "reader" in thread.name)
    machine.others = 24 * MB
    consumer = Consumer(batches)
    machine.be_asked(10)
    kill(reader.ident)
    machine.be_asked(10)
    machine.others = 0
    assert indices + consumer.join().indices == ALL
    assert consumer.error is None
    assert loader.statistics().rebuilds == 1


@pytest.mark.parametrize(("kind", "workers"), [("samples", 0), ("samples", 2), ("batches", 2)])
@pytest.mark.parametrize("error", [SystemExit, ValueError, MemoryError])
def test_g1_failing_samples_are_loaded_again_exactly_once_while_batches_shrink(
    error: type[BaseException], kind: str, workers: int
) -> None:
    machine = Machine(12 * MB)
    failed = set()

    def trap(index: int) -> None:
        if index % 7 == 3 and index not in failed:
            failed.add(index)
            raise error(index)

    loader = loader_on(machine, kind, workers, trap, on_failure=FailurePolicy(rebuild=20))
    assert [index for batch in loader for index in told(batch)] == ALL
    assert len(failed) == 7


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_g1_samples_that_always_fail_are_left_out_and_recorded_while_batches_shrink(
    kind: str, workers: int
) -> None:
    machine = Machine(12 * MB)

    def trap(index: int) -> None:
        if index % 7 == 3:
            raise ValueError(index)

    loader = loader_on(machine, kind, workers, trap, on_failure=FailurePolicy(rebuild=1, skip=7))
    indices = [index for batch in loader for index in told(batch)]
    assert indices == [index for index in ALL if index % 7 != 3]
    assert [record.index for record in loader.skipped] == [index for index in ALL if index % 7 == 3]
    statistics = loader.statistics()
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (COUNT, COUNT - 7, 7)


def test_a_stuck_worker_is_given_up_on_while_the_others_wait_for_memory() -> None:
    machine = Machine(24 * MB)
    go_on = threading.Event()
    stuck_once: list[int] = []

    def trap(index: int) -> None:
        if index == 18 and not stuck_once:
            stuck_once.append(index)
            machine.others = 12 * MB
            assert go_on.wait(PATIENCE)

    loader = loader_on(machine, "samples", 2, trap, timeout=0.1, on_failure=FailurePolicy(rebuild=2))
    indices = [index for batch in loader for index in told(batch)]
    go_on.set()
    assert indices == ALL
    assert loader.statistics().abandoned == 1


def test_with_the_policy_raise_the_stuck_worker_is_named() -> None:
    machine = Machine(24 * MB)
    go_on = threading.Event()

    def trap(index: int) -> None:
        if index == 18:
            machine.others = 12 * MB
            assert go_on.wait(PATIENCE)

    loader = loader_on(machine, "samples", 2, trap, timeout=0.1)
    with pytest.raises(WorkerTimeoutError) as raised:
        for batch in loader:
            del batch
    go_on.set()
    assert raised.value.index == 18


@pytest.mark.parametrize("dataset", [Files, FileStream])
def test_an_interrupt_while_the_consumers_own_thread_waits_for_memory_costs_nothing(dataset: Any) -> None:
    machine = Machine(24 * MB)

    class Interrupting(Machine):
        def probe(self) -> MemoryReading:
            reading = super().probe()
            if self.others and self.readings > 20:
                self.others = 0
                raise KeyboardInterrupt
            return reading

    machine = Interrupting(24 * MB)
    batches = iter(
        DataLoader(
            dataset(machine, [1 * MB] * COUNT),
            batch_size=8,
            num_workers=0,
            collate_fn=list,
            memory=machine.policy(stall=PATIENCE),
        )
    )
    indices = told(next(batches))
    machine.readings = 0
    machine.others = 24 * MB
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    for batch in batches:
        indices += told(batch)
    assert indices == ALL


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset", [Files, FileStream])
def test_g7_whoever_waits_for_memory_is_not_stuck(dataset: Any, workers: int) -> None:
    machine = Machine(40 * MB)

    def trap(index: int) -> None:
        if index == 4:
            machine.others = 39 * MB

    loader = DataLoader(
        dataset(machine, [1 * MB] * 16, trap),
        batch_size=8,
        num_workers=workers,
        collate_fn=list,
        timeout=0.1,
        memory=machine.policy(stall=0.4, fixed_batch_size=True),
    )
    with loader, pytest.raises(MemoryBudgetError):
        list(loader)
