"""The governor's single decisions: given this reading, these pieces and this time, what it says."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from nogil_loader.errors import MemoryBudgetError
from nogil_loader.memory.decision import Action, Decision
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy

MB = 1_000_000
GIB = 1 << 30


class Bench:
    """A governor with a limit of 1000 MB (soft 850, hard 930) and samples of 10 MB, four to a piece."""

    def __init__(
        self,
        *,
        workers: int = 2,
        capacity: int = 6,
        sharded: bool = False,
        revocable: bool = True,
        ranks: int = 1,
        **policy: Any,
    ) -> None:
        self.now = 100.0
        self.limit = 1000 * MB
        self.estimate = Estimate(scratch=0.0)
        self.governor = Governor(
            MemoryPolicy(**{"scratch": 0.0, **policy}),
            self.estimate,
            workers=workers,
            capacity=capacity,
            sharded=sharded,
            revocable=revocable,
            ranks=ranks,
        )

    def read(self, used: int) -> Decision:
        reading = MemoryReading(self.limit, used, max(0, self.limit - used), "test")
        return self.governor.observe(reading, self.now)

    def admit(self, start: int, used: int, *, count: int = 4, sample: int = 10 * MB) -> Decision:
        self.read(used)
        return self.governor.admit(start, count, self.now, [sample] * count)

    def load(self, start: int, used: int, *, count: int = 4, sample: int = 10 * MB) -> None:
        assert self.admit(start, used, count=count, sample=sample).action is Action.ADMIT
        self.now += 0.001
        self.governor.finished(start, count * sample, self.now)

    def progress(self, start: int, sizes: list[int], used: int) -> Decision:
        self.read(used)
        return self.governor.progress(start, sizes, self.now)


def test_without_any_reading_everything_is_admitted() -> None:
    bench = Bench()
    bench.governor.observe(None, bench.now)
    for start in range(0, 4000, 4):
        decision = bench.governor.admit(start, 4, bench.now, [GIB] * 4)
        assert decision.action is Action.ADMIT
        assert bench.governor.progress(start, [GIB], bench.now).action is Action.GO_ON
    assert bench.governor.statistics().limit is None


def test_a_piece_is_admitted_while_used_promised_and_needed_stay_below_the_soft_mark() -> None:
    bench = Bench()
    assert bench.admit(0, 730 * MB).action is Action.ADMIT
    assert bench.admit(4, 730 * MB).action is Action.ADMIT
    assert bench.admit(8, 730 * MB).action is Action.ADMIT
    assert bench.admit(12, 730 * MB).action is Action.WAIT  # 730 + 3 · 40 promised + 40
    assert bench.governor.statistics().promised == 120 * MB


def test_nothing_overtakes_a_piece_that_was_refused() -> None:
    bench = Bench()
    for start in (0, 4, 8):
        bench.load(start, 100 * MB)
    assert bench.admit(12, 815 * MB).action is Action.WAIT
    assert bench.admit(16, 815 * MB, count=1, sample=1).action is Action.WAIT
    assert bench.admit(12, 500 * MB).action is Action.ADMIT
    assert bench.admit(16, 500 * MB, count=1, sample=1).action is Action.ADMIT


def test_a_piece_that_is_loaded_promises_what_it_has_not_filled_yet() -> None:
    bench = Bench()
    bench.admit(0, 100 * MB)
    bench.progress(0, [10 * MB], 110 * MB)
    assert bench.governor.statistics().promised == 30 * MB
    bench.governor.finished(0, 40 * MB, bench.now)
    stats = bench.governor.statistics()
    assert (stats.promised, stats.ready, stats.peak) == (0, 40 * MB, 40 * MB)
    bench.governor.delivered(0)
    assert bench.governor.statistics().held == 40 * MB
    bench.governor.released(0, GIB, bench.now)
    assert bench.governor.statistics().held == 0


def test_of_samples_of_unknown_size_the_first_is_loaded_alone() -> None:
    bench = Bench()
    bench.read(100 * MB)
    assert not bench.estimate.knows_sizes
    assert bench.governor.admit(0, 4, bench.now).action is Action.ADMIT
    assert bench.governor.admit(4, 4, bench.now).action is Action.WAIT
    assert bench.progress(0, [10 * MB], 110 * MB).action is Action.GO_ON
    assert bench.governor.admit(4, 4, bench.now).action is Action.ADMIT
    assert bench.governor.statistics().promised == 70 * MB


def test_a_piece_is_planned_so_small_that_three_fit() -> None:
    bench = Bench()
    decision = bench.admit(0, 100 * MB, count=32)  # 320 MB, a third of 750 MB is 250
    assert (decision.action, decision.samples) == (Action.PRESPLIT, 16)
    assert bench.admit(0, 100 * MB, count=16).action is Action.ADMIT
    (event,) = bench.governor.events
    assert (event.allowance, event.before, event.after, event.rule) == ("batch", 32, 16, "share")
    assert (event.used, event.limit, event.start) == (100 * MB, 1000 * MB, 0)


@pytest.mark.parametrize(
    ("order", "samples"),
    [
        (("prefetch", "workers", "batch"), 16),  # held, first, next: 750 / 3
        (("prefetch", "batch", "workers"), 11),  # held and one for each of four workers: 750 / 5
        (("batch", "prefetch", "workers"), 5),  # held and all twelve in flight: 750 / 13
    ],
)
def test_the_order_says_what_is_given_up_before_batches_get_smaller(
    order: tuple[str, ...], samples: int
) -> None:
    bench = Bench(workers=4, capacity=12, order=order)
    assert bench.admit(0, 100 * MB, count=32).samples == samples


@pytest.mark.parametrize(
    ("workers", "capacity", "samples"), [(0, 1, 32), (1, 3, 16), (2, 6, 16), (16, 48, 16)]
)
def test_three_pieces_fit_whatever_the_number_of_workers_and_two_where_the_consumer_loads(
    workers: int, capacity: int, samples: int
) -> None:
    bench = Bench(workers=workers, capacity=capacity)
    decision = bench.admit(0, 100 * MB, count=32)
    assert (decision.samples or 32) == samples


def test_for_a_waiting_consumer_the_youngest_pieces_are_given_up() -> None:
    bench = Bench()
    bench.load(4, 600 * MB)
    bench.load(8, 640 * MB)
    bench.load(12, 680 * MB)
    bench.governor.starved(0)
    decision = bench.admit(0, 840 * MB)
    assert (decision.action, decision.revoke) == (Action.WAIT, (12,))
    assert bench.admit(0, 800 * MB).action is Action.ADMIT
    assert bench.governor.statistics().revoked == 1


def test_a_piece_that_holds_only_a_promise_does_not_stand_in_the_way_of_the_first() -> None:
    bench = Bench()
    assert bench.admit(8, 680 * MB).action is Action.ADMIT  # nothing filled, 40 MB promised
    bench.governor.starved(4)
    assert bench.admit(4, 800 * MB, count=1).action is Action.ADMIT
    bench.governor.finished(4, 10 * MB, bench.now)
    bench.governor.delivered(4)
    bench.governor.starved(5)
    assert bench.admit(5, 810 * MB, count=1).action is Action.WAIT
    assert bench.progress(8, [10 * MB], 820 * MB).action is Action.REVOKED
    assert bench.governor.statistics().promised == 0
    assert bench.admit(5, 820 * MB, count=1).action is Action.ADMIT


def test_a_piece_that_became_the_first_is_not_given_up_any_more() -> None:
    bench = Bench()
    bench.admit(8, 680 * MB)
    bench.governor.starved(4)
    assert bench.admit(4, 815 * MB, count=1).action is Action.WAIT  # 8 has to make room
    bench.governor.withdrawn(4, bench.now)
    bench.governor.starved(8)
    assert bench.progress(8, [10 * MB], 700 * MB).action is Action.GO_ON
    bench.governor.starved(4)
    assert bench.progress(8, [10 * MB], 700 * MB).action is Action.GO_ON, "and all is forgiven"


def test_min_workers_keeps_others_loading_while_there_is_something_else_to_give_up() -> None:
    bench = Bench(workers=3, capacity=9, min_workers=2)
    bench.load(16, 600 * MB)
    for start in (4, 8):
        bench.admit(start, 640 * MB)
    bench.governor.starved(0)
    decision = bench.admit(0, 840 * MB)  # 80 MB are promised, 40 needed: all of it has to go but one
    assert decision.revoke == (16,)
    assert bench.progress(8, [10 * MB], 800 * MB).action is Action.REVOKED
    assert bench.progress(4, [10 * MB], 800 * MB).action is Action.GO_ON


def test_in_the_end_all_others_make_room_whatever_min_workers_says() -> None:
    bench = Bench(min_workers=2)
    bench.admit(4, 680 * MB)
    bench.governor.starved(0)
    assert bench.admit(0, 850 * MB, count=1).action is Action.WAIT
    assert bench.progress(4, [10 * MB], 850 * MB).action is Action.REVOKED


def test_while_others_are_on_their_way_out_the_first_piece_waits_for_them() -> None:
    """And does not go above the soft mark, be cut up, or give up more than it needs."""
    bench = Bench(workers=4, capacity=12)
    bench.load(4, 600 * MB)
    bench.load(8, 640 * MB)
    for start in (12, 16):
        assert bench.admit(start, 680 * MB).action is Action.ADMIT
    bench.governor.starved(0)
    first = bench.admit(0, 745 * MB)  # 80 are promised, 40 needed: 15 too many
    assert (first.action, first.revoke, first.relief) == (Action.WAIT, (8,), False)
    for _ in range(3):
        bench.now += 0.002
        again = bench.admit(0, 745 * MB)
        assert (again.action, again.revoke) == (Action.WAIT, ())
    bench.now += 0.02
    assert bench.admit(0, 760 * MB).revoke == (4,)
    bench.now += 0.02
    for _ in range(3):
        decision = bench.admit(0, 790 * MB, count=1)
        assert (decision.action, decision.relief) == (Action.WAIT, False)
    assert bench.progress(16, [10 * MB], 790 * MB).action is Action.REVOKED
    assert bench.progress(12, [10 * MB], 790 * MB).action is Action.GO_ON


def test_a_piece_of_unexpected_size_ends_where_three_of_its_kind_fit() -> None:
    bench = Bench()
    bench.read(100 * MB)
    bench.governor.admit(0, 32, bench.now)
    actions = [bench.progress(0, [50 * MB], (100 + 50 * done) * MB).action for done in range(1, 5)]
    assert actions == [Action.GO_ON] * 3 + [Action.CUT]
    assert bench.governor.statistics().room == 700 * MB, "the first sample could have been anybody's"
    assert bench.progress(0, [], 300 * MB).action is Action.GO_ON, "asking again does no harm"


def test_after_a_cut_four_pieces_come_through_whole_before_they_grow() -> None:
    bench = Bench(workers=1, capacity=3)
    bench.read(100 * MB)
    bench.governor.admit(0, 32, bench.now)
    bench.progress(0, [50 * MB], 550 * MB)
    assert bench.progress(0, [50 * MB], 600 * MB).action is Action.CUT
    bench.governor.finished(0, 100 * MB, bench.now)
    bench.governor.delivered(0)
    shrunk = bench.governor.statistics().room
    for start in range(2, 6):
        for _ in range(3):
            bench.now += 1.0
            bench.read(100 * MB)
        assert bench.governor.statistics().room == shrunk
        bench.load(start, 100 * MB, count=1)
        bench.governor.delivered(start)
    bench.now += 1.0
    bench.read(100 * MB)
    assert bench.governor.statistics().room > shrunk


def test_after_parking_so_many_pieces_are_in_flight_and_no_more() -> None:
    bench = Bench(workers=2, capacity=8)
    for start in range(0, 32, 4):
        bench.load(start, 100 * MB)
    bench.read(940 * MB)
    bench.now += 0.1
    left = bench.governor.statistics().in_flight
    for start in range(100, 100 + 4 - left):
        assert bench.admit(start, 100 * MB, count=1, sample=MB).action is Action.ADMIT
    assert bench.admit(200, 100 * MB, count=1, sample=MB).action is Action.WAIT
    for calm in range(1, 5):
        for _ in range(2):
            bench.now += 0.5
            bench.read(100 * MB)
        assert bench.governor.statistics().in_flight_allowed == min(8, 4 + calm)


def test_when_the_prefetch_is_gone_the_first_piece_is_halved() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    bench.governor.delivered(0)
    bench.governor.starved(4)
    decision = bench.admit(4, 820 * MB)  # 30 MB are left
    assert (decision.action, decision.samples) == (Action.PRESPLIT, 2)
    assert bench.admit(4, 820 * MB, count=2).action is Action.ADMIT


def test_a_last_sample_is_loaded_alone_up_to_the_hard_mark_after_memory_was_given_back() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    bench.governor.delivered(0)
    bench.governor.starved(4)
    assert bench.admit(4, 845 * MB).samples == 1
    bench.now += 1.0
    decision = bench.admit(4, 845 * MB, count=1)
    assert (decision.action, decision.relief, decision.after) == (Action.WAIT, True, 0.0)
    assert bench.admit(4, 845 * MB, count=1).action is Action.ADMIT
    assert bench.governor.statistics().last == 1


def test_relief_is_asked_for_twice_a_second_at_most() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    bench.governor.starved(4)
    bench.governor.delivered(0)
    bench.governor.starved(4)
    asked = 0
    for _ in range(400):
        asked += bench.admit(4, 925 * MB, count=1).relief
        bench.now += 0.005
    assert asked in (4, 5)


def test_relief_that_takes_seconds_keeps_nobody_from_loading_or_failing() -> None:
    """Collecting the garbage of a hundred million objects does."""
    for used, end in ((845, Action.ADMIT), (925, Action.FAIL)):
        bench = Bench(stall=5.0)
        bench.governor.starved(4)
        actions: list[Action] = []
        while not actions or (actions[-1] is Action.WAIT and len(actions) < 50):
            decision = bench.admit(4, used * MB, count=1)
            actions.append(decision.action)
            bench.now += 2.0 if decision.relief else decision.after
        assert actions[-1] is end
        assert len(actions) <= 8


def test_a_consumer_that_waits_in_vain_gets_the_numbers() -> None:
    bench = Bench(stall=2.0)
    bench.load(0, 100 * MB, count=4)
    bench.governor.delivered(0)
    bench.governor.starved(4)
    actions = []
    for _ in range(1000):
        decision = bench.admit(4, 925 * MB, count=1)
        actions.append(decision.action)
        if decision.action is Action.FAIL:
            break
        bench.now += 0.005
    assert set(actions[:-1]) == {Action.WAIT}
    assert 400 <= len(actions) <= 402
    shortage = decision.shortage
    assert shortage is not None
    error = shortage.error(index=77)
    assert isinstance(error, MemoryBudgetError)
    assert (error.needed, error.limit, error.source) == (10 * MB, 1000 * MB, "test")
    for told in (
        "index 77",
        "10.0 MB",
        "5.0 MB",
        "925.0 MB of 1.00 GB",
        "40.0 MB are in batches",
        "let go of",
    ):
        assert told in str(error)
    assert pickle.loads(pickle.dumps(error)).needed == error.needed


def test_memory_that_becomes_free_ends_the_wait() -> None:
    bench = Bench(stall=2.0)
    bench.load(0, 100 * MB)
    bench.governor.delivered(0)
    bench.governor.starved(4)
    for _ in range(300):
        assert bench.admit(4, 925 * MB, count=1).action is Action.WAIT
        bench.now += 0.005
    assert bench.admit(4, 500 * MB, count=1).action is Action.ADMIT
    bench.governor.finished(4, 10 * MB, bench.now)
    bench.governor.delivered(4)
    bench.governor.starved(5)
    bench.now += 1.0
    assert bench.admit(5, 925 * MB, count=1).action is Action.WAIT, "the patience starts anew"


def test_a_piece_that_outgrows_what_it_reserved_is_cut() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    assert bench.admit(4, 680 * MB).action is Action.ADMIT
    decision = bench.progress(4, [45 * MB], 725 * MB)  # three more of the kind are too many
    assert (decision.action, decision.samples) == (Action.CUT, 1)
    assert bench.governor.statistics().promised == 0, "what was cut off is not to come any more"
    bench.governor.finished(4, 45 * MB, bench.now)
    stats = bench.governor.statistics()
    assert (stats.cuts, stats.promised, stats.ready) == (1, 0, 85 * MB)
    assert bench.governor.events[-1].allowance == "batch"
    assert (bench.governor.events[-1].before, bench.governor.events[-1].after) == (4, 1)


def test_above_the_hard_mark_the_first_piece_is_cut_where_it_is() -> None:
    bench = Bench()
    bench.admit(0, 700 * MB)
    assert bench.progress(0, [10 * MB], 880 * MB).action is Action.GO_ON
    decision = bench.progress(0, [10 * MB], 940 * MB)
    assert (decision.action, decision.samples) == (Action.CUT, 2)


def test_parts_are_never_smaller_than_the_least_batch() -> None:
    bench = Bench(min_batch_size=3)
    bench.load(0, 100 * MB, count=6)
    bench.governor.delivered(0)
    bench.governor.starved(6)
    assert bench.admit(6, 849 * MB, count=10).samples >= 3
    whole = bench.admit(6, 849 * MB, count=5)
    assert whole.action is Action.ADMIT, "2 and 3 would be too few, 5 fit below the hard mark"
    assert bench.progress(6, [10 * MB] * 3, 940 * MB).action is Action.GO_ON, "nor is one cut off"


def test_use_above_the_hard_mark_parks_and_gives_up_the_youngest_until_below_soft() -> None:
    bench = Bench(workers=2, capacity=8)
    for start in (0, 4, 8, 12):
        bench.load(start, 100 * MB)
    bench.admit(16, 260 * MB)
    decision = bench.read(940 * MB)  # 90 MB too much, 40 promised
    assert decision.revoke == (12, 8, 4)
    assert bench.progress(16, [10 * MB], 900 * MB).action is Action.REVOKED
    stats = bench.governor.statistics()
    assert (stats.parked, stats.parks, stats.in_flight_allowed) == (True, 1, 4)
    assert bench.read(930 * MB).revoke == (), "the first one stays, and what was dropped is on its way"
    assert bench.admit(4, 870 * MB).action is Action.WAIT
    bench.now += 0.1
    bench.read(600 * MB)
    assert not bench.governor.statistics().parked


def test_what_the_consumer_dropped_is_not_taken_for_what_others_use() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    bench.governor.delivered(0)
    bench.now += 0.01
    bench.read(140 * MB)
    room = bench.governor.statistics().room
    bench.governor.released(0, 40 * MB, bench.now)
    bench.now += 0.001
    bench.read(140 * MB)  # it takes a while until the system has it back
    assert bench.governor.statistics().room == room


def test_what_is_dropped_is_not_made_up_for_again_before_a_reading_can_show_it() -> None:
    bench = Bench(capacity=8)
    for start in (0, 4, 8, 12):
        bench.load(start, 100 * MB)
    first = bench.read(935 * MB)
    bench.now += 0.001
    assert first.revoke == (12, 8, 4)[: len(first.revoke)]
    assert bench.read(935 * MB).revoke == ()


def test_a_fixed_batch_waits_above_the_hard_mark_and_then_fails() -> None:
    bench = Bench(sharded=True, stall=1.0)
    assert bench.admit(0, 100 * MB, count=32).action is Action.ADMIT, (
        "no third for a batch that is never split"
    )
    decision = bench.progress(0, [10 * MB], 935 * MB)
    bench.governor.starved(0)
    for _ in range(250):
        if decision.action is not Action.WAIT:
            break
        bench.now += 0.005
        decision = bench.progress(0, [], 935 * MB)
    assert decision.action is Action.FAIL
    assert decision.shortage is not None
    assert (decision.shortage.samples, decision.shortage.start) == (31, 1)
    assert "fixed_batch_size" in str(decision.shortage.error())


def test_the_patience_runs_only_while_the_consumer_waits() -> None:
    """A step that takes a minute while its batch is held is no reason to end the epoch."""
    bench = Bench(sharded=True, stall=1.0)
    bench.admit(0, 100 * MB, count=32)
    decision = bench.progress(0, [10 * MB], 935 * MB)
    for _ in range(60):
        assert decision.action is Action.WAIT
        bench.now += 1.0
        decision = bench.progress(0, [], 935 * MB)
    bench.governor.starved(0)
    assert bench.progress(0, [], 935 * MB).action is Action.WAIT
    bench.now += 0.9
    assert bench.progress(0, [], 935 * MB).action is Action.WAIT
    bench.now += 0.2
    assert bench.progress(0, [], 935 * MB).action is Action.FAIL


def test_a_fixed_batch_that_could_go_on_for_a_while_has_all_its_patience_again() -> None:
    bench = Bench(sharded=True, stall=1.0)
    bench.admit(0, 100 * MB, count=32)
    bench.governor.starved(0)
    sizes = [10 * MB]
    for used in (935, 925, 935):
        action = bench.progress(0, sizes, used * MB).action
        for _ in range(120 if used == 935 else 0):
            assert action is Action.WAIT
            bench.now += 0.005
            action = bench.progress(0, [], used * MB).action
        bench.progress(0, [], 920 * MB)
    assert action is Action.WAIT


def test_late_reports_about_pieces_that_are_gone_change_nothing() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    before = bench.governor.statistics()
    bench.governor.finished(0, MB, bench.now)
    bench.governor.finished(99, MB, bench.now)
    bench.governor.delivered(99)
    bench.governor.released(0, GIB, bench.now)
    bench.governor.released(99, GIB, bench.now)
    bench.governor.withdrawn(99, bench.now)
    assert bench.governor.progress(99, [MB], bench.now).action is Action.REVOKED
    bench.governor.delivered(0)
    bench.governor.withdrawn(0, bench.now)
    assert bench.governor.statistics().held == before.ready


def test_c05_a_limit_that_means_none_admits_everything() -> None:
    for limit in (9223372036854771712, 9223372036854710272, 1 << 60):
        bench = Bench(capacity=1000)
        bench.limit = limit
        for start in range(0, 4000, 4):
            assert bench.admit(start, 20 * GIB, sample=10 * GIB).action is Action.ADMIT


def test_c12_a_busy_host_with_memory_to_spare_shrinks_nothing() -> None:
    """75 GB free of 1.5 TB are 95 % used, and still far more than is needed."""
    bench = Bench(workers=8, capacity=24)
    bench.limit = 1500 * 10**9
    for start in range(0, 24 * 64, 64):
        assert bench.admit(start, 1425 * 10**9, count=64).action is Action.ADMIT
    stats = bench.governor.statistics()
    assert (stats.in_flight_allowed, stats.splits, stats.waits, stats.parks) == (24, 0, 0, 0)
    assert not bench.governor.events


def test_c12_small_batches_are_loaded_whole_where_others_have_filled_the_memory() -> None:
    """Giving up 40 MB would help nobody where 1.4 GB of 24 are left."""
    bench = Bench(capacity=2)
    bench.limit = 24 * 10**9
    for start in (0, 4):
        assert bench.admit(start, int(22.6e9), sample=MB).action is Action.ADMIT
        bench.governor.finished(start, 4 * MB, bench.now)
    assert bench.read(int(22.7e9)).revoke == ()
    assert bench.governor.statistics().parks == 0


def test_c16_a_probe_that_blocks_counts_as_pressure_but_not_for_a_waiting_consumer() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    bench.now += 2.0
    assert bench.governor.admit(4, 4, bench.now, [10 * MB] * 4).action is Action.WAIT
    assert bench.governor.admit(8, 4, bench.now, [10 * MB] * 4).action is Action.WAIT
    bench.governor.delivered(0)
    bench.governor.starved(4)
    assert bench.governor.admit(4, 4, bench.now, [10 * MB] * 4).action is Action.ADMIT
    bench.read(100 * MB)
    assert bench.governor.admit(8, 4, bench.now, [10 * MB] * 4).action is Action.ADMIT


def test_c16_what_was_loaded_since_the_last_reading_is_added_to_it() -> None:
    bench = Bench()
    bench.read(100 * MB)
    for start in range(0, 72, 4):
        bench.now += 0.01
        assert bench.governor.admit(start, 4, bench.now, [10 * MB] * 4).action is Action.ADMIT
        bench.governor.finished(start, 40 * MB, bench.now)
        bench.governor.delivered(start)
    assert bench.governor.statistics().used == 820 * MB
    assert bench.governor.admit(72, 4, bench.now, [10 * MB] * 4).action is Action.WAIT


def test_c13_a_probe_that_knows_nothing_any_more_leaves_the_last_reading_in_force() -> None:
    bench = Bench()
    bench.load(0, 100 * MB)
    for start in range(4, 400, 4):
        bench.now += 1.0
        bench.governor.observe(None, bench.now)
        assert bench.governor.admit(start, 4, bench.now, [10 * MB] * 4).action is Action.ADMIT
        bench.governor.finished(start, 40 * MB, bench.now)
        bench.governor.delivered(start)
        bench.governor.released(start, GIB, bench.now)
    bench.now += 1.0
    assert bench.governor.statistics().used == 140 * MB


def test_c22_memory_that_the_allocator_kept_is_asked_back_and_then_used_again() -> None:
    bench = Bench(workers=1, capacity=3)
    bench.load(0, 100 * MB, count=4)
    bench.governor.delivered(0)
    decision = bench.admit(4, 800 * MB, count=32)
    assert decision.action is Action.PRESPLIT
    assert decision.relief, "use that is nobody's may be freed memory"
    for start in range(4, 20, 4):
        bench.load(start, 100 * MB, count=2)
        bench.governor.delivered(start)
        bench.governor.released(start, GIB, bench.now)
    for _ in range(10):
        bench.now += 1.0
        bench.read(100 * MB)
    assert bench.admit(20, 100 * MB, count=16).action is Action.ADMIT


def test_c23_a_limit_that_is_lowered_is_pressure_at_once_and_none_when_it_is_raised() -> None:
    bench = Bench(capacity=8)
    bench.limit = 8 * GIB
    used = int(1.9 * GIB)
    for start in (0, 4, 8):
        bench.load(start, used, sample=40 * MB)
    assert bench.read(used).revoke == ()
    bench.limit = 2 * GIB
    assert bench.read(used).revoke == (8, 4)
    assert bench.governor.statistics().limit == 2 * GIB
    assert bench.admit(12, used, count=1).action is Action.WAIT
    bench.limit = 16 * GIB
    assert bench.admit(4, used, count=1).action is Action.ADMIT
    assert bench.admit(12, used, count=1).action is Action.ADMIT
    for _ in range(10):
        bench.now += 1.0
        bench.read(used)
    assert bench.admit(16, used).action is Action.ADMIT, "and batches are whole again"


def test_nobody_waits_longer_than_a_second_for_the_first_sample() -> None:
    """It may take longer, or be ready only when another worker's is."""
    bench = Bench(capacity=6)
    bench.read(100 * MB)
    assert bench.governor.admit(0, 4, bench.now).action is Action.ADMIT
    assert bench.governor.admit(4, 4, bench.now).action is Action.WAIT
    bench.now += 1.1
    bench.read(100 * MB)
    for start in (4, 8):
        assert bench.governor.admit(start, 4, bench.now).action is Action.ADMIT
    decision = bench.progress(8, [300 * MB], 400 * MB)
    assert (decision.action, decision.samples) == (Action.CUT, 1), "it is cut where it does not fit"


