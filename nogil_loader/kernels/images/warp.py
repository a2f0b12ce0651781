"""Rows of images warped by an affine map.

A map is six float64 numbers that lead from an output pixel (x, y) to the source: ``u = m0 x + (m1 y + m2)``
and ``v = m3 x + (m4 y + m5)``, computed in that order; the centre of the first pixel is (0, 0). A pixel is the sum
of the four around (u, v), each times its weight, in the order upper left, upper right, lower left, lower right, in
the dtype of the row; weights are products in float64, rounded once. What lies outside the source is the fill. All
four take part, also with weight 0, so a NaN reaches to its neighbours. Where all four are outside, the result is
the fill itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.resample import BLOCK

#: Numbers of weights per pixel.
CORNERS = 4


@jitable
def bounded(position: float, length: int) -> float:
    """Return a position; one far outside of 0 to length is brought to where it is outside as well, NaN too."""
    position = position if position > -2.0 else -2.0
    return position if position < length + 1.0 else length + 1.0


@jitable
def nearest_pixels(matrix: Any, y: int, height: int, width: int, pixels: Any) -> None:
    """Write for each pixel of row ``y`` the source pixel that is nearest, -1 for the fill.

    Args:
        matrix: The map, float64 ``(6,)``.
        y: The output row.
        height: Of the source.
        width: Of the source.
        pixels: int64, is written: ``row * width + column``.
    """
    across, down = matrix[1] * y + matrix[2], matrix[4] * y + matrix[5]
    for x in range(len(pixels)):
        column = int(np.floor(bounded(matrix[0] * x + across, width) + 0.5))
        row = int(np.floor(bounded(matrix[3] * x + down, height) + 0.5))
        inside = 0 <= column < width and 0 <= row < height
        pixels[x] = row * width + column if inside else -1


@jitable
def place_corners(
    matrix: Any, y: int, height: int, width: int, down: int, right: int, corners: Any, weights: Any
) -> tuple[int, int]:
    """Say for each pixel of row ``y`` which four source pixels it is made of.

    Args:
        matrix: The map, float64 ``(6,)``.
        y: The output row.
        height: Of the source.
        width: Of the source.
        down: Numbers from one source row to the next one.
        right: Numbers from one source column to the next one.
        corners: int64, is written: where the upper left pixel is in the flat source; it may be outside.
        weights: ``(4, W)``, is written.

    Returns:
        Begin and end of the pixels whose corners are inside, and so is one more column to their right.
    """
    across, along = matrix[1] * y + matrix[2], matrix[4] * y + matrix[5]
    for x in range(len(corners)):
        u, v = bounded(matrix[0] * x + across, width), bounded(matrix[3] * x + along, height)
        left, top = np.floor(u), np.floor(v)
        fu, fv = u - left, v - top
        corners[x] = int(top) * down + int(left) * right
        weights[0, x] = (1.0 - fu) * (1.0 - fv)
        weights[1, x] = fu * (1.0 - fv)
        weights[2, x] = (1.0 - fu) * fv
        weights[3, x] = fu * fv
    # u and v rise or fall with x, also when rounded: what is inside is one run.
    begin, end = 0, len(corners)
    while begin < end and not _is_inside(matrix, begin, across, along, height, width):
        begin += 1
    while end > begin and not _is_inside(matrix, end - 1, across, along, height, width):
        end -= 1
    return begin, end


@jitable
def _is_inside(matrix: Any, x: int, across: float, along: float, height: int, width: int) -> bool:
    u, v = matrix[0] * x + across, matrix[3] * x + along
    return bool(u >= 0.0) and bool(u < width - 2.0) and bool(v >= 0.0) and bool(v < height - 1.0)


@jitable
def warp_many(
    flat: Any,
    size: tuple[int, int],
    steps: tuple[int, int, int],
    matrix: Any,
    y: int,
    fill: Any,
    whole: bool,
    corners: Any,
    weights: Any,
    row: Any,
) -> None:
    """Make a row of an image with any number of channels in any layout.

    Args:
        flat: The source, flat.
        size: Height and width of the source.
        steps: From one source row, source column and channel to the next one in ``flat``.
        matrix: The map, float64 ``(6,)``.
        y: The output row.
        fill: What is outside, one number for each channel.
        whole: Round to the nearest integer, ties to even.
        corners: int64 ``(W,)``, scratch.
        weights: ``(4, W)`` in the dtype of the row, scratch.
        row: ``(C, W)``, float32 or float64, is written.
    """
    down, right, deep = steps
    begin, end = place_corners(matrix, y, size[0], size[1], down, right, corners, weights)
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, 0, begin, row)
    for c in range(row.shape[0]):
        for x in range(begin, end):
            at = corners[x] + c * deep
            # Unsigned positions: numba counts negative ones from the end, at a third of the time.
            total = row.dtype.type(flat[np.uintp(at)]) * weights[0, x]
            total = total + row.dtype.type(flat[np.uintp(at + right)]) * weights[1, x]
            total = total + row.dtype.type(flat[np.uintp(at + down)]) * weights[2, x]
            total = total + row.dtype.type(flat[np.uintp(at + down + right)]) * weights[3, x]
            row[c, x] = np.rint(total) if whole else total
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, end, row.shape[1], row)


@jitable
def warp_3(
    flat: Any,
    size: tuple[int, int],
    steps: tuple[int, int, int],
    matrix: Any,
    y: int,
    fill: Any,
    whole: bool,
    corners: Any,
    weights: Any,
    row: Any,
) -> None:
    """Make a row of an image with three interleaved channels; see `warp_many`."""
    begin, end = place_corners(matrix, y, size[0], size[1], steps[0], 3, corners, weights)
    if end - begin < BLOCK:
        end = begin
    else:
        for x in range(begin, end - BLOCK, BLOCK):
            mix_corners(3, flat, corners, steps[0], weights, x, whole, row)
        mix_corners(3, flat, corners, steps[0], weights, end - BLOCK, whole, row)
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, 0, begin, row)
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, end, row.shape[1], row)


@jitable
def warp_4(
    flat: Any,
    size: tuple[int, int],
    steps: tuple[int, int, int],
    matrix: Any,
    y: int,
    fill: Any,
    whole: bool,
    corners: Any,
    weights: Any,
    row: Any,
) -> None:
    """Make a row of an image with four interleaved channels; see `warp_many`."""
    begin, end = place_corners(matrix, y, size[0], size[1], steps[0], 4, corners, weights)
    if end - begin < BLOCK:
        end = begin
    else:
        for x in range(begin, end - BLOCK, BLOCK):
            mix_corners(4, flat, corners, steps[0], weights, x, whole, row)
        mix_corners(4, flat, corners, steps[0], weights, end - BLOCK, whole, row)
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, 0, begin, row)
    _mix_edges(flat, size, steps, matrix, y, fill, whole, weights, end, row.shape[1], row)


def mix_corners(
    channels: int, flat: Any, corners: Any, down: int, weights: Any, x: int, whole: bool, row: Any
) -> None:
    """Write the pixels ``x`` to ``x + BLOCK`` of a row, whose corners are inside.

    In a kernel this is machine code; ``channels`` has to be a literal there.
    """
    for c in range(channels):
        for i in range(x, x + BLOCK):
            at = corners[i] + c
            total = row.dtype.type(flat[at]) * weights[0, i]
            total = total + row.dtype.type(flat[at + channels]) * weights[1, i]
            total = total + row.dtype.type(flat[at + down]) * weights[2, i]
            total = total + row.dtype.type(flat[at + down + channels]) * weights[3, i]
            row[c, i] = np.rint(total) if whole else total


@jitable
def _mix_edges(
    flat: Any,
    size: tuple[int, int],
    steps: tuple[int, int, int],
    matrix: Any,
    y: int,
    fill: Any,
    whole: bool,
    weights: Any,
    begin: int,
    end: int,
    row: Any,
) -> None:
    """Write the pixels ``begin`` to ``end`` of a row, each of whose corners may be outside."""
    height, width = size
    down, right, deep = steps
    across, along = matrix[1] * y + matrix[2], matrix[4] * y + matrix[5]
    for x in range(begin, end):
        left = int(np.floor(bounded(matrix[0] * x + across, width)))
        top = int(np.floor(bounded(matrix[3] * x + along, height)))
        if left < -1 or left >= width or top < -1 or top >= height:
            for c in range(row.shape[0]):
                row[c, x] = fill[c]
        else:
            at = top * down + left * right
            for c in range(row.shape[0]):
                total = row.dtype.type(0)
                for k in range(CORNERS):
                    i, j = k // 2, k % 2
                    outside = not (0 <= top + i < height and 0 <= left + j < width)
                    value = fill[c] if outside else flat[at + i * down + j * right + c * deep]
                    product = row.dtype.type(value) * weights[k, x]
                    total = product if k == 0 else total + product
                row[c, x] = np.rint(total) if whole else total
