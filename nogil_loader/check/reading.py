"""One call into the dataset, made as a worker of a loader makes it, and what came of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nogil_loader.check.crew import Hand
from nogil_loader.check.difference import tell_difference
from nogil_loader.check.fingerprint import Fingerprint, fingerprint
from nogil_loader.check.item import Item
from nogil_loader.check.outcome import Outcome, Raised, Seen, Value
from nogil_loader.check.randomness import Randomness, changed
from nogil_loader.engine.scope import SampleScope, WorkerInfo, current_scope, current_worker
from nogil_loader.memory.reading import read_memory
from nogil_loader.memory.weigh import size_of

#: Makes what a call is made in, such as something that watches it.
Within: TypeAlias = Callable[[], AbstractContextManager[object]]

# Samples are kept to see whether they change, and to compare them value by value: so many bytes, or this share
# of the memory that is left.
_KEPT_BYTES = 1 << 28
_KEPT_SHARE = 8


@dataclass(frozen=True)
class Subject:
    """What is read.

    Attributes:
        dataset: The dataset.
        clone: Makes the dataset of one thread from its number; None if all share one.
        init: Called in each thread with its number before its first call; None for nothing.
    """

    dataset: Any
    clone: Callable[[int], Any] | None = None
    init: Callable[[int], object] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether all threads call the same object."""
        return self.clone is None


def _room() -> int:
    reading = read_memory()
    return _KEPT_BYTES if reading is None else min(_KEPT_BYTES, reading.headroom // _KEPT_SHARE)


@dataclass
class Memory:
    """Samples that were kept, and what they were.

    Attributes:
        most: Bytes that may be kept.
        samples: Position → the samples that one call returned.
        prints: What they were then.
    """

    most: int = field(default_factory=_room)
    samples: dict[int, list[Any]] = field(default_factory=dict)
    prints: dict[int, tuple[Fingerprint, ...]] = field(default_factory=dict)
    nbytes: int = 0
    _restless: set[int] = field(default_factory=set)

    def keep(self, position: int, samples: list[Any], prints: tuple[Fingerprint, ...], nbytes: int) -> None:
        """Keep samples if there is room for them."""
        if position in self.samples or self.nbytes + nbytes > self.most:
            return
        self.nbytes += nbytes
        self.samples[position] = samples
        self.prints[position] = prints
        if any(leaf.kind == "object" for each in prints for leaf in each.leaves):
            # An object may keep something for later on itself when it is looked at.
            again = tuple(map(fingerprint, samples))
            if again != prints:
                self._restless.add(position)

    def find_changed(self) -> list[int]:
        """Return the positions of samples that are not what they were, and forget these."""
        found = []
        for position, samples in list(self.samples.items()):
            now = tuple(map(fingerprint, samples))
            if now != self.prints[position] and position not in self._restless:
                found.append(position)
                del self.samples[position], self.prints[position]
        return found


class Reader:
    """Reads items in the threads of a crew.

    Args:
        subject: Of what.
        items: What is asked for, by position.
        randomness: What is set before a call where a draw is given.
        seed: Of the generators that `nogil_loader.sample_rng` gives.
        workers: How many threads there are.

    Attributes:
        memory: Samples that were kept.
    """

    def __init__(
        self, subject: Subject, items: Sequence[Item], randomness: Randomness, seed: int, workers: int
    ) -> None:
        self.subject = subject
        self.items = items
        self.randomness = randomness
        self.memory = Memory()
        self.workers = workers
        self._seed = seed

    def read(
        self,
        hand: Hand | None,
        position: int,
        *,
        item: Item | None = None,
        dataset: Any = None,
        draw: int | None = None,
        keep: bool = False,
        expected: Outcome | None = None,
        within: Within = contextlib.nullcontext,
    ) -> Seen:
        """Ask for one item.

        Args:
            hand: Whose thread this is; None for the caller's.
            position: Of the item.
            item: Asked for instead.
            dataset: Asked instead of the thread's own.
            draw: Number to which all sources of random numbers are set before; None leaves them alone.
            keep: Keep the samples.
            expected: What should come, to say how it differs.
            within: Makes what the call is made in, such as something that watches it.
        """
        item = item or self.items[position]
        before = self._prepare(draw, position)
        tokens = current_scope.set(self._scope_of(item)), current_worker.set(self._info(hand, dataset))
        if hand is not None:
            hand.at = position, time.monotonic()
        samples: list[Any] | None = None
        began = time.perf_counter()
        try:
            target = self._dataset_of(hand) if dataset is None else dataset
            with within():
                samples = item.ask(target)
        except BaseException as error:  # noqa: BLE001 - whatever a sample raises is what came of it
            outcome: Outcome = Raised.of(error)
        seconds = time.perf_counter() - began
        if hand is not None:
            hand.at = None
        current_scope.reset(tokens[0])
        current_worker.reset(tokens[1])
        drew = () if before is None else changed(before, self.randomness.read())
        nbytes = 0
        if samples is not None:
            outcome = self._value_of(position, samples, expected)
            nbytes = _claim_of(samples[0]) if item.kind == "size" else size_of(samples)
            if keep and isinstance(outcome, Value):
                self.memory.keep(position, samples, outcome.prints, nbytes)
        return Seen(position, outcome, seconds, nbytes, drew)

    def touch(self, hand: Hand, position: int) -> None:
        """Ask for an item without looking at what comes."""
        item = self.items[position]
        token = current_scope.set(self._scope_of(item))
        with contextlib.suppress(Exception):
            item.ask(self._dataset_of(hand))
        current_scope.reset(token)

    def _value_of(self, position: int, samples: list[Any], expected: Outcome | None) -> Value:
        prints = tuple(map(fingerprint, samples))
        if not isinstance(expected, Value) or expected.prints == prints:
            return Value(prints)
        kept = self.memory.samples.get(position)
        if kept is not None and self.memory.prints[position] != expected.prints:
            kept = None
        return Value(prints, tell_difference(expected.prints, prints, kept, samples))

    def _prepare(self, draw: int | None, position: int) -> dict[str, Any] | None:
        if draw is None:
            return None
        self.randomness.seed(draw * 1_000_003 + position)
        return self.randomness.read()

    def _scope_of(self, item: Item) -> SampleScope:
        scope = SampleScope(self._seed, 0)
        scope.stage = "fetch"
        if item.kind == "sample":
            scope.key, scope.offset = item.keys[0], 0
        return scope

    def _info(self, hand: Hand | None, dataset: Any) -> WorkerInfo | None:
        """What `nogil_loader.get_worker_info` says; the caller's thread is no worker's."""
        if hand is None:
            return None
        dataset = hand.box.get("dataset", self.subject.dataset) if dataset is None else dataset
        return WorkerInfo(hand.number, self.workers, self._seed, dataset)

    def _dataset_of(self, hand: Hand | None) -> Any:
        """Return what a thread reads, ready to be read."""
        subject = self.subject
        if hand is None:
            return subject.dataset
        if "dataset" not in hand.box:
            dataset = subject.dataset if subject.clone is None else subject.clone(hand.number)
            if subject.init is not None:
                current_worker.set(self._info(hand, dataset))  # read() puts back what was there
                subject.init(hand.number)
            hand.box["dataset"] = dataset
        return hand.box["dataset"]


def _claim_of(size: Any) -> int:
    """Return a size hint as bytes, -1 if it is no number of them."""
    if isinstance(size, bool | str | bytes):
        return -1
    try:
        return max(-1, int(size))
    except (TypeError, ValueError, OverflowError):
        return -1