def test_a_worker_that_waits_for_the_one_without_memory_is_passed_over_in_the_end() -> None:
    """User code may make workers wait for each other: the one to be given up never comes to a boundary."""
    bench = Bench(stall=2.0)
    assert bench.admit(8, 680 * MB).action is Action.ADMIT
    bench.governor.starved(4)
    waited = 0.0
    while bench.admit(4, 820 * MB, count=1).action is Action.WAIT:
        bench.now += 0.005
        waited += 0.005
        assert waited < 3.0
    assert bench.governor.statistics().last == 1
    assert waited >= 1.9


def test_the_patience_for_those_on_their_way_out_begins_anew_when_one_moves() -> None:
    bench = Bench(stall=1.0, min_batch_size=1)
    assert bench.admit(8, 680 * MB).action is Action.ADMIT
    assert bench.admit(12, 680 * MB).action is Action.ADMIT
    bench.governor.starved(4)
    for _ in range(180):
        assert bench.admit(4, 845 * MB, count=1).action is Action.WAIT
        bench.now += 0.005
    bench.governor.withdrawn(12, bench.now)
    for _ in range(180):
        assert bench.admit(4, 845 * MB, count=1).action is Action.WAIT
        bench.now += 0.005


def test_a_piece_that_will_not_be_cut_is_promised_all_that_it_takes() -> None:
    bench = Bench(min_batch_size=2)
    bench.read(100 * MB)
    bench.governor.admit(0, 3, bench.now)
    assert bench.progress(0, [200 * MB], 300 * MB).action is Action.GO_ON
    assert bench.governor.statistics().promised == 400 * MB, (
        "not a third of the room, since 2 and 1 is no cut"
    )


