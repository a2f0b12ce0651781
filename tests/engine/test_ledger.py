"""The ledger's single transitions, and that being killed in the middle of one costs nothing."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from nogil_loader.engine import ledger as ledger_module
from nogil_loader.engine.ledger import END, MEMORY_RETRIES, Ledger
from nogil_loader.engine.outcome import Failure, Loaded
from nogil_loader.engine.ticket import Emptied, Failed, Ready, Ticket, Verdict
from nogil_loader.errors import LoaderError
from nogil_loader.policies import FailurePolicy

BAD = Failure(0, ValueError("bad"), offset=1)


def take(book: Ledger) -> Any:
    """What the consumer does with what is next."""
    while True:
        item = book.peek()
        if isinstance(item, Ready | Emptied):
            book.deliver(item)
        if not isinstance(item, Emptied):
            return item


def planned(policy: FailurePolicy | None = None, *, tickets: int = 3, **options: Any) -> Ledger:
    book = Ledger(policy or FailurePolicy(), **options)
    for number in range(tickets):
        start = 4 * number
        book.plan(Ticket(number, start, 4, [start, start + 1, start + 2, start + 3]))
    book.end_plan()
    return book


def finish_all(book: Ledger, worker: str = "w") -> list[Any]:
    """Load what can be loaded, in order; return the batches and what ended the epoch."""
    came: list[Any] = []
    while True:
        lease = book.lease(worker)
        if lease is not None:
            book.finish(lease, Loaded(list(lease.ticket.keys)))
        item = take(book)
        if isinstance(item, Ready):
            came.append(item.batch)
        elif item is not None:
            return [*came, item]
        elif lease is None:
            return came


def test_tickets_are_leased_in_plan_order_and_a_ticket_that_failed_comes_first_again() -> None:
    book = planned(FailurePolicy(rebuild=1))
    first, second = book.lease("a"), book.lease("b")
    assert first is not None
    assert second is not None
    assert (first.ticket.start, second.ticket.start) == (0, 4)
    assert book.fail(first, BAD) is Verdict.REBUILD
    again = book.lease("a")
    assert again is not None
    assert (again.ticket.start, again.ticket.rebuilds) == (0, 1)


def test_a_late_result_is_refused_whatever_happened_to_the_ticket_meanwhile() -> None:
    book = planned(FailurePolicy(rebuild=1))
    stuck = book.lease("a")
    assert stuck is not None
    book.fail(stuck, Failure(0, kind="stuck", offset=0))
    assert not book.finish(stuck, Loaded("late"))
    fresh = book.lease("b")
    assert fresh is not None
    assert book.finish(fresh, Loaded("good"))
    assert not book.finish(stuck, Loaded("later"))
    assert take(book) == Ready(fresh.ticket, "good")


def test_nothing_behind_a_fatal_failure_is_loaded_but_everything_before_it_is_delivered() -> None:
    book = planned()
    first, second = book.lease("a"), book.lease("b")
    assert first is not None
    assert second is not None
    assert book.fail(second, BAD) is Verdict.FATAL
    assert book.lease("c") is None
    assert take(book) is None
    book.finish(first, Loaded("first"))
    assert take(book) == Ready(first.ticket, "first")
    assert isinstance(take(book), Failed)
    assert isinstance(take(book), Failed)


def test_a_memory_error_is_tried_again_without_blaming_the_worker_and_then_counts_as_a_failure() -> None:
    book = planned()
    memory = Failure(0, MemoryError())
    verdicts = []
    for _ in range(MEMORY_RETRIES + 1):
        lease = book.lease("a")
        assert lease is not None
        verdicts.append(book.fail(lease, memory))
    assert verdicts == [Verdict.RETRY] * MEMORY_RETRIES + [Verdict.FATAL]


def test_a_sample_that_cannot_be_blamed_is_looked_for_before_it_is_skipped() -> None:
    book = planned(FailurePolicy(skip=1))
    lease = book.lease("a")
    assert lease is not None
    unknown = Failure(0, ValueError("bad"))
    assert book.fail(lease, unknown) is Verdict.REBUILD
    lease = book.lease("a")
    assert lease is not None
    assert lease.ticket.isolate
    assert book.fail(lease, BAD) is Verdict.REBUILD
    assert finish_all(book) == [[0, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], END]
    assert book.account.progress.skipped == 1


def test_a_ticket_whose_samples_are_all_skipped_makes_no_batch_and_no_gap() -> None:
    book = planned(FailurePolicy(skip=4))
    for _ in range(4):
        lease = book.lease("a")
        assert lease is not None
        assert book.fail(lease, Failure(0, ValueError("bad"), offset=0)) is Verdict.REBUILD
    assert finish_all(book) == [[4, 5, 6, 7], [8, 9, 10, 11], END]
    assert book.received.prefix == 12


def test_a_share_of_skips_refers_to_the_whole_epoch() -> None:
    book = planned(FailurePolicy(skip=0.1), total=12)
    for _ in range(3):
        lease = book.lease("a")
        assert lease is not None
        assert book.fail(lease, Failure(0, ValueError("bad"), offset=0)) is Verdict.REBUILD
    (ending,) = finish_all(book)
    assert isinstance(ending, Failed)
    assert ending.failure.index == 2, "0.1 of 12 samples, rounded up, are two"


def test_the_allowance_is_spent_in_plan_order_whoever_fails_first() -> None:
    book = planned(FailurePolicy(skip=1))
    first, second = book.lease("a"), book.lease("b")
    assert first is not None
    assert second is not None
    assert book.fail(second, BAD) is Verdict.REBUILD
    assert book.fail(first, BAD) is Verdict.REBUILD
    batch, ending = finish_all(book)
    assert batch == [0, 2, 3]
    assert isinstance(ending, Failed)
    assert ending.failure.index == 5


def test_the_audit_raises_if_the_account_does_not_add_up() -> None:
    book = planned(tickets=2)
    lease = book.lease("a")
    assert lease is not None
    book.finish(lease, Loaded("batch"))
    assert isinstance(take(book), Ready)
    book._entries.clear()  # as if the second ticket had been lost
    with pytest.raises(LoaderError, match="does not add up"):
        take(book)


def test_g3_unordered_delivery_gives_the_good_batches_before_the_failure() -> None:
    book = planned(in_order=False)
    first, second, third = book.lease("a"), book.lease("b"), book.lease("c")
    assert first is not None
    assert second is not None
    assert third is not None
    book.fail(first, BAD)
    book.finish(third, Loaded("third"))
    assert take(book) == Ready(third.ticket, "third")
    assert isinstance(take(book), Failed)


# Killed between two lines


class Killed(BaseException):
    """What an asynchronous kill looks like to the ledger."""


def killed_at(line_number: int, call: Callable[[], Any]) -> bool:
    """Run ``call`` and raise inside the ledger before its ``line_number``-th line; False if it has fewer."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != ledger_module.__file__:
            return None
        if event == "line":
            seen += 1
            if seen == line_number:
                raise Killed
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Killed:
        return True
    finally:
        sys.settrace(before)
    return False


