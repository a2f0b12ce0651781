"""Reads in many threads at once, in patterns that make races likely: for what happens below Python's own code.

Threads start together, on the same items, on neighbours, and each on its own; the interpreter turns to another
thread as often as it can. In one of the patterns threads also pause at random lines.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from nogil_loader.check.crew import Crew, Hand
from nogil_loader.check.crossing import Stall, Tally
from nogil_loader.check.instructions import is_looked_into, tracing
from nogil_loader.check.outcome import Seen
from nogil_loader.check.reading import Reader, Within

# The interpreter's default is 5 ms, in which hundreds of samples may be read without a change of threads.
_SWITCH_SECONDS = 1e-6
# Calls of one pattern take no longer than this one by one; but each thread makes so many at least.
_PATTERN_SECONDS = 4.0
_LEAST_CALLS = 4
# A thread pauses so often in a call, on average, and for no longer than this.
_PAUSES = 2.0
_PAUSE_SECONDS = 0.0003


@dataclass(frozen=True)
class Pattern:
    """Who reads what.

    Attributes:
        lists: For each thread the positions that it reads.
        in_step: Whether all threads begin each call together.
        pauses: Whether they pause at random.
    """

    lists: tuple[tuple[int, ...], ...]
    in_step: bool = False
    pauses: bool = False


@dataclass
class HammerFindings:
    """What came of it."""

    tally: Tally = field(default_factory=Tally)
    stalls: list[Stall] = field(default_factory=list)


def patterns(positions: Sequence[int], threads: int, calls: int, rng: random.Random) -> Iterator[Pattern]:
    """Yield the patterns of one round.

    Args:
        positions: What may be read; neighbours are neighbours in the dataset.
        threads: How many read.
        calls: About how many calls each pattern makes in all.
        rng: For random orders.
    """
    each = max(_LEAST_CALLS, calls // threads)
    start = rng.randrange(len(positions))
    ring = [*positions[start:], *positions[:start]]

    def at(number: int) -> int:
        return ring[number % len(ring)]

    yield Pattern(tuple(tuple(at(step) for step in range(each)) for _ in range(threads)), in_step=True)
    yield Pattern(
        tuple(tuple(at(step * 2 + number) for step in range(each)) for number in range(threads)), in_step=True
    )
    yield Pattern(
        tuple(tuple(at(number + step * threads) for step in range(each)) for number in range(threads))
    )
    orders = (rng.sample(ring, len(ring)) for _ in range(threads))
    yield Pattern(tuple(tuple(itertools.islice(itertools.cycle(one), each)) for one in orders), pauses=True)


def hammer(
    reader: Reader,
    crew: Crew,
    positions: Sequence[int],
    expected: Mapping[int, Seen],
    *,
    rounds: int,
    lines: float,
    seed: int,
) -> HammerFindings:
    """Read in all threads of the crew at once.

    Args:
        reader: Reads the items.
        crew: The threads.
        positions: What may be read.
        expected: What came when it was read alone.
        rounds: How often the patterns are gone through.
        lines: Lines of Python that a call runs, roughly.
        seed: Of the orders and pauses.
    """
    found = HammerFindings()
    if not positions:
        return found
    mean = sum(expected[each].seconds for each in positions) / len(positions)
    calls = min(len(positions), int(_PATTERN_SECONDS / max(mean, 1e-9)))
    rng = random.Random(seed)
    with _fast_switching():
        for _ in range(rounds):
            for pattern in patterns(positions, len(crew.hands), calls, rng):
                _play(reader, crew, pattern, expected, lines, rng, found)
                if found.stalls:
                    return found
    return found


def _play(
    reader: Reader,
    crew: Crew,
    pattern: Pattern,
    expected: Mapping[int, Seen],
    lines: float,
    rng: random.Random,
    found: HammerFindings,
) -> None:
    start = threading.Barrier(len(pattern.lists))

    def job(positions: Sequence[int], within: Within) -> Callable[[Hand], list[Seen]]:
        def read(hand: Hand) -> list[Seen]:
            seen: list[Seen] = []
            with contextlib.suppress(threading.BrokenBarrierError):
                start.wait(2 * crew.seconds)
                for position in positions:
                    if pattern.in_step:
                        start.wait(2 * crew.seconds)
                    elif start.broken:
                        break
                    outcome = expected[position].outcome
                    seen.append(reader.read(hand, position, expected=outcome, within=within))
            return seen

        return read

    def note(late: list[Hand]) -> None:
        at = tuple(hand.at[0] for hand in late if hand.at is not None)
        found.stalls.append(Stall(at, tuple(hand.stack() for hand in late), crew.seconds))
        start.abort()

    pauses = [partial(_pausing, lines, random.Random(rng.random())) for _ in pattern.lists]
    jobs = [
        (hand, job(positions, pause if pattern.pauses else contextlib.nullcontext))
        for hand, positions, pause in zip(crew.hands, pattern.lists, pauses, strict=True)
    ]
    for seen in crew.do_all(jobs, note).values():
        found.tally.add_all(seen)


def _pausing(lines: float, rng: random.Random) -> AbstractContextManager[None]:
    """Let the calling thread pause at some lines in the block."""
    share = min(0.5, _PAUSES / max(lines, 1.0))

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        return look if is_looked_into(frame) else None

    def look(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and rng.random() < share:
            time.sleep(rng.random() * _PAUSE_SECONDS)
        return look

    return tracing(trace)


@contextlib.contextmanager
def _fast_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