# Iterables


def test_nothing_is_given_up_that_cannot_be_read_again() -> None:
    bench = Bench(revocable=False, min_batch_size=4)
    for start in (0, 4, 8):
        bench.load(start, 100 * MB)
    bench.admit(12, 220 * MB)
    assert bench.read(960 * MB).revoke == ()
    assert bench.governor.statistics().parked
    waits = bench.progress(12, [10 * MB], 960 * MB)
    assert (waits.action, waits.revoke) == (Action.WAIT, ()), "the consumer has pieces before it to take"
    for start in (0, 4, 8):
        bench.governor.delivered(start)
    bench.governor.starved(12)
    assert bench.progress(12, [], 960 * MB).action is Action.GO_ON, "and now it has none"
    assert bench.governor.statistics().revoked == 0


def test_a_piece_that_is_read_waits_only_above_the_hard_mark_and_behind_what_the_consumer_can_have() -> None:
    bench = Bench(revocable=False, min_batch_size=4)
    bench.load(0, 100 * MB)
    bench.admit(8, 140 * MB)
    assert bench.progress(8, [20 * MB], 860 * MB).action is Action.GO_ON, "outgrown, but below the hard mark"
    bench.governor.delivered(0)
    bench.governor.starved(4)
    assert bench.admit(4, 920 * MB, count=1).action is Action.WAIT
    assert bench.progress(8, [20 * MB], 960 * MB).action is Action.GO_ON, "4 waits for memory, not for it"


