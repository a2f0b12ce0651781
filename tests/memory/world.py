"""A simulated machine for the governor: workers, a consumer, a neighbour and a clock, all under one dice.

Memory is what the actors of the simulation hold at that moment; the probe reads it. Time passes only between the
steps of actors. Workers lease the earliest planned piece, as the engine's do.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from nogil_loader.memory.decision import Action, Decision, Shortage
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy

MB = 1_000_000
#: An actor yields the time at which it wants to go on.
Actor = Generator[float, None, None]


@dataclass
class Setting:
    """What a world is made of.

    Attributes:
        sizes: Bytes of each sample.
        hints: What the dataset says they are.
        batch: Samples in a whole batch.
        workers: Threads; one at least.
        prefetch: Batches per worker that may wait.
        limit: Bytes, at first.
        swing: What the limit is multiplied with, as a function of the time.
        base: Bytes that belong to the process itself.
        policy: For the governor.
        keep: How many batches the consumer holds while it asks for the next one; negative for all.
        pause: How long it computes on a batch.
        scratch: Memory beside the batch while a sample is loaded, as a multiple of it.
        quantum: Bytes between two reports of a worker.
        failing: Share of the samples' loads that raise.
        neighbour: Bytes that others use, as a function of the time.
        blind: When the probe does not answer, as a function of the time.
        sharded: Whether batches have to stay whole.
        free: Whether pieces within the allowance are loaded without a question.
        revocable: Whether samples can be read again. If not, one actor reads them, and the workers collate.
        ranks: Processes that share the machine and do the same at the same moment.
        refusing: Share of the samples' loads that raise MemoryError.
        collated: Whether batches are made of samples that are collected first, so that both exist for a while.
        in_order: Whether the consumer takes the batches in order.
        arrays: In how many parts the consumer lets go of a batch.
        entangled: Share of the samples that are only ready when all before them are, as in user code where
            workers wait for each other.
        resizing: How often the number of workers and of batches ahead changes, as a share of all leases.
    """

    sizes: Sequence[int]
    hints: Sequence[int] | None = None
    batch: int = 8
    workers: int = 2
    prefetch: int = 2
    limit: int = 600 * MB
    base: int = 17 * MB
    policy: MemoryPolicy = field(default_factory=lambda: MemoryPolicy(stall=1.0, scratch=0.0))
    keep: int = 1
    pause: float = 0.02
    scratch: float = 0.0
    quantum: int = 1
    failing: float = 0.0
    neighbour: Callable[[float], int] = lambda _: 0
    swing: Callable[[float], float] = lambda _: 1.0
    blind: Callable[[float], bool] = lambda _: False
    sharded: bool = False
    free: bool = False
    revocable: bool = True
    ranks: int = 1
    refusing: float = 0.0
    collated: bool = False
    in_order: bool = True
    arrays: int = 1
    entangled: float = 0.0
    resizing: float = 0.0

    @property
    def capacity(self) -> int:
        """Pieces that may be loading or waiting."""
        return self.workers * (self.prefetch + 1)


class World:
    """One epoch, step by step.

    Attributes:
        now: The clock.
        delivered: Sizes of the batches that the consumer has had.
        received: The same, in the order of the plan.
        shortage: Why the epoch ended early.
        worst: The highest use, as a share of what the hard mark allowed at that moment.
        most_used: The highest use.
        most_in_flight: The most bytes that pieces had.
        asked: How many pieces were loaded after a question, and how many without one.
    """

    def __init__(self, setting: Setting, dice: random.Random) -> None:
        self.setting = setting
        self.dice = dice
        self.now = 100.0
        self.estimate = Estimate(scratch=setting.policy.scratch, copies=2 if setting.collated else 1)
        self.governor = Governor(
            setting.policy,
            self.estimate,
            workers=setting.workers,
            capacity=setting.capacity,
            sharded=setting.sharded,
            revocable=setting.revocable,
            ranks=setting.ranks,
        )
        self.delivered: list[int] = []
        self._received: dict[int, int] = {}
        self.shortage: Shortage | None = None
        self.worst = 0.0
        self.most_used = 0
        self.most_in_flight = 0
        self.planned: list[tuple[int, int]] = []
        self.loading: dict[int, tuple[int, int]] = {}
        self.ready: dict[int, tuple[int, int]] = {}
        self.held: dict[int, int] = {}
        self.elsewhere = 0  # scratch, and what is being dropped
        self.asked = [0, 0]
        self.expected = 0
        self.waiting: int | None = None
        self._overtaken: dict[int, int] = {}
        self._unread: list[int] = []
        self._alone: set[int] = set()
        self._blocked = 0
        self._allowed = (0, 0)
        self._frontier = 0
        self.capacity = setting.capacity
        self._reading: tuple[MemoryReading | None, float] = (None, 0.0)
        self._actors: list[tuple[float, Actor]] = [(self.now, self._consume())]
        work = self._work if setting.revocable else self._collate_what_was_read
        self._actors += [(self.now, work()) for _ in range(setting.workers)]
        if not setting.revocable:
            self._actors.append((self.now, self._work()))

    # The machine

    @property
    def limit(self) -> int:
        return int(self.setting.limit * self.setting.swing(self.now))

    @property
    def in_flight(self) -> int:
        return sum(size for _, size in self.loading.values()) + sum(size for _, size in self.ready.values())

    @property
    def others(self) -> int:
        """What is used by all but the pieces under way."""
        setting = self.setting
        ours = self.elsewhere + sum(self.held.values())
        theirs = (setting.ranks - 1) * (ours + self.in_flight)
        return setting.base + setting.neighbour(self.now) + ours + theirs

    @property
    def used(self) -> int:
        return self.others + self.in_flight

    def observe(self) -> None:
        """Take a reading, or one that another actor took a moment ago, or fail to."""
        if self.setting.blind(self.now):
            if self.dice.random() < 0.5:
                self.obey(self.governor.observe(None, self.now))
            return
        reading, at = self._reading
        if reading is None or self.now - at > 0.0005 or self.dice.random() < 0.5:
            reading, at = self._reading = (self._read(), self.now)
        self.obey(self.governor.observe(reading, at))
        self._allow()

    def _allow(self) -> None:
        self._allowed = (self.governor.allowance(self.now), self.capacity)

    def _read(self) -> MemoryReading:
        used = self.used
        return MemoryReading(self.limit, used, max(0, self.limit - used), "simulated")

    def obey(self, decision: Decision) -> None:
        assert self.setting.revocable or not decision.revoke
        for start in decision.revoke:
            assert start != self.first, "the first piece is never given up"
            count, nbytes = self.ready.pop(start)
            heapq.heappush(self.planned, (start, count))
            self._drop(nbytes)

    @property
    def first(self) -> int | None:
        """The piece that must not be given up."""
        return self.expected if self.setting.in_order else self.waiting

    def _drop(self, nbytes: int) -> None:
        """Memory is given back some time after it was decided."""
        self.elsewhere += nbytes
        self._actors.append((self.now + self.dice.uniform(0.0, 0.008), self._vanish(nbytes)))

    def _vanish(self, nbytes: int) -> Actor:
        self.elsewhere -= nbytes
        yield from ()

    @property
    def received(self) -> list[int]:
        return [count for _, count in sorted(self._received.items())]

    # The clock

    @property
    def over(self) -> bool:
        return self.shortage is not None or self.expected == len(self.setting.sizes)

    def step(self) -> None:
        """Let one actor that is due go on."""
        if all(due > self.now for due, _ in self._actors):
            self.now = min(due for due, _ in self._actors)
        due = [place for place, (at, _) in enumerate(self._actors) if at <= self.now]
        place = self.dice.choice(due)
        _, actor = self._actors[place]
        try:
            self._actors[place] = (next(actor), actor)
        except StopIteration:
            del self._actors[place]
        self.now += self.dice.uniform(0.0, 0.0005)
        self._check()

    def run(self, steps: int) -> None:
        """Run to the end, which has to come within so many steps."""
        for _ in range(steps):
            if self.over:
                return
            self.step()
        raise AssertionError(f"no end after {steps} steps: {self.describe()}")

    def describe(self) -> str:
        return (
            f"expected={self.expected} planned={sorted(self.planned)} loading={self.loading} "
            f"ready={self.ready} held={self.held} used={self.used} {self.governor.statistics()}"
        )

    def _check(self) -> None:
        """Every sample between the consumer and the end of the plan is in exactly one place."""
        pieces = sorted(
            [
                *self.planned,
                *((start, count) for start, (count, _) in (self.loading | self.ready).items()),
            ]
        )
        place = self.expected
        for start, count in sorted([*pieces, *self._overtaken.items()]):
            assert start == place, f"a gap or an overlap at {place}: {self.describe()}"
            assert count > 0
            place += count
        assert place == self._frontier
        limit, policy = self.limit, self.setting.policy
        hard = max(int(policy.hard * limit), self.others + max(0, limit - self.others) // 8)
        self.worst = max(self.worst, self.used / hard)
        self.most_used = max(self.most_used, self.used)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

    # The plan

    def _lease(self) -> tuple[int, int] | None:
        setting = self.setting
        if self.dice.random() < setting.resizing:
            self._resize()
        while (
            self._frontier < len(setting.sizes)
            and len(self.planned) + len(self.loading) + len(self.ready) < self.capacity
        ):
            count = min(setting.batch, len(setting.sizes) - self._frontier)
            heapq.heappush(self.planned, (self._frontier, count))
            self._frontier += count
        if not self.planned:
            return None
        start, count = heapq.heappop(self.planned)
        self.loading[start] = (count, 0)
        return start, count

    def _resize(self) -> None:
        """Let other numbers of workers and of batches ahead hold from here on, as tuning does."""
        workers = self.dice.randint(1, self.setting.workers)
        self.capacity = workers * (1 + self.dice.randint(1, 4))
        self.governor.resize(workers, self.capacity)
        self._allow()

    def _plan_again(self, start: int, *counts: int) -> None:
        del self.loading[start]
        for count in counts:
            heapq.heappush(self.planned, (start, count))
            start += count

    # A worker

    def _work(self) -> Actor:
        governor, hints = self.governor, self.setting.hints
        while True:
            lease = self._lease()
            if lease is None:
                yield self.now + 0.005
                continue
            start, count = lease
            yield self.now
            said = None if hints is None else hints[start : start + count]
            if start not in self._alone and self._is_free(count, said):
                yield from self._load_freely(start, count)
                continue
            self.observe()
            decision = governor.admit(start, count, self.now, said, alone=start in self._alone)
            self.obey(decision)
            if decision.action is Action.ADMIT:
                yield from self._load(start, count)
            elif decision.action is Action.PRESPLIT:
                assert 0 < decision.samples < count
                self._plan_again(start, decision.samples, count - decision.samples)
            elif decision.action is Action.WAIT:
                self._allow()
                self._plan_again(start, count)
                yield self.now + decision.after
            else:
                assert decision.action is Action.FAIL
                self.shortage = decision.shortage
                return

    def _is_free(self, count: int, hints: Sequence[int] | None) -> bool:
        """Whether a piece is loaded without a question."""
        if not self.setting.free:
            return False
        if self.now - self._reading[1] >= self.setting.policy.interval or not self._allowed[1]:
            self.observe()
        allowed, pieces = self._allowed
        bound = self.governor.bound(count, hints)
        if bound is None or bound > allowed:
            return False
        self._allowed = (allowed, pieces - 1)
        return True

    def _load_freely(self, start: int, count: int) -> Actor:
        self.asked[1] += 1
        for place in range(start, start + count):
            if not (yield from self._load_sample(start, count, place)):
                return
        nbytes = self.loading[start][1]
        hints = self.setting.hints
        self.governor.saw(count, nbytes, None if hints is None else hints[start : start + count])
        yield from self._hand_on(start)

    def _load_sample(self, start: int, count: int, place: int) -> Generator[float, None, bool]:
        """Load one sample; False if that failed, and the piece is planned again."""
        governor, setting = self.governor, self.setting
        size = setting.sizes[place]
        scratch = int(setting.scratch * size)
        self.elsewhere += scratch
        luck = self.dice.random()
        if luck < setting.failing + setting.refusing:
            yield self.now + self.dice.uniform(0.0, 0.005)
            self.elsewhere -= scratch
            self._drop(self.loading[start][1])
            if luck < setting.failing or count == 1:
                governor.withdrawn(start, self.now)
                self._plan_again(start, count)
            else:
                governor.refused(start, self.now)
                self._alone ^= {start}  # first once more, whole and alone, and then in two
                whole = start in self._alone or stays_whole(setting)
                self._plan_again(start, *((count,) if whole else halves(count)))
            return False
        self.loading[start] = (count, self.loading[start][1] + size)
        yield self.now + self.dice.uniform(0.0, 0.005)
        # With all workers blocked nobody could load what they wait for; that would be no fault of the governor.
        if luck > 1.0 - setting.entangled and self._blocked < setting.workers - 1 and setting.revocable:
            self._blocked += 1
            while min([*self.loading, *(begin for begin, _ in self.planned)]) < start:
                yield self.now + 0.005
            self._blocked -= 1
        self.elsewhere -= scratch
        return True

    def _load(self, start: int, count: int) -> Actor:
        setting = self.setting
        self.asked[0] += 1
        unseen: list[int] = []
        for place in range(start, start + count):
            if not (yield from self._load_sample(start, count, place)):
                return
            unseen.append(setting.sizes[place])
            if sum(unseen) < setting.quantum and self.estimate.knows_sizes:
                continue
            decision = yield from self._report(start, unseen)
            if decision is None:
                return
            unseen = []
            if decision.action is Action.REVOKED:
                assert setting.revocable
                assert start != self.first, "the first piece is never given up"
                self._drop(self.loading[start][1])
                self._plan_again(start, count)
                return
            if decision.action is Action.CUT:
                done = decision.samples
                assert done == place + 1 - start < count
                heapq.heappush(self.planned, (start + done, count - done))
                self.loading[start] = (done, self.loading[start][1])
                break
            assert decision.action is Action.GO_ON
        yield from self._hand_on(start)

    def _hand_on(self, start: int) -> Actor:
        """What was read and cannot be read again is collated by another actor."""
        if self.setting.revocable:
            yield from self._collate(start)
        else:
            heapq.heappush(self._unread, start)

    def _collate_what_was_read(self) -> Actor:
        while True:
            if self._unread:
                yield from self._collate(heapq.heappop(self._unread))
            yield self.now + 0.005

    def _collate(self, start: int) -> Actor:
        nbytes = self.loading[start][1]
        arrays = nbytes if self.setting.collated else 0
        self.elsewhere += arrays
        if arrays:
            yield self.now + self.dice.uniform(0.0, 0.005)
        self.elsewhere -= arrays
        self.ready[start] = self.loading.pop(start)
        self.governor.finished(start, nbytes, self.now, peak=nbytes + arrays)

    def _report(self, start: int, unseen: list[int]) -> Generator[float, None, Decision | None]:
        while True:
            self.observe()
            decision = self.governor.progress(start, unseen, self.now)
            self.obey(decision)
            unseen = []
            if decision.action is Action.FAIL:
                self.shortage = decision.shortage
                return None
            if decision.action is not Action.WAIT:
                return decision
            yield self.now + decision.after

    # The consumer

    def _consume(self) -> Actor:
        governor, setting = self.governor, self.setting
        while self.expected < len(setting.sizes):
            self._let_go(setting.keep)
            while (start := self._next()) is None:
                self.waiting = self.expected
                if not setting.in_order:
                    self.waiting = min([*self.loading, *(start for start, _ in self.planned), self._frontier])
                governor.starved(self.waiting)
                yield self.now + 0.005
            self.waiting = None
            count, nbytes = self.ready.pop(start)
            governor.delivered(start, nbytes)
            self.held[start] = nbytes
            self.delivered.append(count)
            self._overtaken[start] = self._received[start] = count
            while self.expected in self._overtaken:
                self.expected += self._overtaken.pop(self.expected)
            yield self.now + self.dice.uniform(0.0, 2.0 * setting.pause)

    def _next(self) -> int | None:
        if self.setting.in_order:
            return self.expected if self.expected in self.ready else None
        return self.dice.choice(sorted(self.ready)) if self.ready else None

    def _let_go(self, keep: int) -> None:
        if keep < 0:
            return
        for start in list(self.held)[: max(0, len(self.held) - keep)]:
            nbytes = self.held.pop(start)
            parts = sorted(self.dice.randint(0, nbytes) for _ in range(self.setting.arrays - 1))
            for begin, end in itertools.pairwise([0, *parts, nbytes]):
                self._drop(end - begin)
                self.governor.released(start, end - begin, self.now)


def stays_whole(setting: Setting) -> bool:
    """Whether batches stay whole."""
    fixed = setting.policy.fixed_batch_size
    return setting.sharded if fixed is None else fixed


def halves(count: int) -> tuple[int, int]:
    """Two parts of a piece."""
    return count - count // 2, count // 2
