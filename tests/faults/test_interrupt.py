"""Ctrl-C does nothing, ends in "Fatal Python error", or leaves a loader that hangs or has lost a batch.

In a worker a KeyboardInterrupt is a failure like any other; in the consumer's thread it is the program's own,
comes at once, and whoever catches it may go on.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, FailurePolicy, LoaderError, LoaderIterator
from nogil_loader.engine import pool as pool_module
from nogil_loader.engine.stopwatch import Stopwatch
from nogil_loader.engine.worker import Worker
from tests.faults.interrupts import Interruption, asynchronous_exit, at_every_place, ctrl_c, interrupted
from tests.faults.traps import (
    KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Trap,
    cut,
    indices,
    make,
    raises,
    until_death,
)
from tests.loading import Noisy
from tests.scripts import RunScript

# Thousands of places each take milliseconds, more on a busy machine.
pytestmark = pytest.mark.timeout(85)

_PREAMBLE = """
import os, signal, sys, threading
from nogil_loader import DataLoader

class Slow:
    go_on = threading.Event()
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 20:
            os.kill(os.getpid(), signal.SIGINT)  # while the consumer waits for this very sample
            self.go_on.wait(20)
        return index

class SlowStream:
    def __iter__(self):
        return map(Slow().__getitem__, range(100))
"""


@pytest.mark.parametrize("kind", ["Slow", "SlowStream"])
@pytest.mark.parametrize("workers", [1, 3])
def test_b33_ctrl_c_ends_a_program_that_waits_for_a_batch(
    workers: int, kind: str, run_script: RunScript
) -> None:
    result = run_script(
        f"""{_PREAMBLE}
for batch in DataLoader({kind}(), num_workers={workers}):
    pass
"""
    )
    assert result.returncode == -signal.SIGINT
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.stderr.endswith("KeyboardInterrupt\n")
    assert result.stderr.count("Traceback") == 1
    assert "Fatal" not in result.stderr


@pytest.mark.parametrize("kind", ["Slow", "SlowStream"])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_b33_whoever_catches_ctrl_c_may_go_on(workers: int, kind: str, run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
iterator = iter(DataLoader({kind}(), num_workers={workers}))
received, interrupts = [], 0
while True:
    try:
        batch = next(iterator)
    except StopIteration:
        break
    except KeyboardInterrupt:
        interrupts += 1
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sample is loaded anew, and sends it again
        Slow.go_on.set()
    else:
        received.append(int(batch[0]))
assert received == list(range(100)), received
print(interrupts)
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["raise", "rebuild", FailurePolicy(skip=3)])
def test_b33_without_workers_an_interrupt_in_a_sample_is_the_consumers(policy: Any, kind: str) -> None:
    trap = Trap(raises(KeyboardInterrupt), at={0, 5, 9}, times=1)
    loader = DataLoader(make(kind, 10, trap), batch_size=2, num_workers=0, on_failure=policy)
    iterator = iter(loader)
    received = []
    interrupts = 0
    while True:
        try:
            received.append(indices(next(iterator)))
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 3
    assert received == cut(10, 2)
    assert loader.skipped == ()


@pytest.mark.parametrize("kind", KINDS)
def test_b33_in_a_worker_it_is_a_failure_like_any_other(kind: str) -> None:
    loader = DataLoader(make(kind, 10, Trap(raises(KeyboardInterrupt), at={5})), batch_size=2, num_workers=2)
    batches, death = until_death(loader)
    assert batches == cut(10, 2)[:2]
    assert isinstance(death.__cause__, KeyboardInterrupt)


@contextmanager
def rescue(iterator: LoaderIterator) -> Iterator[None]:
    """Turn a hang into an outcome: close the iterator in the end, which next() then reports."""
    timer = threading.Timer(PATIENCE / 2, iterator.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def consume(iterator: LoaderIterator, interrupts: int = 0) -> Any:
    """The indices of an epoch, or what it ended with. Goes on after as many interrupts."""
    received: list[list[int]] = []
    while True:
        try:
            received.append(indices(next(iterator)))
        except StopIteration:
            return received
        except KeyboardInterrupt:
            if not interrupts:
                return ["interrupted for good", *received]
            interrupts -= 1
        except Exception as error:
            return f"{error!r} after {received}"


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_any_place_of_next_neither_hangs_nor_loses_nor_repeats_a_batch(
    kind: str, workers: int
) -> None:
    def attempt(number: int) -> tuple[Interruption, Any]:
        loader = DataLoader(make(kind, 6), batch_size=2, num_workers=workers)
        iterator = iter(loader)
        with rescue(iterator), interrupted(number, ctrl_c) as interruption:
            outcome = consume(iterator, interrupts=1)
        if outcome[0] == "interrupted for good":
            # In the middle of drawing the plan, which cannot be asked again. But nothing is lost.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of reading an iterable anew
                loader.load_state_dict(loader.state_dict())
                outcome = [*outcome[1:], *consume(iter(loader))]
        if interruption.place is not None and interruption.place.endswith((".deliver", ".__next__")):
            # Too late to be taken back: next() is about to return. As when a signal comes right after it.
            outcome = sorted([*outcome, *(batch for batch in cut(6, 2) if batch not in outcome)][:3])
        loader.close()
        return interruption, outcome

    at_every_place(attempt, cut(6, 2))


def test_g4_ctrl_c_while_a_ticket_is_looked_at_closely_leaves_samples_their_own_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scope for tickets that are looked at must not stay where the others' samples look for theirs."""
    expected = stream_of(DataLoader(Noisy(40), 4, seed=3, num_workers=0))
    learn, strikes = Stopwatch._learn, [KeyboardInterrupt()]

    def struck(self: Stopwatch, *arguments: Any) -> None:
        self.due = math.inf  # nothing is looked at any more
        if strikes:
            raise strikes.pop()
        learn(self, *arguments)

    monkeypatch.setattr(Stopwatch, "_learn", struck)
    iterator = iter(DataLoader(Noisy(40), 4, seed=3, num_workers=0))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert stream_of(iterator) == expected


