"""What consumer and workers share: no wait without a limit, and no lock that a finaliser could run into."""

from __future__ import annotations

import contextvars
import random
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nogil_loader.engine.ledger import END, Ledger
from nogil_loader.engine.outcome import Failure, Loaded
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.scope import SampleScope, current_scope
from nogil_loader.engine.snapshot import snapshot
from nogil_loader.engine.ticket import Emptied, Failed, Lease, Ready, Ticket, Verdict
from nogil_loader.engine.tuning import Setting
from nogil_loader.policies import FailurePolicy

PATIENCE = 20.0
SETTING = Setting(num_workers=2, prefetch_factor=2)
BAD = Failure(0, ValueError("bad"))


def make(
    *,
    tickets: int = 0,
    rebuild: int = 0,
    setting: Setting = SETTING,
    in_order: bool = True,
    size: int = 2,
) -> EpochRun:
    policy = FailurePolicy(rebuild=rebuild)
    run = EpochRun(
        Ledger(policy, epoch=3, in_order=in_order),
        policy,
        seed=5,
        epoch=3,
        setting=setting,
    )
    for number in range(tickets):
        run.plan(ticket(number, size))
    return run


def take(run: EpochRun) -> Any:
    """What the consumer does with what is next."""
    item = run.peek()
    if isinstance(item, Ready | Emptied):
        run.deliver(item)
    return item


def ticket(number: int, size: int = 2) -> Ticket:
    return Ticket(number, number * size, size, list(range(number * size, number * size + size)))


def leased(run: EpochRun, worker: Any = "worker") -> Lease:
    lease = run.lease(worker)
    assert lease is not None
    return lease


@contextmanager
def working(*targets: Any) -> Iterator[None]:
    """Run functions in threads of their own, and see to it that all of them come to an end."""
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def receive(run: EpochRun) -> Any:
    """Wait as the consumer does."""
    while (item := take(run)) is None:
        run.wait()
    return item


# One at a time


def test_a_ticket_is_leased_in_order_and_delivered_in_order() -> None:
    run = make(tickets=3)
    run.end_plan()
    leases = [leased(run, name) for name in "abc"]
    assert run.lease("d") is None
    assert [lease.ticket.number for lease in leases] == [0, 1, 2]
    assert run.finish(leases[1], Loaded("one"))
    assert take(run) is None
    assert run.finish(leases[0], Loaded("zero"))
    assert [receive(run).batch for _ in range(2)] == ["zero", "one"]
    assert take(run) is None
    assert run.finish(leases[2], Loaded("two"))
    assert isinstance(take(run), Ready)
    assert take(run) is END
    done = snapshot(run, 2)
    assert (done.epoch, done.planned, done.delivered, done.batches, done.workers_alive) == (3, 6, 6, 3, 2)


def test_room_is_what_capacity_leaves_and_a_delivery_makes_some() -> None:
    run = make(tickets=2, setting=Setting(1, 1))
    assert not run.has_room
    run.finish(leased(run), Loaded("batch"))
    assert not run.has_room
    take(run)
    assert run.has_room


def test_a_failure_is_tried_again_as_often_as_the_policy_says_and_counted() -> None:
    run = make(tickets=1, rebuild=2)
    assert run.fail(leased(run), BAD) is Verdict.REBUILD
    assert run.fail(leased(run), BAD) is Verdict.REBUILD
    assert run.fail(leased(run), BAD) is Verdict.FATAL
    assert run.rebuilds == snapshot(run).rebuilds == 2
    item = take(run)
    assert isinstance(item, Failed)
    assert item.failure is BAD


def test_a_void_lease_can_neither_finish_nor_fail_nor_be_counted() -> None:
    run = make(tickets=1, rebuild=1)
    old = leased(run, "stuck")
    assert run.fail(old, BAD) is Verdict.REBUILD
    new = leased(run, "fresh")
    assert run.fail(old, BAD) is Verdict.STALE
    assert not run.finish(old, Loaded("late"))
    assert run.finish(new, Loaded("right"))
    assert run.rebuilds == 1
    assert receive(run).batch == "right"


def test_a_released_lease_is_loaded_again_without_blame() -> None:
    run = make(tickets=1)
    run.release(leased(run))
    assert run.wait_for_ticket()
    again = leased(run)
    assert again.ticket.rebuilds == 0
    assert run.leases_of("worker") == [again]
    assert run.leases_of("other") == []


