"""The consumer's pace: waits, the rate of the last seconds, and what of it outlives the epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine import pace as pace_module
from nogil_loader.engine.account import Account
from nogil_loader.engine.allowance import Allowance
from nogil_loader.engine.pace import Pace
from nogil_loader.engine.statistics import Percentiles
from nogil_loader.plan import Received
from nogil_loader.policies import FailurePolicy


class Consumer:
    """Takes batches of ten samples at times of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(pace_module, "perf_counter", lambda: self.now)
        self.received = Received()
        allowance = Allowance(FailurePolicy.of("raise"), epoch=0, total=None, records=[])
        self.account = Account(self.received, allowance)
        self.pace = Pace(0, self.account)

    def take(self, *, waits: float = 0.0, then: float = 0.0) -> None:
        if waits:
            self.pace.since = self.now
            self.now += waits
        if waits:  # noted before the delivery
            self.pace.end_wait()
        start = self.received.count
        self.received.add(start, start + 10, list(range(start, start + 10)))
        self.account.deliver()
        self.now += then
        self.pace.mark(self.now)

    def rate(self) -> float:
        return self.pace.recent_rate(self.now, self.received.count)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    return Consumer(monkeypatch)


def test_the_rate_is_that_of_the_last_ten_seconds(consumer: Consumer) -> None:
    for _ in range(300):
        consumer.take(then=0.1)
    assert consumer.rate() == pytest.approx(100.0, rel=0.02)
    for _ in range(1500):
        consumer.take(then=0.01)
    assert consumer.rate() == pytest.approx(1000.0, rel=0.02)
    consumer.now += 5.0  # nothing comes
    assert consumer.rate() == pytest.approx(500.0, rel=0.02)


def test_marks_that_are_all_long_past_give_the_rate_since_the_last(consumer: Consumer) -> None:
    consumer.take(then=0.1)
    for _ in range(6):  # by a loader that marks nothing meanwhile
        start = consumer.received.count
        consumer.received.add(start, start + 10, list(range(start, start + 10)))
    consumer.now += 60.0
    assert consumer.rate() == pytest.approx(1.0)


def test_nothing_has_no_rate(consumer: Consumer) -> None:
    assert consumer.rate() == 0.0
    assert consumer.pace.latest_waits() == []


def test_waits_add_up_the_present_one_included(consumer: Consumer) -> None:
    consumer.take(waits=2.0)
    consumer.take()
    consumer.pace.since = consumer.now
    consumer.now += 0.5
    assert consumer.pace.waited == pytest.approx(2.0)
    assert consumer.pace.waited_until(consumer.now) == pytest.approx(2.5)
    consumer.pace.end()
    assert consumer.pace.waited_until(consumer.now + 9) == pytest.approx(2.0)


def test_waits_of_the_latest_thousand_batches_most_of_which_were_there_at_once(consumer: Consumer) -> None:
    for number in range(2500):
        consumer.take(waits=1.0 if number % 100 == 99 else 0.0, then=0.1)
    waits = consumer.pace.latest_waits()
    assert len(waits) == 1000
    assert waits.count(1.0) == 10
    assert waits.count(0.0) == 990


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_are_values_in_order(values: list[float]) -> None:
    found = Percentiles.of(values)
    assert found is not None
    assert min(values) <= found.p50 <= found.p90 <= found.p99 <= max(values)
    assert {found.p50, found.p90, found.p99} <= set(values)
    assert found.count == len(values)


def test_percentiles_of_a_hundred_and_one_and_of_none() -> None:
    assert Percentiles.of(float(value) for value in range(101)) == Percentiles(50.0, 90.0, 99.0, 101)
    assert Percentiles.of([]) is None