def stream_of(batches: Iterable[Any]) -> list[Any]:
    return [{key: value.tolist() for key, value in batch.items()} for batch in batches]


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_close_at_any_place_of_next_is_reported_as_such(kind: str, workers: int) -> None:
    def attempt(number: int) -> tuple[Interruption, Any]:
        iterator = iter(DataLoader(make(kind, 4), batch_size=2, num_workers=workers))
        with interrupted(number, iterator.close) as interruption:
            outcome = consume(iterator)
        return interruption, outcome if isinstance(outcome, list) else outcome[:44]

    at_every_place(attempt, cut(4, 2), "LoaderError('this iterator is closed; iter(l")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_killed_at_any_place_is_replaced_without_a_trace_in_the_stream(kind: str) -> None:
    def attempt(number: int) -> tuple[Interruption, Any]:
        return kill_a_worker(number, kind, "rebuild")

    at_every_place(attempt, cut(6, 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_killed_at_any_place_under_raise_never_ends_an_epoch_short(kind: str) -> None:
    def attempt(number: int) -> tuple[Interruption, Any]:
        interruption, outcome = kill_a_worker(number, kind, "raise")
        dead = isinstance(outcome, str) and outcome.startswith("DeadWorkerError")
        return interruption, "dead" if dead else outcome

    at_every_place(attempt, cut(6, 2), "dead")


def kill_a_worker(number: int, kind: str, policy: str) -> tuple[Interruption, Any]:
    interruption = Interruption(number, asynchronous_exit)
    loader = DataLoader(
        make(kind, 6),
        batch_size=2,
        num_workers=1,
        on_failure=policy,
        worker_init_fn=lambda worker_id: sys.settrace(interruption.enter),
    )
    iterator = iter(loader)
    with rescue(iterator):
        outcome = consume(iterator)
    loader.close()
    return interruption, outcome


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="shows no bytecodes of a function's first traced call"
)
@pytest.mark.parametrize("workers", [1, 3])
def test_ctrl_c_while_a_stuck_worker_is_given_up_on_leaves_nothing_half_done(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(pool_module, "read_memory", lambda: None)  # many places, all of them the same to us

    def attempt(number: int) -> tuple[Interruption, Any]:
        stuck = Trap(lambda index: released.wait(PATIENCE), at={0}, times=1)
        loader = DataLoader(Samples(3, stuck), num_workers=workers, timeout=0.01, on_failure="rebuild")
        iterator = iter(loader)
        pool = iterator._crew.pool  # type: ignore[attr-defined]
        give_up = pool._give_up
        interruption = Interruption(number, ctrl_c)

        def traced(*arguments: Any) -> None:
            sys.settrace(interruption.enter)
            try:
                give_up(*arguments)
            finally:
                sys.settrace(None)

        pool._give_up = traced
        with rescue(iterator):
            outcome = consume(iterator, interrupts=1)
        iterator.close()
        return interruption, outcome

    try:
        at_every_place(attempt, cut(3, 1))
    finally:
        released.set()


@pytest.mark.parametrize("workers", [1, 3])
def test_closing_from_a_signal_handler_while_threads_are_started(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    def handler(number: int, frame: Any) -> None:
        loader.close()
        closed.append(True)

    start = Worker.start

    def interrupted_start(self: Worker) -> None:
        start(self)
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        loader = DataLoader(Samples(8), num_workers=workers)
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "start", interrupted_start)
            iterator = iter(loader)
        assert len(closed) == workers
        iterator.close()
        assert [indices(batch) for batch in loader] == cut(8, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_closing_from_a_signal_handler_within_next(kind: str, workers: int) -> None:
    def handler(number: int, frame: Any) -> None:
        iterator.close()

    main = threading.main_thread().ident
    assert main is not None

    def strike(index: int) -> None:
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        iterator = iter(DataLoader(make(kind, 1000, Trap(strike, at={500})), num_workers=workers))
        with pytest.raises(LoaderError, match="closed"):
            for batch in iterator:
                assert isinstance(batch, np.ndarray)
    finally:
        signal.signal(signal.SIGUSR1, before)
