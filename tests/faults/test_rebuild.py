"""A transient failure loses the worker for the rest of the run, or the batch, or the randomness.

Under ``on_failure="rebuild"`` the stream is the undisturbed one, bit for bit, whatever ended the worker.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader import DataLoader, FailurePolicy, LoaderError
from nogil_loader.engine import launch, worker
from nogil_loader.engine.pool import WorkerPool
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.worker import Worker
from tests.conftest import loader_threads
from tests.faults.traps import (
    KINDS,
    PATIENCE,
    WORKERS,
    Batches,
    Samples,
    Spring,
    Stream,
    Trap,
    cut,
    indices,
    kill,
    kill_for_good,
    killed,
    make,
    raises,
    safe,
    stream,
    until_death,
)


def loader_of(kind: str, trap: Spring, **arguments: Any) -> DataLoader:
    defaults: dict[str, Any] = {"batch_size": 3, "seed": 11, "on_failure": "rebuild"}
    if kind != "stream":
        defaults["shuffle"] = True
    return DataLoader(make(kind, 40, trap), **(defaults | arguments))


SPRINGS = {
    "exception": raises(OSError("transient")),
    "SystemExit": raises(SystemExit(1)),
    "StopIteration": raises(StopIteration),
    "GeneratorExit": raises(GeneratorExit),
    "IndexError": raises(IndexError),
    "killed": killed(),
}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spring", SPRINGS)
def test_b10_a_transient_failure_leaves_no_trace_in_the_stream(
    spring: str, kind: str, workers: int, in_order: bool
) -> None:
    undisturbed = stream(loader_of(kind, safe, num_workers=0))
    trap = Trap(SPRINGS[spring], at={7}, times=1)
    loader = loader_of(kind, trap, num_workers=workers, in_order=in_order)
    received = stream(loader)
    if in_order:
        assert received == undisturbed
    else:
        assert sorted(received) == sorted(undisturbed)
    statistics = loader.statistics()
    assert statistics.rebuilds == statistics.restarts == 1
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (40, 40, 0)
    assert loader.skipped == ()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", [0, 1, 20, 38, 39])
def test_b10_at_the_first_any_and_the_last_position(position: int, kind: str, workers: int) -> None:
    undisturbed = stream(loader_of(kind, safe, num_workers=0, shuffle=None))
    trap = Trap(raises(SystemExit), at={position}, times=1)
    assert stream(loader_of(kind, trap, num_workers=workers, shuffle=None)) == undisturbed


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_may_fail_once(kind: str, workers: int) -> None:
    policy = FailurePolicy(rebuild=3)  # as many as there are samples in a batch
    undisturbed = stream(loader_of(kind, safe, num_workers=0))
    loader = loader_of(
        kind, Trap(raises(ValueError), at=range(40), times=1), num_workers=workers, on_failure=policy
    )
    assert stream(loader) == undisturbed
    assert loader.statistics().rebuilds == 40


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("allowed", [0, 1, 5])
def test_after_as_many_rebuilds_as_allowed_the_error_is_raised(allowed: int, kind: str, workers: int) -> None:
    error = ValueError("always")
    trap = Trap(raises(error), at={7})
    loader = loader_of(
        kind, trap, num_workers=workers, shuffle=None, on_failure=FailurePolicy(rebuild=allowed)
    )
    batches, death = until_death(loader)
    assert batches == cut(40, 3)[:2]
    assert death.__cause__ is error
    assert trap.visits[7] == allowed + 1
    assert loader.statistics().rebuilds == allowed
    if kind != "stream":
        assert death.rebuilds == allowed


def test_rebuilds_are_counted_for_each_batch_anew() -> None:
    trap = Trap(raises(ValueError), at=range(0, 40, 3), times=3)
    loader = loader_of("samples", trap, num_workers=2, shuffle=None)
    assert [indices(batch) for batch in loader] == cut(40, 3)
    assert loader.statistics().rebuilds == 3 * 14


def test_a_rebuilt_worker_is_a_new_thread_with_the_old_id() -> None:
    started: list[tuple[int, threading.Thread]] = []

    def start_up(worker_id: int) -> None:
        started.append((worker_id, threading.current_thread()))

    trap = Trap(raises(ValueError), at={5}, times=2)
    list(loader_of("samples", trap, num_workers=1, worker_init_fn=start_up))
    assert [worker_id for worker_id, _ in started] == [0, 0, 0]
    assert len({thread for _, thread in started}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_all_workers_may_die_at_once_and_are_all_replaced(kind: str) -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def die_together(index: int) -> NoReturn:
        barrier.wait()
        raise SystemExit

    def collate(samples: list[Any]) -> Any:
        trap(int(samples[0][0]))
        return np.stack(samples)

    trap = Trap(die_together, at={0, 3, 6}, times=1)
    loader = loader_of(kind, safe, num_workers=3, shuffle=None, collate_fn=collate)
    assert [indices(batch) for batch in loader] == cut(40, 3)
    assert loader.statistics().rebuilds == 3


@pytest.mark.parametrize("policy", ["rebuild", "raise"])
@pytest.mark.parametrize("workers", [1, 3])
def test_idle_workers_may_be_killed_between_epochs(workers: int, policy: str) -> None:
    loader = loader_of("samples", safe, num_workers=workers, shuffle=None, on_failure=policy)
    list(loader)
    victims = [thread for thread in threading.enumerate() if thread.name.startswith("nogil_loader-worker-")]
    for thread in victims[:2]:
        kill_for_good(thread)
    assert [indices(batch) for batch in loader] == cut(40, 3)
    loader.close()
    for thread in victims:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("policy", ["rebuild", "skip"])
@pytest.mark.parametrize("workers", [1, 3])
def test_idle_workers_may_be_killed_while_the_queue_is_full(workers: int, policy: str) -> None:
    loaded = threading.Semaphore(0)

    class Counted(Samples):
        def __getitem__(self, index: int) -> Any:
            try:
                return super().__getitem__(index)
            finally:
                loaded.release()

    threads: set[threading.Thread] = set()
    loader = DataLoader(
        Counted(40),
        batch_size=3,
        num_workers=workers,
        on_failure=policy,
        worker_init_fn=lambda worker_id: threads.add(threading.current_thread()),
    )
    iterator = iter(loader)
    for _ in range(workers * 3 * 3):  # num_workers * (prefetch_factor + 1) batches of three
        assert loaded.acquire(timeout=PATIENCE)
    for thread in list(threads):
        # One by one: Python 3.11 forgets about one of two kills at the same time. And awake: see EpochRun.nudge.
        kill_for_good(thread, iterator._run.nudge)
    assert [indices(batch) for batch in iterator] == cut(40, 3)


def test_an_idle_worker_that_is_killed_under_raise_ends_the_epoch_with_an_error() -> None:
    ready = threading.Event()

    class Signals(Samples):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                ready.set()
            return super().__getitem__(index)

    threads: list[threading.Thread] = []
    loader = DataLoader(
        Signals(40),
        num_workers=1,
        worker_init_fn=lambda worker_id: threads.append(threading.current_thread()),
    )
    iterator = iter(loader)
    assert ready.wait(PATIENCE)  # the queue is full, or is going to be with this sample
    kill(threads[0].ident)
    threads[0].join(PATIENCE)
    batches, death = until_death(iterator)
    assert batches == cut(40, 1)[: len(batches)]
    assert isinstance(death.__cause__, SystemExit)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_a_thread_that_vanished_without_an_outcome_is_noticed(
    kind: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vanish_in_the_middle(monkeypatch, times=None)
    batches, death = until_death(loader_of(kind, safe, num_workers=workers, on_failure="raise"))
    assert batches == []
    assert death.__cause__ is None
    assert "without a word" in str(death)
    assert death.batch == 0
    assert len(death.indices) == 3


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_a_thread_that_vanished_without_an_outcome_is_replaced(
    kind: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = stream(loader_of(kind, safe, num_workers=0))
    vanish_in_the_middle(monkeypatch, times=4)
    loader = loader_of(kind, safe, num_workers=workers, on_failure=FailurePolicy(rebuild=4))
    assert stream(loader) == undisturbed
    assert loader.statistics().rebuilds == 4


def vanish_in_the_middle(monkeypatch: pytest.MonkeyPatch, times: int | None) -> None:
    """Let the first worker threads return while they hold a ticket, as no code path of theirs does."""
    load_next = Worker.load_next
    count = itertools.count()

    def vanish(self: Worker, run: EpochRun) -> bool:
        if times is not None and next(count) >= times:
            return load_next(self, run)
        self.lease = run.lease(self)
        return self.lease is None

    monkeypatch.setattr(Worker, "load_next", vanish)


def test_a_worker_for_which_there_is_no_thread_ends_the_epoch_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = loader_of("samples", Trap(raises(ValueError), at={20}, times=1), num_workers=1, shuffle=None)
    iterator = iter(loader)

    def start(self: Worker) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Worker, "start", start)
    batches, death = until_death(iterator)
    assert batches == cut(40, 3)[: len(batches)]
    assert "can't start new thread" in str(death)


def test_fewer_threads_than_wanted_still_deliver_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Worker.start

    def start(self: Worker) -> None:
        if self.id > 1:
            raise RuntimeError("can't start new thread")
        original(self)

    monkeypatch.setattr(Worker, "start", start)
    trap = Trap(raises(ValueError), at={20}, times=1)
    loader = loader_of("samples", trap, num_workers=4, shuffle=None)
    assert [indices(batch) for batch in loader] == cut(40, 3)
    assert loader.statistics().num_workers == 2


@pytest.mark.parametrize("kind", KINDS)
def test_g7_a_thread_that_never_comes_to_life_does_not_hold_its_starter(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there is no memory for a thread's first steps."""
    monkeypatch.setattr(launch, "LAUNCH_SECONDS", 0.05)
    monkeypatch.setattr(worker, "LAUNCH_SECONDS", 0.05)
    stillborn: list[str] = []
    original = threading.Thread._bootstrap  # type: ignore[attr-defined]

    def bootstrap(self: threading.Thread) -> None:
        if self.name.startswith("nogil_loader-") and len(stillborn) < 2:
            stillborn.append(self.name)
        else:
            original(self)

    monkeypatch.setattr(threading.Thread, "_bootstrap", bootstrap)
    with loader_of(kind, safe, num_workers=2, shuffle=None) as loader:
        assert [indices(batch) for batch in loader] == cut(40, 3)
    assert len(stillborn) == 2
    # CPython goes on counting them among those that are about to start; the next test would look for them.
    limbo = threading._limbo  # type: ignore[attr-defined]
    for thread in [thread for thread in limbo if thread.name in stillborn]:
        del limbo[thread]


