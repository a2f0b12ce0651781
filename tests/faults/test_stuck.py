"""A sample never returns. A thread cannot be killed, so its result must not matter any more.

With ``timeout`` the consumer learns which sample hangs and where; under ``"rebuild"`` and ``"skip"`` the
thread is given up on, replaced, counted, and what it brings in the end is thrown away.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError, FailurePolicy, WorkerTimeoutError
from tests.conftest import loader_threads
from tests.faults.traps import (
    MAP_KINDS,
    PATIENCE,
    Samples,
    Stream,
    Trap,
    cut,
    indices,
    make,
    safe,
    stream,
    until_death,
)

# Short, since every test waits for it at least once; long against what a sample takes that is not stuck.
TIMEOUT = 0.2


class Gate:
    """Where samples get stuck until the end of the test."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.stuck = threading.Semaphore(0)
        self.returned = threading.Semaphore(0)

    def __call__(self, index: int) -> None:
        self.stuck.release()
        self.opened.wait(PATIENCE)
        self.returned.release()

    def open(self, returning: int = 0) -> None:
        self.opened.set()
        for _ in range(returning):
            assert self.returned.acquire(timeout=PATIENCE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_b32_a_stuck_sample_is_named_with_the_stack_of_its_worker(
    kind: str, workers: int, gate: Gate
) -> None:
    loader = DataLoader(
        make(kind, 12, Trap(gate, at={5})), batch_size=2, num_workers=workers, timeout=TIMEOUT
    )
    batches, death = until_death(loader)
    assert batches == [[0, 1], [2, 3]]
    assert isinstance(death, WorkerTimeoutError)
    assert isinstance(death, TimeoutError)
    assert death.indices == (4, 5)
    assert death.index == (5 if kind == "samples" else None)
    assert (death.batch, death.epoch, death.during, death.timeout) == (2, 0, "fetch", TIMEOUT)
    assert "self.opened.wait(PATIENCE)" in death.stack
    assert death.stack.rstrip() in str(death)
    assert loader.statistics().abandoned == 1


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_b32_a_stuck_thread_is_replaced_and_its_late_result_thrown_away(
    kind: str, workers: int, in_order: bool, gate: Gate
) -> None:
    undisturbed = stream(DataLoader(make(kind, 40), batch_size=2, seed=1, shuffle=True, num_workers=0))
    trap = Trap(gate, at={5}, times=1)
    loader = DataLoader(
        make(kind, 40, trap),
        batch_size=2,
        seed=1,
        shuffle=True,
        num_workers=workers,
        timeout=TIMEOUT,
        on_failure="rebuild",
        in_order=in_order,
    )
    iterator = iter(loader)
    received = stream([next(iterator) for _ in range(19)])
    if in_order or trap.visits[5] == 2:
        gate.open(returning=1)  # while the epoch is still going on
    received += stream(iterator)
    assert sorted(received) == sorted(undisturbed)
    assert received == undisturbed or not in_order
    statistics = loader.statistics()
    assert (statistics.abandoned, statistics.rebuilds, statistics.delivered) == (1, 1, 40)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_b32_under_skip_a_stuck_sample_is_left_out(kind: str, workers: int, gate: Gate) -> None:
    loader = DataLoader(
        make(kind, 12, Trap(gate, at={5})),
        batch_size=2,
        num_workers=workers,
        timeout=TIMEOUT,
        on_failure=FailurePolicy(skip=1),
    )
    assert [indices(batch) for batch in loader] == [[0, 1], [2, 3], [4], [6, 7], [8, 9], [10, 11]]
    (record,) = loader.skipped
    assert (record.index, record.error) == (5, None)
    assert "no progress" in record.reason


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_a_sample_that_is_always_stuck_raises_after_the_allowed_rebuilds(
    kind: str, workers: int, gate: Gate
) -> None:
    trap = Trap(gate, at={5})
    loader = DataLoader(
        make(kind, 12, trap),
        batch_size=2,
        num_workers=workers,
        timeout=TIMEOUT,
        on_failure=FailurePolicy(rebuild=1),
    )
    batches, death = until_death(loader)
    assert batches == [[0, 1], [2, 3]]
    assert isinstance(death, WorkerTimeoutError)
    assert death.rebuilds == 1
    assert trap.visits[5] == 2


def test_the_number_of_abandoned_threads_is_capped(gate: Gate) -> None:
    loader = DataLoader(
        Samples(40, gate), num_workers=1, timeout=0.1, on_failure=FailurePolicy(rebuild=0, skip=40)
    )
    _, death = until_death(loader)
    assert isinstance(death, WorkerTimeoutError)
    assert loader.statistics().abandoned <= 3  # two per worker, and the one with which it is too much
    assert len(loader_threads()) <= 3


def test_threads_that_come_back_do_not_count_as_abandoned_any_more() -> None:
    gates = [Gate() for _ in range(6)]
    epoch = 0
    stuck: list[threading.Thread] = []

    def once_per_epoch(index: int) -> None:
        if epoch == len(stuck):
            stuck.append(threading.current_thread())
            gates[epoch](index)

    loader = DataLoader(
        Samples(4, Trap(once_per_epoch, at={2})), num_workers=1, timeout=TIMEOUT, on_failure="rebuild"
    )
    try:
        for epoch in range(6):
            assert [indices(batch) for batch in loader] == cut(4, 1)
            gates[epoch].open(returning=1)
            stuck[-1].join(PATIENCE)  # it was in the way until now; its epoch is over
            assert not stuck[-1].is_alive()
    finally:
        for gate in gates:
            gate.open()
        loader.close()


def test_a_thread_that_returns_after_its_epoch_ends(gate: Gate) -> None:
    loader = DataLoader(
        Samples(4, Trap(gate, at={2}, times=1)), num_workers=1, timeout=TIMEOUT, on_failure="rebuild"
    )
    before = loader_threads()
    iterator = iter(loader)
    (stuck,) = loader_threads() - before
    assert [indices(batch) for batch in iterator] == cut(4, 1)
    assert stuck.is_alive()
    gate.open(returning=1)
    stuck.join(PATIENCE)
    assert not stuck.is_alive()
    loader.close()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", [*MAP_KINDS, "stream"])
def test_being_stuck_outside_of_samples_is_named_by_its_stage(kind: str, workers: int, gate: Gate) -> None:
    def stick(samples: list[Any]) -> Any:
        if samples[0][0] == 2:
            gate(2)
        return np.stack(samples)

    loader = DataLoader(make(kind, 8), batch_size=2, num_workers=workers, timeout=TIMEOUT, collate_fn=stick)
    batches, death = until_death(loader)
    assert batches == [[0, 1]]
    assert isinstance(death, WorkerTimeoutError)
    assert (death.during, death.index, death.indices) == ("collate", None, (2, 3))
    assert "in stick" in death.stack


@pytest.mark.parametrize("policy", ["raise", "rebuild", "skip"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_stuck_iterable_raises_since_nobody_may_read_beside_it(
    workers: int, policy: str, gate: Gate
) -> None:
    loader = DataLoader(
        Stream(12, Trap(gate, at={5})),
        batch_size=2,
        num_workers=workers,
        timeout=TIMEOUT,
        on_failure=policy,
    )
    batches, death = until_death(loader)
    assert batches == [[0, 1], [2, 3]]
    assert isinstance(death, WorkerTimeoutError)
    assert (death.worker_id, death.index) == ("reader", 5)
    assert "self.opened.wait(PATIENCE)" in death.stack


@pytest.mark.parametrize("workers", [1, 2])
def test_a_slow_batch_of_quick_samples_is_not_stuck(workers: int) -> None:
    rounds = 8  # of waiting, at a step each: more than the timeout in all
    waited = threading.Semaphore(0)

    def slow(index: int) -> None:
        assert waited.acquire(timeout=PATIENCE)

    loader = DataLoader(
        Samples(rounds, slow), batch_size=rounds, num_workers=workers, timeout=TIMEOUT, on_failure="raise"
    )
    iterator = iter(loader)
    wait = iterator._crew.wait

    def let_one_sample_go() -> None:
        wait()
        waited.release()

    iterator._crew.wait = let_one_sample_go  # type: ignore[method-assign]
    assert [indices(batch) for batch in iterator] == cut(rounds, rounds)


def test_two_leases_never_look_like_one_that_makes_no_progress() -> None:
    kept: list[Any] = []
    loader = DataLoader(Samples(50), num_workers=1, collate_fn=lambda samples: kept.append(worker().mark))
    iterator = iter(loader)

    def worker() -> Any:
        return iterator._crew.pool.workers[0]  # type: ignore[attr-defined]

    list(iterator)
    assert len(kept) == 50
    assert all(one != other for one, other in itertools.combinations(kept, 2))


def test_timeout_zero_waits_as_long_as_it_takes(gate: Gate) -> None:
    loader = DataLoader(Samples(4, Trap(gate, at={2})), num_workers=2)
    iterator = iter(loader)
    assert [indices(next(iterator)) for _ in range(2)] == [[0], [1]]
    assert gate.stuck.acquire(timeout=PATIENCE)
    rounds = 0
    wait = iterator._crew.wait

    def wait_a_while() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 10:
            gate.open()
        wait()

    iterator._crew.wait = wait_a_while  # type: ignore[method-assign]
    assert [indices(batch) for batch in iterator] == [[2], [3]]


@pytest.mark.parametrize("end", ["close", "del", "complete"])
def test_a_stuck_thread_keeps_nothing_of_the_epoch_alive(end: str, gate: Gate) -> None:
    """Close, drop or finish while a worker is blocked in user code: bounded, and the thread goes when it can."""
    dataset = Samples(6, Trap(gate, at={3}, times=1))
    timeout = TIMEOUT if end == "complete" else 0
    loader = DataLoader(dataset, num_workers=2, timeout=timeout, on_failure="rebuild")
    iterator: Any = iter(loader)
    if end == "complete":
        assert [indices(batch) for batch in iterator] == cut(6, 1)
        loader.close()
    else:
        assert indices(next(iterator)) == [0]
        assert gate.stuck.acquire(timeout=PATIENCE)
        if end == "close":
            iterator.close()
            with pytest.raises(Exception, match="closed"):
                next(iterator)
        del iterator
    alive = loader_threads()
    assert len(alive) >= 1
    gate.open(returning=1)
    for thread in alive:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in alive)


def test_the_other_workers_serve_while_one_is_stuck(gate: Gate) -> None:
    loader = DataLoader(
        Samples(30, Trap(gate, at={0})), num_workers=2, in_order=False, timeout=0, on_failure="raise"
    )
    iterator = iter(loader)
    received = sorted(indices(next(iterator))[0] for _ in range(29))
    assert received == list(range(1, 30))
    gate.open()
    assert [indices(batch) for batch in iterator] == [[0]]


def test_a_dead_epoch_after_a_timeout_can_be_taken_up_again(gate: Gate) -> None:
    loader = DataLoader(
        Samples(12, Trap(gate, at={5}, times=1)), batch_size=2, num_workers=2, timeout=TIMEOUT
    )
    before, _ = until_death(loader)
    state = loader.state_dict()
    with pytest.raises(DeadWorkerError):
        iter(loader)
    loader.rebuild()
    loader.load_state_dict(state)
    assert before + [indices(batch) for batch in loader] == cut(12, 2)


def test_arrays_that_a_late_worker_still_writes_to_are_not_the_delivered_ones(gate: Gate) -> None:
    class Late(Samples):
        def __getitem__(self, index: int) -> np.ndarray:
            first = index == 1 and self.trap is not safe
            self.trap(index)
            return np.full(4, -1.0 if first and gate.opened.is_set() else index)

    loader = DataLoader(
        Late(4, Trap(gate, at={1}, times=1)),
        batch_size=2,
        num_workers=1,
        timeout=TIMEOUT,
        on_failure="rebuild",
    )
    batches = list(loader)
    copies = [batch.copy() for batch in batches]
    alive: Callable[[], set[threading.Thread]] = loader_threads
    gate.open(returning=1)
    loader.close()
    for thread in alive():
        thread.join(PATIENCE)
    assert all(np.array_equal(batch, copied) for batch, copied in zip(batches, copies, strict=True))
    assert [row[0] for batch in batches for row in batch] == [0, 1, 2, 3]
