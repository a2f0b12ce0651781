"""The watchdog names exactly those who have shown one mark for the timeout; it is told the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine.scope import SampleScope
from nogil_loader.engine.ticket import Lease, Ticket
from nogil_loader.engine.watchdog import Watchdog
from nogil_loader.engine.worker import Worker


def test_who_shows_one_mark_for_the_timeout_is_stuck_from_then_on() -> None:
    dog: Watchdog[str] = Watchdog(2.0)
    assert dog.stuck(10.0, [("a", 1), ("b", 1)]) == []
    assert dog.stuck(11.9, [("a", 1), ("b", 2)]) == []
    assert dog.stuck(12.0, [("a", 1), ("b", 2)]) == ["a"]
    assert dog.stuck(13.8, [("a", 1), ("b", 2)]) == ["a"]
    assert dog.stuck(13.9, [("a", 1), ("b", 2)]) == ["a", "b"]
    assert dog.stuck(14.0, [("a", 2), ("b", 3)]) == []


def test_time_counts_from_when_a_mark_was_first_seen() -> None:
    dog: Watchdog[str] = Watchdog(1.0)
    # However late it is, and however long nobody looked.
    assert dog.stuck(1e9, [("a", 1)]) == []
    assert dog.stuck(2e9, [("a", 2)]) == []
    assert dog.stuck(2e9 + 1, [("a", 2)]) == ["a"]


def test_who_shows_no_mark_is_not_on_the_clock_and_starts_anew() -> None:
    dog: Watchdog[str] = Watchdog(1.0)
    dog.stuck(0.0, [("a", 1)])
    assert dog.stuck(5.0, [("a", None)]) == []
    assert dog.stuck(6.0, [("a", None)]) == []
    assert dog.stuck(7.0, [("a", 1)]) == []
    assert dog.stuck(8.0, [("a", 1)]) == ["a"]


def test_who_is_gone_is_forgotten_and_comes_back_as_new() -> None:
    dog: Watchdog[str] = Watchdog(1.0)
    dog.stuck(0.0, [("a", 1)])
    assert dog.stuck(5.0, []) == []
    assert dog.stuck(6.0, [("a", 1)]) == []


def test_a_timeout_of_zero_means_never() -> None:
    dog: Watchdog[str] = Watchdog(0.0)
    assert [dog.stuck(float(now), [("a", 1)]) for now in (0, 1, 10**9)] == [[], [], []]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 3),
            st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 2)),
        ),
        max_size=25,
    ),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_stuck_is_who_has_shown_one_mark_at_every_look_for_the_timeout(
    looks: list[tuple[float, dict[str, int | None]]], timeout: float
) -> None:
    dog: Watchdog[str] = Watchdog(timeout)
    now = 0.0
    history: list[tuple[float, dict[str, int | None]]] = []
    for pause, marks in looks:
        now += pause
        history.append((now, marks))
        expected = set()
        for who, mark in marks.items():
            since = now
            for then, shown in reversed(history):
                if mark is None or shown.get(who) != mark:
                    break
                since = then
            if mark is not None and now - since >= timeout:
                expected.add(who)
        assert set(dog.stuck(now, marks.items())) == expected


@pytest.mark.parametrize("batch", [1, 3])
def test_the_mark_of_a_worker_is_another_one_for_every_ticket_sample_and_stage(batch: int) -> None:
    class Pool:
        stopping = False

    worker = Worker(0, Pool())  # type: ignore[arg-type]
    assert worker.mark is None
    seen: set[object] = set()
    shown = 0
    for number in range(50):
        ticket = Ticket(number, number * batch, batch, list(range(batch)))
        # A lease is freed when it is done with, and the next may lie at the same address.
        worker.leased += 1
        worker.lease = Lease(ticket, worker)
        worker.scope = SampleScope(0, 0)
        for offset in range(batch):
            for stage in ("fetch", "collate"):
                worker.scope.offset, worker.scope.stage = offset, stage
                seen.add(worker.mark)
                shown += 1
        worker.lease = None
        assert worker.mark is None
    assert len(seen) == shown
