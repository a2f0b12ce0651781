"""A measurement in a process of its own: whatever becomes of that, there is an answer."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from nogil_loader.bench import cgroup
from nogil_loader.bench.children import run_task
from nogil_loader.bench.failures import ended_by, failure_of
from nogil_loader.bench.result import OURS, Failure, Setting
from nogil_loader.bench.task import Answer, Task
from tests.bench.datasets import place_of


def run(name: str, timeout: float = 60.0, **changes: Any) -> Answer:
    task = {
        "target": place_of(name),
        "loader": OURS,
        "num_workers": 1,
        "prefetch_factor": 2,
        "batch_size": None,
        "seconds": 0.02,
        "observe": False,
        "seed": 0,
        "parent": os.getpid(),
    }
    return run_task(Task(**{**task, **changes}), timeout)


def failure_in(answer: Answer) -> Failure:
    assert answer.setting is not None
    assert answer.setting.failure is not None
    return answer.setting.failure


@pytest.fixture(scope="module")
def measured() -> Setting:
    answer = run("rows", num_workers=2, observe=True, seconds=0.1)
    assert answer.about is not None
    assert (answer.about.dataset, answer.about.length) == ("Rows, 100 samples", 100)
    assert answer.setting is not None
    return answer.setting


def test_our_loader_tells_what_it_did(measured: Setting) -> None:
    assert measured.failure is None
    assert len(measured.rates) == 1
    assert measured.rates[0] > 0
    assert (measured.num_workers, measured.prefetch_factor, measured.batch_size) == (2, 2, 32)
    assert measured.batch_seconds is not None
    assert 0 < measured.batch_seconds.p50 <= measured.batch_seconds.p99
    assert {"fetch", "collate", "idle", "memory"} <= set(measured.stages)
    assert measured.stages["fetch"] > 0
    assert 0 <= (measured.wait_share or 0) <= 1
    assert measured.cpu_cores is not None


def test_memory_and_queue_are_looked_at_over_time(measured: Setting) -> None:
    assert measured.memory is not None
    assert measured.memory.timeline
    assert all(10_000_000 < used <= (measured.memory.peak_bytes or 0) for _, used in measured.memory.timeline)
    assert measured.queue is not None
    assert measured.queue.capacity == 6
    assert all(0 <= ready <= 6 for _, ready in measured.queue.timeline)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GIL is watched on Linux only")
def test_the_gil_is_watched_in_a_pass_of_its_own(measured: Setting) -> None:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        assert measured.gil is None
        return
    assert measured.gil is not None
    assert 0 <= sum(measured.gil.by_stage.values()) <= measured.gil.held + 1e-6
    assert measured.gil.held <= 1
    assert 0 <= measured.gil.waiting <= 1


def test_a_sample_that_cannot_be_read_is_named() -> None:
    assert failure_in(run("Broken")) == Failure("ValueError: no such picture in fetch", "70", "0")


def test_f04_nothing_has_to_be_picklable() -> None:
    setting = run("unpicklable").setting
    assert setting is not None
    assert setting.failure is None
    assert setting.rates[0] > 0


def test_a_process_that_crashes_is_told_with_its_signal() -> None:
    failure = failure_in(run("Crashing"))
    assert failure.error.startswith("the process was ended by SIGSEGV")


def test_a_process_that_is_stuck_is_ended() -> None:
    failure = failure_in(run("Stuck", timeout=1.0))
    assert failure.error == "it was not done after 1 s, and was ended"


def test_a_target_that_is_no_dataset_is_refused() -> None:
    answer = run("raises")
    assert answer.refusal is not None
    assert answer.refusal.message.endswith("raises() failed")
    assert "RuntimeError: the disk is not mounted" in answer.refusal.trace


def test_a_process_ends_with_the_one_that_waits_for_it() -> None:
    answer = run("Stuck", parent=os.getppid())
    assert failure_in(answer).error == "the process ended with exit code 1"


@pytest.mark.skipif(cgroup.why_not() is not None, reason=f"no memory group: {cgroup.why_not()}")
def test_a_limit_of_memory_is_what_the_loader_finds() -> None:
    setting = run("rows", memory_limit=400_000_000).setting
    assert setting is not None
    assert setting.failure is None
    assert setting.memory is not None
    assert setting.memory.limit == 400_000_000
    assert 10_000_000 < (setting.memory.peak_bytes or 0) < 400_000_000


@pytest.mark.skipif(cgroup.why_not() is not None, reason=f"no memory group: {cgroup.why_not()}")
def test_too_little_memory_is_a_failure_and_not_the_end() -> None:
    failure = failure_in(run("Fat", memory_limit=300_000_000))
    assert "memory" in failure.error.lower()


@pytest.mark.slow
@pytest.mark.torch
def test_torchs_processes_are_measured_and_ended() -> None:
    pytest.importorskip("torch")
    answer = run("rows", loader="torch", batch_size=50, observe=True)
    setting = answer.setting
    assert setting is not None
    assert setting.failure is None
    assert setting.rates[0] > 0
    assert (setting.loader, setting.batch_size) == ("torch", 50)
    assert setting.note == "worker processes; torch's default_collate"
    assert setting.queue is None
    assert setting.memory is not None
    assert setting.memory.timeline


def test_the_last_words_of_a_process_are_told() -> None:
    assert ended_by(3, "one\n two \n\n") == Failure("the process ended with exit code 3; it said last: two")
    assert ended_by(-9, "").error == "the process was ended by SIGKILL, as when memory runs out"


def test_what_torch_says_of_its_worker_comes_down_to_what_was_raised() -> None:
    text = (
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nValueError: no such picture\n'
    )
    assert failure_of(ValueError(text), 70) == Failure("ValueError: no such picture", "70")
