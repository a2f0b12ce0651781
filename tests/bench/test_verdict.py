"""What is said to hold a loader back."""

from __future__ import annotations

from typing import Any

import pytest

from nogil_loader.bench.result import Gil, Memory, Setting
from nogil_loader.bench.verdict import Verdict, judge
from tests.bench.made_up import setting_of

FREE = Gil(held=0.05, by_stage={"fetch": 0.05}, waiting=0.01, accuracy=0.02)
IN_FETCH = {"fetch": 9.0, "collate": 1.0, "idle": 0.1, "start_up": 0.5}


def row_of(rates: dict[int, float], **changes: Any) -> list[Setting]:
    values = {"gil": FREE, "stages": IN_FETCH, **changes}
    return [setting_of(workers, rate, **values) for workers, rate in rates.items()]


def judged(settings: list[Setting], at: int = -1, gil: bool = True) -> Verdict:
    return judge(settings, settings[at], cores=4, gil=gil)


def test_work_that_scales_is_bound_by_the_cpu_in_its_longest_stage() -> None:
    verdict = judged(row_of({1: 100.0, 2: 195.0, 4: 380.0}))
    assert verdict.kind == "cpu"
    assert "CPU in fetch, which takes 90% of the workers' time; all 4 usable cores" in verdict.sentence


@pytest.mark.parametrize("stage", ["transform", "collate", "convert"])
def test_the_stage_is_the_one_that_takes_longest(stage: str) -> None:
    verdict = judged(row_of({1: 100.0, 2: 195.0}, stages={"fetch": 1.0, stage: 3.0}))
    assert verdict.kind == "cpu"
    assert f"in {stage}, which takes 75%" in verdict.sentence


def test_workers_that_wait_for_the_gil_are_bound_by_it() -> None:
    gil = Gil(held=0.99, by_stage={"fetch": 0.9, "collate": 0.09}, waiting=0.5, accuracy=0.02)
    one = row_of({1: 100.0}, gil=Gil(0.99, {"fetch": 0.99}, 0.0, 0.02))
    verdict = judged([*one, *row_of({2: 95.0}, gil=gil, cpu_share=0.5)], at=0)
    assert verdict.kind == "gil"
    assert "GIL in fetch: 2 workers wait for it for 50% of their time" in verdict.sentence


def test_threads_that_want_the_gil_at_the_end_of_batches_tell_as_well() -> None:
    verdict = judged(row_of({1: 100.0, 2: 95.0}, gil=None, gil_wanted=0.8, cpu_share=0.5))
    assert verdict.kind == "gil"
    assert "others wait for it at the end of 80% of the batches" in verdict.sentence


def test_one_worker_that_never_lets_go_of_the_gil_is_bound_by_it() -> None:
    verdict = judged(row_of({1: 100.0}, gil=Gil(0.98, {"fetch": 0.98}, 0.0, 0.02)))
    assert verdict.kind == "gil"
    assert "GIL in fetch: it is held for 98% of the time" in verdict.sentence


def test_two_workers_that_take_turns_at_the_gil_are_bound_by_it() -> None:
    one, two = (Gil(0.95, {"consumer": 0.5, "fetch": 0.45}, waiting, 0.02) for waiting in (0.0, 0.1))
    verdict = judged([*row_of({1: 100.0}, gil=one), *row_of({2: 105.0}, gil=two)], at=0)
    assert verdict.kind == "gil"
    assert "GIL: it is held for 95% of the time" in verdict.sentence


def test_without_a_gil_nobody_is_bound_by_it() -> None:
    held = Gil(0.98, {"fetch": 0.98}, 0.5, 0.02)
    assert judged(row_of({1: 100.0, 2: 195.0}, gil=held), gil=False).kind == "cpu"


def test_more_workers_than_cores_are_no_evidence_against_the_gil() -> None:
    crowded = Gil(0.3, {"fetch": 0.3}, 0.4, 0.02)
    settings = [*row_of({1: 100.0, 4: 390.0}), *row_of({16: 390.0}, gil=crowded)]
    assert judged(settings, at=1).kind == "cpu"


