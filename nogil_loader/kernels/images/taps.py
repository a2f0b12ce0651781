"""Which source pixels make an output pixel, and with what weights: one table for each axis of a resized image.

For output position i of an axis the window is ``first[i] … first[i] + taps - 1``. All windows of an axis have
the same number of taps, and every pixel of a window takes part, also with weight 0: a NaN reaches as far as the
windows that hold it.

- Pixel k covers k to k + 1, its centre is k + 0.5. The part of the source that is resized goes from ``start`` to
  ``start + extent``, both float64, in such coordinates.
- The part is a picture of its own: windows never leave the pixels that it touches. For a crop of whole pixels the
  result is what cropping first and resizing then gives.
- All is computed in float64; a weight is rounded once, to the dtype of ``weights``.

Sources: bilinear as OpenCV's INTER_LINEAR and torch's align_corners=False; triangle as the antialiased bilinear
filter of Pillow and torchvision; area as OpenCV's INTER_AREA.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from nogil_loader.kernels.compiler.jit import jitable

#: How pixels between pixels are made: of the nearest, of two per axis, of all under a triangle, of all in the box.
Taps = Literal["nearest", "bilinear", "triangle", "area"]


def taps_needed(kind: Taps, extent: float, size: int) -> int:
    """Return how many taps at most an axis has, for allocating its weights.

    Args:
        kind: How pixels between pixels are made.
        extent: The longest part of the source's axis that is resized, in pixels.
        size: Positions of the output.
    """
    match kind:
        case "nearest":
            return 1
        case "bilinear":
            return 2
        case "triangle":
            return math.floor(2.0 * max(extent / size, 1.0)) + 2
        case "area":
            return math.ceil(extent / size) + 2


@jitable
def touched(start: float, extent: float, limit: int) -> tuple[int, int]:
    """Return the first pixel that a part touches and the one behind the last; always one pixel at least."""
    low = min(max(math.floor(start), 0), limit - 1)
    high = min(max(math.ceil(start + extent), low + 1), limit)
    return low, high


@jitable
def nearest_index(start: float, extent: float, limit: int, table: Any) -> None:
    """Write for each output position the source pixel that holds its centre.

    Args:
        start: Where the part of the source begins.
        extent: Its length, more than 0.
        limit: Length of the source's axis.
        table: int64, is written.
    """
    low, high = touched(start, extent, limit)
    scale = extent / len(table)
    for i in range(len(table)):
        table[i] = min(max(math.floor(start + (i + 0.5) * scale), low), high - 1)


@jitable
def bilinear_taps(start: float, extent: float, limit: int, first: Any, weights: Any) -> int:
    """Write the two pixels around each output position's centre; pixels beyond the part are those at its border.

    Args:
        start: Where the part of the source begins.
        extent: Its length, more than 0.
        limit: Length of the source's axis.
        first: int64 ``(size,)``, is written.
        weights: Float ``(size, 2 or more)``, is written.

    Returns:
        Taps in use: 1 where each centre falls on a pixel's centre, so that such a resize copies, else 2.
    """
    low, high = touched(start, extent, limit)
    scale = extent / len(first)
    taps = 1
    for i in range(len(first)):
        at = min(max(start + (i + 0.5) * scale - 0.5, float(low)), float(high - 1))
        left = math.floor(at)
        fraction = at - left
        first[i] = left
        weights[i, 0] = 1.0 - fraction
        weights[i, 1] = fraction
        if fraction > 0.0:
            taps = 2
    if taps == 2:
        _keep_inside(first, weights, taps, high)
    return taps


@jitable
def triangle_taps(start: float, extent: float, limit: int, first: Any, weights: Any) -> int:
    """Write the pixels under a triangle around each centre; it is as wide as two output pixels, or source pixels.

    Args:
        start: Where the part of the source begins.
        extent: Its length, more than 0.
        limit: Length of the source's axis.
        first: int64 ``(size,)``, is written.
        weights: Float ``(size, taps_needed or more)``, is written.

    Returns:
        Taps in use.
    """
    low, high = touched(start, extent, limit)
    scale = extent / len(first)
    reach = max(scale, 1.0)
    taps = 1
    for i in range(len(first)):
        centre = start + (i + 0.5) * scale
        left = max(math.floor(centre - reach - 0.5), low)
        right = min(math.ceil(centre + reach + 0.5), high)
        while left < right - 1 and 1.0 - abs(left + 0.5 - centre) / reach <= 0.0:
            left += 1
        while right > left + 1 and 1.0 - abs(right - 0.5 - centre) / reach <= 0.0:
            right -= 1
        right = min(right, left + weights.shape[1])
        total = 0.0
        for k in range(left, right):
            total += 1.0 - abs(k + 0.5 - centre) / reach
        first[i] = left
        for k in range(weights.shape[1]):
            weights[i, k] = (1.0 - abs(left + k + 0.5 - centre) / reach) / total if k < right - left else 0.0
        taps = max(taps, right - left)
    _keep_inside(first, weights, taps, high)
    return taps


@jitable
def area_taps(start: float, extent: float, limit: int, first: Any, weights: Any) -> int:
    """Write the pixels that each output pixel covers, weighted by how much of it they make up.

    The source counts as constant within a pixel. So an enlarged image has the colours of the nearest pixel, mixed
    only where an output pixel lies across a border.

    Args:
        start: Where the part of the source begins.
        extent: Its length, more than 0.
        limit: Length of the source's axis.
        first: int64 ``(size,)``, is written.
        weights: Float ``(size, taps_needed or more)``, is written.

    Returns:
        Taps in use.
    """
    low, high = touched(start, extent, limit)
    size = len(first)
    taps = 1
    for i in range(size):
        # Multiplied first: where a border is a whole number, it comes out as one.
        begin = start + i * extent / size
        end = start + (i + 1) * extent / size
        left = min(max(math.floor(begin), low), high - 1)
        right = max(min(math.ceil(end), high), left + 1)
        right = min(right, left + weights.shape[1])
        total = 0.0
        for k in range(left, right):
            total += min(end, k + 1.0) - max(begin, float(k))
        first[i] = left
        for k in range(weights.shape[1]):
            at = left + k
            covered = (min(end, at + 1.0) - max(begin, float(at))) / total
            weights[i, k] = covered if k < right - left else 0.0
        taps = max(taps, right - left)
    _keep_inside(first, weights, taps, high)
    return taps


@jitable
def _keep_inside(first: Any, weights: Any, taps: int, high: int) -> None:
    """Move windows that end behind the last pixel back to it; their weights stay with their pixels."""
    for i in range(len(first)):
        excess = first[i] + taps - high
        if excess > 0:
            first[i] -= excess
            for k in range(taps - 1, -1, -1):
                weights[i, k] = weights[i, k - excess] if k >= excess else 0.0


@jitable
def place_columns(
    first: Any, weights: Any, taps: int, cols: Any, channels: int, starts: Any, column_weights: Any
) -> tuple[int, int, int]:
    """Say what each output column is made of, in the form in which `resample` reads it.

    Args:
        first: First source column of each column of the resized image.
        weights: Of the source columns, ``(len(first), taps or more)``.
        taps: Taps in use.
        cols: For each output column one of the resized image, -1 for the fill. A number that is too large counts
            as the fill too: where the image is turned these are rows, and the result is of no use.
        channels: Numbers of a pixel of a line.
        starts: int64 ``(len(cols),)``, is written: where in a line the first source pixel begins; 0 for the fill.
        column_weights: ``(taps or more, len(cols))``, is written.

    Returns:
        The source column with which lines begin, how many columns they have (none where all is fill), and how
        many output columns are fill.
    """
    size = len(first)
    low, high, holes = -1, -1, 0
    for x in range(len(cols)):
        if 0 <= cols[x] < size:
            at = first[cols[x]]
            low = at if low < 0 else min(low, at)
            high = max(high, at + taps)
        else:
            holes += 1
    for x in range(len(cols)):
        inside = 0 <= cols[x] < size
        at = cols[x] if inside else 0
        starts[x] = (first[at] - low) * channels if inside else 0
        for k in range(taps):
            column_weights[k, x] = weights[at, k]
    return max(low, 0), high - low, holes
