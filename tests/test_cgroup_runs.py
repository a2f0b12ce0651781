"""The loader under limits that the kernel enforces by killing (G5), a few short runs of ``benchmarks``."""

from __future__ import annotations

import re

import pytest

from benchmarks import soak_memory
from benchmarks.pressure import troubles
from benchmarks.pressure.reader import Task
from benchmarks.pressure.runs import run
from benchmarks.pressure.samples import Ragged, first_difference, identify
from nogil_loader.bench import cgroup

MB = 10**6
_REASON = cgroup.why_not()
# A reader that hangs says so long before that; starting and ending take seconds on a busy machine.
pytestmark = [
    pytest.mark.skipif(_REASON is not None, reason=f"no memory group: {_REASON}"),
    pytest.mark.timeout(180),
]
# Where nothing will get better there is no use in waiting for half a minute, which is the default.
SHORT_STALL = {"stall": 2.0}


# What the runs stand on


def test_samples_show_which_they_are_and_whether_they_are_whole() -> None:
    dataset = Ragged(40)
    sample = dataset[39]
    assert identify(sample, dataset.sizes) == 39
    disguised = sample.copy()
    disguised[:8] = dataset[38][:8]
    for broken in (sample[:-1], disguised):
        with pytest.raises(ValueError, match="not whole"):
            identify(broken, dataset.sizes)
    sample[8 + 4096 * 100] ^= 1
    with pytest.raises(ValueError, match="not whole"):
        identify(sample, dataset.sizes)


def test_a_lost_a_doubled_and_a_missing_sample_are_noticed() -> None:
    assert first_difference([0, 1, 2], complete=3) == ""
    assert "sample 2 arrived as number 1" in first_difference([0, 2], complete=3)
    assert "sample 1 arrived as number 2" in first_difference([0, 1, 1], complete=3)
    assert "2 of 3" in first_difference([0, 1], complete=3)
    assert first_difference([0, 1], complete=None) == ""


@pytest.mark.slow
def test_a_queue_bounded_by_number_is_killed() -> None:
    outcome = run(Task(loader="threads", step=0.3), 700 * MB)
    assert outcome.verdict == "killed", outcome
    assert outcome.kills == 1


def test_a_reader_that_does_not_get_on_leaves_its_stacks() -> None:
    outcome = run(Task(loader="threads", samples=32, step=60.0, hang=1.0))
    assert outcome.verdict == "hung", outcome
    assert "_read_epoch" in outcome.stderr


# The loader


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "workers"), [(220, 2), (220, 16), (600, 2)])
def test_an_epoch_larger_than_memory_arrives_whole_and_in_order(limit: int, workers: int) -> None:
    outcome = run(Task(workers=workers), limit * MB)
    assert outcome.verdict == "exact", outcome
    assert outcome.fill <= 0.95, outcome


@pytest.mark.slow
def test_a_slow_consumer_does_not_let_batches_pile_up() -> None:
    outcome = run(Task(step=0.1, hints=False), 1_000 * MB)
    assert outcome.verdict == "exact", outcome
    assert outcome.fill <= 0.95, outcome


@pytest.mark.slow
def test_a_sample_that_cannot_fit_is_refused_with_the_numbers() -> None:
    outcome = run(Task(memory=SHORT_STALL), 90 * MB)
    assert outcome.verdict == "refused", outcome
    assert outcome.report is not None
    assert "of 90.0 MB are in use (cgroup v" in outcome.report["error"]["text"]


@pytest.mark.slow
def test_a_consumer_that_keeps_everything_is_told_what_it_holds() -> None:
    outcome = run(Task(keep=True, memory=SHORT_STALL), 600 * MB)
    assert outcome.verdict == "refused", outcome
    assert outcome.report is not None
    held = re.search(r"([\d.,]+) MB are in batches that the consumer holds", outcome.report["error"]["text"])
    assert held is not None
    assert float(held[1]) > 300


@pytest.mark.slow
def test_scratch_that_nobody_declared_kills_nobody() -> None:
    outcome = run(Task(scratch=3, memory=SHORT_STALL), 700 * MB)
    assert outcome.verdict in ("exact", "refused"), outcome


@pytest.mark.slow
def test_a_neighbour_gets_its_share_and_the_loader_takes_it_up_again() -> None:
    task = Task(samples=20_000, step=0.1, until_told=True)
    outcome = run(task, 1_000 * MB, during=troubles.neighbour(0.5, 3e8))
    assert outcome.verdict == "exact", outcome
    assert troubles.shrank(outcome)
    assert "recovered" in outcome.marks


@pytest.mark.slow
def test_a_limit_that_is_lowered_meanwhile_is_kept() -> None:
    outcome = run(Task(samples=640), 1_600 * MB, during=troubles.lowered_limit(700 * MB))
    assert outcome.verdict == "exact", outcome


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "room"), [("DATA", 700 * MB), ("AS", 1_200 * MB)])
def test_a_resource_limit_is_kept(kind: str, room: int) -> None:
    outcome = run(Task(rlimit=kind, room=room))
    assert outcome.verdict == "exact", outcome


@pytest.mark.slow
def test_a_short_soak_keeps_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    code = soak_memory.soak(seed=1, seconds=12, rounds=2, round_seconds=6)
    assert code == 0, capsys.readouterr().err


def test_growth_is_told_from_wandering() -> None:
    wandering = [100 * MB, 140 * MB, 120 * MB, 125 * MB, 118 * MB, 130 * MB]
    assert soak_memory.find_growth(wandering) == ""
    leaking = [(100 + 13 * epoch) * MB for epoch in range(9)]
    assert "grew by" in soak_memory.find_growth(leaking)
