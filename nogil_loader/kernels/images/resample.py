"""Rows of resized images, made from the tables of `taps`.

A row is made in two steps: its source rows are blended into a line of floats, only the columns that are needed,
which is vectorised over contiguous memory; then the line is mixed horizontally into a planar row ``(C, W)``. All
scratch stays in the first-level cache. Sums run over the taps in their order, each product and each sum rounded to
the dtype of the row, so that numpy gets the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable

#: So many neighbouring pixels of a row are mixed at once.
BLOCK = 4
#: Pixels are read in vectors of 8 numbers, which may reach behind the last pixel of a line.
SPARE = 8


def line_length(columns: int, channels: int) -> int:
    """Return the length of the scratch for a line of so many pixels."""
    return columns * channels + SPARE


@jitable
def blend_rows(image: Any, first: Any, weights: Any, taps: int, at: int, begin: int, line: Any) -> None:
    """Blend the source rows of a row of the resized image into a line.

    Args:
        image: The source or one of its planes, ``(H, numbers of a row)``, C-contiguous.
        first: First source row of each row of the resized image.
        weights: ``(len(first), taps or more)``, in the dtype of the line.
        taps: Source rows of a row.
        at: Which row of the resized image.
        begin: Number of a source row with which the line begins.
        line: float32 or float64, is written; just as long as needed.
    """
    top, end = first[at], begin + len(line)
    if taps == 1:
        _blend_one(image[top, begin:end], weights[at, 0], line)
    elif taps % 2 == 0:
        _blend_two(image[top, begin:end], image[top + 1, begin:end], weights[at, 0], weights[at, 1], line)
    else:
        upper, middle, lower = image[top, begin:end], image[top + 1, begin:end], image[top + 2, begin:end]
        _blend_three(upper, middle, lower, weights[at, 0], weights[at, 1], weights[at, 2], line)
    for k in range(2 + taps % 2, taps, 2):
        upper, lower = image[top + k, begin:end], image[top + k + 1, begin:end]
        _add_two(upper, lower, weights[at, k], weights[at, k + 1], line)


@jitable
def _blend_one(pixels: Any, weight: Any, line: Any) -> None:
    for i in range(len(line)):
        line[i] = line.dtype.type(pixels[i]) * weight


@jitable
def _blend_two(upper: Any, lower: Any, first: Any, second: Any, line: Any) -> None:
    for i in range(len(line)):
        line[i] = line.dtype.type(upper[i]) * first + line.dtype.type(lower[i]) * second


@jitable
def _blend_three(upper: Any, middle: Any, lower: Any, first: Any, second: Any, third: Any, line: Any) -> None:
    for i in range(len(line)):
        total = line.dtype.type(upper[i]) * first + line.dtype.type(middle[i]) * second
        line[i] = total + line.dtype.type(lower[i]) * third


@jitable
def _add_two(upper: Any, lower: Any, first: Any, second: Any, line: Any) -> None:
    for i in range(len(line)):
        total = line[i] + line.dtype.type(upper[i]) * first
        line[i] = total + line.dtype.type(lower[i]) * second


@jitable
def gather_3(line: Any, starts: Any, weights: Any, taps: int, whole: bool, row: Any) -> None:
    """Mix a line of three interleaved channels into a row.

    Args:
        line: Interleaved pixels, flat, with the spare room of `line_length`.
        starts: Where in the line the first source pixel of each column begins.
        weights: ``(taps or more, W)``, in the dtype of the line.
        taps: Source pixels of a column.
        whole: Round to the nearest integer, ties to even. Then pixels of 8 bits need no clipping as long as the
            axes have less than 2**14 taps each: rounding errors do not add up to half a level.
        row: ``(3, W)``, is written; what is written to columns of the fill has no meaning.
    """
    width = row.shape[1]
    if width < BLOCK:
        gather_many(line, starts, weights, taps, whole, row)
    elif taps == 2:
        for x in range(0, width - BLOCK, BLOCK):
            mix_pixels(3, line, starts, weights, 2, x, whole, row)
        mix_pixels(3, line, starts, weights, 2, width - BLOCK, whole, row)
    else:
        for x in range(0, width - BLOCK, BLOCK):
            mix_pixels(3, line, starts, weights, taps, x, whole, row)
        mix_pixels(3, line, starts, weights, taps, width - BLOCK, whole, row)


@jitable
def gather_4(line: Any, starts: Any, weights: Any, taps: int, whole: bool, row: Any) -> None:
    """Mix a line of four interleaved channels into a row; see `gather_3`."""
    width = row.shape[1]
    if width < BLOCK:
        gather_many(line, starts, weights, taps, whole, row)
    elif taps == 2:
        for x in range(0, width - BLOCK, BLOCK):
            mix_pixels(4, line, starts, weights, 2, x, whole, row)
        mix_pixels(4, line, starts, weights, 2, width - BLOCK, whole, row)
    else:
        for x in range(0, width - BLOCK, BLOCK):
            mix_pixels(4, line, starts, weights, taps, x, whole, row)
        mix_pixels(4, line, starts, weights, taps, width - BLOCK, whole, row)


def mix_pixels(
    channels: int, line: Any, starts: Any, weights: Any, taps: int, x: int, whole: bool, row: Any
) -> None:
    """Mix a line into the pixels ``x`` to ``x + BLOCK`` of a row.

    In a kernel this is machine code; ``channels`` has to be a literal there, ``taps`` may be one.
    """
    end = x + BLOCK
    for c in range(channels):
        _mix(line, starts[x:end], c, channels, weights[:, x:end], taps, whole, row[c, x:end])


@jitable
def gather_1(line: Any, starts: Any, weights: Any, taps: int, whole: bool, row: Any) -> None:
    """Mix a line of one channel into a row; see `gather_3`."""
    _mix(line, starts, 0, 1, weights, taps, whole, row[0])


@jitable
def gather_many(line: Any, starts: Any, weights: Any, taps: int, whole: bool, row: Any) -> None:
    """Mix a line of any number of interleaved channels into a row; see `gather_3`."""
    for c in range(row.shape[0]):
        _mix(line, starts, c, row.shape[0], weights, taps, whole, row[c])


@jitable
def _mix(
    line: Any, starts: Any, channel: int, step: int, weights: Any, taps: int, whole: bool, plane: Any
) -> None:
    if taps == 2:
        for x in range(len(plane)):
            at = starts[x] + channel
            plane[x] = line[at] * weights[0, x] + line[at + step] * weights[1, x]
    else:
        for x in range(len(plane)):
            at = starts[x] + channel
            total = line[at] * weights[0, x]
            for k in range(1, taps):
                total = total + line[at + k * step] * weights[k, x]
            plane[x] = total
    if whole:
        for x in range(len(plane)):
            plane[x] = np.rint(plane[x])


@jitable
def resize_planes(
    image: Any,
    first: Any,
    row_weights: Any,
    row_taps: int,
    at: int,
    begin: int,
    line: Any,
    starts: Any,
    weights: Any,
    taps: int,
    whole: bool,
    row: Any,
) -> None:
    """Make a row of an image with its channels first, ``(C, H, W)``.

    Arguments are those of `blend_rows` and `gather_1`, for lines of one channel.
    """
    for c in range(row.shape[0]):
        blend_rows(image[c], first, row_weights, row_taps, at, begin, line)
        _mix(line, starts, 0, 1, weights, taps, whole, row[c])


@jitable
def resize_column(
    flat: Any,
    steps: tuple[int, int, int],
    first: Any,
    row_weights: Any,
    row_taps: int,
    first_column: Any,
    column_weights: Any,
    column_taps: int,
    at: int,
    rows: Any,
    whole: bool,
    row: Any,
) -> None:
    """Make a row of an image that has been resized and then turned: a column of the resized image.

    Args:
        flat: The source, flat.
        steps: From one source row, source column and channel to the next one in it.
        first: First source row of each row of the resized image.
        row_weights: Of the source rows, ``(len(first), row_taps or more)``.
        row_taps: Source rows of a row.
        first_column: First source column of each column of the resized image.
        column_weights: Of the source columns, ``(len(first_column), column_taps or more)``.
        column_taps: Source columns of a column.
        at: Which column of the resized image.
        rows: For each pixel of the row its row of the resized image, -1 for the fill.
        whole: Round to the nearest integer; see `gather_3`.
        row: ``(C, W)``, is written, but for pixels of the fill.
    """
    down, right, deep = steps
    left = first_column[at]
    for c in range(row.shape[0]):
        for x in range(len(rows)):
            source = rows[x]
            if source >= 0:
                start = first[source] * down + left * right + c * deep
                total = row.dtype.type(0)
                for j in range(column_taps):
                    corner = start + j * right
                    blend = row.dtype.type(flat[corner]) * row_weights[source, 0]
                    for k in range(1, row_taps):
                        blend = blend + row.dtype.type(flat[corner + k * down]) * row_weights[source, k]
                    product = blend * column_weights[at, j]
                    total = product if j == 0 else total + product
                row[c, x] = np.rint(total) if whole else total


@jitable
def fill_holes(cols: Any, fill: Any, row: Any) -> None:
    """Set the pixels of a row for which ``cols`` has -1 to the fill, one number for each channel."""
    for x in range(len(cols)):
        if cols[x] < 0:
            for c in range(row.shape[0]):
                row[c, x] = fill[c]
