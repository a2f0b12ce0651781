"""Stopwatches: no time is lost, looking closely costs little, and what nobody looked at is not invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine import listening, stopwatch
from nogil_loader.engine.listening import Listener, add_listener, remove_listener
from nogil_loader.engine.outcome import Failure, GivenBack, Loaded, Outcome
from nogil_loader.engine.scope import COLLATE, COMPILE, FETCH, SampleScope, current_scope
from nogil_loader.engine.statistics import Percentiles
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
    """Load a ticket as a worker does; return whether it was looked at closely."""
    plain = SampleScope(seed=1, epoch=2, owner=None)
    loaded = Loaded([b"1234"], raw=[b"1234"]) if outcome is None else outcome

    def attempt(scope: SampleScope) -> Outcome:
        for stage, seconds in stages:
            scope.stage = stage
            clock.now += seconds
        return loaded

    began = watch.began = clock.now
    if began < watch.due:
        attempt(plain)
        watch.wall += clock.now - began
        watch.ended = clock.now
        watch.tickets += 1
        if clock.now - began > watch.slow:
            watch.note_slow(clock.now - began)
        return False
    timed = watch.scope(plain)
    assert (timed.seed, timed.epoch) == (1, 2)
    assert watch.time(ticket(), timed, lambda: attempt(timed)) is loaded
    return True


def test_slow_tickets_are_all_looked_at_and_the_sums_are_exact(clock: Clock) -> None:
    watch = Stopwatch(0)
    for _ in range(50):
        assert load(watch, clock, (FETCH, 0.5), (COLLATE, 0.25), (FETCH, 0.25))
    told = watch.seconds(clock.now)
    assert (told[FETCH], told[COLLATE]) == pytest.approx((37.5, 12.5))
    assert watch.wall == watch.cpu == pytest.approx(50.0)
    assert watch.samples == 200
    assert Percentiles.weighted(watch.latest()) == Percentiles(1.0, 1.0, 1.0, 50)


@given(micros=st.integers(5, 2000))
def test_looking_takes_no_more_than_its_share_and_no_time_is_lost(micros: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(stopwatch, "perf_counter", clock)
        patch.setattr(stopwatch, "thread_time", clock)
        watch = Stopwatch(0)
        looked = sum(load(watch, clock, (FETCH, micros * 1e-6)) for _ in range(2000))
    # The first one is looked at without knowing what that costs.
    cost = (looked - 1) * (stopwatch._PER_TICKET + 2 * stopwatch._PER_STAGE)
    assert cost <= stopwatch._COST * 2000 * micros * 1e-6
    assert watch.wall == pytest.approx(2000 * micros * 1e-6)
    assert watch.seconds(clock.now)[FETCH] == pytest.approx(watch.wall)
    assert sum(weight for _, weight in watch.latest()) <= 2000


@pytest.mark.parametrize("each", [20e-6, 1e-3])
def test_a_single_slow_ticket_among_fast_ones_is_not_missed(clock: Clock, each: float) -> None:
    watch = Stopwatch(0)
    for number in range(3000):
        load(watch, clock, (FETCH, each / 2 + (1.0 if number == 1234 else 0.0)), (COLLATE, each / 2))
    told = watch.seconds(clock.now)
    assert told[FETCH] == pytest.approx(1.0 + 1500 * each, rel=0.01)
    assert told[COLLATE] == pytest.approx(1500 * each, rel=0.01)
    assert max(seconds for seconds, _ in watch.latest()) == pytest.approx(1.0, rel=0.01)


def test_every_tenth_slow_ticket_shows_in_the_percentiles(clock: Clock) -> None:
    watch = Stopwatch(0)
    for number in range(900):
        load(watch, clock, (FETCH, 0.02 if number % 10 == 9 else 0.001))
    found = Percentiles.weighted(watch.latest())
    assert found is not None
    assert found.p50 == pytest.approx(0.001)
    assert found.p99 == pytest.approx(0.02)


def test_a_slow_phase_does_not_count_for_the_fast_one_after_it(clock: Clock) -> None:
    watch = Stopwatch(0)
    for _ in range(10):
        load(watch, clock, (FETCH, 1.0))
    for _ in range(5000):
        load(watch, clock, (COLLATE, 50e-6))
    told = watch.seconds(clock.now)
    assert (told[FETCH], told[COLLATE]) == pytest.approx((10.0, 0.25), rel=0.05)


@given(st.lists(st.tuples(st.sampled_from([FETCH, COLLATE]), st.floats(1e-6, 0.1)), min_size=1, max_size=200))
def test_sums_never_fall_and_are_the_time_there_was(stages: list[tuple[str, float]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(stopwatch, "perf_counter", clock)
        patch.setattr(stopwatch, "thread_time", clock)
        watch, before = Stopwatch(0), {FETCH: 0.0, COLLATE: 0.0}
        for stage, seconds in stages:
            load(watch, clock, (stage, seconds))
            told = watch.seconds(clock.now)
            assert sum(told.values()) == pytest.approx(watch.wall) == pytest.approx(clock.now - 100.0)
            assert all(told[name] >= value - 1e-9 for name, value in before.items())
            before = {name: told[name] for name in before}


def test_compiling_is_nobodys_delay(clock: Clock) -> None:
    watch = Stopwatch(0)
    load(watch, clock, (FETCH, 1.0), (COMPILE, 30.0), (COLLATE, 1.0))
    ((seconds, weight),) = watch.latest()
    assert (seconds, weight) == pytest.approx((2.0, 1))
    told = watch.seconds(clock.now)
    assert told[COMPILE] == pytest.approx(30.0)
    assert told[FETCH] == told[COLLATE] == pytest.approx(1.0)


@pytest.mark.parametrize("outcome", [Failure(0, ValueError("x")), GivenBack()])
def test_what_comes_to_nothing_takes_time_but_makes_no_batch(clock: Clock, outcome: Outcome) -> None:
    watch = Stopwatch(0)
    load(watch, clock, (FETCH, 1.0), outcome=outcome)
    assert (watch.wall, watch.samples, watch.nbytes, watch.latest()) == (1.0, 0, 0, [])
    assert load(watch, clock, (FETCH, 1e-6))  # the next one is looked at, to know of at least one batch
    assert watch.samples == 4


def test_what_a_thread_loads_when_it_is_given_up_counts_up_to_then(clock: Clock) -> None:
    watch = Stopwatch(0)
    load(watch, clock, (FETCH, 1e-5))
    clock.now += 1e-9
    watch.began = clock.now
    clock.now += 5.0
    watch.end()
    clock.now += 100.0
    assert watch.seconds(clock.now)[FETCH] == pytest.approx(5.0, rel=0.01)
    assert watch.lifetime(clock.now) == pytest.approx(5.0, rel=0.01)


def test_the_scope_of_the_caller_is_current_again_afterwards(clock: Clock) -> None:
    plain = SampleScope(0, 0)
    token = current_scope.set(plain)
    load(Stopwatch(0), clock, (FETCH, 1.0))
    assert current_scope.get() is plain
    current_scope.reset(token)


def test_a_ticket_under_way_counts_with_what_it_has_taken_so_far(clock: Clock) -> None:
    watch = Stopwatch(0)
    seen: list[dict[str, float]] = []
    timed = watch.scope(SampleScope(0, 0))

    def attempt() -> Outcome:
        timed.stage = FETCH
        clock.now += 5.0
        seen.append(watch.seconds(clock.now))
        return Loaded([], raw=[])

    watch.began = clock.now
    watch.time(ticket(), timed, attempt)
    assert seen[0][FETCH] == pytest.approx(5.0)
    clock.now += 100.0
    assert watch.seconds(clock.now) == pytest.approx({FETCH: 5.0})


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
    watch = Stopwatch(3)
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