def test_deaths_outside_a_ticket_are_counted_per_worker_and_forgiven_by_a_batch() -> None:
    run = make(tickets=2, rebuild=2)
    one, other = Failure(1, ValueError()), Failure(2, ValueError())
    assert [run.fail_outside_ticket(one) for _ in range(2)] == [Verdict.REBUILD] * 2
    assert [run.fail_outside_ticket(other) for _ in range(2)] == [Verdict.REBUILD] * 2
    run.finish(leased(run), Loaded("batch"))
    assert [run.fail_outside_ticket(one) for _ in range(3)] == [
        Verdict.REBUILD,
        Verdict.REBUILD,
        Verdict.FATAL,
    ]
    assert run.rebuilds == 6
    assert isinstance(take(run), Failed)


def test_a_final_death_is_fatal_whatever_the_policy_says() -> None:
    run = make(tickets=1, rebuild=5)
    assert run.fail(leased(run), BAD, final=True) is Verdict.FATAL
    run = make(rebuild=5)
    assert run.fail_outside_ticket(BAD, final=True) is Verdict.FATAL


def test_a_plan_that_breaks_off_delivers_what_was_planned_before() -> None:
    run = make(tickets=1)
    run.fail_plan(2, 1, BAD)
    assert take(run) is None
    run.finish(leased(run), Loaded("batch"))
    assert isinstance(take(run), Ready)
    assert isinstance(take(run), Failed)


# Waiting


def test_nobody_waits_longer_than_a_step_for_nothing() -> None:
    run = make()
    assert not run.wait()
    assert not run.wait_for_ticket()
    full = make(tickets=6)
    full.wait_for_room()
    assert not full.has_room


def test_the_consumer_is_woken_by_the_batch_it_waits_for_and_only_by_that() -> None:
    run = make(tickets=3)
    first, second, third = (leased(run) for _ in range(3))
    assert take(run) is None
    run.finish(second, Loaded("second"))
    assert not run.wait()
    run.finish(first, Loaded("first"))
    assert run.wait()
    run.finish(third, Loaded("third"))
    assert not run.wait()  # it does not sleep: three batches are there to be taken
    assert [receive(run).batch for _ in range(3)] == ["first", "second", "third"]


def test_a_consumer_that_got_something_is_not_woken_for_what_comes_while_it_is_away() -> None:
    run = make(tickets=2)
    first, second = leased(run), leased(run)
    run.finish(first, Loaded("first"))
    assert receive(run).batch == "first"
    run.finish(second, Loaded("second"))
    assert not run.wait()
    assert receive(run).batch == "second"


@pytest.mark.parametrize("event", ["end_plan", "fail_plan", "fatal failure", "fatal death"])
def test_the_consumer_is_woken_by_every_kind_of_end(event: str) -> None:
    run = make(tickets=0 if event in ("end_plan", "fail_plan") else 1)
    assert take(run) is None
    if event == "end_plan":
        run.end_plan()
    elif event == "fail_plan":
        run.fail_plan(0, 0, BAD)
    elif event == "fatal failure":
        run.fail(leased(run), BAD)
    else:
        run.fail_outside_ticket(BAD)
    assert run.wait()
    assert take(run) is not None


@pytest.mark.parametrize("event", ["plan", "rebuild", "retry", "release"])
def test_a_worker_is_woken_by_every_kind_of_work(event: str) -> None:
    run = make(tickets=0 if event == "plan" else 1, rebuild=1)
    if event == "plan":
        run.plan(ticket(0))
    else:
        assert run.wait_for_ticket()
        lease = leased(run)
        if event == "release":
            run.release(lease)
        else:
            run.fail(lease, Failure(0, MemoryError() if event == "retry" else ValueError()))
    assert run.wait_for_ticket()
    assert run.lease("worker") is not None


def test_the_reader_is_woken_by_a_delivery() -> None:
    run = make(tickets=6)
    lease = leased(run)
    about_to_wait = threading.Event()

    def read() -> None:
        about_to_wait.set()
        while not run.has_room:
            run.wait_for_room()

    with working(read):
        assert about_to_wait.wait(PATIENCE)
        run.finish(lease, Loaded("batch"))
        assert isinstance(receive(run), Ready)


# Closing


