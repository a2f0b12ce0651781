"""Filters of images: each pixel becomes a weighted sum of its neighbours.

An image of any layout is seen as ``(planes, rows, elements of a row)``, in which neighbours in a row are
``stride`` elements apart: ``(H, W, C)`` is one plane with a stride of C, ``(C, H, W)`` are C planes with a stride
of 1. So all inner loops run over contiguous rows. They compute in the dtype of ``work``.
"""

from __future__ import annotations

import math
from typing import Any, Final

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.borders import border_at
from nogil_loader.kernels.images.pixels import saturate, store_1

_REFLECT: Final = 2  # of `borders.BORDERS`


@jitable
def as_planes(array: Any, planes: int, rows: int) -> Any:
    """Return a view ``(planes, rows, elements of a row)`` of a contiguous image."""
    return array.reshape((planes, rows, array.size // (planes * rows)))


@jitable
def store_line(values: Any, line: Any, whole: bool, low: float, high: float) -> None:
    """Store a row; integers (``whole``) are rounded and clipped to ``low`` and ``high``."""
    row = values.reshape((1, len(values)))
    if whole:
        saturate(row, low, high)
    store_1(row, line)


@jitable
def gaussian_weights(sigma: float, out: Any) -> None:
    """Fill ``(radius + 1,)`` with the weights of a pixel and of those 1, 2, … pixels away on either side.

    The weights of both sides and the middle sum to 1.

    Args:
        sigma: Standard deviation in pixels, positive.
        out: The weights.
    """
    total = 1.0
    for k in range(1, len(out)):
        total += 2.0 * math.exp(-0.5 * (k / sigma) * (k / sigma))
    for k in range(len(out)):
        out[k] = math.exp(-0.5 * (k / sigma) * (k / sigma)) / total


@jitable
def blur_scratch(radius_y: int, radius_x: int, stride: int, length: int) -> int:
    """Return how many elements of scratch `blur` needs for rows of ``length`` elements."""
    return radius_y + 1 + radius_x + 1 + 2 * radius_x * stride + 2 * length


@jitable
def blur(
    image: Any,
    target: Any,
    radius_y: int,
    radius_x: int,
    sigma: float,
    stride: int,
    whole: bool,
    low: float,
    high: float,
    work: Any,
) -> None:
    """Blur an image with a Gaussian of a finite radius, first down, then across; mirrored at its borders.

    Args:
        image: ``(planes, rows, length)``.
        target: The same; not the same memory.
        radius_y: Pixels above and below that count, less than there are rows.
        radius_x: Pixels to the left and right that count, less than there are columns.
        sigma: Standard deviation in pixels.
        stride: Elements from a pixel to its neighbour in a row.
        whole: Whether the target holds integers.
        low: Its smallest value, if so.
        high: Its largest.
        work: Scratch, see `blur_scratch`.
    """
    planes, rows, length = image.shape
    margin = radius_x * stride
    down = work[: radius_y + 1]
    across = work[radius_y + 1 : radius_y + radius_x + 2]
    rest = work[radius_y + radius_x + 2 :]
    line = rest[: margin + length + margin]
    middle = line[margin : margin + length]
    out = rest[len(line) : len(line) + length]
    gaussian_weights(sigma, down)
    gaussian_weights(sigma, across)
    for plane in range(planes):
        for y in range(rows):
            weigh_rows(image[plane], y, down, middle)
            mirror_ends(line, stride, radius_x)
            weigh_shifts(line, stride, across, out)
            store_line(out, target[plane, y], whole, low, high)


@jitable
def weigh_rows(image: Any, y: int, weights: Any, out: Any) -> None:
    """Set a row to the weighted sum of row ``y`` of an image and those above and below it."""
    cast = out.dtype.type
    here = image[y]
    weight = weights[0]
    for j in range(len(out)):
        out[j] = weight * cast(here[j])
    for k in range(1, len(weights)):
        above = image[border_at(y - k, len(image), _REFLECT)]
        below = image[border_at(y + k, len(image), _REFLECT)]
        weight = weights[k]
        for j in range(len(out)):
            out[j] += weight * (cast(above[j]) + cast(below[j]))


@jitable
def mirror_ends(line: Any, stride: int, radius: int) -> None:
    """Fill ``radius`` pixels at both ends of a row with the mirrored ones behind them."""
    first = radius * stride
    last = len(line) - (radius + 1) * stride
    for k in range(stride, (radius + 1) * stride, stride):
        for c in range(stride):
            line[first - k + c] = line[first + k + c]
            line[last + k + c] = line[last - k + c]


@jitable
def weigh_shifts(line: Any, stride: int, weights: Any, out: Any) -> None:
    """Set a row to the weighted sum of each pixel of ``line``, which has margins, and those beside it."""
    margin = (len(weights) - 1) * stride
    here = line[margin : margin + len(out)]
    weight = weights[0]
    for j in range(len(out)):
        out[j] = weight * here[j]
    for k in range(1, len(weights)):
        left = line[margin - k * stride : margin - k * stride + len(out)]
        right = line[margin + k * stride : margin + k * stride + len(out)]
        weight = weights[k]
        for j in range(len(out)):
            out[j] += weight * (left[j] + right[j])


@jitable
def sharpen(
    image: Any,
    target: Any,
    factor: float,
    stride: int,
    whole: bool,
    low: float,
    high: float,
    work: Any,
) -> None:
    """Move each pixel away from, or towards, the mean of its surroundings; the outermost pixels stay.

    The mean is that of Pillow's ``SMOOTH`` filter: of 3 by 3 pixels, the middle one counted five times.

    Args:
        image: ``(planes, rows, length)``.
        target: The same; not the same memory.
        factor: 0 for the mean, 1 for the pixel, more for what is beyond.
        stride: Elements from a pixel to its neighbour in a row.
        whole: Whether the target holds integers.
        low: Its smallest value, if so.
        high: Its largest.
        work: Scratch, ``(2 * length,)``.
    """
    planes, rows, length = image.shape
    cast = work.dtype.type
    amount, four, share = cast(factor), cast(4), cast(1.0 / 13.0)
    line, columns = work[:length], work[length : 2 * length]
    for plane in range(planes):
        for y in range(rows):
            here = image[plane, y]
            for j in range(length):
                line[j] = here[j]
            if 0 < y < rows - 1:
                above, below = image[plane, y - 1], image[plane, y + 1]
                for j in range(length):
                    columns[j] = cast(above[j]) + cast(here[j]) + cast(below[j])
                left, middle, right = columns[: length - 2 * stride], columns[stride:], columns[2 * stride :]
                inner = line[stride:]
                for j in range(len(left)):
                    pixel = inner[j]
                    mean = (left[j] + middle[j] + right[j] + four * pixel) * share
                    inner[j] = mean + amount * (pixel - mean)
            store_line(line, target[plane, y], whole, low, high)
