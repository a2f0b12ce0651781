"""Stress under a limit that changes: ``python -m benchmarks.soak_memory``, or ``./dev soak --memory``.

Each round draws a loader from its seed and lets it read epoch after epoch in a process and a control group of its
own, while the group's limit goes up and down and a neighbour takes memory and gives it back, at random. Checked is
that every sample arrives once, whole and in order, that the kernel kills nobody, that nothing hangs, and that the
process does not grow from epoch to epoch. The first violation ends the run with the seed that repeats its round.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import random
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks.pressure.reader import Task
from benchmarks.pressure.runs import Neighbour, Outcome, Run, run
from benchmarks.pressure.samples import LARGEST
from nogil_loader.bench.cgroup import why_not

_MB = 10**6
_ROUND_SECONDS = 60.0
_MOST = 2000 * _MB
# What a reader needs to get on at its best: itself, and the largest sample three times.
_ROOM = 350 * _MB
# Above it a neighbour is faster than memory can be given up: that is measured elsewhere, and may be lost.
_FASTEST = 5e8
# As in the benchmark of memory: what the allocator wanders by; a sample kept in each epoch would be far more.
_GROWTH = 16 * _MB
# Fewer tell nothing about growth.
_EPOCHS = 6
# What is told of what happened before a violation.
_LAST = 8


@dataclasses.dataclass
class Audit:
    """What happened so far."""

    rounds: int = 0
    epochs: int = 0
    delivered: int = 0
    limits_changed: int = 0
    limits_refused: int = 0
    neighbours: int = 0

    def __str__(self) -> str:
        fields = ", ".join(f"{name} {value:,}" for name, value in dataclasses.asdict(self).items())
        return f"soak of memory: {fields}"


class Weather:
    """Changes the limit and the neighbour's share at random, and never leaves the reader less than it needs."""

    def __init__(self, chance: random.Random, audit: Audit, seconds: float) -> None:
        self._chance = chance
        self._audit = audit
        self._end = time.monotonic() + seconds
        self._taken = 0
        self.history: list[str] = []

    def __call__(self, under_way: Run) -> None:
        with Neighbour(under_way.group) as neighbour:
            while time.monotonic() < self._end and self._is_alive(under_way):
                if self._chance.random() < 0.6:
                    self._change_limit(under_way)
                elif not self._change_neighbour(under_way, neighbour):
                    return

    def _is_alive(self, under_way: Run) -> bool:
        for event in under_way.hear(self._chance.uniform(0.1, 2.0)):
            if event["event"] == "report":
                return False
        return not under_way.ended

    def _change_limit(self, under_way: Run) -> None:
        limit = self._chance.randint(self._taken + _ROOM, _MOST)
        # Onto what is in use it would kill whoever touches the next page.
        margin = max(1, under_way.task.workers) * LARGEST
        try:
            if under_way.group.used() + margin > limit:
                raise OSError(errno.EBUSY, "every worker has to be able to finish its sample")
            under_way.set_limit(limit)
        except OSError as failure:
            if failure.errno != errno.EBUSY:
                raise
            self._audit.limits_refused += 1
            self._note(f"limit {limit / _MB:.0f} MB refused")
        else:
            self._audit.limits_changed += 1
            self._note(f"limit {limit / _MB:.0f} MB")

    def _change_neighbour(self, under_way: Run, neighbour: Neighbour) -> bool:
        assert under_way.limit is not None
        if self._taken:
            self._taken = 0
            self._note("the neighbour gives")
            return neighbour.give() is not None
        most = under_way.limit - _ROOM
        if most < _MB:
            return True
        self._taken = self._chance.randint(_MB, most)
        self._audit.neighbours += 1
        rate = self._chance.uniform(_FASTEST / 10, _FASTEST)
        self._note(f"the neighbour takes {self._taken / _MB:.0f} MB at {rate / _MB:.0f} MB/s")
        return neighbour.take(self._taken, rate) is not None

    def _note(self, what: str) -> None:
        self.history.append(f"{time.monotonic():.2f} {what}")


def draw(chance: random.Random, seconds: float) -> Task:
    """Draw a loader and its consumer."""
    return Task(
        workers=chance.choice((0, 1, 2, 2, 4, 8)),
        prefetch=chance.choice((1, 2, 4)),
        hints=chance.random() < 0.5,
        step=chance.choice((0.0, 0.02, 0.1)),
        seconds=seconds,
    )


def find_violation(outcome: Outcome) -> str:
    """Say which promise a round broke; empty if it broke none."""
    if outcome.verdict != "exact" or outcome.report is None:
        return str(outcome)
    return find_growth(outcome.report["resident"])


def find_growth(resident: Sequence[int]) -> str:
    """Say by how much a process grew from epoch to epoch; empty if it did not.

    Args:
        resident: Bytes after each epoch.
    """
    third = len(resident) // 3
    if len(resident) < _EPOCHS:
        return ""
    # The first third is the allocator getting used to the work.
    growth = statistics.median(resident[-third:]) - statistics.median(resident[third:-third])
    return f"grew by {growth / _MB:.0f} MB: {resident}" if growth > _GROWTH else ""


def soak(seed: int, seconds: float, rounds: int | None, *, round_seconds: float = _ROUND_SECONDS) -> int:
    """Run rounds until the time or their number is over; 0 if every promise was kept."""
    audit = Audit()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and audit.rounds != rounds:
        round_seed = seed + audit.rounds
        chance = random.Random(round_seed)
        length = min(round_seconds, left)
        task = draw(chance, length)
        weather = Weather(chance, audit, length)
        outcome = run(task, _MOST, during=weather)
        if violation := find_violation(outcome):
            last = "\n".join([*weather.history[-_LAST:], *map(str, outcome.events[-_LAST:])])
            print(f"{audit}\nround {round_seed}: {task}\n{last}\nbroken: {violation}", file=sys.stderr)
            print(f"again: python -m benchmarks.soak_memory --seed {round_seed} --rounds 1", file=sys.stderr)
            return 1
        assert outcome.report is not None
        audit.rounds += 1
        audit.epochs += outcome.report["epochs"]
        audit.delivered += outcome.report["delivered"]
        print(f"\r{audit}", flush=True)
    print(f"{audit}; every promise kept (seeds {seed} to {seed + audit.rounds - 1})")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak_memory", description="Stress the governor."
    )
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (default: %(default)g)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first round; the next has the next number"
    )
    parser.add_argument("--rounds", type=int, default=None, help="stop after so many rounds")
    options = parser.parse_args(arguments)
    if reason := why_not():
        parser.error(reason)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return soak(seed, options.seconds, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
