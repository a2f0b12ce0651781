"""The tuner in simulated worlds: what it finds, what trying costs, and what it never does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine import purse
from nogil_loader.engine.tuner import CALM, FIRST_REST, Tuner
from nogil_loader.engine.tuning import Interval, Setting, most_workers
from tests.engine.tuning_world import (
    Load,
    World,
    bursty,
    changing,
    cpu_bound,
    gil_bound,
    io_bound,
    part_bound,
    peaked,
)

MODERATE: dict[str, Any] = {"noise": 0.06, "drift": 0.1}
NEIGHBOUR: dict[str, Any] = {"noise": 0.06, "drift": 0.05, "neighbour": 0.3}

LOADS: dict[str, tuple[int, Load]] = {
    "kernels, 2 cores": (2, cpu_bound(2)),
    "kernels, 16 cores": (16, cpu_bound(16)),
    "GIL, 2 cores": (2, gil_bound(0.2)),
    "GIL, 64 cores": (64, gil_bound(0.15)),
    "20 requests": (2, io_bound(20)),
    "any requests": (2, io_bound(1000)),
    "a tenth alone": (2, part_bound(0.1)),
    "half the cores": (16, peaked(8, 0.5)),
    "three times the cores": (2, peaked(6, 1.0)),
}


def tuner_for(cores: int, **options: Any) -> Tuner:
    return Tuner(start=cores, most=most_workers(cores), **options)


def share_of_best(tuner: Tuner, world: World, cores: int) -> float:
    """How fast what the tuner found is, by the best of a sweep."""
    sweep = [Setting(workers, tuner.kept.prefetch_factor) for workers in range(1, most_workers(cores) + 1)]
    return world.rate(tuner.kept) / world.best(sweep)


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("weather", [MODERATE, NEIGHBOUR], ids=["moderate", "neighbour"])
def test_what_is_found_is_within_a_tenth_of_the_best(name: str, weather: dict[str, Any]) -> None:
    cores, load = LOADS[name]
    shares = []
    for seed in range(40):
        tuner = tuner_for(cores)
        world = World(load, seed, **weather).run(tuner, 90)
        shares.append(share_of_best(tuner, world, cores))
    assert sum(share >= 0.9 for share in shares) >= 0.95 * len(shares), sorted(shares)


@pytest.mark.parametrize(
    ("name", "seconds"), [("kernels, 2 cores", 10), ("GIL, 2 cores", 10), ("any requests", 20)]
)
def test_on_a_quiet_machine_it_settles_within_seconds(name: str, seconds: float) -> None:
    cores, load = LOADS[name]
    tuner = tuner_for(cores)
    World(load).run(tuner, seconds)
    assert tuner.settled


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("weather", [MODERATE, NEIGHBOUR], ids=["moderate", "neighbour"])
def test_an_hour_of_trying_costs_little(name: str, weather: dict[str, Any]) -> None:
    cores, load = LOADS[name]
    tuner = tuner_for(cores)
    world = World(load, 7, **weather).run(tuner, 3600)
    best = world.best(Setting(workers, 2) for workers in range(1, most_workers(cores) + 1))
    got = sum(interval.seconds * world.rate(setting) for setting, interval in world.settings)
    assert got >= 0.97 * best * world.now
    searches = [event for event in tuner.events if "waits for data" in event.reason]
    assert len(searches) <= 15


CHANGES = {
    "kernels, then requests": changing(cpu_bound(2, 500), io_bound(40), 60),
    "requests, then kernels": changing(io_bound(40), cpu_bound(2, 500), 60),
    "GIL, then requests": changing(gil_bound(0.2), io_bound(40), 60),
    "requests, then GIL": changing(io_bound(40), gil_bound(0.2), 60),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_load_that_changes_is_tuned_again(name: str) -> None:
    found = 0
    for seed in range(12):
        tuner = tuner_for(2)
        world = World(CHANGES[name], seed, noise=0.06).run(tuner, 120)
        found += share_of_best(tuner, world, 2) >= 0.9
    assert found >= 11


# What it never does


@st.composite
def worlds(draw: Any) -> tuple[World, Callable[[], Tuner]]:
    """Any world, and who makes a tuner for it."""
    cores = draw(st.sampled_from([1, 2, 3, 8, 64]))
    number = draw(st.integers(1, 100))
    load = draw(
        st.sampled_from(
            [
                cpu_bound(cores),
                gil_bound(0.1),
                io_bound(number),
                peaked(number, 0.5),
                bursty(number),
                part_bound(0.5),
            ]
        )
    )
    if draw(st.booleans()):
        load = changing(load, draw(st.sampled_from([io_bound(30), gil_bound(0.3)])), draw(st.floats(1, 100)))
    period, part = draw(st.floats(0.5, 60)), draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]))
    world = World(
        load,
        draw(st.integers(0, 2**32 - 1)),
        noise=draw(st.sampled_from([0.0, 0.05, 0.3])),
        drift=draw(st.sampled_from([0.0, 0.2])),
        neighbour=draw(st.sampled_from([0.0, 0.3])),
        neighbour_seconds=draw(st.floats(0.1, 30)),
        consumer=draw(st.sampled_from([math.inf, 200.0, 1000.0])),
        tight=lambda now: now % period < part * period,
    )
    axes = draw(st.sampled_from([(True, False), (True, True), (False, True), (False, False)]))
    return world, lambda: tuner_for(cores, tunes_workers=axes[0], tunes_prefetch=axes[1])


@given(worlds())
def test_it_stays_within_its_limits_and_its_purse_and_only_steps_back_while_memory_is_tight(
    drawn: tuple[World, Callable[[], Tuner]],
) -> None:
    world, make = drawn
    tuner = make()
    start = tuner.setting
    while world.now < 120:
        kept = tuner.kept
        world.run(tuner, 1e-9)
        (before, interval), after = world.settings[-1], tuner.setting
        assert 1 <= after.num_workers <= most_workers(start.num_workers)
        assert 2 <= after.prefetch_factor <= 16
        if interval.memory_tight:
            assert after in (before, kept)
    longest = max(interval.seconds for _, interval in world.settings)
    full = max(purse.SECONDS, purse.INTERVALS * longest)
    assert tuner.purse.spent <= full + purse.SHARE * tuner.seconds + longest


def test_nothing_is_tried_while_the_consumer_hardly_waits() -> None:
    tuner = tuner_for(2)
    world = World(io_bound(100), 3, noise=0.02, consumer=150).run(tuner, 600)
    assert {setting for setting, _ in world.settings} == {Setting(2, 2)}
    assert not tuner.events


def test_growth_ends_when_the_loader_keeps_up() -> None:
    tuner = tuner_for(2)
    World(io_bound(1000), 3, noise=0.02, consumer=750).run(tuner, 600)
    assert tuner.kept == Setting(8, 2)
    assert "keeps up" in tuner.events[-1].reason


def test_a_trial_of_more_workers_ends_at_once_when_memory_becomes_tight() -> None:
    tuner = tuner_for(2)
    while tuner.setting == tuner.kept:
        tuner.observe(Interval(0.5, 100, 0.9))
    assert tuner.setting == Setting(4, 2)
    assert tuner.observe(Interval(0.1, 20, 0.9, memory_tight=True)) == Setting(2, 2)
    assert tuner.events[-1].reason == "memory is tight; stays with 2 workers"
    intervals = 0
    while tuner.setting == tuner.kept:
        tuner.observe(Interval(0.5, 100, 0.9, memory_tight=intervals == 5))
        intervals += 1
    assert intervals > 5 + CALM, "tried again when memory has been there for a while"


def test_while_memory_is_tight_the_consumers_waiting_is_no_cause() -> None:
    tuner = tuner_for(2)
    world = World(io_bound(100), tight=lambda _: True).run(tuner, 300)
    assert {setting for setting, _ in world.settings} == {Setting(2, 2)}


def test_fewer_batches_for_a_pause_of_the_consumer_are_no_evidence() -> None:
    paused, steady = tuner_for(2), tuner_for(2)
    for tuner in (paused, steady):
        while tuner.setting == tuner.kept:
            tuner.observe(Interval(0.5, 100, 0.9))
        tuner.observe(Interval(0.5, 100, 0.9))  # the first with four workers
    paused.observe(Interval(30.0, 100, 0.01))  # while a checkpoint is saved
    assert paused.setting == Setting(4, 2)
    for tuner in (paused, steady):
        tuner.observe(Interval(0.5, 190, 0.9))
        assert tuner.kept == Setting(4, 2)


def test_what_was_loaded_with_another_setting_or_while_an_epoch_began_does_not_count() -> None:
    tuner = tuner_for(2)
    assert tuner.enough(2, 0.01), "the start-up is over when both workers have delivered"
    tuner.observe(Interval(5.0, 1, 1.0))
    while tuner.setting == tuner.kept:
        tuner.observe(Interval(0.5, 100, 0.9))
    assert tuner.enough(4, 0.01)
    tuner.observe(Interval(0.5, 1, 0.9))  # would be far slower
    tuner.observe(Interval(0.5, 200, 0.9))
    assert tuner.kept == Setting(4, 2)
    tuner.begin_epoch()
    before = tuner.setting
    assert tuner.observe(Interval(5.0, 1, 1.0)) == before


def test_an_interval_has_whole_rounds_of_its_workers() -> None:
    tuner = tuner_for(3)
    tuner.observe(Interval(0.1, 30, 0.9))
    ends = [batches for batches in range(1, 40) if tuner.enough(batches, 0.31)]
    assert ends == [12, 15, 18, 21, *range(24, 40)]
    assert not tuner.enough(12, 0.29)
    assert tuner.enough(3, 2.0), "of a slow loader a round will do"


def test_more_batches_ahead_are_used_where_they_hide_slow_ones() -> None:
    tuner = tuner_for(2, tunes_workers=False, tunes_prefetch=True)
    World(bursty(7), 1, noise=0.03).run(tuner, 60)
    assert tuner.kept.num_workers == 2
    assert tuner.kept.prefetch_factor in (6, 7, 8)
    assert {event.setting for event in tuner.events} == {"prefetch_factor"}


def test_the_events_tell_the_whole_story() -> None:
    tuner = tuner_for(2)
    World(io_bound(12)).run(tuner, 100)
    workers = 2
    for event, following in itertools.pairwise(tuner.events):
        assert event.before == workers
        assert event.at <= following.at
        workers = event.after
    assert workers == tuner.kept.num_workers
    reasons = [event.reason for event in tuner.events]
    assert reasons[0] == "the consumer waits for data 100% of its time: trying what loads faster"
    assert "samples/s with 4 workers" in reasons[1]
    assert reasons[1].endswith("(+100% over 2 intervals): taken")
    assert reasons[-1] == "settled on 16 workers: nothing else that was tried loads faster"


def test_it_looks_again_after_longer_and_longer_rests() -> None:
    tuner = tuner_for(2)
    World(cpu_bound(2)).run(tuner, 3600)
    starts = [event.at for event in tuner.events if "waits for data" in event.reason]
    rests = [after - before for before, after in itertools.pairwise(starts)]
    assert rests == sorted(rests)
    assert rests[0] >= FIRST_REST
    assert len(rests) <= 5


@pytest.mark.parametrize(
    ("cores", "most"), [(1, 32), (2, 32), (8, 32), (12, 48), (16, 64), (64, 64), (96, 96)]
)
def test_how_many_workers_may_be_tried(cores: int, most: int) -> None:
    assert most_workers(cores) == most
