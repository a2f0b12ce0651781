"""How much memory a piece will take: what the dataset says, corrected by what was seen.

Guarantees of this file:

* With samples of one size the answer is exact; with sizes that vary it is a bound that the sum of n samples
  passes rarely, and never more than n of the largest sample seen.
* Where hints and the declared scratch are upper bounds, so is the answer.
* Hints that are too low by a steady factor are corrected by it. No wrong hint makes the answer for a sample
  larger than the hint itself or the largest sample seen, whichever is more.
* A larger piece never needs less than a smaller one, which is what the search in ``fit`` relies on.
* Hints that raise or make no sense are ignored from then on, and the reason is kept.

Pure, but for the call into the dataset's ``nbytes`` in `Hints`, which is user code: not under a lock.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from nogil_loader.errors import describe, describe_exception, describe_index

# Sizes that are remembered; a data set sorted by size is followed within about as many samples.
_WINDOW = 512
# Standard deviations above the mean that a piece is planned with.
_DEVIATIONS = 3.0
# By how much the memory of a bad ratio fades with each sample: by a half in 69.
_FADE = 0.99
# Measurements of scratch, and what is added to the largest of them.
_CALIBRATIONS = 3
_SAFETY = 1.1
# One sample beside its place in the batch: it exists before it is written there.
_SCRATCH = 1.0


class Hints:
    """What a dataset says about the size of its samples, if it says anything sensible.

    Args:
        dataset: Asked through its method ``nbytes(index)`` where it has one. (An attribute of this name that is
            a number, as arrays have it, is none.)

    Attributes:
        ignored: Why the hints are not used, once that has happened.
    """

    def __init__(self, dataset: Any) -> None:
        self.ignored: str | None = None
        try:
            ask = getattr(dataset, "nbytes", None)
        except Exception:  # noqa: BLE001 - a property may raise anything
            ask = None
        self._ask = ask if callable(ask) else None

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


class Estimate:
    """What the samples of one loader take.

    Args:
        scratch: Memory beside the batch that one sample takes while it is loaded, as a multiple of its size.
            None for one sample, until ``calibrate`` has measured it.
        copies: How often a batch exists at its peak: 1 where samples are written into their places, 2 where
            they are collected first and collated then.
    """

    def __init__(self, *, scratch: float | None = None, copies: int = 1) -> None:
        self._declared = scratch is not None
        self._scratch = _SCRATCH if scratch is None else scratch
        self._copies = copies
        self._measured: list[float] = []
        self._sizes: deque[int] = deque(maxlen=_WINDOW)
        # Integers, so that what leaves the window takes away exactly what it brought.
        self._sum = 0
        self._squares = 0
        self._largest = 0
        self._bias = 1.0
        self._swell = 1.0

    # What was seen

    def learn(self, nbytes: int, hint: int | None = None) -> None:
        """Take in the size of one sample, and what had been said about it."""
        sizes = self._sizes
        gone = sizes[0] if len(sizes) == _WINDOW else None
        sizes.append(nbytes)
        self._sum += nbytes
        self._squares += nbytes * nbytes
        if gone is not None:
            self._sum -= gone
            self._squares -= gone * gone
        if nbytes >= self._largest:
            self._largest = nbytes
        elif gone == self._largest:
            self._largest = max(sizes)
        if hint is not None:
            # A sample that was said to be empty says nothing about the others. Never below 1: where hints are
            # upper bounds, loose for most samples, they may still be exact for the next one.
            self._bias = max(1.0, nbytes / hint if hint else 0.0, self._bias * _FADE)

    def learn_batch(self, samples: int, batch: int) -> None:
        """Take in how large a batch became of samples of ``samples`` bytes in all, as padding makes it."""
        if samples > 0:
            self._swell = max(1.0, batch / samples, self._swell * _FADE)

    def calibrate(self, peak: int, nbytes: int) -> None:
        """Take in the peak of memory while one sample of ``nbytes`` bytes was loaded alone."""
        if self._declared or nbytes <= 0 or len(self._measured) >= _CALIBRATIONS:
            return
        self._measured.append(max(0.0, (peak - nbytes) / nbytes))
        self._scratch = _SAFETY * max(self._measured)

    # What follows from it

    @property
    def knows_sizes(self) -> bool:
        """Whether a sample was seen."""
        return bool(self._sizes)

    def need(self, count: int, hints: Sequence[int] | None = None, *, loaded: int = 0) -> int | None:
        """Bytes that a piece takes while it is loaded; None when nothing is known yet.

        Args:
            count: Samples that are still to be loaded.
            hints: What the dataset says about each of them.
            loaded: Bytes of those that are loaded.
        """
        if count == 0:
            batch = one = 0.0
        elif hints is not None:
            batch, one = self._corrected(hints), self._corrected((max(hints),))
        elif self._sizes:
            batch, one = self._bound(count), self._bound(1)
        else:
            return None
        return math.ceil(self._copies * self._swell * (loaded + batch) + self._scratch * one)

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

    def _corrected(self, hints: Sequence[int]) -> float:
        biased = self._bias * sum(hints)
        if not self._sizes:
            return biased
        # One hint that was wrong by a factor of a million must not make every sample look too large.
        return min(biased, sum(max(hint, self._largest) for hint in hints))

    def _bound(self, count: int) -> float:
        seen = len(self._sizes)
        mean = self._sum / seen
        deviation = math.sqrt(max(0, seen * self._squares - self._sum * self._sum)) / seen
        return min(count * self._largest, count * mean + _DEVIATIONS * deviation * math.sqrt(count))
