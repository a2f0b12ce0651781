"""What a report makes of counts: shares, how certain they are, a sentence, and advice where it is due."""

from __future__ import annotations

import math

import pytest

from nogil_loader.observe.gil.report import GilReport, make_report
from nogil_loader.observe.gil.roster import Counts, Tally

_TALLIES = {
    ("consumer", "consumer"): Tally(held=500, waits=100, seen=1000),
    ("worker 0", "fetch"): Tally(held=3000, waits=300, seen=500),
    ("worker 1", "fetch"): Tally(held=2000, waits=250, seen=400),
    ("worker 1", "hand-off"): Tally(held=0, waits=50, seen=100),
    ("trainer", "trainer"): Tally(held=0, waits=0, seen=0),
}


def report_of(tallies: dict[tuple[str, str], Tally], *, late: int = 0, waits: bool = True) -> GilReport:
    return make_report(Counts(10_000, late, 1000, tallies), 10.0, waits=waits, reason="")


def test_shares_are_of_all_samples_and_add_up() -> None:
    report = report_of(_TALLIES)
    assert report.held == 0.65
    assert report.by_stage == {"fetch": 0.5, "other threads": 0.1, "consumer": 0.05}
    assert list(report.by_stage) == ["fetch", "other threads", "consumer"]  # the largest first
    assert report.by_thread == {"worker 0": 0.3, "worker 1": 0.2, "other threads": 0.1, "consumer": 0.05}


def test_waiting_is_a_share_of_the_looks_at_a_thread() -> None:
    report = report_of(_TALLIES)
    assert report.waiting == {"consumer": 0.1, "worker 0": 0.6, "worker 1": 0.6}
    assert report.waiting_by_stage == {"fetch": pytest.approx(550 / 900), "hand-off": 0.5}
    assert report.workers_waiting == 0.6


def test_accuracy_is_that_of_chance_and_all_late_samples_on_top() -> None:
    assert report_of(_TALLIES).accuracy == pytest.approx(0.98 / 100)
    assert report_of(_TALLIES, late=300).accuracy == pytest.approx(0.98 / 100 + 0.03)
    assert report_of(_TALLIES, late=300).late == 0.03
    assert report_of(_TALLIES).waiting_accuracy == pytest.approx(0.98 / math.sqrt(1000))
    assert report_of(_TALLIES, late=10_000).accuracy == 1.0


def test_a_report_reads_as_a_sentence_and_advice() -> None:
    report = report_of(_TALLIES)
    assert report.sentence() == (
        "The GIL was held for 65 % of 10.0 s (±1 %): fetch 50 %, other threads 10 %, consumer 5 %. "
        "The workers waited for it for 60 % of their time."
    )
    advice = report.advice()
    assert "held in fetch" in advice
    for remedy in (
        "nogil_loader.transforms",
        "__getitems__",
        "free-threaded",
        "not available in this release",
    ):
        assert remedy in advice
    assert str(report) == f"{report.sentence()}\n{advice}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("consumer", "by the thread that takes the batches for 90 % of the time: look there first"),
        ("trainer", "Most of the time it is held by trainer"),
    ],
)
def test_advice_names_a_thread_that_is_no_worker(name: str, words: str) -> None:
    report = report_of({**_TALLIES, (name, name): Tally(held=9000, waits=0, seen=100)})
    assert words in report.advice()


def test_advice_names_threads_that_nobody_watches() -> None:
    workers = {("worker 0", "fetch"): Tally(held=10, waits=90, seen=100)}
    assert "held by other threads for 10 % of the time" in report_of(workers).advice()


def test_workers_that_hardly_wait_need_no_advice() -> None:
    tallies = {("worker 0", "fetch"): Tally(held=9000, waits=39, seen=100)}
    assert report_of(tallies).advice() == ""
    assert report_of({}).advice() == ""


def test_where_waiting_is_not_seen_nothing_is_said_of_it() -> None:
    report = report_of(_TALLIES, waits=False)
    assert (report.waiting, report.waiting_by_stage, report.workers_waiting) == (None, None, None)
    assert report.held == 0.65
    assert report.sentence().endswith("consumer 5 %.")
    assert report.advice() == ""


def test_no_samples_are_no_shares() -> None:
    report = make_report(Counts(0, 0, 0, {}), 0.0001, waits=True, reason="")
    assert report.available
    assert math.isnan(report.held)
    assert str(report) == "The GIL was watched too briefly to say anything."


def test_what_could_not_be_watched_is_told_with_its_reason() -> None:
    report = GilReport(False, "this Python runs without a GIL")
    assert str(report) == "The GIL was not watched: this Python runs without a GIL."
