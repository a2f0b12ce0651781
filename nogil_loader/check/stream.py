"""Reads an iterable dataset, in one thread as a loader does, twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nogil_loader.check.crew import Crew, Hand
from nogil_loader.check.fingerprint import fingerprint
from nogil_loader.check.outcome import Hung, Raised, Seen, Value, is_same
from nogil_loader.check.randomness import Randomness, changed
from nogil_loader.check.reading import Memory
from nogil_loader.check.serial import ONE_DRAW, OTHER_DRAW, Habit
from nogil_loader.engine.scope import SampleScope, current_scope
from nogil_loader.memory.weigh import size_of

_END = object()


@dataclass
class Streaming:
    """What came of reading an iterable.

    Attributes:
        first: Number of a sample → what came, in the first reading.
        second: The same in the second one; empty if there was none.
        habits: Number of a sample → what it depends on, where both readings had it.
        overwritten: Numbers of samples that changed after they were given.
        is_whole: Whether the first reading came to the end.
        is_iterator: Whether ``iter()`` returns the dataset itself, so that it can be read once.
        ended_early: How many samples the second reading gave before it ended, if that were fewer than the first.
    """

    first: dict[int, Seen] = field(default_factory=dict)
    second: dict[int, Seen] = field(default_factory=dict)
    habits: dict[int, Habit] = field(default_factory=dict)
    overwritten: list[int] = field(default_factory=list)
    is_whole: bool = False
    is_iterator: bool = False
    ended_early: int | None = None


class StreamReader:
    """Reads an iterable.

    Args:
        dataset: The iterable.
        randomness: Its sources of random numbers.
        seed: For `nogil_loader.sample_rng`.
    """

    def __init__(self, dataset: Any, randomness: Randomness, seed: int) -> None:
        self._dataset = dataset
        self._randomness = randomness
        self._seed = seed
        self.memory = Memory()

    def open(self, hand: Hand) -> Any:
        """Return a new iterator, or what kept it from being made."""
        hand.at = 0, time.monotonic()
        try:
            return iter(self._dataset)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is what came of it
            return Raised.of(error)
        finally:
            hand.at = None

    def draw(self, hand: Hand, iterator: Iterator[Any], number: int, *, keep: bool) -> Seen | None:
        """Return what came of asking for the next sample, None at the end."""
        before = self._randomness.read()
        token = current_scope.set(SampleScope(self._seed, 0))
        hand.at = number, time.monotonic()
        began = time.perf_counter()
        try:
            sample = next(iterator, _END)
        except BaseException as error:  # noqa: BLE001 - the same
            return Seen(number, Raised.of(error), time.perf_counter() - began)
        finally:
            seconds = time.perf_counter() - began
            hand.at = None
            current_scope.reset(token)
        if sample is _END:
            return None
        drew = changed(before, self._randomness.read())
        value = Value((fingerprint(sample),))
        nbytes = size_of(sample)
        if keep:
            self.memory.keep(number, [sample], value.prints, nbytes)
        return Seen(number, value, seconds, nbytes, drew)


def read_stream(
    reader: StreamReader, randomness: Randomness, crew: Crew, dataset: Any, most: int
) -> Streaming:
    """Read the beginning of an iterable twice.

    Args:
        reader: Reads it.
        randomness: Its sources of random numbers, other ones for the second reading.
        crew: At least one thread.
        dataset: The iterable.
        most: Samples to read.
    """
    found = Streaming()
    randomness.seed(ONE_DRAW)
    iterator = _do(crew, reader.open)
    found.is_iterator = iterator is dataset
    found.first, found.is_whole = _read(reader, crew, iterator, most, keep=True)
    found.overwritten = reader.memory.find_changed()
    if any(not isinstance(seen.outcome, Value) for seen in found.first.values()):
        return found
    randomness.seed(OTHER_DRAW)
    found.second, _ = _read(reader, crew, _do(crew, reader.open), most, keep=False)
    if len(found.second) < len(found.first):
        found.ended_early = len(found.second)
    if not found.is_iterator:
        found.habits = _habits(reader, randomness, crew, found, most)
    return found


def _habits(
    reader: StreamReader, randomness: Randomness, crew: Crew, found: Streaming, most: int
) -> dict[int, Habit]:
    habits: dict[int, Habit] = {
        number: "steady" if is_same(found.first[number].outcome, found.second[number].outcome) else "restless"
        for number in found.first.keys() & found.second.keys()
    }
    if "restless" in habits.values():
        randomness.seed(ONE_DRAW)
        third, _ = _read(reader, crew, _do(crew, reader.open), most, keep=False)
        for number, habit in habits.items():
            if (
                habit == "restless"
                and number in third
                and is_same(found.first[number].outcome, third[number].outcome)
            ):
                habits[number] = "random"
    return habits


def _read(
    reader: StreamReader, crew: Crew, iterator: Any, most: int, *, keep: bool
) -> tuple[dict[int, Seen], bool]:
    """Return what came, and whether it came to the end."""
    if isinstance(iterator, Raised | Hung):
        return {0: Seen(0, iterator)}, False
    seen: dict[int, Seen] = {}
    for number in range(most):
        got = _do(crew, partial(reader.draw, iterator=iterator, number=number, keep=keep))
        if got is None:
            return seen, True
        seen[number] = Seen(number, got, got.seconds) if isinstance(got, Hung) else got
        if not isinstance(seen[number].outcome, Value):
            return seen, False
    return seen, False


def _do(crew: Crew, job: Any) -> Any:
    return crew.do(crew.hands[0], job)
