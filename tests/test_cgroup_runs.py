"""The loader under limits that the kernel enforces by killing (G5), a few short runs of ``benchmarks``."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

import pytest

from benchmarks import cgroup
from benchmarks.pressure.reader import Task
from benchmarks.pressure.runs import run
from benchmarks.pressure.samples import Ragged, first_difference, identify

MB = 10**6
_REASON = cgroup.why_not()
# A reader that hangs says so long before that; starting and ending take seconds on a busy machine.
pytestmark = [
    pytest.mark.skipif(_REASON is not None, reason=f"no memory group: {_REASON}"),
    pytest.mark.timeout(180),
]


# What the runs stand on


def test_a_process_above_the_limit_is_killed_and_counted() -> None:
    with cgroup.MemoryGroup(100 * MB) as group:
        process = group.start([sys.executable, "-c", "bytearray(200_000_000)"])
        assert process.wait(60) == -signal.SIGKILL
        assert group.kills() == 1
        assert group.peak() is None or 90 * MB < group.peak() <= 100 * MB  # type: ignore[operator]


def test_a_process_is_in_the_group_from_its_start() -> None:
    with cgroup.MemoryGroup(100 * MB) as group:
        told = group.start(
            [sys.executable, "-c", "print(open('/proc/self/cgroup').read())"], stdout=subprocess.PIPE
        )
        assert group.folder.name in told.communicate(timeout=60)[0]
        assert group.kills() == 0


def test_a_group_is_removed_with_all_that_runs_in_it() -> None:
    with contextlib.ExitStack() as stack:
        with cgroup.MemoryGroup(100 * MB) as group:
            code = "import time; print('here', flush=True); time.sleep(60)"
            process = stack.enter_context(group.start([sys.executable, "-c", code], stdout=subprocess.PIPE))
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        assert process.wait(60) == -signal.SIGKILL
    assert not group.folder.exists()


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
