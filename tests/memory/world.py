"""A simulated machine for the governor: workers, a consumer, a neighbour and a clock, all under one dice.

Memory is what the actors of the simulation hold at that moment; the probe reads it. Time passes only between the
steps of actors. Workers lease the earliest planned piece, as the engine's do.
"""

from __future__ import annotations

import heapq
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
        limit: Bytes.
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
    blind: Callable[[float], bool] = lambda _: False
    sharded: bool = False

    @property
    def capacity(self) -> int:
        """Pieces that may be loading or waiting."""
        return self.workers * (self.prefetch + 1)


class World:
    """One epoch, step by step.

    Attributes:
        now: The clock.
        delivered: Sizes of the batches that the consumer has had.
        shortage: Why the epoch ended early.
        worst: The highest use, as a share of what the hard mark allowed at that moment.
        most_used: The highest use.
        most_in_flight: The most bytes that pieces had.
    """

    def __init__(self, setting: Setting, dice: random.Random) -> None:
        self.setting = setting
        self.dice = dice
        self.now = 100.0
        self.estimate = Estimate(scratch=setting.policy.scratch)
        self.governor = Governor(
            setting.policy,
            self.estimate,
            workers=setting.workers,
            capacity=setting.capacity,
            sharded=setting.sharded,
        )
        self.delivered: list[int] = []
        self.shortage: Shortage | None = None
        self.worst = 0.0
        self.most_used = 0
        self.most_in_flight = 0
        self.planned: list[tuple[int, int]] = []
        self.loading: dict[int, tuple[int, int]] = {}
        self.ready: dict[int, tuple[int, int]] = {}
        self.held: dict[int, int] = {}
        self.elsewhere = 0  # scratch, and what is being dropped
        self.expected = 0
        self._frontier = 0
        self._reading: tuple[MemoryReading | None, float] = (None, 0.0)
        self._actors: list[tuple[float, Actor]] = [(self.now, self._consume())]
        self._actors += [(self.now, self._work()) for _ in range(setting.workers)]

    # The machine

    @property
    def limit(self) -> int:
        return self.setting.limit

    @property
    def in_flight(self) -> int:
        return sum(size for _, size in self.loading.values()) + sum(size for _, size in self.ready.values())

    @property
    def others(self) -> int:
        """What is used by all but the pieces under way."""
        return self.setting.base + self.setting.neighbour(self.now) + self.elsewhere + sum(self.held.values())

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

    def _read(self) -> MemoryReading:
        used = self.used
        return MemoryReading(self.limit, used, max(0, self.limit - used), "simulated")

    def obey(self, decision: Decision) -> None:
        for start in decision.revoke:
            assert start != self.expected, "the first piece is never given up"
            count, nbytes = self.ready.pop(start)
            heapq.heappush(self.planned, (start, count))
            self._drop(nbytes)

    def _drop(self, nbytes: int) -> None:
        """Memory is given back some time after it was decided."""
        self.elsewhere += nbytes
        self._actors.append((self.now + self.dice.uniform(0.0, 0.008), self._vanish(nbytes)))

    def _vanish(self, nbytes: int) -> Actor:
        self.elsewhere -= nbytes
        yield from ()

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
        for start, count in pieces:
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
        while (
            self._frontier < len(setting.sizes)
            and len(self.planned) + len(self.loading) + len(self.ready) < setting.capacity
        ):
            count = min(setting.batch, len(setting.sizes) - self._frontier)
            heapq.heappush(self.planned, (self._frontier, count))
            self._frontier += count
        if not self.planned:
            return None
        start, count = heapq.heappop(self.planned)
        self.loading[start] = (count, 0)
        return start, count

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
            self.observe()
            said = None if hints is None else hints[start : start + count]
            decision = governor.admit(start, count, self.now, said)
            self.obey(decision)
            if decision.action is Action.ADMIT:
                yield from self._load(start, count)
            elif decision.action is Action.PRESPLIT:
                assert 0 < decision.samples < count
                self._plan_again(start, decision.samples, count - decision.samples)
            elif decision.action is Action.WAIT:
                self._plan_again(start, count)
                yield self.now + decision.after
            else:
                assert decision.action is Action.FAIL
                self.shortage = decision.shortage
                return

    def _load(self, start: int, count: int) -> Actor:
        governor, setting = self.governor, self.setting
        unseen: list[int] = []
        for place in range(start, start + count):
            size = setting.sizes[place]
            scratch = int(setting.scratch * size)
            self.elsewhere += scratch
            if self.dice.random() < setting.failing:
                yield self.now + self.dice.uniform(0.0, 0.005)
                self.elsewhere -= scratch
                governor.withdrawn(start, self.now)
                self._drop(self.loading[start][1])
                self._plan_again(start, count)
                return
            self.loading[start] = (count, self.loading[start][1] + size)
            yield self.now + self.dice.uniform(0.0, 0.005)
            self.elsewhere -= scratch
            unseen.append(size)
            if sum(unseen) < setting.quantum and self.estimate.knows_sizes:
                continue
            decision = yield from self._report(start, unseen)
            if decision is None:
                return
            unseen = []
            if decision.action is Action.REVOKED:
                assert start != self.expected, "the first piece is never given up"
                self._drop(self.loading[start][1])
                self._plan_again(start, count)
                return
            if decision.action is Action.CUT:
                done = decision.samples
                assert done == place + 1 - start < count
                heapq.heappush(self.planned, (start + done, count - done))
                count = done
                break
            assert decision.action is Action.GO_ON
        nbytes = self.loading.pop(start)[1]
        self.ready[start] = (count, nbytes)
        governor.finished(start, nbytes, self.now)

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
            while self.expected not in self.ready:
                governor.starved(self.expected)
                yield self.now + 0.005
            start = self.expected
            count, nbytes = self.ready.pop(start)
            governor.delivered(start)
            self.held[start] = nbytes
            self.delivered.append(count)
            self.expected += count
            yield self.now + self.dice.uniform(0.0, 2.0 * setting.pause)

    def _let_go(self, keep: int) -> None:
        if keep >= 0:
            for start in list(self.held)[: max(0, len(self.held) - keep)]:
                self._drop(self.held.pop(start))
                self.governor.released(start, 10**12, self.now)
