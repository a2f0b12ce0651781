"""Stopwatches: how many tickets are timed, what those stand for, and that nobody else is disturbed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine import listening, stopwatch
from nogil_loader.engine.listening import Listener, add_listener, remove_listener
from nogil_loader.engine.outcome import Failure, GivenBack, Loaded, Outcome
from nogil_loader.engine.scope import COLLATE, COMPILE, FETCH, SampleScope, current_scope
from nogil_loader.engine.stopwatch import Stopwatch
from nogil_loader.engine.ticket import Ticket


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(stopwatch, "perf_counter", clock)
    monkeypatch.setattr(stopwatch, "thread_time", clock)
    yield clock
    assert listening.listeners == ()


def ticket(samples: int = 4) -> Ticket:
    return Ticket(0, 0, samples, list(range(samples)))


def load(watch: Stopwatch, clock: Clock, *stages: tuple[str, float], outcome: Outcome | None = None) -> bool:
    """Load a ticket as a worker does; return whether it was timed."""
    plain = SampleScope(seed=1, epoch=2, owner=None)
    loaded = Loaded([b"1234"]) if outcome is None else outcome

    def attempt(scope: SampleScope) -> Callable[[], Outcome]:
        def run() -> Outcome:
            for stage, seconds in stages:
                scope.stage = stage
                clock.now += seconds
            return loaded._replace(raw=loaded.batch) if isinstance(loaded, Loaded) else loaded

        return run

    watch.tickets += 1
    if watch.tickets < watch.due:
        attempt(plain)()
        return False
    timed = watch.scope(plain)
    assert (timed.seed, timed.epoch) == (1, 2)
    assert watch.time(ticket(), timed, attempt(timed)) is not None
    return True


def test_slow_tickets_are_all_timed_and_the_sums_are_exact(clock: Clock) -> None:
    watch = Stopwatch(0, lambda at: None)
    for _ in range(50):
        assert load(watch, clock, (FETCH, 0.5), (COLLATE, 0.25), (FETCH, 0.25))
    assert watch.seconds[FETCH] == pytest.approx(37.5)
    assert watch.seconds[COLLATE] == pytest.approx(12.5)
    assert watch.wall == watch.cpu == pytest.approx(50.0)
    assert watch.samples == 200
    assert list(watch.latest) == pytest.approx([1.0] * 50)


@given(micros=st.integers(5, 2000))
def test_timing_takes_no_more_than_its_share(micros: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(stopwatch, "perf_counter", clock)
        patch.setattr(stopwatch, "thread_time", clock)
        watch = Stopwatch(0, lambda at: None)
        timed = sum(load(watch, clock, (FETCH, micros * 1e-6)) for _ in range(2000))
    # What is timed first is timed without knowing what it costs.
    cost = (timed - 1) * (stopwatch._PER_TICKET + 2 * stopwatch._PER_STAGE)
    assert cost <= stopwatch._COST * 2000 * micros * 1e-6
    # What was timed stands for the others, but for those that came since the last one.
    assert watch.wall == pytest.approx(2000 * micros * 1e-6, rel=watch.due / 2000 + 1e-9)


def test_a_slow_phase_does_not_count_for_the_fast_one_after_it(clock: Clock) -> None:
    watch = Stopwatch(0, lambda at: None)
    for _ in range(10):
        load(watch, clock, (FETCH, 1.0))
    for _ in range(5000):
        load(watch, clock, (COLLATE, 50e-6))
    assert watch.seconds[FETCH] == pytest.approx(10.0)
    assert watch.seconds[COLLATE] == pytest.approx(0.25, rel=0.05)


def test_compiling_is_nobodys_delay(clock: Clock) -> None:
    watch = Stopwatch(0, lambda at: None)
    load(watch, clock, (FETCH, 1.0), (COMPILE, 30.0), (COLLATE, 1.0))
    assert watch.wall == pytest.approx(2.0)
    assert watch.seconds[COMPILE] == pytest.approx(30.0)


@pytest.mark.parametrize("outcome", [Failure(0, ValueError("x")), GivenBack()])
def test_what_comes_to_nothing_takes_time_but_makes_no_batch(clock: Clock, outcome: Outcome) -> None:
    watch = Stopwatch(0, lambda at: None)
    load(watch, clock, (FETCH, 1.0), outcome=outcome)
    assert (watch.wall, watch.samples, watch.nbytes, len(watch.latest)) == (1.0, 0, 0, 0)


def test_the_scope_of_the_caller_is_current_again_afterwards(clock: Clock) -> None:
    plain = SampleScope(0, 0)
    token = current_scope.set(plain)
    load(Stopwatch(0, lambda at: None), clock, (FETCH, 1.0))
    assert current_scope.get() is plain
    current_scope.reset(token)


def test_a_ticket_under_way_counts_with_what_it_has_taken_so_far(clock: Clock) -> None:
    watch = Stopwatch(0, lambda at: None)
    seen: list[dict[str, float]] = []
    timed = watch.scope(SampleScope(0, 0))

    def attempt() -> Outcome:
        timed.stage = FETCH
        clock.now += 5.0
        seen.append(watch.under_way(clock.now))
        return Loaded([], raw=[])

    watch.tickets += 1
    watch.time(ticket(), timed, attempt)
    assert seen[0][FETCH] == pytest.approx(5.0)
    assert watch.under_way(clock.now) == {}


class Recorder(Listener):
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def enter(self, worker: int | str, stage: str, at: float) -> None:
        self.told.append((worker, stage, at))

    def begin(self, worker: int | str, ticket: Ticket, at: float) -> None:
        self.told.append((worker, "begin", len(ticket.keys), at))

    def end(self, worker: int | str, ticket: Ticket, nbytes: int, outcome: str, at: float) -> None:
        self.told.append((worker, outcome, nbytes, at))


def test_while_somebody_listens_every_ticket_is_timed_and_told(clock: Clock) -> None:
    watch = Stopwatch(3, lambda at: None)
    recorder = Recorder()
    add_listener(recorder)
    try:
        assert all(load(watch, clock, (FETCH, 1e-6), (COLLATE, 1e-6)) for _ in range(100))
    finally:
        remove_listener(recorder)
    begun = [told for told in recorder.told if told[1] == "begin"]
    ended = [told for told in recorder.told if told[1] == "loaded"]
    assert len(begun) == len(ended) == 100
    assert begun[0] == (3, "begin", 4, 100.0)
    assert ended[0][2] == 4
    first = recorder.told.index(begun[0])
    assert [stage for _, stage, *_ in recorder.told[first + 1 : first + 5]] == [FETCH, COLLATE, "", "loaded"]
    count = len(recorder.told)
    assert load(watch, clock, (FETCH, 1e-6))  # the one that was due already
    assert not load(watch, clock, (FETCH, 1e-6))
    assert len(recorder.told) == count
