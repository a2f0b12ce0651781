"""The ledger under everything that may happen to tickets, in any order: G1, G2 and G3 hold."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nogil_loader.engine.ledger import END, Ledger
from nogil_loader.engine.outcome import Failure, Loaded, SkipRecord
from nogil_loader.engine.ticket import Emptied, Failed, Lease, Ready, Ticket, Verdict
from nogil_loader.plan import Received
from nogil_loader.policies import FailurePolicy

WORKERS = ("a", "b", "c")

failures = st.builds(
    Failure,
    worker_id=st.just(0),
    cause=st.sampled_from([ValueError("bad"), MemoryError(), SystemExit(1)]),
)


class LedgerMachine(RuleBasedStateMachine):
    """Drives a ledger as workers, a plan and a consumer would, and keeps its own simple account."""

    @initialize(
        rebuild=st.integers(0, 2),
        skip=st.sampled_from([0, 1, 5, 0.2]),
        in_order=st.booleans(),
        start=st.integers(0, 7),
        ahead=st.booleans(),
    )
    def begin(self, rebuild: int, skip: float, in_order: bool, start: int, ahead: bool) -> None:
        self.policy = FailurePolicy(rebuild, skip)
        self.in_order = in_order
        intervals = [(start + 3, start + 5)] if ahead and not in_order else []
        self.before = {*range(start), *(place for low, high in intervals for place in range(low, high))}
        self.records: list[SkipRecord] = []
        self.received = Received(start, intervals)
        self.ledger = Ledger(
            self.policy, received=self.received, in_order=in_order, records=self.records, epoch=3
        )
        self.next_position = start
        self.number = 0
        self.planned: dict[int, int] = {}
        self.batches: list[Ready] = []
        self.leases: list[Lease] = []
        self.plan_ended = False
        self.ending: Any = None
        self.closed = False

    # The plan

    @precondition(lambda self: not self.plan_ended and len(self.planned) < 60)
    @rule(size=st.integers(1, 4))
    def plan(self, size: int) -> None:
        while self.next_position in self.before:
            self.next_position += 1
        start = self.next_position
        places: list[int] = []
        while len(places) < size and self.next_position not in self.before:
            places.append(self.next_position)
            self.next_position += 1
        keys = [1000 + place for place in places]
        if not self.closed:
            self.planned.update(zip(places, keys, strict=True))
        self.ledger.plan(Ticket(self.number, start, len(keys), keys))
        self.number += 1

    @rule()
    def plan_the_same_again(self) -> None:
        """A reader that was killed between planning and noting it plans the same ticket twice."""
        if self.planned and not self.closed:
            place, key = next(iter(self.planned.items()))
            before = self.ledger.account.planned
            self.ledger.plan(Ticket(0, place, 1, [key]))
            assert self.ledger.account.planned == before

    @precondition(lambda self: not self.plan_ended)
    @rule()
    def end_plan(self) -> None:
        self.plan_ended = True
        self.ledger.end_plan()

    # The workers

    @rule(worker=st.sampled_from(WORKERS))
    def lease(self, worker: str) -> None:
        lease = self.ledger.lease(worker)
        if lease is not None:
            assert not self.closed
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        kept = self.ledger.finish(lease, Loaded(tuple(lease.ticket.keys)))
        assert not (kept and self.closed)
        assert not self.ledger.finish(lease, Loaded("late")), "a lease is good for one outcome"

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def finish_a_part(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        count = data.draw(st.integers(1, len(lease.ticket.keys)))
        self.ledger.finish(lease, Loaded(tuple(lease.ticket.keys[:count]), count))
        assert not self.ledger.holds(lease)

    @precondition(lambda self: self.planned)
    @rule(data=st.data())
    def revoke(self, data: Any) -> None:
        start = data.draw(st.sampled_from(sorted(self.planned)))
        dropped = self.ledger.revoke(start)
        assert dropped is None or dropped.ticket.start == start
        assert self.ledger.revoke(start) is None, "there is nothing left to be dropped"

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), failure=failures, known=st.booleans(), divide=st.booleans())
    def fail(self, data: Any, failure: Failure, known: bool, divide: bool) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        offset = data.draw(st.integers(0, len(lease.ticket.keys) - 1)) if known else None
        told = Failure(failure.worker_id, failure.cause, offset=offset)
        self.ledger.fail(lease, told, divide=divide)
        assert self.ledger.fail(lease, told) is Verdict.STALE

    @rule(worker=st.sampled_from(WORKERS))
    def vanish(self, worker: str) -> None:
        for lease in self.ledger.leases_of(worker):
            verdict = self.ledger.fail(lease, Failure(0, kind="vanished"))
            assert verdict is not Verdict.STALE
        assert not self.ledger.leases_of(worker)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_up_on_the_stuck(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        offset = data.draw(st.integers(0, len(lease.ticket.keys) - 1))
        self.ledger.fail(lease, Failure(0, kind="stuck", offset=offset), final=data.draw(st.booleans()))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def split(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        if len(lease.ticket.keys) > 1:
            self.ledger.split(lease, data.draw(st.integers(1, len(lease.ticket.keys) - 1)))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        self.ledger.release(data.draw(st.sampled_from(self.leases)))

    # The consumer

    @rule()
    def take(self) -> None:
        deliverable = self.ledger.deliverable
        item = self.ledger.peek()
        assert self.ledger.peek() is item, "what is next stays so until it is delivered"
        if self.closed:
            return
        assert (item is not None) == deliverable or isinstance(item, Failed) or item is END
        if isinstance(item, Ready | Emptied):
            self.ledger.deliver(item)
            assert self.ending is None, "nothing comes after the end"
        if isinstance(item, Ready):
            self.batches.append(item)
        elif isinstance(item, Emptied):
            pass
        elif item is not None:
            assert self.ending is None or type(self.ending) is type(item)
            self.ending = item
            if not self.in_order and isinstance(item, Failed):
                # As the iterator does. What is still being loaded behind the failure is not waited for.
                self.closed = True
                self.ledger.forget()

    @precondition(lambda self: self.ending is None)
    @rule()
    def close(self) -> None:
        self.closed = True
        self.ledger.forget()

    # What has to hold

    def places_of(self, batch: Ready) -> list[int]:
        gone = {skip.position for skip in batch.ticket.skips}
        span = range(batch.ticket.start, batch.ticket.start + batch.ticket.span)
        return [place for place in span if place not in gone]

    @invariant()
    def g1_every_position_comes_once_and_with_its_own_key(self) -> None:
        if not hasattr(self, "ledger"):
            return
        seen = [place for batch in self.batches for place in self.places_of(batch)]
        skipped = [record.position for record in self.records]
        everything = seen + skipped
        assert len(everything) == len(set(everything))
        assert set(everything) <= self.planned.keys()
        for batch in self.batches:
            assert list(batch.batch) == [self.planned[place] for place in self.places_of(batch)]
        for record in self.records:
            assert record.index == self.planned[record.position]
            assert record.epoch == 3

    @invariant()
    def g2_the_end_comes_only_when_all_is_accounted_for(self) -> None:
        if not hasattr(self, "ledger") or self.ending is not END:
            return
        assert self.plan_ended
        count = sum(len(batch.batch) for batch in self.batches)
        assert count + len(self.records) == len(self.planned)

    @invariant()
    def g3_batches_come_in_order_and_a_failure_does_not_overtake(self) -> None:
        if not hasattr(self, "ledger") or not self.in_order:
            return
        starts = [batch.ticket.start for batch in self.batches]
        assert starts == sorted(starts)
        if isinstance(self.ending, Failed) and self.ending.ticket is not None:
            before = {place for place in self.planned if place < self.ending.ticket.start}
            assert all(place in self.received for place in before)

    @invariant()
    def the_received_positions_are_those_that_came(self) -> None:
        if not hasattr(self, "ledger"):
            return
        came = {place for batch in self.batches for place in self.places_of(batch)}
        came |= {record.position for record in self.records} | self.before
        assert self.received.count == len(came)
        assert all(place in self.received for place in came)

    @invariant()
    def skips_stay_within_the_allowance(self) -> None:
        if hasattr(self, "ledger"):
            assert len(self.records) <= self.policy.skip_allowance(len(self.planned) + len(self.before))

    def teardown(self) -> None:
        """Whatever state it was left in, honest workers and a patient consumer reach an end."""
        if not hasattr(self, "ledger") or self.closed:
            return
        if not self.plan_ended:
            self.end_plan()
        for worker in WORKERS:
            for held in self.ledger.leases_of(worker):
                self.ledger.finish(held, Loaded(tuple(held.ticket.keys)))
        for _ in range(10 * len(self.planned) + 10):
            lease = self.ledger.lease("a")
            if lease is not None:
                self.ledger.finish(lease, Loaded(tuple(lease.ticket.keys)))
            self.take()
        assert self.ending, "no progress although every worker does its best"
        self.g1_every_position_comes_once_and_with_its_own_key()
        self.g2_the_end_comes_only_when_all_is_accounted_for()
        self.g3_batches_come_in_order_and_a_failure_does_not_overtake()


LedgerMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
test_ledger = LedgerMachine.TestCase
