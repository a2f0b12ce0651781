"""The meter tells shares that are known from the run itself, and who waits."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest

import nogil_loader as nl
from nogil_loader.observe.gil import GilMeter, GilReport, gil_meter
from tests.observe.gil.loads import (
    PATIENCE,
    Ledger,
    enter,
    run_threads,
    sleep_with_gil,
    sleep_without_gil,
    spin,
)

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")

# Enough for ±2 % in half a second.
_RATE = 5000.0


@pytest.mark.parametrize("how", [sleep_with_gil, spin])
@pytest.mark.parametrize(("held", "free"), [(0.0005, 0.0045), (0.003, 0.003), (0.009, 0.001)])
def test_the_share_of_one_thread_is_right(how: Callable[[float], None], held: float, free: float) -> None:
    ledger = Ledger()
    with gil_meter(rate=_RATE) as meter:
        for _ in range(round(0.5 / (held + free))):
            ledger.hold("consumer", held, how)
            ledger.leave(free)
    report = meter.report()
    assert report.available
    ledger.check(report, report.held)
    ledger.check(report, report.by_thread.get("consumer", 0.0))
    assert report.by_stage == report.by_thread


def test_shares_of_stages_and_threads_are_right() -> None:
    ledger = Ledger()
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def work(worker: int, stages: list[tuple[str, float]]) -> None:
        for _ in range(40):
            assert turns[worker].acquire(timeout=PATIENCE)
            for stage, seconds in stages:
                enter(worker, stage)
                ledger.hold(f"{stage} of {worker}", seconds)
            enter(worker, "")
            ledger.leave(0.002)
            turns[1 - worker].release()

    with gil_meter(rate=_RATE) as meter:
        run_threads(
            lambda: work(0, [("fetch", 0.004), ("collate", 0.001)]),
            lambda: work(1, [("fetch", 0.002), ("output conversion", 0.003)]),
        )
    report = meter.report()
    held = ledger.held
    for worker in (0, 1):
        own = Ledger()
        own.free = ledger.free + sum(value for key, value in held.items() if not key.endswith(str(worker)))
        own.held.update({key: value for key, value in held.items() if key.endswith(str(worker))})
        own.check(report, report.by_thread[f"worker {worker}"])
    for stage, keys in {
        "fetch": ["fetch of 0", "fetch of 1"],
        "collate": ["collate of 0"],
        "convert": ["output conversion of 1"],
    }.items():
        own = Ledger()
        own.free = ledger.free + sum(value for key, value in held.items() if key not in keys)
        own.held.update({key: held[key] for key in keys})
        own.check(report, report.by_stage[stage])
    assert sum(report.by_stage.values()) == pytest.approx(report.held)
    assert sum(report.by_thread.values()) == pytest.approx(report.held)


def test_a_thread_that_wants_the_gil_is_seen_to_wait_and_one_that_does_not_is_not() -> None:
    over = threading.Event()
    ready = threading.Barrier(3)

    def want() -> None:
        meter.watch("worker 0")
        ready.wait(PATIENCE)
        while not over.is_set():
            sleep_without_gil(0.0001)

    def rest() -> None:
        meter.watch("resting")
        ready.wait(PATIENCE)
        over.wait(PATIENCE)

    with gil_meter(rate=_RATE) as meter:
        threads = [threading.Thread(target=target) for target in (want, rest)]
        for thread in threads:
            thread.start()
        ready.wait(PATIENCE)
        for _ in range(10):
            sleep_with_gil(0.05)
            sleep_without_gil(0.001)
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
    report = meter.report()
    assert report.waiting is not None
    assert report.workers_waiting is not None
    # Nearly all of the time, unless it was kept awake by having to wait for a processor as well.
    assert report.waiting["worker 0"] > 0.1
    assert report.workers_waiting == report.waiting["worker 0"]
    assert report.waiting["resting"] < report.waiting["worker 0"] / 2


class Holding:
    """Samples that hold the GIL for a known time."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> int:
        self.ledger.contend("fetch", 0.002)
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_the_stages_of_a_loader_are_seen(workers: int) -> None:
    ledger = Ledger()
    with gil_meter(rate=_RATE) as meter:
        loader = nl.DataLoader(Holding(ledger), batch_size=8, num_workers=workers)
        assert sum(len(batch) for batch in loader) == 200
        loader.close()
    report = meter.report()
    ledger.check(report, report.by_stage["fetch"])
    assert next(iter(report.by_stage)) == "fetch"
    threads = {"worker 0", "worker 1"} if workers else {"consumer"}
    assert threads <= set(report.by_thread)
    assert (report.workers_waiting is not None) == bool(workers)


def test_two_meters_see_the_same() -> None:
    ledger = Ledger()
    with gil_meter(rate=_RATE) as one, gil_meter(rate=_RATE) as other:
        for _ in range(60):
            ledger.hold("consumer", 0.002)
            ledger.leave(0.003)
    ledger.check(other.report(), other.report().held)
    ledger.check(other.report(), one.report().held)


def test_workers_in_want_of_the_gil_are_told_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[GilReport] = []
    for _ in range(10):  # a machine that is busy otherwise may keep them from sleeping now and then
        caplog.clear()
        over = threading.Event()
        ready = threading.Barrier(3)

        def want(number: int, meter: GilMeter, over: threading.Event, ready: threading.Barrier) -> None:
            meter.watch(f"worker {number}")
            ready.wait(PATIENCE)
            while not over.is_set():
                sleep_without_gil(0.0001)

        with caplog.at_level(logging.WARNING, "nogil_loader"), gil_meter(rate=_RATE) as meter:
            threads = [
                threading.Thread(target=want, args=[number, meter, over, ready]) for number in range(2)
            ]
            for thread in threads:
                thread.start()
            ready.wait(PATIENCE)
            for _ in range(4):
                sleep_with_gil(0.1)
                sleep_without_gil(0.001)
            over.set()
            for thread in threads:
                thread.join(PATIENCE)
        meter.close()
        reports.append(meter.report())
        if reports[-1].advice():
            break
    assert reports[-1].advice(), reports
    (record,) = caplog.records
    assert record.getMessage() == f"{reports[-1].sentence()} {reports[-1].advice()}"