def test_a_last_piece_of_an_iterable_leaves_room_for_what_others_were_promised() -> None:
    bench = Bench(revocable=False, stall=1.0)
    assert bench.admit(8, 100 * MB, count=8).action is Action.ADMIT
    bench.governor.starved(4)
    for _ in range(2):
        bench.now += 0.6
        decision = bench.admit(4, 845 * MB, count=1)
    assert decision.action is Action.WAIT
    for _ in range(2):
        bench.now += 0.6
        decision = bench.admit(4, 845 * MB, count=1)
    assert decision.shortage is not None
    assert decision.shortage.used == 925 * MB
    assert decision.shortage.used + decision.shortage.needed > decision.shortage.ceiling


def test_what_outgrew_its_room_is_cut_where_it_cannot_be_read_again() -> None:
    bench = Bench(revocable=False)
    bench.load(0, 100 * MB)
    assert bench.admit(4, 680 * MB).action is Action.ADMIT
    decision = bench.progress(4, [45 * MB], 725 * MB)
    assert (decision.action, decision.samples) == (Action.CUT, 1)


def test_the_first_piece_of_an_iterable_does_not_wait_for_what_is_never_given_up() -> None:
    bench = Bench(revocable=False)
    bench.load(8, 100 * MB)  # with in_order=False it may have been read before
    bench.governor.starved(4)
    assert bench.admit(4, 845 * MB, count=1).relief
    assert bench.admit(4, 845 * MB, count=1).action is Action.ADMIT
    assert bench.governor.statistics().last == 1


