"""New levels for the pixels of an image, found from all of them: equalised, or stretched to full intensity.

Images are seen as in `filters`: ``(planes, rows, elements of a row)`` with channels ``stride`` elements long.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable

#: Levels of a uint8 pixel.
LEVELS: Final = 256


@jitable
def equalize(image: Any, target: Any, stride: int, table: Any) -> None:
    """Give each channel of a uint8 image an even distribution of levels, as Pillow's ``ImageOps.equalize``.

    Args:
        image: ``(planes, rows, length)`` uint8.
        target: The same; not the same memory.
        stride: Channels of a plane.
        table: Scratch, int64, ``(2 * LEVELS,)``.
    """
    planes, rows, length = image.shape
    for plane in range(planes):
        for c in range(stride):
            count_levels(image[plane], c, stride, table)
            even_levels(table, rows * (length // stride))
            for y in range(rows):
                line, new = image[plane, y], target[plane, y]
                for j in range(c, length, stride):
                    new[j] = table[line[j]]


@jitable
def count_levels(image: Any, c: int, stride: int, table: Any) -> None:
    """Count how many pixels of channel ``c`` have each level, in the first half of the table.

    Neighbours are counted in different halves, since pixels of one level in a row would wait for each other.
    """
    for level in range(2 * LEVELS):
        table[level] = 0
    even, odd = table[:LEVELS], table[LEVELS : 2 * LEVELS]
    rows, length = image.shape
    for y in range(rows):
        line = image[y]
        last = length - stride
        for j in range(c, last, 2 * stride):
            even[line[j]] += 1
            odd[line[j + stride]] += 1
        if (length // stride) % 2 == 1:
            even[line[last + c]] += 1
    for level in range(LEVELS):
        even[level] += odd[level]


@jitable
def even_levels(table: Any, pixels: int) -> None:
    """Turn the counts of levels into new levels; those of an image of one level or of few pixels stay."""
    top = LEVELS - 1
    while top > 0 and table[top] == 0:
        top -= 1
    share = (pixels - table[top]) // (LEVELS - 1)
    below = share // 2
    for level in range(LEVELS):
        count = table[level]
        table[level] = min(below // share, LEVELS - 1) if share > 0 else level
        below += count


@jitable
def stretch(
    image: Any, target: Any, stride: int, whole: bool, as_pillow: bool, white: float, work: Any
) -> None:
    """Stretch each channel linearly so that its least value becomes 0 and its greatest ``white``.

    ``(value - least) * scale``, for integers without the fraction. NaN is ignored when the least and greatest are
    sought. A channel of one value stays as it is.

    Args:
        image: ``(planes, rows, length)``.
        target: The same; not the same memory.
        stride: Channels of a plane.
        whole: Whether they hold integers.
        as_pillow: Whether to compute ``value * scale - least * scale``, as Pillow's ``ImageOps.autocontrast`` does
            for uint8: it rounds differently, and is inexact where values are large and close together.
        white: Full intensity.
        work: Scratch, float64, ``(2 * length,)``.
    """
    planes, rows, length = image.shape
    first, second = work[:length], work[length : 2 * length]
    for plane in range(planes):
        find_range(image[plane], first, second)
        choose_scales(first, second, stride, as_pillow, white)
        for y in range(rows):
            line, new = image[plane, y], target[plane, y]
            if as_pillow:
                for j in range(length):
                    new[j] = np.trunc(np.float64(line[j]) * second[j] - first[j])
            elif whole:
                for j in range(length):
                    new[j] = np.trunc((np.float64(line[j]) - first[j]) * second[j])
            else:
                for j in range(length):
                    new[j] = (np.float64(line[j]) - first[j]) * second[j]


@jitable
def find_range(image: Any, least: Any, greatest: Any) -> None:
    """Find the least and the greatest value in each column of an image that are numbers."""
    for j in range(len(least)):
        least[j] = math.inf
        greatest[j] = -math.inf
    for y in range(len(image)):
        line = image[y]
        for j in range(len(least)):
            value = np.float64(line[j])
            least[j] = value if value < least[j] else least[j]
            greatest[j] = value if value > greatest[j] else greatest[j]


@jitable
def choose_scales(least: Any, greatest: Any, stride: int, as_pillow: bool, white: float) -> None:
    """Turn the least and greatest values of columns into what `stretch` subtracts and multiplies with."""
    for c in range(stride):
        low, high = least[c], greatest[c]
        for j in range(c, len(least), stride):
            low, high = min(low, least[j]), max(high, greatest[j])
        shift, scale = 0.0, 1.0
        if low < high:
            scale = white / (high - low)
            shift = low * scale if as_pillow else low
        for j in range(c, len(least), stride):
            least[j] = shift
            greatest[j] = scale
