"""Readings that are a little old, late, or missing."""

from __future__ import annotations

import pytest

from nogil_loader.memory.gauge import Gauge, Level
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy


def gauge(used: int = 100, limit: int = 1000, at: float = 10.0) -> Gauge:
    made = Gauge(MemoryPolicy())
    made.observe(MemoryReading(limit, used, limit - used, "test"), at)
    return made


def level(of: Gauge, now: float, in_flight: int = 0) -> Level:
    found = of.level(in_flight, now)
    assert found is not None
    return found


def test_marks_are_shares_of_the_limit_with_at_most_4_gib_kept_free() -> None:
    assert level(gauge(0), 10.0)[:4] == (1000, 0, 850, 930)
    large = level(gauge(0, limit=1000 << 30), 10.0)
    assert (large.limit - large.soft) / (1 << 30) == pytest.approx(4.0)
    assert (large.limit - large.hard) / (1 << 30) == pytest.approx(4.0 * 0.07 / 0.15)


def test_a_part_of_what_others_leave_may_always_be_used() -> None:
    found = level(gauge(990, limit=1000), 10.0, in_flight=30)  # others: 960
    assert (found.soft, found.hard) == (962, 965)
    assert level(gauge(2000, limit=1000), 10.0).hard == 2000, "and nothing where they leave nothing"


def test_what_was_loaded_up_to_a_reading_is_part_of_it_and_what_came_later_is_added() -> None:
    known = gauge(at=10.0)
    known.grow(5, 10.0)
    known.grow(7, 10.2)
    known.grow(11, 10.4)
    assert level(known, 10.4).used == 118
    known.observe(MemoryReading(1000, 300, 700, "test"), 10.3)
    assert level(known, 10.4).used == 311
    known.observe(MemoryReading(1000, 500, 500, "test"), 10.1)
    assert level(known, 10.4).used == 311, "older than what is known"


def test_what_was_dropped_is_leaving_until_a_reading_could_show_it() -> None:
    known = gauge(300, at=10.0)
    known.shrink(50, 10.0)
    assert level(known, 10.0)[1:5:3] == (300, 50)
    known.observe(MemoryReading(1000, 300, 700, "test"), 10.005)
    assert level(known, 10.005).leaving == 50
    known.observe(MemoryReading(1000, 250, 750, "test"), 10.02)
    assert level(known, 10.02)[1:5:3] == (250, 0)


def test_without_a_new_reading_what_was_dropped_counts_as_gone_after_a_while() -> None:
    known = gauge(300, at=10.0)
    known.shrink(50, 10.0)
    known.observe(None, 10.2)
    assert level(known, 10.2)[1:5:3] == (250, 0)


def test_only_an_answer_keeps_readings_from_being_stale() -> None:
    known = gauge(at=10.0)
    assert not known.is_stale(10.2)
    assert known.is_stale(10.3)
    known.observe(None, 10.3)
    assert not known.is_stale(10.5)
    assert known.is_stale(10.6)
    assert not Gauge(MemoryPolicy()).is_stale(10.0), "where nothing was ever known, nothing is missed"


def test_a_probe_that_stays_silent_costs_no_memory() -> None:
    known = gauge(0, at=0.0)
    for tick in range(10_000):
        known.grow(3, 1.0 + tick)
    assert level(known, 1e6).used == 30_000
    assert len(known._grown._parts) < 1000
