"""What the governor costs where memory is plentiful: loads on which its own work would show."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_BATCH = 64
_WORKERS = 2
_IMAGES = 256
_FULL, _CROP = 128, 112


class Integers:
    """Samples that cost nothing, so that the hand-off is all there is."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        return [int(index) for index in indices]


class Augmented:
    """Images that a kernel crops, flips, normalises and turns into channels, one at a time."""

    def __init__(self, length: int) -> None:
        self.length = length
        shape = (_IMAGES, _FULL, _FULL, 3)
        self.images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        self.augment = _compile()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> np.ndarray:
        out = np.empty((3, _CROP, _CROP), np.float32)
        room = _FULL - _CROP
        # Any numbers that vary will do for the place of the crop.
        self.augment(self.images[index % _IMAGES], index * 7 % room, index * 13 % room, index % 2 == 1, out)
        return out


@functools.cache
def _compile() -> Callable[..., None]:
    import numba

    @numba.njit(nogil=True, boundscheck=False)
    def augment(image: Any, top: Any, left: Any, flip: Any, out: Any) -> None:
        channels, height, width = out.shape
        for row in range(height):
            for column in range(width):
                source = width - 1 - column if flip else column
                for channel in range(channels):
                    value = image[top + row, left + source, channel]
                    out[channel, row, column] = (value / np.float32(255) - np.float32(0.45)) / np.float32(
                        0.22
                    )

    compiled: Callable[..., None] = augment
    return compiled


_LOADS: dict[str, Callable[[int], Any]] = {"handoff": Integers, "augmentation": Augmented}


def measure(load: str, memory: str, batches: int, epochs: int) -> float:
    """Return µs per batch: the least of some epochs, which nothing else disturbed, after one that warms up."""
    import nogil_loader

    taken = []
    for length in (20, *[batches] * epochs):
        dataset = _LOADS[load](_BATCH * length)
        loader = nogil_loader.DataLoader(dataset, batch_size=_BATCH, num_workers=_WORKERS, memory=memory)
        iterator = iter(loader)
        next(iterator)
        start = time.perf_counter()
        rest = sum(1 for _ in iterator)
        taken.append((time.perf_counter() - start) / rest * 1e6)
        if rest != length - 1:
            raise RuntimeError(f"{rest + 1} of {length} batches were delivered")
    return min(taken[1:])
