"""What a loader says about itself: once, and only of what waits for the GIL."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from nogil_loader.engine.review import Reviewer, waits_for_gil
from nogil_loader.engine.statistics import StageSeconds, Statistics, WorkerCpu

# Two threads of pure Python that take turns for ten seconds.
TAKES_TURNS = Statistics(
    num_workers=2,
    seconds=10.0,
    consumer_wait=9.5,
    stages=StageSeconds(fetch=19.0, collate=0.5, idle=0.5),
    cpu=WorkerCpu(share=0.5, gil_wanted=0.95),
)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_workers_that_take_turns_are_recognised(workers: int) -> None:
    stages = StageSeconds(fetch=9.5 * workers)
    cpu = WorkerCpu(share=1 / workers, gil_wanted=0.9)
    assert waits_for_gil(replace(TAKES_TURNS, num_workers=workers, stages=stages, cpu=cpu))


@pytest.mark.parametrize(
    "other",
    [
        replace(TAKES_TURNS, num_workers=1),
        replace(TAKES_TURNS, consumer_wait=1.0),  # the trainer takes the time
        replace(TAKES_TURNS, cpu=WorkerCpu(share=0.98, gil_wanted=0.4)),  # kernels on both cores
        replace(TAKES_TURNS, cpu=WorkerCpu(share=0.02, gil_wanted=0.6)),  # a disk, beside a busy consumer
        replace(TAKES_TURNS, cpu=WorkerCpu(share=0.5, gil_wanted=0.1)),  # half disk, half kernel
        replace(TAKES_TURNS, cpu=None),
        Statistics(),
    ],
)
def test_nothing_else_is_taken_for_it(other: Statistics) -> None:
    assert not waits_for_gil(other)


def test_it_is_said_once_and_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    reviewer = Reviewer()
    with caplog.at_level(logging.WARNING, "nogil_loader"):
        reviewer.review(Statistics())
        assert not caplog.records
        reviewer.review(TAKES_TURNS)
        reviewer.review(TAKES_TURNS)
    (record,) = caplog.records
    assert (
        "2 workers take turns at the GIL: while they load, each of them runs 50 % of the time"
        in record.message
    )
    assert "most of it in fetch" in record.message
    assert "__getitems__" in record.message
