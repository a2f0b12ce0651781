"""Whole images resized and warped in numpy: bit for bit what `taps`, `resample` and `warp` give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.images.taps import Taps

Array = npt.NDArray[Any]


def resize_image(
    image: Array, box: tuple[float, float, float, float], size: tuple[int, int], kind: Taps, dtype: Any
) -> Array:
    """Resize a part of an image.

    Args:
        image: ``(H, W, C)``.
        box: Top, left, height and width of the part, which lies in the image.
        size: Height and width of the result.
        kind: How pixels between pixels are made.
        dtype: float32 or float64, in which all is computed.

    Returns:
        ``(*size, C)`` of that dtype, not rounded.
    """
    top, left, height, width = box
    image = image.astype(dtype)
    with np.errstate(all="ignore"):
        first, weights = windows(kind, top, height, image.shape[0], size[0])
        image = _sum(image, first, weights.astype(dtype), 0)
        first, weights = windows(kind, left, width, image.shape[1], size[1])
        return _sum(image, first, weights.astype(dtype), 1)


def _sum(image: Array, first: Array, weights: Array, axis: int) -> Array:
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total = np.take(image, first, axis) * weights[:, 0].reshape(shape)
    for k in range(1, weights.shape[1]):
        total += np.take(image, first + k, axis) * weights[:, k].reshape(shape)
    return total


def windows(kind: Taps, start: float, extent: float, limit: int, size: int) -> tuple[Array, Array]:
    """Return the first source pixel of each output position and float64 weights ``(size, taps)``; see `taps`."""
    low = min(max(int(np.floor(start)), 0), limit - 1)
    high = min(max(int(np.ceil(start + extent)), low + 1), limit)
    scale = extent / size
    centres = start + (np.arange(size) + 0.5) * scale
    if kind == "nearest":
        return np.clip(np.floor(centres).astype(np.int64), low, high - 1), np.ones((size, 1))
    if kind == "bilinear":
        at = np.clip(centres - 0.5, low, high - 1)
        begin = np.floor(at)
        fraction = at - begin
        if not fraction.any():
            return begin.astype(np.int64), np.ones((size, 1))
        end = np.minimum(begin + 2, high)
        weights = np.stack([1.0 - fraction, fraction], 1)
        # At the last pixel the fraction is 0: it becomes the second one of its window.
        weights[end - begin < 2] = [0.0, 1.0]
        return (end - 2).astype(np.int64), weights
    pixels = np.arange(low, high)
    if kind == "triangle":
        reach = max(scale, 1.0)
        heights = 1.0 - np.abs(pixels + 0.5 - centres[:, None]) / reach
    else:
        edges = start + np.arange(size + 1) * extent / size
        heights = np.minimum(edges[1:, None], pixels + 1.0) - np.maximum(edges[:-1, None], pixels)
    under = heights > 0.0
    return _cut(pixels, under, np.where(under, heights, 0.0))


def _cut(pixels: Array, under: Array, heights: Array) -> tuple[Array, Array]:
    """Cut windows of one length out of a table with a row for each output position, a column for each pixel."""
    counts = under.sum(1)
    taps = int(counts.max())
    first = np.minimum(under.argmax(1), len(pixels) - taps)
    columns = first[:, None] + np.arange(taps)
    cut = np.take_along_axis(heights, columns, 1)
    totals = np.zeros(len(first))
    for k in range(taps):  # one by one: numpy's sum adds in another order
        totals += cut[:, k]
    return pixels[first], cut / totals[:, None]


def warp_image(
    image: Array,
    matrix: Array,
    size: tuple[int, int],
    kind: Taps,
    fill: Array,
    dtype: Any,
) -> Array:
    """Warp an image by an affine map.

    Args:
        image: ``(H, W, C)``.
        matrix: Six numbers that lead from an output pixel to the source; see `warp`.
        size: Height and width of the result.
        kind: ``"nearest"`` or ``"bilinear"``.
        fill: What is outside, one number for each channel.
        dtype: float32 or float64, in which pixels are computed.

    Returns:
        ``(*size, C)`` of that dtype, not rounded.
    """
    height, width = image.shape[:2]
    y, x = np.indices(size, np.float64)
    with np.errstate(all="ignore"):
        u = _bound(matrix[0] * x + (matrix[1] * y + matrix[2]), width)
        v = _bound(matrix[3] * x + (matrix[4] * y + matrix[5]), height)
    outside = np.asarray(fill, dtype)
    # A border of fill, wide enough for all that is outside.
    padded = np.empty((height + 6, width + 6, image.shape[2]), dtype)
    padded[...] = outside
    padded[3:-3, 3:-3] = image
    if kind == "nearest":
        rows, columns = (np.floor(at + 0.5).astype(np.int64) + 3 for at in (v, u))
        return padded[rows, columns]
    left, top = np.floor(u), np.floor(v)
    fu, fv = u - left, v - top
    columns, rows = left.astype(np.int64) + 3, top.astype(np.int64) + 3
    total = np.zeros((*size, image.shape[2]), dtype)
    corners = [(1.0 - fu) * (1.0 - fv), fu * (1.0 - fv), (1.0 - fu) * fv, fu * fv]
    with np.errstate(all="ignore"):
        for k, weight in enumerate(corners):
            product = padded[rows + k // 2, columns + k % 2] * weight.astype(dtype)[..., None]
            total = product if k == 0 else total + product
    nowhere = (left < -1) | (left >= width) | (top < -1) | (top >= height)
    return np.where(nowhere[..., None], outside, total)


def _bound(position: Array, length: int) -> Array:
    position = np.where(position > -2.0, position, -2.0)
    return np.where(position < length + 1.0, position, length + 1.0)