def test_close_wakes_everybody_and_turns_everything_away() -> None:
    run = make(tickets=2, setting=Setting(1, 1))
    lease = leased(run)
    assert run.wait_for_ticket()
    assert run.wait_for_ticket()
    begun = threading.Barrier(5)

    def work() -> None:
        begun.wait(PATIENCE)
        while not run.closed:
            run.wait_for_ticket()

    def read() -> None:
        begun.wait(PATIENCE)
        while not run.closed:
            run.wait_for_room()

    with working(work, work, work, read):
        begun.wait(PATIENCE)
        run.close()
    assert run.wait()
    assert run.lease("worker") is None
    assert not run.finish(lease, Loaded("late"))
    assert run.fail(lease, BAD) is Verdict.STALE
    assert run.fail_outside_ticket(BAD) is Verdict.STALE
    run.close()


def test_close_keeps_no_batch_no_sample_and_no_context() -> None:
    class Tracked:
        pass

    value = contextvars.ContextVar[Any]("value")
    batch, sample, kept = Tracked(), Tracked(), Tracked()
    references = [weakref.ref(one) for one in (batch, sample, kept)]
    context = contextvars.copy_context()
    context.run(value.set, kept)
    run = context.run(make, tickets=1)
    run.plan(Ticket(1, 2, 1, [2], [sample]))
    run.finish(leased(run), Loaded(batch))
    del batch, sample, kept, context
    assert all(reference() is not None for reference in references)
    run.close()
    assert [reference() for reference in references] == [None] * 3


def test_close_takes_no_lock_so_that_a_finaliser_may_call_it_anywhere() -> None:
    run = make(tickets=1)
    with run.lock:  # as if the garbage collector ran in the middle of a transition
        run.close()
    assert run.closed


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_close_in_a_signal_handler_does_not_deadlock_with_the_code_it_interrupts() -> None:
    run = make(setting=Setting(1, 10**9))
    closed = []

    def handle(number: int, frame: Any) -> None:
        run.close()
        closed.append(number)

    previous = signal.signal(signal.SIGUSR1, handle)
    try:
        main = threading.main_thread().ident
        assert main is not None
        running = threading.Event()

        def interrupt() -> None:
            running.wait(PATIENCE)
            signal.pthread_kill(main, signal.SIGUSR1)

        with working(interrupt):
            number = 0
            while not closed:
                run.plan(ticket(number))
                take(run)
                number += 1
                running.set()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert run.closed


def test_closing_costs_as_much_as_there_are_workers_however_deep_the_prefetching() -> None:
    run = make(setting=Setting(2, 10**12))
    run.close()
    rings = 0
    while not run._tickets.empty():
        run._tickets.get()
        rings += 1
    assert rings == 2


# Context


def test_the_context_is_that_of_the_moment_when_the_epoch_began() -> None:
    value = contextvars.ContextVar("value", default="before")
    token = value.set("at the beginning")
    run = make()
    value.set("later")
    assert run.context.copy().run(value.get) == "at the beginning"
    value.reset(token)


def test_a_run_knows_whether_code_that_asks_is_loading_for_it() -> None:
    outer = make()
    token = current_scope.set(SampleScope(0, 0, outer))
    try:
        inner = make()
    finally:
        current_scope.reset(token)
    assert outer.is_loading_in(SampleScope(0, 0, outer))
    assert outer.is_loading_in(SampleScope(0, 0, inner))
    assert not inner.is_loading_in(SampleScope(0, 0, outer))
    assert not outer.is_loading_in(None)
    assert not outer.is_loading_in(SampleScope(0, 0, object()))


# All at once


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_g1_many_workers_that_fail_now_and_then_deliver_each_ticket_once(seed: int, in_order: bool) -> None:
    total, workers = 300, 5
    run = make(rebuild=10**6, setting=Setting(workers, 2), in_order=in_order, size=1)

    def work() -> None:
        dice = random.Random(seed + threading.get_ident())
        while not run.closed:
            run.wait_for_ticket()
            lease = run.lease(threading.get_ident())
            if lease is None:
                continue
            what = dice.random()
            if what < 0.1:
                run.fail(lease, BAD)
            elif what < 0.2:
                run.release(lease)
            else:
                assert run.finish(lease, Loaded(lease.ticket.start))
                assert not run.finish(lease, Loaded("twice"))

    received: list[Any] = []
    drawn = 0
    with working(*[work] * workers):
        while True:
            while drawn < total and run.has_room:
                run.plan(ticket(drawn, 1))
                drawn += 1
                if drawn == total:
                    run.end_plan()
            item = take(run)
            if item is END:
                break
            if item is None:
                run.wait()
            else:
                assert isinstance(item, Ready)
                received.append(item.batch)
            assert run.ledger.outstanding <= run.capacity
        run.close()
    assert (received if in_order else sorted(received)) == list(range(total))
