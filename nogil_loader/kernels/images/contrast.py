"""Contrast of whole images: the mean of the grey image, and pixels moved away from it.

Sums of integers are integers, so that they do not depend on the order; floats are summed in order, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import BLUE, GREEN, RED


@jitable
def mean_luma(image: Any, channels: int, planar: int, total: Any) -> float:
    """Return the mean of an image's luma, or of its values if it has one channel.

    Args:
        image: C-contiguous, of 1 or 3 channels.
        channels: How many.
        planar: 1 if the channels are the first axis, 0 if they are the last.
        total: In which type to sum: ``np.int64`` or ``np.float64``.
    """
    values = image.reshape(-1)
    if len(values) == 0:
        return 0.0
    first, second, third = total(0), total(0), total(0)
    if channels == 1:
        for i in range(len(values)):
            first += total(values[i])
        return float(first) / len(values)
    count = len(values) // 3
    if planar:
        red, green, blue = values[:count], values[count : 2 * count], values[2 * count :]
        for i in range(count):
            first += total(red[i])
            second += total(green[i])
            third += total(blue[i])
    else:
        for i in range(count):
            first += total(values[3 * i])
            second += total(values[3 * i + 1])
            third += total(values[3 * i + 2])
    return (float(first) * RED + float(second) * GREEN + float(third) * BLUE) / count


@jitable
def blend_integers(source: Any, target: Any, factor: float, level: float, limits: Any, real: Any) -> None:
    """Set ``target`` to ``source * factor + level * (1 - factor)``, rounded and clipped to ``limits``.

    Args:
        source: Integers, C-contiguous.
        target: The same.
        factor: How far to move from the level.
        level: What stays the same.
        limits: The smallest and the largest integer that ``target`` can hold.
        real: In which type to compute: ``np.float32`` or ``np.float64``.
    """
    values, places = source.reshape(-1), target.reshape(-1)
    by, shift = real(factor), real(level * (1.0 - factor))
    least, most = real(limits[0]), real(limits[1])
    for i in range(len(values)):
        value = np.rint(real(values[i]) * by + shift)
        value = value if value > least else least
        places[i] = value if value < most else most


@jitable
def blend_floats(source: Any, target: Any, factor: float, level: float, real: Any) -> None:
    """Set ``target`` to ``source * factor + level * (1 - factor)``; computed in ``real``."""
    values, places = source.reshape(-1), target.reshape(-1)
    by, shift = real(factor), real(level * (1.0 - factor))
    for i in range(len(values)):
        places[i] = values[i] * by + shift
