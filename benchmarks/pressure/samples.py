"""Samples of very different sizes that show on arrival which they are, and whether they are whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

# Sizes as photographs, documents and clips have them: many small ones, a few very large.
_SEED = 2
_MEDIAN = 9e6
_SIGMA = 0.9
_SMALLEST, LARGEST = 1_000_000, 80_000_000

# The first 320 samples take 4.2 GB, 13 MB on average; a batch takes 336 to 520 MB.
SAMPLES = 320
BATCH = 32

# Fewer than 256, and no divisor of a power of two: a sample in another's place has the wrong content.
_CONTENTS = 251
_MARK = np.dtype(np.int64)
# One byte of each page shows whether the page is what was written.
_PAGE = 4096


def sizes(count: int) -> list[int]:
    """Return the bytes of each sample, the same for every run."""
    drawn = np.random.default_rng(_SEED).lognormal(np.log(_MEDIAN), _SIGMA, count)
    return [int(size) for size in np.clip(drawn, _SMALLEST, LARGEST)]


class Ragged:
    """uint8 arrays made on demand.

    Args:
        count: Samples.
        hints: Whether ``nbytes`` says beforehand how large a sample will be.
        scratch: How often its size each sample takes beside itself while it is made.
    """

    def __init__(self, count: int = SAMPLES, *, hints: bool = True, scratch: int = 0) -> None:
        self.sizes = sizes(count)
        self.scratch = scratch
        if hints:
            self.nbytes = self.sizes.__getitem__

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> np.ndarray:
        size = self.sizes[index]
        if self.scratch:
            work = np.full(self.scratch * size, 1, np.uint8)
            del work
        sample = np.full(size, index % _CONTENTS, np.uint8)
        sample[: _MARK.itemsize] = np.frombuffer(np.int64(index).tobytes(), np.uint8)
        return sample


def identify(sample: Any, expected: list[int]) -> int:
    """Return the index of a sample that arrived.

    Raises:
        ValueError: It is not what was made; ``expected`` are the sizes by index.
    """
    array = np.asarray(sample)
    index = int(array[: _MARK.itemsize].view(_MARK)[0])
    whole = 0 <= index < len(expected) and array.nbytes == expected[index]
    if not whole or not (array[_MARK.itemsize :: _PAGE] == index % _CONTENTS).all():
        raise ValueError(f"a sample arrived that says it is {index}, and is not whole")
    return index


def first_difference(received: Iterable[int], *, complete: int | None) -> str:
    """Say where indices differ from 0, 1, 2, …; empty where they do not.

    Args:
        received: Indices in order of arrival.
        complete: How many there have to be; None where the epoch was left early.
    """
    count = 0
    for index in received:
        if index != count:
            return f"sample {index} arrived as number {count}"
        count += 1
    if complete is not None and count != complete:
        return f"{count} of {complete} samples arrived"
    return ""
