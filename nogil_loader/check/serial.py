"""Reads everything one call at a time: what the threads have to agree with, and what the data themselves are like.

The first reading is in one thread, in order. The second is in other threads, in another order and with other
random numbers. What differs between them is read again with one of these changed at a time, until the cause is
known.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from nogil_loader.check.crew import Crew, Hand
from nogil_loader.check.outcome import Hung, Raised, Seen, Value, is_same
from nogil_loader.check.reading import Reader

#: What an item depends on: ``"steady"`` on nothing, ``"random"`` on the sources of random numbers alone,
#: ``"thread"`` on who reads it, ``"restless"``: it differs from call to call.
Habit = Literal["steady", "random", "thread", "restless"]

_HABITS: tuple[Habit, ...] = ("random", "thread", "restless")
# Each one costs the whole time that a call may take.
_MOST_HANGS = 3
# Of those that differ between two readings, so many are looked into; the others are taken to be like them.
_MOST_EXAMINED = 40
# Read in the caller's own thread too, of those that came and of those that raised.
_FEW = 3
# Seeds of the two readings.
ONE_DRAW, OTHER_DRAW = 1, 2


@dataclass
class SerialReadings:
    """What came of reading one at a time.

    Attributes:
        first: Position → the first reading.
        second: The second one.
        habits: Position → what it depends on. Without those that hang.
        caller: Some of them, read in the thread that the check was called in.
        overwritten: Positions of samples that later calls have changed.
        unread: How many were not tried after several had hung.
    """

    first: dict[int, Seen] = field(default_factory=dict)
    second: dict[int, Seen] = field(default_factory=dict)
    habits: dict[int, Habit] = field(default_factory=dict)
    caller: dict[int, Seen] = field(default_factory=dict)
    overwritten: list[int] = field(default_factory=list)
    unread: int = 0


def read_serially(reader: Reader, crew: Crew, seed: int, *, in_caller: bool) -> SerialReadings:
    """Read all items one at a time.

    Args:
        reader: Of what.
        crew: At least two threads.
        seed: Of the order of the second reading.
        in_caller: Whether some are read in the caller's thread too.
    """
    found = SerialReadings()
    positions = list(range(len(reader.items)))
    found.first = _read_in_order(reader, crew, positions, keep=True)
    found.unread = len(positions) - len(found.first)
    changed = reader.memory.find_changed()
    positions = [position for position, seen in found.first.items() if not isinstance(seen.outcome, Hung)]
    order = random.Random(seed).sample(positions, len(positions))
    found.second = _read_elsewhere(reader, crew, order, OTHER_DRAW, found.first)
    found.habits = _habits(reader, crew, order, found)
    if in_caller:
        found.caller = _read_in_caller(reader, found)
    found.overwritten = sorted({*changed, *reader.memory.find_changed()})
    return found


def read_again(reader: Reader, crew: Crew, positions: Iterable[int]) -> dict[int, Seen]:
    """Read items one at a time in one thread, as the first reading did."""
    return _read_in_order(reader, crew, positions, keep=False)


def _read_in_order(reader: Reader, crew: Crew, positions: Iterable[int], *, keep: bool) -> dict[int, Seen]:
    seen: dict[int, Seen] = {}
    hangs = 0
    for position in positions:
        seen[position] = _do(crew, 0, position, partial(_read, reader, position, draw=ONE_DRAW, keep=keep))
        hangs += isinstance(seen[position].outcome, Hung)
        if hangs >= _MOST_HANGS:
            break
    return seen


def _read_elsewhere(
    reader: Reader, crew: Crew, order: Sequence[int], draw: int, expected: Mapping[int, Seen]
) -> dict[int, Seen]:
    """Read in the threads other than the first one, which take turns; each item always in the same thread."""
    seen: dict[int, Seen] = {}
    hangs = 0
    for position in order:
        number = 1 + position % (len(crew.hands) - 1)
        job = partial(_read, reader, position, draw=draw, expected=expected[position].outcome)
        seen[position] = _do(crew, number, position, job)
        hangs += isinstance(seen[position].outcome, Hung)
        if hangs >= _MOST_HANGS:
            break
    return seen


def _habits(reader: Reader, crew: Crew, order: Sequence[int], found: SerialReadings) -> dict[int, Habit]:
    habits: dict[int, Habit] = {}
    differing = []
    for position in order:
        if position not in found.second or isinstance(found.second[position].outcome, Hung):
            continue
        if is_same(found.first[position].outcome, found.second[position].outcome):
            habits[position] = (
                "random" if _has_drawn(found.first[position], found.second[position]) else "steady"
            )
        else:
            differing.append(position)
    step = max(1, len(differing) // _MOST_EXAMINED)
    examined = differing[::step]
    if not examined:
        return habits
    first = found.first
    same_thread = {
        position: _do(crew, 0, position, partial(_read, reader, position, draw=ONE_DRAW))
        for position in examined
    }
    same_draw = _read_elsewhere(reader, crew, examined, ONE_DRAW, first)
    for position in examined:
        if not is_same(first[position].outcome, same_thread[position].outcome):
            habits[position] = "restless"
        elif position in same_draw and is_same(first[position].outcome, same_draw[position].outcome):
            habits[position] = "random"
        else:
            habits[position] = "thread"
    kinds = [habits[position] for position in examined]
    usual = max(_HABITS, key=kinds.count)
    for position in differing:
        habits.setdefault(position, usual)
    if 2 * len(differing) > len(order) and usual == "restless":
        # Some may have come out the same by chance.
        habits.update(dict.fromkeys(habits, usual))
    return habits


def _has_drawn(one: Seen, other: Seen) -> bool:
    """Whether a call drew random numbers, though two draws led to the same.

    A call that has seeded a source itself leaves it in one state, whatever the state was before.
    """
    states = dict(one.drew)
    return any(name in states and states[name] != state for name, state in other.drew)


def _read_in_caller(reader: Reader, found: SerialReadings) -> dict[int, Seen]:
    """Read a few in the caller's thread that have returned in others; and all, if some raise only there."""
    samples = [position for position in found.habits if reader.items[position].kind == "sample"]
    came = [at for at in samples if isinstance(found.first[at].outcome, Value)]
    raised = [at for at in samples if isinstance(found.first[at].outcome, Raised)]
    seen = {at: _read_here(reader, at, found) for at in [*came[:_FEW], *raised[:_FEW]]}
    if any(isinstance(seen[at].outcome, Value) for at in raised[:_FEW]):
        seen |= {at: _read_here(reader, at, found) for at in raised[_FEW:]}
    return seen


def _read_here(reader: Reader, position: int, found: SerialReadings) -> Seen:
    return reader.read(None, position, draw=ONE_DRAW, expected=found.first[position].outcome)


def _read(reader: Reader, position: int, hand: Hand, **how: object) -> Seen:
    return reader.read(hand, position, **how)  # type: ignore[arg-type]


def _do(crew: Crew, number: int, position: int, job: object) -> Seen:
    result = crew.do(crew.hands[number], job)  # type: ignore[arg-type]
    return Seen(position, result, result.seconds) if isinstance(result, Hung) else result