def test_no_thread_at_all_is_an_error_that_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Worker) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "start", start)
        loader = loader_of("samples", safe, num_workers=2, shuffle=None)
        with pytest.raises(
            LoaderError, match=r"not one of 2 worker threads .*can't start new thread.*ulimit -u"
        ):
            iter(loader)
    assert [indices(batch) for batch in loader] == cut(40, 3)


def test_no_thread_for_the_reader_is_an_error_that_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if "reader" in self.name:
            raise RuntimeError("can't start new thread")
        original(self)

    loader = loader_of("stream", safe, num_workers=2)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            iter(loader)
    assert [indices(batch) for batch in loader] == cut(40, 3)


@pytest.mark.parametrize("workers", WORKERS)
def test_an_iterable_is_opened_anew_and_read_up_to_where_it_failed(workers: int) -> None:
    dataset = Stream(40, Trap(raises(ValueError), at={7, 22, 39}, times=2))
    loader = DataLoader(dataset, batch_size=3, num_workers=workers, on_failure="rebuild")
    assert [indices(batch) for batch in loader] == cut(40, 3)
    assert dataset.opened == 1 + 3 * 2


@pytest.mark.parametrize("workers", WORKERS)
def test_rebuilding_by_hand_brings_a_loader_back_any_number_of_times(workers: int) -> None:
    trap = Trap(raises(ValueError), at={7}, times=3)
    loader = DataLoader(Batches(20, trap), batch_size=2, num_workers=workers)
    for _ in range(3):
        until_death(loader)
        loader.rebuild()
    loader.rebuild()  # a healthy one as well
    assert [indices(batch) for batch in loader] == cut(20, 2)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_the_cause_of_a_late_failure_is_the_last_one(kind: str, workers: int) -> None:
    errors = [ValueError("first"), KeyError("second"), SystemExit("third")]
    remaining = iter(errors)

    def fail(index: int) -> NoReturn:
        raise next(remaining)

    loader = loader_of(kind, Trap(fail, at={7}), num_workers=workers, on_failure=FailurePolicy(rebuild=2))
    _, death = until_death(loader)
    assert death.__cause__ is errors[2]
    assert "third" in str(death)
    assert "tried again on 2 rebuilt worker(s)" in str(death)


