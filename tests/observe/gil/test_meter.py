"""A meter begins and ends without a trace, and where it can tell nothing it says why."""

from __future__ import annotations

import gc
import math
import os
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nogil_loader.engine import listening
from nogil_loader.kernels.compiler import toolchain
from nogil_loader.observe.gil import GilMeter, gil_meter, place, sampler
from tests.observe.gil.loads import PATIENCE, enter, open_calls, run_threads, spin

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")


def test_a_report_can_be_had_while_the_meter_runs() -> None:
    with gil_meter() as meter:
        spin(0.05)
        first = meter.report()
        spin(0.05)
        second = meter.report()
    third = meter.report()
    assert 0 < first.samples < second.samples <= third.samples
    assert 0.05 <= first.seconds < second.seconds <= third.seconds
    assert third.seconds == meter.report().seconds


def test_nothing_is_left_of_a_closed_meter() -> None:
    files, listeners = open_calls(), listening.listeners
    with gil_meter() as meter:
        assert len(open_calls()) == len(files) + 1
        assert len(listening.listeners) == len(listeners) + 1
    assert (open_calls(), listening.listeners) == (files, listeners)
    meter.close()
    meter.watch("too late")
    assert (open_calls(), listening.listeners) == (files, listeners)


def test_a_meter_that_is_dropped_ends_by_itself() -> None:
    files, listeners = open_calls(), listening.listeners
    meter = gil_meter()
    meter.__enter__()
    (thread,) = [each for each in threading.enumerate() if each.name == "nogil_loader-gil-meter"]
    del meter
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    enter(0, "")  # whoever would have told it something finds that it does not listen any more
    assert (open_calls(), listening.listeners) == (files, listeners)
    assert not sampler._running


def test_a_meter_that_was_not_started_says_so() -> None:
    meter = gil_meter()
    assert not meter.report().available
    assert "used in a `with` statement" in meter.report().sentence()
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        meter.watch("me")
    meter.close()


def test_a_meter_is_used_once() -> None:
    with gil_meter() as meter:
        with pytest.raises(RuntimeError, match="used once; make another one"), meter:
            pass
        with pytest.raises(TypeError, match="name=3: expected a string, not int"):
            meter.watch(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", ["fast", True, None])
def test_a_rate_that_is_no_number_is_refused(rate: Any) -> None:
    with pytest.raises(TypeError, match=f"rate={rate!r}: expected a number"):
        gil_meter(rate=rate)


@pytest.mark.parametrize("rate", [0, 9.9, 10_001, math.inf, math.nan])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate={rate}: expected 10 to 10,000"):
        gil_meter(rate=rate)


@pytest.fixture
def searched_anew() -> Iterator[None]:
    place.find_gil.cache_clear()
    yield
    place.find_gil.cache_clear()


def _check_silent(meter: GilMeter, reason: str) -> None:
    with meter:
        meter.watch("me")
        enter(0, "fetch")
    report = meter.report()
    assert not report.available
    assert reason in report.reason
    assert str(report) == f"The GIL was not watched: {report.reason}."
    assert math.isnan(report.held)
    assert (report.by_stage, report.by_thread, report.waiting, report.advice()) == ({}, {}, None, "")


@pytest.mark.usefixtures("searched_anew")
def test_where_the_gil_cannot_be_found_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    _check_silent(gil_meter(), "works on Linux only, this is darwin")


def test_without_a_compiler_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain.load_numba().config, "DISABLE_JIT", 1)
    _check_silent(gil_meter(), "NUMBA_DISABLE_JIT is set")


def test_with_no_more_threads_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    files = open_calls()
    with gil_meter():
        pass  # has found out all that it needs to know
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("nogil_loader-gil"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    _check_silent(gil_meter(), "can't start new thread")
    assert open_calls() == files


def test_with_no_more_files_shares_are_told_and_waiting_is_not() -> None:
    with gil_meter():
        pass
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))

    def work() -> None:
        meter.watch("me")
        spin(0.05)

    with gil_meter() as meter:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        fillers = []
        try:
            while True:
                fillers.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            run_threads(work)
        finally:
            for file in fillers:
                os.close(file)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    report = meter.report()
    assert report.by_thread["me"] > 0
    assert report.waiting is not None
    assert "me" not in report.waiting
