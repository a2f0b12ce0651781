"""The work that loaders are compared by, and how to tell that a loader has done it.

4096 uint8 images of 128 by 128 pixels; a random crop of 112 (or the whole image), a horizontal flip of every
second one, normalisation by mean and deviation, channels first, float32, in shuffled batches of 64.

The images say where each pixel belongs: channel 0 holds its row, channel 1 its column, channel 2 the image's
number modulo 256. The time of this work does not depend on what the pixels are, and so each batch tells what was
done to it: crop and flip can be read off, and every value can be compared with the one that it has to be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IMAGES = 4096
SIDE = 128
CROP = 112
BATCH = 64
# Of ImageNet, as everyone uses them.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# In 8-bit levels. float32 in whatever order of operations is off by some 1e-5.
_TOLERANCE = 1e-3


def make_images(count: int = IMAGES, side: int = SIDE) -> NDArray[np.uint8]:
    """Return the images, shape ``(count, side, side, 3)``; ``side`` is at most 256."""
    images = np.empty((count, side, side, 3), np.uint8)
    images[..., 0] = np.arange(side)[:, None]
    images[..., 1] = np.arange(side)
    images[..., 2] = (np.arange(count) % 256)[:, None, None]
    return images


class Examination:
    """Looks at the batches of an epoch; raises RuntimeError if one is not what the work makes of the images.

    Args:
        who: The loader, for messages.
        size: Height and width of the samples.
    """

    def __init__(self, who: str, size: int) -> None:
        self.who = who
        self.size = size
        self._seen: NDArray[np.int64] = np.zeros(256, np.int64)
        self._lefts: set[int] = set()
        self._flips: set[bool] = set()

    def batch(self, delivered: Any) -> None:
        """Look at one batch."""
        batch = np.asarray(delivered)
        wanted = (BATCH, 3, self.size, self.size)
        if batch.dtype != np.float32 or batch.shape != wanted or not batch.flags.c_contiguous:
            raise RuntimeError(
                f"{self.who} delivered {batch.dtype}{batch.shape}, strides {batch.strides}, instead of "
                f"contiguous float32{wanted}"
            )
        levels = 255 * (batch.astype(np.float64) * _column(STD) + _column(MEAN))
        corners = np.rint(levels[:, :, 0, 0]).astype(np.int64)
        flipped = np.rint(levels[:, 1, 0, -1]).astype(np.int64) < corners[:, 1]
        along = np.arange(self.size)
        expected = np.empty_like(levels)
        expected[:, 0] = (corners[:, :1] + along)[:, :, None]
        expected[:, 1] = (corners[:, 1:2] + np.where(flipped[:, None], -along, along))[:, None, :]
        expected[:, 2] = corners[:, 2, None, None]
        error = np.abs(levels - expected).max()
        if not error < _TOLERANCE:
            raise RuntimeError(f"{self.who} delivered pixels that are {error:g} levels off")
        np.add.at(self._seen, corners[:, 2], 1)
        self._lefts.update(np.minimum(corners[:, 1], corners[:, 1] + np.where(flipped, 1 - self.size, 0)))
        self._flips.update(flipped.tolist())

    def end(self) -> None:
        """Say that the epoch is over."""
        if not (self._seen == IMAGES // 256).all():
            raise RuntimeError(f"{self.who} delivered {self._seen.sum()} samples, not each image once")
        if self._flips != {False, True} or len(self._lefts) != SIDE - self.size + 1:
            raise RuntimeError(f"{self.who} drew flips {self._flips} and left edges {sorted(self._lefts)}")


def _column(values: tuple[float, ...]) -> NDArray[np.float64]:
    return np.array(values)[:, None, None]