# Ranks


def test_what_is_admitted_leaves_room_for_the_same_step_of_the_other_ranks() -> None:
    bench = Bench(ranks=4, sharded=True)
    assert bench.admit(0, 500 * MB).action is Action.ADMIT
    assert bench.admit(4, 500 * MB).action is Action.ADMIT  # 500 + 4 · 80 = 820
    assert bench.admit(8, 500 * MB).action is Action.WAIT
    assert bench.governor.statistics().promised == 80 * MB


def test_a_last_piece_counts_only_itself_and_memory_is_not_said_to_be_short() -> None:
    bench = Bench(ranks=8, sharded=True)
    assert bench.admit(0, 600 * MB).action is Action.WAIT, "40 · 8 = 320"
    bench.governor.starved(0)
    decision = bench.admit(0, 600 * MB)
    assert (decision.action, decision.relief) == (Action.ADMIT, False)
    assert bench.progress(0, [10 * MB], 610 * MB).action is Action.GO_ON


def test_what_one_rank_gives_up_is_what_stands_in_its_way() -> None:
    bench = Bench(ranks=2, capacity=8)
    for start in (8, 12, 16):
        bench.load(start, 100 * MB)
    bench.governor.starved(4)
    decision = bench.admit(4, 840 * MB, count=1)  # 10 too many
    assert (decision.action, decision.revoke) == (Action.WAIT, (16,))


