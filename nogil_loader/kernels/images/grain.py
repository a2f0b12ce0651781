"""Adds normal noise to a row, without a second row to hold the noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.noise import _COUNTED, _NOISE, normal_number, normal_pair
from nogil_loader.kernels.philox import HALF, LOW, ROUNDS, next_round_key, philox_round


@jitable
def add_normal_noise(
    key: Any, index: Any, position: Any, start: Any, deviation: float, mean: float, out: Any
) -> None:
    """Add ``deviation * normal + mean`` to each element of a row, normal as `noise.fill_normal_noise` gives it.

    Blocks are drawn, made normal and added in one loop, which compilers vectorise.

    Args:
        key: Of the epoch, uint64.
        index: The sample's word, uint64.
        position: Of the operation, 0 to 2**32 - 1.
        start: Element of the noise that the row begins with, int64, a multiple of 4.
        deviation: Standard deviation of the noise.
        mean: Its mean.
        out: ``(count,)`` float32 or float64, C-contiguous.
    """
    scale, shift = out.dtype.type(deviation), out.dtype.type(mean)
    word, place = np.uint64(index), np.uint64(position)
    low, high = word & LOW, word >> HALF
    first = start // 4
    blocks = len(out) // 4
    for block in range(blocks):
        c0, c1, c2, c3 = low, high, place, (np.uint64(first + block) & _COUNTED) | _NOISE
        k0, k1 = key & LOW, key >> HALF
        for _ in range(ROUNDS):
            c0, c1, c2, c3 = philox_round(c0, c1, c2, c3, k0, k1)
            k0, k1 = next_round_key(k0, k1)
        n0, n1 = normal_pair(np.uint32(c0), np.uint32(c1))
        n2, n3 = normal_pair(np.uint32(c2), np.uint32(c3))
        out[4 * block] += scale * n0 + shift
        out[4 * block + 1] += scale * n1 + shift
        out[4 * block + 2] += scale * n2 + shift
        out[4 * block + 3] += scale * n3 + shift
    for element in range(4 * blocks, len(out)):
        out[element] += scale * normal_number(key, index, position, start + element) + shift
