"""Numbers as a person writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nogil_loader.engine.statistics import Statistics
from nogil_loader.memory.decision import MemoryStatistics
from nogil_loader.observe.progress.reading import Reading
from nogil_loader.observe.words import duration, notes, rate

USUAL = Statistics(seconds=10.0, consumer_wait=1.2, workers_alive=4, num_workers=4)
MEMORY = MemoryStatistics(
    limit=8_000_000_000,
    used=3_100_000_000,
    source="machine",
    promised=0,
    loading=0,
    ready=0,
    held=0,
    in_flight=0,
    in_flight_allowed=0,
    room=0,
    parked=False,
    peak=0,
    waits=0,
    splits=0,
    cuts=0,
    revoked=0,
    parks=0,
    last=0,
    reliefs=0,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0:00"), (34.9, "0:34"), (754, "12:34"), (3723, "1:02:03"), (360000, "100:00:00")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "0.0/s"), (9.94, "9.9/s"), (12.4, "12/s"), (1234567.0, "1,234,567/s")]
)
def test_rates(value: float, words: str) -> None:
    assert rate(value) == words


def test_as_long_as_nothing_is_unusual_only_the_wait_is_told() -> None:
    assert notes(USUAL) == ["waits for data 12%"]
    assert notes(replace(USUAL, num_workers=0, workers_alive=0)) == ["waits for data 12%"]


def test_memory_is_told_last_where_its_limit_is_known() -> None:
    assert notes(replace(USUAL, memory=MEMORY))[-1] == "memory 3.10 GB of 8.00 GB"
    assert notes(replace(USUAL, memory=replace(MEMORY, parked=True)))[1] == "held up by memory"
    assert notes(replace(USUAL, memory=replace(MEMORY, limit=None))) == ["waits for data 12%"]


def test_what_is_unusual_about_workers_and_samples_is_told() -> None:
    unusual = replace(USUAL, workers_alive=3, rebuilds=2, abandoned=1, skipped=1500)
    assert notes(unusual)[1:] == ["3 of 4 workers alive", "1,500 skipped", "2 rebuilt", "1 abandoned"]


@pytest.mark.parametrize(
    ("reading", "figures"),
    [
        (Reading(0, 1000), "0/1,000  0%  0:00  0.0/s"),
        (Reading(250, 1000, 10.0, 25.0), "250/1,000  25%  0:10 < 0:30  25/s"),
        (Reading(1000, 1000, 40.0, 25.0), "1,000/1,000  100%  0:40  25/s"),
        (Reading(250, None, 10.0, 25.0), "250  0:10  25/s"),
        (Reading(0, 0, 0.0, 0.0), "0/0  0:00  0.0/s"),
        (Reading(1002, 1000, 40.0, 25.0), "1,002/1,000  100%  0:40  25/s"),
    ],
)
def test_what_stands_beside_a_bar(reading: Reading, figures: str) -> None:
    assert reading.figures == figures