# Free pieces


def plentiful(**details: Any) -> Bench:
    """A machine with memory to spare, whose sizes are known."""
    bench = Bench(**details)
    bench.estimate.learn(MB)
    bench.read(50 * MB)
    return bench


def test_free_pieces_take_an_eighth_of_what_is_left_and_half_of_what_is_between_the_marks() -> None:
    assert plentiful(capacity=4).governor.allowance(100.0) == 40 * MB // 4
    bench = plentiful(capacity=4)
    bench.read(650 * MB)
    assert bench.governor.allowance(bench.now) == 200 * MB // 8 // 4
    bench.admit(0, 650 * MB)
    assert bench.governor.allowance(bench.now) == 160 * MB // 8 // 4
    assert plentiful(capacity=4, ranks=2).governor.allowance(100.0) == 40 * MB // 4 // 2


def test_no_piece_is_free_where_memory_is_not_plentiful() -> None:
    assert Bench().governor.allowance(100.0) == 0, "nothing is known"
    bench = plentiful()
    assert bench.governor.allowance(bench.now + 1.0) == 0, "the reading is old"
    for second in range(100):
        bench.governor.observe(None, bench.now + second / 10)
    assert bench.governor.allowance(bench.now + 10.0) == 0, "and says nothing new"
    bench.now += 10.0
    assert bench.admit(0, 845 * MB, count=1).action is Action.WAIT
    bench.read(100 * MB)
    assert bench.governor.allowance(bench.now) == 0, "a piece was refused"
    bench.load(0, 100 * MB, count=1)
    assert bench.governor.allowance(bench.now) > 0
    bench.read(940 * MB)
    assert bench.governor.allowance(bench.now) == 0, "parked"
    bench.now += 0.1
    bench.read(100 * MB)
    assert not bench.governor.statistics().parked
    assert bench.governor.allowance(bench.now) == 0, "fewer pieces in flight than there could be"
    for _ in range(30):
        bench.now += 0.5
        bench.read(100 * MB)
    assert bench.governor.allowance(bench.now) > 0


