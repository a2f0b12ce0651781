"""The check of a dataset that is read by index: what is done in which order."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from nogil_loader.check.crew import Crew
from nogil_loader.check.ends import Ends, find_end
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.fresh import Fresh
from nogil_loader.check.hammer import HammerFindings, hammer
from nogil_loader.check.item import Item, batches_of, choose_positions
from nogil_loader.check.judging import judge
from nogil_loader.check.judging.clashes import find_clashes
from nogil_loader.check.options import Options
from nogil_loader.check.outcome import Hung, Outcome, Seen, Value, is_same
from nogil_loader.check.race import Race, RaceFindings
from nogil_loader.check.randomness import Randomness
from nogil_loader.check.reading import Reader
from nogil_loader.check.report import Report
from nogil_loader.check.serial import ONE_DRAW, SerialReadings, read_again, read_serially
from nogil_loader.check.speed import Speed, measure
from nogil_loader.check.summary import Effort, Summary
from nogil_loader.check.usage import Usage
from nogil_loader.check.walk import handles_of
from nogil_loader.data import protocols
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.errors import describe
from nogil_loader.memory.estimate import size_hint

# Batches asked of __getitems__ have so many samples; enough for an order to be wrong.
_BATCH = 8
# Size hints asked for.
_HINTS = 24
# Reading once more at the end takes no longer than this.
_AGAIN_SECONDS = 10.0
# Threads that share CPUs, and change places all the time, are slower by their number and so many times.
_SLOWER = 4
# Copies are tried on so many samples before they are trusted.
_TRIED = 3


class Examination:
    """Checks one dataset, once.

    Args:
        usage: The dataset and how it is used.
        options: How thoroughly.
        make: Makes another one like it; None if nothing does.
        tell: Told what is being done.

    Raises:
        TypeError: The dataset does not tell its length, and nothing else says which keys it has.
        ValueError: It is empty.
    """

    def __init__(
        self,
        usage: Usage,
        options: Options,
        make: Callable[[], Any] | None,
        tell: Callable[[str], object],
    ) -> None:
        self._usage = usage
        self._options = options
        self._tell = tell
        self._dataset = usage.subject.dataset
        self._length = protocols.dataset_length(self._dataset)
        self._items = _items_of(self._dataset, _keys_of(usage, self._length, options.samples))
        self._randomness = Randomness(self._dataset)
        self._handles = handles_of(self._dataset)
        # Before the first call.
        self._fresh = Fresh.of(self._dataset, make) if usage.subject.is_shared else None
        self._race = RaceFindings()
        self._hammer = HammerFindings()

    def run(self) -> Report:
        """Read, and judge."""
        began = time.monotonic()
        options = self._options
        with _leaks_ignored(), self._randomness.kept(), Crew(options.crew, options.timeout) as crew:
            reader = Reader(self._usage.subject, self._items, self._randomness, options.seed, options.crew)
            self._tell(f"asking for {len(self._items)} things one at a time")
            serial = read_serially(reader, crew, options.seed, in_caller=self._usage.subject.is_shared)
            ends = self._find_end(reader, crew, serial)
            usable = sorted(serial.habits)
            crew.seconds += self._slowness(serial, usable)
            if self._fresh is not None and not self._can_be_trusted(reader, crew, serial, usable):
                self._fresh = None
            self._tell("stopping one thread while another one reads")
            self._interrupt(reader, crew, serial, usable)
            again: dict[int, Seen] = {}
            speed = None
            # What is known to be unsafe by now is not struck at: code of C might end the process.
            safe = not self._race.stalls and not find_clashes(self._evidence(serial))
            if safe:
                self._tell(f"reading in {options.crew} threads at once")
                self._strike(reader, crew, serial, usable)
            if not (self._race.stalls or self._hammer.stalls):
                self._tell("reading once more")
                again = read_again(reader, crew, _within(usable, serial))
            if safe and not self._hammer.stalls:
                speed = self._measure(reader, crew, serial, usable)
            self._close_rest(crew)
        effort = Effort(
            calls=self._race.tally.calls + self._hammer.tally.calls,
            places=self._race.tried,
            places_known=self._race.places,
            threads=options.crew if safe else 0,
            twins=self._fresh is not None,
            seconds=time.monotonic() - began,
        )
        return self._report(serial, ends, again, speed, effort)

    # What is done

    def _find_end(self, reader: Reader, crew: Crew, serial: SerialReadings) -> Ends | None:
        last = serial.first.get(self._last)
        if self._length is None or last is None or isinstance(self._dataset, Mapping):
            return None
        if self._usage.sampler is not None or self._items[self._last].keys[0] != self._length - 1:
            return None

        def ask(index: int) -> Outcome:
            item = Item("sample", (index,))
            seen = crew.do(crew.hands[0], lambda hand: reader.read(hand, -1, item=item, draw=ONE_DRAW))
            return seen if isinstance(seen, Hung) else seen.outcome

        return find_end(self._length, ask, last.outcome)

    def _slowness(self, serial: SerialReadings, usable: Sequence[int]) -> float:
        """Return how much longer a call may take when all threads read."""
        slowest = max((serial.first[at].seconds for at in usable), default=0.0)
        return _SLOWER * self._options.crew * slowest

    @property
    def _last(self) -> int:
        return max(at for at, item in enumerate(self._items) if item.kind == "sample")

    def _can_be_trusted(
        self, reader: Reader, crew: Crew, serial: SerialReadings, usable: Sequence[int]
    ) -> bool:
        """Whether a fresh dataset gives what the dataset gives."""
        steady = [at for at in usable if serial.habits[at] == "steady"][:_TRIED]
        assert self._fresh is not None
        for position in steady:
            try:
                with self._fresh.lent() as dataset:
                    job = partial(reader.read, position=position, dataset=dataset)
                    seen = crew.do(crew.hands[0], job)
            except Exception:  # noqa: BLE001 - someone else's code
                return False
            if isinstance(seen, Hung) or not is_same(serial.first[position].outcome, seen.outcome):
                return False
        return True

    def _interrupt(self, reader: Reader, crew: Crew, serial: SerialReadings, usable: Sequence[int]) -> None:
        found = self._race
        for kind in ("sample", "batch", "size"):
            positions = [at for at in usable if self._items[at].kind == kind]
            if found.stalls or not positions:
                continue
            part = Race(reader, crew, serial, self._fresh, self._options.seed).run(positions)
            found.tally.counts.update(part.tally.counts)
            found.tally.calls += part.tally.calls
            found.losses.update(part.losses)
            found.twice.update(part.twice)
            found.stalls += part.stalls
            found.places += part.places
            found.tried += part.tried
            found.lines = max(found.lines, part.lines)

    def _close_rest(self, crew: Crew) -> None:
        """Close what only the threads can close that opened it."""
        fresh = self._fresh
        if fresh is not None and not (self._race.stalls or self._hammer.stalls):
            for hand in crew.hands[:2]:
                crew.do(hand, lambda hand: fresh.close_rest())

    def _strike(self, reader: Reader, crew: Crew, serial: SerialReadings, usable: Sequence[int]) -> None:
        self._hammer = hammer(
            reader,
            crew,
            usable,
            serial.first,
            rounds=self._options.rounds,
            lines=self._race.lines,
            seed=self._options.seed,
        )

    def _measure(
        self, reader: Reader, crew: Crew, serial: SerialReadings, usable: Sequence[int]
    ) -> Speed | None:
        good = [
            at
            for at in usable
            if self._items[at].kind == "sample" and isinstance(serial.first[at].outcome, Value)
        ]
        if not good:
            return None
        self._tell("measuring what threads gain")
        mean = sum(serial.second[at].seconds for at in good) / len(good)
        threads = min(available_cpus(), len(crew.hands))
        return measure(crew, good, mean, threads, reader.touch)

    def _evidence(
        self, serial: SerialReadings, ends: Ends | None = None, again: Mapping[int, Seen] | None = None
    ) -> Evidence:
        return Evidence(
            type(self._dataset).__name__,
            self._items,
            serial,
            length=self._length,
            crossings=[*self._race.tally.crossings(), *self._hammer.tally.crossings()],
            stalls=[*self._race.stalls, *self._hammer.stalls],
            losses=list(self._race.losses.values()),
            twice=list(self._race.twice.values()),
            again=again or {},
            ends=ends,
            handles=self._handles if self._usage.subject.is_shared else (),
            has_hint=size_hint(self._dataset) is not None,
            collates=self._usage.collates,
            load=self._usage.load,
        )

    def _report(
        self,
        serial: SerialReadings,
        ends: Ends | None,
        again: Mapping[int, Seen],
        speed: Speed | None,
        effort: Effort,
    ) -> Report:
        evidence = self._evidence(serial, ends, again)
        summary = Summary.of(evidence, speed, effort)
        return Report(evidence.name, "map", self._length, judge(evidence), summary)


def _keys_of(usage: Usage, length: int | None, most: int) -> list[Hashable]:
    """Return the keys that are read.

    Raises:
        TypeError: They are not known.
        ValueError: There are none.
    """
    dataset = usage.subject.dataset
    shown = f"dataset={describe(dataset, 200)}"
    keys = usage.keys(most)
    if keys is None and isinstance(dataset, Mapping):
        known = list(dataset)
        keys = [known[at] for at in choose_positions(len(known), most)]
    elif keys is None and length is not None:
        keys = list(choose_positions(length, most))
    elif keys is None:
        raise TypeError(f"{shown}: {type(dataset).__name__} has no __len__, so it is not known what to read")
    if not keys:
        raise ValueError(f"{shown}: {type(dataset).__name__} is empty; expected at least one sample")
    return keys


def _items_of(dataset: Any, keys: Sequence[Hashable]) -> list[Item]:
    items = [Item("sample", (key,)) for key in keys]
    if protocols.batched_fetch(dataset) is not None:
        items += [Item("batch", batch) for batch in batches_of(keys, _BATCH)]
    if size_hint(dataset) is not None:
        items += [Item("size", (keys[at],)) for at in choose_positions(len(keys), _HINTS)]
    return items


@contextmanager
def _leaks_ignored() -> Iterator[None]:
    """Keep files quiet that a dataset loses because it is provoked to; there may be hundreds of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def _within(positions: Sequence[int], serial: SerialReadings) -> Sequence[int]:
    """Return as many positions, evenly spread, as can be read in the time there is."""
    seconds = sum(serial.first[at].seconds for at in positions)
    return positions[:: max(1, int(seconds / _AGAIN_SECONDS) + (seconds > _AGAIN_SECONDS))]
