"""How much memory a piece will take: what the dataset says, corrected by what was seen.

Guarantees of this file:

* With samples of one size the answer is exact; with sizes that vary it is a bound that the sum of n samples
  passes rarely, and never more than n of the largest sample seen.
* Where hints and the declared scratch are upper bounds, so is the answer.
* Hints that are too low by a steady factor are corrected by it. No wrong hint makes the answer for a sample
  larger than the hint itself or the largest sample seen, whichever is more.
* A measurement that was disturbed once changes nothing, and is forgotten after three others.
* A larger piece never needs less than a smaller one, which is what the search in ``fit`` relies on.
* Hints that raise or make no sense are ignored from then on, and the reason is kept.

Pure, but for the call into the dataset's ``nbytes`` in `Hints`, which is user code: not under a lock.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from nogil_loader.errors import describe, describe_exception, describe_index

# Sizes that are remembered; a data set sorted by size is followed within about as many samples.
_WINDOW = 512
# Standard deviations above the mean that a piece is planned with.
_DEVIATIONS = 3.0
# By how much the memory of a bad ratio fades with each sample: by a half in 69.
_FADE = 0.99
# Measurements of scratch: the middle one of three counts, since a thread that allocates in the meantime spoils
# one now and then. A tenth is added to it.
_CALIBRATIONS = 3
_SAFETY = 1.1
# One sample beside its place in the batch: it exists before it is written there.
_SCRATCH = 1.0


def size_hint(dataset: object) -> Callable[[Any], Any] | None:
    """Return the dataset's method ``nbytes(index)``, which tells what a sample takes, or None if it has none.

    An ``nbytes`` that is a number, as arrays and tensors have it, is none.
    """
    try:
        method = getattr(dataset, "nbytes", None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None
    return method if callable(method) else None


class Hints:
    """What a dataset says about the size of its samples, if it says anything sensible.

    Args:
        dataset: Asked through its method ``nbytes(index)`` where it has one.

    Attributes:
        ignored: Why the hints are not used, once that has happened.
    """

    def __init__(self, dataset: Any) -> None:
        self.ignored: str | None = None
        self._ask = size_hint(dataset)

    def of(self, keys: Sequence[Any]) -> list[int] | None:
        """Bytes of each sample, or None where nothing is known."""
        ask = self._ask
        if ask is None:
            return None
        sizes: list[int] = []
        for key in keys:
            try:
                answer = ask(key)
            except Exception as error:  # noqa: BLE001 - a hint is never worth an epoch
                self._ignore(f"nbytes({describe_index(key)}) raised {describe_exception(error)}")
                return None
            size = _as_size(answer)
            if size is None:
                self._ignore(
                    f"nbytes({describe_index(key)}) returned {describe(answer, 100)}, not a number of bytes ≥ 0"
                )
                return None
            sizes.append(size)
        return sizes

    def _ignore(self, reason: str) -> None:
        self._ask = None
        self.ignored = self.ignored or reason


def _as_size(answer: Any) -> int | None:
    if isinstance(answer, bool | np.bool_):
        return None
    if isinstance(answer, float | np.floating):
        return math.ceil(answer) if math.isfinite(answer) and answer >= 0 else None
    try:
        size = operator.index(answer)
    except TypeError:
        return None
    return size if size >= 0 else None


class _Seen(NamedTuple):
    """Some samples that were seen together. Integers, so that what leaves takes away exactly what it brought."""

    samples: int
    total: int
    squares: int
    largest: int


class Estimate:
    """What the samples of one loader take.

    Args:
        scratch: Memory beside the batch that one sample takes while it is loaded, as a multiple of its size.
            None for one sample, until ``calibrate`` has measured it.
        copies: A guess at how often a batch exists at its peak, until the first one was seen: 1 where samples
            are written into their places, 2 where they are collected first and collated then.
    """

    def __init__(self, *, scratch: float | None = None, copies: int = 1) -> None:
        self._declared = scratch is not None
        self._scratch = _SCRATCH if scratch is None else scratch
        self._measured: deque[float] = deque(maxlen=_CALIBRATIONS)
        self._window: deque[_Seen] = deque()
        # Those of the window that have seen none larger after them; the first one has the largest of all.
        self._peaks: deque[_Seen] = deque()
        self._count = 0
        self._sum = 0
        self._squares = 0
        self._bias = 1.0
        self._swell = float(copies)
        self._knows_swell = False

    # What was seen

    def learn(self, nbytes: int, hint: int | None = None) -> None:
        """Take in the size of one sample, and what had been said about it."""
        self._take_in(_Seen(1, nbytes, nbytes * nbytes, nbytes))
        if hint is not None:
            self._compare((nbytes,), (hint,))

    def learn_all(self, sizes: Sequence[int], hints: Sequence[int] | None = None) -> None:
        """Take in the sizes of some samples, and what had been said about each."""
        if not sizes:
            return
        total, largest = sum(sizes), max(sizes)
        equal = total == len(sizes) * largest
        squares = total * largest if equal else sum(map(operator.mul, sizes, sizes))
        self._take_in(_Seen(len(sizes), total, squares, largest))
        if hints:
            self._compare(sizes, hints)

    def learn_mean(self, count: int, nbytes: int, hints: Sequence[int] | None = None) -> None:
        """Take in that ``count`` samples took ``nbytes`` in all, as one sample of mean size."""
        if count > 0:
            self.learn(nbytes // count, sum(hints) // count if hints else None)

    def learn_batch(self, samples: int, peak: int) -> None:
        """Take in how much there was at most of a batch while it was made of ``samples`` bytes of samples.

        Samples and new arrays where it is collated, with the padding; the samples alone where nothing is copied.
        """
        if samples > 0:
            faded = self._swell * _FADE if self._knows_swell else 0.0
            self._swell = max(1.0, peak / samples, faded)
            self._knows_swell = True

    def calibrate(self, peak: int, nbytes: int, largest: int | None = None) -> None:
        """Take in the peak of memory while samples were loaded, one after the other and nothing else.

        Args:
            peak: The most bytes that were used for it.
            nbytes: Bytes that the samples take.
            largest: Bytes of the largest one; None where there was only one.
        """
        sample = nbytes if largest is None else largest
        if self._declared or sample <= 0:
            return
        measured = self._measured
        measured.append(max(0.0, (peak - nbytes) / sample))
        self._scratch = _SAFETY * sorted(measured)[len(measured) // 2]

    def _take_in(self, seen: _Seen) -> None:
        window, peaks = self._window, self._peaks
        while peaks and peaks[-1].largest <= seen.largest:
            peaks.pop()
        peaks.append(seen)
        window.append(seen)
        self._count += seen.samples
        self._sum += seen.total
        self._squares += seen.squares
        while self._count - window[0].samples >= _WINDOW:
            gone = window.popleft()
            self._count -= gone.samples
            self._sum -= gone.total
            self._squares -= gone.squares
            if gone is peaks[0]:
                peaks.popleft()

    def _compare(self, sizes: Sequence[int], hints: Sequence[int]) -> None:
        # A sample that was said to be empty says nothing about the others. Never below 1: where hints are upper
        # bounds, loose for most samples, they may still be exact for the next one.
        ratios = [size / hint for size, hint in zip(sizes, hints, strict=False) if hint]
        self._bias = max(1.0, self._bias * _FADE ** len(sizes), *ratios)

    # What follows from it

    @property
    def knows_sizes(self) -> bool:
        """Whether a sample was seen."""
        return self._count > 0

    @property
    def wants_calibration(self) -> bool:
        """Whether scratch should still be measured. Later measurements take the place of the earliest."""
        return not self._declared and len(self._measured) < _CALIBRATIONS

    @property
    def is_assumed(self) -> bool:
        """Whether scratch is neither declared nor measured."""
        return not self._declared and not self._measured

    def need(self, count: int, hints: Sequence[int] | None = None, *, loaded: int = 0) -> int | None:
        """Bytes that a piece takes while it is loaded; None when nothing is known yet.

        Args:
            count: Samples that are still to be loaded.
            hints: What the dataset says about each of them.
            loaded: Bytes of those that are loaded.
        """
        if count <= 0:
            batch = one = 0.0
        elif hints is not None:
            batch, one = self._corrected(hints), self._corrected((max(hints),))
        elif self._count:
            batch, one = self._likely(count)
        else:
            return None
        return math.ceil(self._swell * (loaded + batch) + self._scratch * one)

    def scratch(self, hints: Sequence[int] | None = None) -> int:
        """Bytes that one sample of a piece takes beside its place in the batch; 0 as long as nothing is known."""
        if hints:
            return math.ceil(self._scratch * self._corrected((max(hints),)))
        return math.ceil(self._scratch * self._likely(1)[1]) if self._count else 0

    def bound(self, count: int, hints: Sequence[int] | None = None) -> int | None:
        """Bytes that a piece will hardly exceed, by all that was seen; None before that.

        Hints alone don't suffice, since nobody compares what they said of the pieces that are bounded so: as much
        as pieces mostly take is always part of the answer.
        """
        if not self._count:
            return None
        if hints is not None:
            return max(self.need(count, hints) or 0, self.need(count) or 0)
        return math.ceil((self._swell * count + self._scratch) * self._largest())

    def fit(self, count: int, room: int, hints: Sequence[int] | None = None) -> int:
        """How many of the first samples of a piece fit into ``room`` bytes; all of them when nothing is known."""
        low, high = 0, count
        while low < high:
            middle = (low + high + 1) // 2
            need = self.need(middle, None if hints is None else hints[:middle])
            if need is None or need <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _largest(self) -> int:
        return self._peaks[0].largest

    def _corrected(self, hints: Sequence[int]) -> float:
        biased = self._bias * sum(hints)
        if self._bias == 1.0 or not self._count:
            return biased
        # One hint that was wrong by a factor of a million must not make every sample look too large.
        return min(biased, sum(map(max, hints, repeat(self._largest()))))

    def _likely(self, count: int) -> tuple[float, float]:
        """What so many samples, and one, rarely exceed."""
        seen, largest = self._count, self._largest()
        mean = self._sum / seen
        variance = seen * self._squares - self._sum * self._sum  # times the square of how many
        if variance <= 0:
            return count * mean, mean
        spread = _DEVIATIONS * math.sqrt(variance) / seen
        return min(count * largest, count * mean + spread * math.sqrt(count)), min(largest, mean + spread)
