"""Allowances fall at once, come back slowly, and do not swing."""

from __future__ import annotations

import random

import pytest

from nogil_loader.memory.decision import Event
from nogil_loader.memory.gauge import Level
from nogil_loader.memory.throttle import STEPS_TO_FULL, Throttle
from nogil_loader.policies import STEPS, MemoryPolicy

LIMIT = 1_000_000


class Ticks:
    """A throttle of 32 places whose use is read once a second, all of it that of others."""

    def __init__(self, *, workers: int = 8, order: tuple[str, ...] = STEPS, fixed: bool = False) -> None:
        self.policy = MemoryPolicy(soft=0.8, hard=0.9, order=order)
        self.throttle = Throttle(self.policy, workers=workers, capacity=32, fixed=fixed)
        self.now = 0.0

    def tick(self, share: float) -> list[Event]:
        self.now += 1.0
        used = int(share * LIMIT)
        level = Level(LIMIT, used, int(0.8 * LIMIT), int(0.9 * LIMIT), 0, "test")
        room = max(level.soft - used, (LIMIT - used) // 16)
        return self.throttle.observe(level, room, used > level.hard, self.now)


@pytest.mark.parametrize("mark", [0.8, 0.9])
def test_c15_use_that_swings_around_a_mark_changes_each_allowance_once_and_full_size_comes_back(
    mark: float,
) -> None:
    ticks = Ticks()
    ticks.tick(0.2)
    swings = [ticks.tick(mark + (0.005 if tick % 2 else -0.005)) for tick in range(30)]
    changes = [event for events in swings for event in events]
    assert 1 <= len(changes) <= 2
    shrunk = ticks.throttle.room
    assert shrunk is not None
    for _ in range(STEPS_TO_FULL + 1):  # the first tick starts the calm
        ticks.tick(0.2)
    assert ticks.throttle.in_flight == 32
    assert ticks.throttle.room == int(0.8 * LIMIT) - int(0.2 * LIMIT)
    assert shrunk < ticks.throttle.room
    assert not any(ticks.tick(0.2) for _ in range(170)), "nothing changes any more"


def test_use_above_the_hard_mark_halves_once_until_it_was_below_the_soft_mark() -> None:
    ticks = Ticks()
    ticks.tick(0.5)
    seen = []
    for share in (0.95, 0.95, 0.85, 0.95, 0.7, 0.95):
        ticks.tick(share)
        seen.append(ticks.throttle.in_flight)
    assert seen == [16, 16, 16, 16, 16, 8]
    assert ticks.throttle.parks == 2


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (("prefetch", "workers", "batch"), [16, 8, 4, 2, 1, 1]),
        (("prefetch", "batch", "workers"), [16, 8, 8, 8, 8, 8]),
        (("workers", "prefetch", "batch"), [16, 8, 4, 2, 1, 1]),
    ],
)
def test_what_is_halved_follows_the_order_and_stops_at_the_least(
    order: tuple[str, ...], expected: list[int]
) -> None:
    ticks = Ticks(order=order)
    seen = []
    for _ in expected:
        ticks.tick(0.2)
        ticks.throttle.room = LIMIT // 2  # batches could still be made smaller
        ticks.throttle._calm_since = None
        ticks.tick(0.95)
        seen.append(ticks.throttle.in_flight)
    assert seen == expected


def test_every_change_is_an_event_with_its_numbers_once() -> None:
    ticks = Ticks()
    assert ticks.tick(0.2) == []
    dice = random.Random(3)
    before = {"in_flight": 32, "room": 6}
    for _ in range(300):
        share = dice.choice([0.1, 0.5, 0.85, 0.95])
        events = ticks.tick(share)
        assert len({event.allowance for event in events}) == len(events)
        for event in events:
            assert event.before == before[event.allowance] != event.after
            assert (event.at, event.used, event.limit) == (ticks.now, int(share * LIMIT), LIMIT)
            assert event.rule in ("park", "calm", "room")
            before[event.allowance] = event.after
        assert ticks.throttle.in_flight == before["in_flight"] >= 1
    assert before != {"in_flight": 32, "room": 6}


def test_room_grows_only_after_four_pieces_without_a_cut() -> None:
    ticks = Ticks()
    ticks.tick(0.7)
    ticks.throttle.count_cut()
    ticks.throttle.count_whole()  # what was cut off
    for pieces in range(5):
        for _ in range(3):
            ticks.tick(0.2)
        grown = (ticks.throttle.room or 0) > LIMIT // 10
        assert grown == (pieces >= 4)
        ticks.throttle.count_whole()


def test_a_step_is_one_piece_per_calm_second_where_there_are_few() -> None:
    policy = MemoryPolicy()
    throttle = Throttle(policy, workers=2, capacity=6, fixed=False)
    level = Level(LIMIT, 990_000, 850_000, 930_000, 0, "test")
    throttle.observe(level, 0, True, 0.0)
    assert throttle.in_flight == 3
    calm = level._replace(used=100_000)
    seen = []
    for tenth in range(45):
        throttle.observe(calm, 750_000, False, 1.0 + tenth / 10)
        seen.append(throttle.in_flight)
    assert seen == [3] * 10 + [4] * 10 + [5] * 10 + [6] * 15


def test_use_that_flutters_around_the_edge_of_an_eighth_is_told_once() -> None:
    ticks = Ticks()
    ticks.tick(0.2)
    flutter = [ticks.tick(0.45 + (0.0001 if tick % 2 else -0.0001)) for tick in range(30)]
    assert [(event.before, event.after) for events in flutter for event in events] == [(6, 4)]


def test_a_refusal_halves_once_a_second_and_the_calm_begins_anew() -> None:
    ticks = Ticks()
    ticks.tick(0.2)
    (event,) = ticks.throttle.refuse(None, 10.0)
    assert (event.rule, event.before, event.after, event.used, event.limit) == ("refused", 32, 16, 0, 0)
    assert ticks.throttle.refuse(None, 10.9) == []
    assert ticks.throttle.observe_nothing(11.8) == [], "calm for 0.9 s"
    (event,) = ticks.throttle.observe_nothing(11.9)
    assert (event.rule, event.before, event.after) == ("calm", 16, 20)
    assert not ticks.throttle.is_full
    for second in range(3):
        ticks.throttle.observe_nothing(12.9 + second)
    assert ticks.throttle.is_full


def test_another_number_of_workers_leaves_a_full_throttle_full_and_tells_nothing() -> None:
    ticks = Ticks()
    ticks.tick(0.2)
    for workers, capacity in ((16, 64), (2, 6), (1, 2)):
        ticks.throttle.resize(workers, capacity)
        assert ticks.throttle.is_full
        assert ticks.throttle.in_flight == capacity
        assert ticks.tick(0.2) == []


def test_what_was_taken_away_for_want_of_memory_is_not_given_back_by_a_resize() -> None:
    ticks = Ticks()
    ticks.tick(0.5)
    ticks.tick(0.95)
    assert ticks.throttle.in_flight == 16
    ticks.throttle.resize(16, 64)
    assert ticks.throttle.in_flight == 16
    ticks.throttle.resize(2, 6)
    assert ticks.throttle.in_flight == 6