@pytest.mark.parametrize("policy", [FailurePolicy(rebuild=1), FailurePolicy(skip=1)])
def test_the_next_epoch_reaches_the_replacement_though_the_dying_thread_is_slow(
    policy: FailurePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Worker.start
    over = threading.Event()

    def slow_to_come_back(self: Worker) -> None:
        start(self)
        if threading.current_thread() is not threading.main_thread():
            # The replacement works already; the dying thread gets no further before it has done everything.
            assert over.wait(PATIENCE)

    monkeypatch.setattr(Worker, "start", slow_to_come_back)
    trap = Trap(raises(ValueError), at={2}, times=1)
    loader = DataLoader(Samples(6, trap), num_workers=1, on_failure=policy)
    first = iter(loader)
    for _ in range(6 if policy.rebuild else 5):
        next(first)
    over.set()
    assert list(first) == []
    assert [indices(batch) for batch in loader] == cut(6, 1)
    assert [indices(batch) for batch in loader] == cut(6, 1)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("policy", [FailurePolicy(rebuild=1), FailurePolicy(skip=1)])
def test_a_failure_in_every_epoch_is_survived_in_every_epoch(policy: FailurePolicy, workers: int) -> None:
    failures = itertools.count()

    def fail_every_other_time(index: int) -> None:
        if policy.skip or next(failures) % 2 == 0:
            raise ValueError(index)

    dataset = Samples(4, Trap(fail_every_other_time, at={2}))
    loader = DataLoader(dataset, num_workers=workers, on_failure=policy)
    for _ in range(100):
        assert [indices(batch) for batch in loader] == (
            [[0], [1], [2], [3]] if policy.rebuild else [[0], [1], [3]]
        )


@pytest.mark.parametrize("policy", ["raise", "rebuild"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_worker_that_dies_just_before_the_next_epoch_is_replaced(
    victim: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = loader_threads()
    loader = loader_of("samples", safe, num_workers=3, shuffle=None, on_failure=policy)
    list(loader)
    mine = sorted(loader_threads() - before, key=lambda thread: thread.name)
    kill(mine[victim].ident)
    mine[victim].join(PATIENCE)
    # As if it had died right after the look whether the pool is fit for another epoch.
    monkeypatch.setattr(WorkerPool, "reusable", True)
    assert [indices(batch) for batch in loader] == cut(40, 3)
    assert len([thread for thread in loader_threads() - before if thread.is_alive()]) == 3
    loader.close()
    for thread in mine:
        thread.join(PATIENCE)
        assert not thread.is_alive()