def test_a_consumer_that_is_faster_than_the_loader_does_not_end_the_freedom() -> None:
    bench = plentiful()
    bench.admit(0, 50 * MB)
    bench.governor.starved(0)
    assert bench.governor.allowance(bench.now) > 0


def test_a_free_piece_teaches_its_mean_and_changes_nothing_else() -> None:
    bench = plentiful()
    before = bench.governor.statistics()
    bench.governor.saw(10, 40 * MB)
    assert bench.governor.bound(5) == 20 * MB
    assert bench.governor.statistics() == before


def test_what_the_consumer_holds_of_free_pieces_is_on_the_book_until_it_lets_go() -> None:
    bench = plentiful()
    bench.governor.delivered(0, 30 * MB)
    bench.governor.delivered(4, 0)
    assert bench.governor.statistics().held == 30 * MB
    bench.governor.released(4, MB, bench.now)
    bench.governor.released(0, 10 * MB, bench.now)
    assert bench.governor.statistics().held == 20 * MB
    bench.governor.released(0, 40 * MB, bench.now)
    assert bench.governor.statistics().held == 0
    bench.governor.released(0, 40 * MB, bench.now)
    assert bench.governor.statistics().held == 0
    bench.now += 1.0
    assert bench.governor.statistics().used == 50 * MB, "what was never counted is not taken away either"


def test_a_piece_that_was_refused_and_loaded_freely_all_the_same_stands_in_nobody_s_way() -> None:
    for nbytes in (0, 10 * MB):
        bench = plentiful()
        assert bench.admit(0, 845 * MB, count=1).action is Action.WAIT
        bench.governor.delivered(0, nbytes)
        assert bench.governor.statistics().held == nbytes
        assert bench.admit(4, 100 * MB, count=1).action is Action.ADMIT