def test_sleeping_workers_are_bound_by_waiting() -> None:
    verdict = judged(row_of({1: 10.0, 2: 20.0, 8: 80.0}, cpu_share=0.03, cpu_cores=0.1))
    assert verdict.kind == "waiting"
    assert "in fetch for a disk, a network, a lock or a sleep" in verdict.sentence
    assert "3% of the time" in verdict.sentence


def test_on_a_full_machine_workers_off_the_cpu_need_not_wait_for_anything_else() -> None:
    settings = row_of({1: 100.0, 2: 195.0}, cpu_share=0.4, cpu_cores=1.6, other_cores=2.3)
    assert judged(settings).kind == "cpu"
    asleep = row_of({1: 100.0, 2: 195.0}, cpu_share=0.02, cpu_cores=0.1, other_cores=3.9)
    assert judged(asleep).kind == "waiting"


def test_the_gil_is_not_to_blame_where_more_workers_are_faster() -> None:
    assert judged(row_of({1: 100.0, 2: 190.0}, gil=None, gil_wanted=0.9, cpu_share=0.7)).kind == "cpu"


def test_the_gil_is_not_to_blame_where_workers_are_on_a_cpu() -> None:
    assert judged(row_of({1: 100.0, 2: 105.0}, gil=None, gil_wanted=0.9)).kind == "bandwidth"


def test_busy_workers_that_do_not_scale_are_bound_by_memory_bandwidth() -> None:
    verdict = judged(row_of({1: 100.0, 2: 105.0}), at=0)
    assert verdict.kind == "bandwidth"
    assert "2 workers are on a CPU for 97% of the time" in verdict.sentence
    assert "1.05 times as fast as one" in verdict.sentence


def test_a_governor_that_shrank_is_named_first() -> None:
    memory = Memory(peak_bytes=10**9, limit=10**9, shrinks=3)
    stages = {**IN_FETCH, "memory": 5.0}
    verdict = judged(row_of({1: 100.0, 2: 100.0}, memory=memory, stages=stages))
    assert verdict.kind == "memory"
    assert "shrank what is in flight 3 times, and 2 workers waited for it for 33% of" in verdict.sentence


def test_more_workers_that_wait_for_memory_are_limited_by_it() -> None:
    waiting = row_of({4: 100.0}, stages={**IN_FETCH, "memory": 10.0})
    verdict = judged([*row_of({1: 100.0, 2: 100.0}), *waiting], at=0)
    assert verdict.kind == "memory"
    assert "Limited by memory: 4 workers waited for it for 50% of their time;" in verdict.sentence


def test_workers_that_have_nothing_to_do_are_bound_by_the_hand_over() -> None:
    verdict = judged(row_of({1: 100.0, 2: 100.0}, stages={"fetch": 1.0, "idle": 3.0}))
    assert verdict.kind == "hand-off"
    assert "nothing to do for 75%" in verdict.sentence


def test_without_evidence_nothing_is_claimed() -> None:
    verdict = judged(row_of({1: 100.0}, stages={}, gil=None, cpu_share=None, cpu_cores=None))
    assert verdict.kind == "unknown"


def test_an_iterable_that_one_thread_reads_all_the_time_is_what_holds_it_back() -> None:
    stages = {"fetch": 9.5, "collate": 0.4, "idle": 19.0}
    row = row_of({1: 100.0, 2: 101.0}, stages=stages)
    verdict = judge(row, row[-1], cores=4, gil=True, iterable=True)
    assert verdict.kind == "reader"
    assert "one thread reads it" in verdict.sentence
    assert judge(row, row[-1], cores=4, gil=True).kind == "hand-off"


def test_more_workers_that_nobody_tried_are_not_said_to_bring_nothing() -> None:
    row = row_of({1: 100.0})
    assert "more workers were not tried" in judged(row).sentence
