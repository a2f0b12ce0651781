"""Under pressure too, nothing stays behind: no thread, no buffer, no sample, no entry in a book (G8)."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, MemoryBudgetError, MemoryPolicy
from nogil_loader.memory.budget import Piece, State
from nogil_loader.memory.decision import MemoryStatistics
from nogil_loader.memory.pool import pool
from nogil_loader.memory.reading import MemoryReading
from tests.conftest import loader_threads
from tests.faults.machine import KINDS, MB, Files, FileStream, Machine
from tests.faults.traps import PATIENCE

WORKERS = (0, 2)


def loader_on(machine: Machine, kind: str, workers: int, **fields: Any) -> DataLoader:
    return DataLoader(
        KINDS[kind](machine, [1 * MB] * 40),
        batch_size=8,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=PATIENCE, **fields),
    )


def pieces() -> list[Piece]:
    """All pieces that are on any book."""
    return [one for one in gc.get_objects() if type(one) is Piece]  # isinstance() would ask lazy modules


def collect(gone: weakref.ref[Any]) -> None:
    """Collect garbage, again if a thread had a look at something just then."""
    for _ in range(100):
        gc.collect()
        if gone() is None:
            return
    pytest.fail("it is kept alive")


def memory_of(loader: DataLoader) -> MemoryStatistics:
    memory = loader.statistics().memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["samples", "stream"])
@pytest.mark.parametrize("how", ["close", "break", "drop"])
def test_g8_no_sample_is_alive_after_an_epoch_was_left_under_pressure(
    how: str, kind: str, workers: int
) -> None:
    machine = Machine(24 * MB)
    before = loader_threads()
    loader = loader_on(machine, kind, workers)
    batches = iter(loader)
    next(batches)
    machine.others = 12 * MB
    if workers:
        machine.be_asked(10)
    threads = loader_threads() - before
    if how == "close":
        batches.close()
    elif how == "break":
        for batch in batches:
            del batch
            break
        batches.close()
    gone = weakref.ref(loader)
    del batches, loader
    gc.collect()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert machine.used == 12 * MB
    assert gone() is None


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_g8_the_error_for_want_of_memory_keeps_no_sample(kind: str, workers: int) -> None:
    machine = Machine(24 * MB)
    loader = DataLoader(
        KINDS[kind](machine, [1 * MB] * 40),
        batch_size=8,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=0.05),
    )
    batches = iter(loader)
    next(batches)
    machine.others = 24 * MB
    with pytest.raises(MemoryBudgetError) as raised:
        for batch in batches:
            del batch
    loader.close()
    gc.collect()
    assert machine.used == 24 * MB
    del raised


@pytest.mark.parametrize("workers", WORKERS)
def test_g8_the_statistics_of_a_finished_epoch_keep_nothing_but_numbers(workers: int) -> None:
    machine = Machine(24 * MB)
    loader = loader_on(machine, "samples", workers)
    for batch in loader:
        del batch
    statistics = loader.statistics()
    loader.close()
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    assert machine.used == 0
    assert statistics.delivered == 40


@pytest.mark.parametrize("workers", WORKERS)
def test_g8_nothing_grows_over_ten_thousand_small_batches(workers: int) -> None:
    loader = DataLoader(np.zeros((20_000, 4)), batch_size=2, num_workers=workers)
    batches = iter(loader)
    for _ in range(1000):
        next(batches)
    before = len(gc.get_objects())
    for _ in range(8000):
        next(batches)
    assert len(gc.get_objects()) - before < 200
    assert len(list(batches)) == 1000
    memory = memory_of(loader)
    assert (memory.ready, memory.loading, memory.promised, memory.in_flight) == (0, 0, 0, 0)
    assert (memory.splits, memory.events) == (0, ())


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_g8_the_books_are_even_after_an_epoch_of_waiting_splitting_and_giving_up(
    kind: str, workers: int
) -> None:
    machine = Machine(16 * MB)
    known = pieces()  # of epochs that other tests have failed with
    before = {id(piece) for piece in known}
    loader = loader_on(machine, kind, workers)
    neighbours = itertools.cycle((0, 9, 4))
    for batch in loader:
        machine.others = next(neighbours) * MB
        del batch
    memory = memory_of(loader)
    assert memory.splits + memory.cuts > 0
    assert (memory.ready, memory.loading, memory.promised, memory.in_flight) == (0, 0, 0, 0)
    assert [piece for piece in pieces() if id(piece) not in before and piece.state is not State.HELD] == []


@pytest.mark.parametrize("workers", WORKERS)
def test_g8_the_consumer_is_not_said_to_hold_what_it_has_let_go_of(workers: int) -> None:
    machine = Machine(100 * MB)
    loader = loader_on(machine, "hinted", workers)
    batches = iter(loader)
    kept = [next(batches), next(batches)]
    assert memory_of(loader).held == 16 * MB
    kept.clear()
    for batch in batches:
        del batch
    assert memory_of(loader).held <= 8 * MB  # the last one may still be on its way


def test_idle_blocks_of_the_pool_go_back_while_memory_is_short() -> None:
    full = {"used": 0}

    def probe() -> MemoryReading:
        return MemoryReading.of(100 * MB, full["used"], "machine")

    loader = DataLoader(
        Files(Machine(1), [5 * MB] * 12),
        batch_size=1,
        num_workers=0,
        memory=MemoryPolicy(probe=probe, scratch=0.0, tune_malloc=False),
    )
    pool.trim()
    batches = iter(loader)
    kept = [next(batches) for _ in range(3)]
    kept.clear()
    assert pool.idle_bytes > 0
    full["used"] = 60 * MB  # more than a half
    kept = [next(batches) for _ in range(3)]
    assert pool.idle_bytes == 0
    kept.clear()
    assert pool.idle_bytes == 0
    batches.close()
    # Other loaders, and later epochs, may use it again.
    array = pool.take(8 * MB)
    del array
    assert pool.idle_bytes > 0
    pool.trim()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dataset", [Files, FileStream])
def test_g8_a_loader_in_a_circle_that_waits_for_memory_is_collected_with_its_threads(
    dataset: Any, fixed: bool
) -> None:
    machine = Machine(40 * MB)
    before = loader_threads()
    files = dataset(machine, [1 * MB] * 80)
    loader = DataLoader(
        files,
        batch_size=8,
        num_workers=2,
        collate_fn=list,
        # Whoever waits in the middle of a batch holds on to what he loads it with, so long at most.
        memory=machine.policy(stall=0.3, fixed_batch_size=fixed),
    )
    files.loader = loader
    files.epoch = iter(loader)
    next(files.epoch)
    machine.others = 39 * MB
    machine.be_asked(20)
    threads = loader_threads() - before
    gone = weakref.ref(loader)
    del files, loader
    collect(gone)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert machine.used == 39 * MB


def test_g8_so_is_one_whose_worker_waits_in_the_middle_of_a_batch() -> None:
    machine = Machine(40 * MB)
    short = threading.Event()

    def trap(index: int) -> None:
        if index == 12:
            machine.others = 39 * MB
            short.set()

    before = loader_threads()
    files: Any = Files(machine, [1 * MB] * 40, trap)
    loader = DataLoader(
        files,
        batch_size=8,
        num_workers=1,
        collate_fn=list,
        memory=machine.policy(stall=0.3, fixed_batch_size=True),
    )
    files.loader = loader
    files.epoch = iter(loader)
    next(files.epoch)
    assert short.wait(PATIENCE)
    machine.be_asked(5)
    threads = loader_threads() - before
    gone = weakref.ref(loader)
    del files, loader
    collect(gone)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