def take_into(taken: list[Any], book: Ledger) -> None:
    taken.append(take(book))


def lease_by_the_doomed(book: Ledger) -> Any:
    return book.lease("doomed")


def finish_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.finish(lease, Loaded(list(lease.ticket.keys)))


def finish_a_part_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.finish(lease, Loaded(lease.ticket.keys[:1], part=1))


def run_out_of_memory_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.fail(lease, Failure(0, MemoryError()), divide=True)


def finish_and_revoke_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    book.finish(lease, Loaded(list(lease.ticket.keys)))
    return book.revoke(lease.ticket.start)


def fail_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.fail(lease, BAD)


def split_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.split(lease, 2)


def release_by_the_doomed(book: Ledger) -> Any:
    (lease,) = book.leases_of("doomed")
    return book.release(lease)


@pytest.mark.parametrize(
    ("transition", "holds_a_lease"),
    [
        (lease_by_the_doomed, False),
        (finish_by_the_doomed, True),
        (finish_a_part_by_the_doomed, True),
        (finish_and_revoke_by_the_doomed, True),
        (run_out_of_memory_by_the_doomed, True),
        (fail_by_the_doomed, True),
        (split_by_the_doomed, True),
        (release_by_the_doomed, True),
    ],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_g1_a_worker_killed_at_any_line_of_a_transition_loses_and_repeats_nothing(
    transition: Callable[[Ledger], Any], holds_a_lease: bool, in_order: bool
) -> None:
    line_number = 0
    killed = True
    while killed:
        line_number += 1
        book = planned(FailurePolicy(rebuild=3, skip=2), in_order=in_order)
        if holds_a_lease:
            book.lease("doomed")
        killed = killed_at(line_number, functools.partial(transition, book))
        for lease in book.leases_of("doomed"):
            book.fail(lease, Failure(0, kind="vanished"))
        *batches, ending = finish_all(book)
        assert ending is END, f"killed before line {line_number} of the transition"
        assert sorted(key for batch in batches for key in batch) == list(range(12))
    assert line_number > 3


def test_g1_a_consumer_interrupted_at_any_line_loses_and_repeats_nothing() -> None:
    line_number = 0
    killed = True
    while killed:
        line_number += 1
        book = planned()
        lease = book.lease("w")
        assert lease is not None
        book.finish(lease, Loaded(list(lease.ticket.keys)))
        taken: list[Any] = []
        killed = killed_at(line_number, functools.partial(take_into, taken, book))
        *rest, ending = finish_all(book)
        assert ending is END
        came = [key for batch in [item.batch for item in taken] + rest for key in batch]
        if killed and came == list(range(4, 12)):
            continue  # interrupted behind the store that is the delivery: the last moment of next()
        assert came == list(range(12)), f"interrupted before line {line_number}"
    assert line_number > 5