def test_batches_that_are_smaller_than_their_samples_do_not_add_up_where_nothing_is_read_any_more() -> None:
    bench = Bench()
    bench.read(100 * MB)
    for start in range(0, 400, 4):
        bench.now += 1.0
        bench.governor.observe(None, bench.now)
        assert bench.governor.admit(start, 4, bench.now, [10 * MB] * 4).action is Action.ADMIT
        bench.governor.progress(start, [10 * MB] * 3, bench.now)
        bench.governor.finished(start, 5 * MB, bench.now, peak=45 * MB)
        bench.governor.delivered(start)
        for _ in range(5):
            bench.governor.released(start, MB, bench.now)
    bench.now += 1.0
    assert bench.governor.statistics().used == 100 * MB


def test_a_batch_that_is_collated_promises_what_will_be_there_at_once() -> None:
    bench = Bench()
    bench.read(100 * MB)
    bench.governor.admit(0, 4, bench.now)
    bench.governor.finished(0, 40 * MB, bench.now, peak=80 * MB)
    bench.governor.delivered(0)
    bench.governor.admit(4, 4, bench.now)
    assert bench.governor.statistics().promised == 80 * MB
    assert bench.progress(4, [10 * MB] * 4, 140 * MB).action is Action.GO_ON
    assert bench.governor.statistics().promised == 40 * MB, "the arrays are still to be made"


# Refusals


def test_a_refusal_halves_what_may_be_in_flight_once_a_second_and_calm_gives_it_back() -> None:
    bench = Bench(workers=1, capacity=8)
    seen = []
    for _ in range(5):
        assert bench.admit(0, 100 * MB).action is Action.ADMIT
        bench.governor.refused(0, bench.now)
        seen.append(bench.governor.statistics().in_flight_allowed)
        bench.now += 0.4
    assert seen == [4, 4, 4, 2, 2]
    assert [(event.allowance, event.rule, event.after) for event in bench.governor.events] == [
        ("in_flight", "refused", 4),
        ("in_flight", "refused", 2),
    ]
    assert bench.governor.statistics().in_flight == 0, "off the book"
    for _ in range(8):
        bench.now += 1.0
        bench.read(100 * MB)
    assert bench.governor.statistics().in_flight_allowed == 8
    assert {event.rule for event in list(bench.governor.events)[2:]} == {"calm"}


def test_a_refusal_counts_although_nothing_is_known_about_memory() -> None:
    bench = Bench(workers=1, capacity=4)
    bench.governor.admit(0, 4, bench.now)
    bench.governor.refused(0, bench.now)
    assert bench.governor.admit(0, 2, bench.now).action is Action.ADMIT
    assert bench.governor.admit(2, 2, bench.now).action is Action.ADMIT
    assert bench.governor.admit(4, 2, bench.now).action is Action.WAIT
    for _ in range(5):
        bench.now += 1.0
        bench.governor.observe(None, bench.now)
    assert bench.governor.admit(4, 2, bench.now).action is Action.ADMIT
    assert [event.limit for event in bench.governor.events] == [0, 0, 0]


def test_a_piece_to_be_loaded_alone_has_all_others_given_up_and_does_not_wait_for_them_without_end() -> None:
    bench = Bench(stall=1.0)
    bench.load(8, 100 * MB)
    bench.admit(12, 140 * MB)
    assert bench.governor.admit(4, 1, bench.now, [MB], alone=True).action is Action.WAIT
    assert bench.governor.statistics().ready == 40 * MB, (
        "as long as the consumer is busy, it waits for its turn"
    )
    bench.governor.starved(4)
    decision = bench.governor.admit(4, 1, bench.now, [MB], alone=True)
    assert (decision.action, decision.revoke) == (Action.WAIT, (8,))
    bench.now += 0.9
    assert bench.governor.admit(4, 1, bench.now, [MB], alone=True).action is Action.WAIT
    bench.now += 0.9  # and 12 has not moved
    bench.read(100 * MB)
    assert bench.governor.admit(4, 1, bench.now, [MB], alone=True).action is Action.WAIT
    bench.now += 0.2
    bench.read(100 * MB)
    assert bench.governor.admit(4, 1, bench.now, [MB], alone=True).action is Action.ADMIT


# Who looks when nobody else does


def test_an_idle_thread_looks_the_sooner_the_less_is_left_and_the_more_can_be_given_up() -> None:
    bench = Bench(capacity=6)
    bench.limit = 100 * 10**9
    assert bench.governor.patience(bench.now) == 0.5
    for start in (0, 4):
        bench.load(start, 10**9, sample=10**9)
    waits = []
    for used in (10e9, 90e9, 97.5e9, 97.9e9, 97.995e9):  # the hard mark is 2 GB below the limit
        bench.read(int(used))
        waits.append(bench.governor.patience(bench.now))
    assert waits[:2] == [0.5, 0.5]
    assert waits[2] == bench.governor._policy.interval
    assert waits[2] > waits[3] > waits[4] == 0.001
    bench.governor.delivered(0)
    assert bench.governor.patience(bench.now) == 0.5, "the first piece is never given up"


# Out of order


def test_with_batches_in_any_order_the_earliest_that_is_not_loaded_has_the_right_of_way() -> None:
    bench = Bench(capacity=8)
    bench.load(0, 600 * MB)
    bench.load(8, 640 * MB)
    bench.governor.delivered(8)
    bench.governor.starved(4)  # 0 is ready, but so the consumer might say just before it is
    decision = bench.admit(4, 840 * MB, count=2)
    assert (decision.action, decision.revoke) == (Action.WAIT, (0,))
    bench.governor.delivered(0)  # too late: it was given up
    assert bench.governor.statistics().ready == 0
