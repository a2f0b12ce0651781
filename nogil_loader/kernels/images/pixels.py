"""Rows of pixels: read from an image into a planar buffer, changed there, written to an image.

A row buffer is C-contiguous ``(C, W)``, float32 or float64, and small enough for the first-level cache. Which
pixel of the source goes where is told by tables of rows and columns, -1 for what is outside. The loops over the
channels of interleaved pixels are written out for 1, 3 and 4 of them, because a stride that is not a constant
is not vectorised. Neither is an index that might be negative, for all that the compiler knows, since numba
counts such ones from the end: so the loops run over slices from 0, or backwards in unsigned numbers (measured:
7 against 15 us for 112 rows of 112 pixels).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.jit import inlined, jitable

#: So many pixels are taken apart or put together at once: as many as a vector of 512 bits has float32.
BLOCK = 16


@jitable
def count_up(table: Any) -> None:
    """Fill a table with its own positions: what nothing has moved."""
    for i in range(len(table)):
        table[i] = i


@jitable
def follow(
    rows: Any, cols: Any, turned: int, step_rows: Any, step_cols: Any, new_rows: Any, new_cols: Any
) -> None:
    """Say where the output of a step comes from, given where its input comes from.

    Args:
        rows: For each row of the step's input, where it is in the source.
        cols: The same for its columns.
        turned: Whether the step takes its input's columns for rows.
        step_rows: For each row of the step's output, where it is in the step's input.
        step_cols: The same for columns.
        new_rows: Is set to where each row of the step's output is in the source.
        new_cols: The same for columns.
    """
    for y in range(len(new_rows)):
        at = step_rows[y]
        new_rows[y] = -1 if at < 0 else (cols[at] if turned else rows[at])
    for x in range(len(new_cols)):
        at = step_cols[x]
        new_cols[x] = -1 if at < 0 else (rows[at] if turned else cols[at])


@jitable
def run_of(table: Any) -> int:
    """Tell whether positions rise by 1 each (1), fall by 1 each (-1), or anything else (0)."""
    last = len(table) - 1
    if last < 0 or table[0] < 0 or table[last] < 0:
        return 0
    step = 1 if last == 0 else table[1] - table[0]
    if step not in (1, -1):
        return 0
    for i in range(len(table)):
        if table[i] != table[0] + i * step:
            return 0
    return step


@inlined
def fill_row(row: Any, fill: Any) -> None:
    """Set each channel of a row to its value of ``fill``."""
    for c in range(row.shape[0]):
        value = row.dtype.type(fill[c])
        for x in range(row.shape[1]):
            row[c, x] = value


@inlined
def load_1(line: Any, cols: Any, run: int, fill: Any, row: Any) -> None:
    """Load a row of an image with one channel.

    Args:
        line: The row in the source, flat.
        cols: For each pixel of the row its column in the source, -1 for the fill.
        run: What `run_of` says of ``cols``.
        fill: Pixel value outside the source.
        row: ``(C, W)``, is written.
    """
    width = row.shape[1]
    plane = row[0]
    if run == 1:
        part = line[cols[0] : cols[0] + width]
        for x in range(width):
            plane[x] = part[x]
    elif run == -1:
        part = line[cols[width - 1] : cols[0] + 1]
        last = np.uint64(width - 1)
        for x in range(width):
            plane[last - np.uint64(x)] = part[x]
    else:
        load_many(line, cols, run, fill, row)


@inlined
def load_3(line: Any, cols: Any, run: int, fill: Any, row: Any) -> None:
    """Load a row of an image with three interleaved channels; arguments as of `load_1`."""
    width = row.shape[1]
    if run == 0 or width < BLOCK:
        load_many(line, cols, run, fill, row)
    elif run == 1:
        low = 3 * cols[0]
        for x in range(0, width - BLOCK, BLOCK):
            load_block(3, line, low + 3 * x, False, row, x)
        load_block(3, line, low + 3 * (width - BLOCK), False, row, width - BLOCK)
    else:
        low = 3 * cols[width - 1]
        for x in range(0, width - BLOCK, BLOCK):
            load_block(3, line, low + 3 * x, True, row, width - BLOCK - x)
        load_block(3, line, low + 3 * (width - BLOCK), True, row, 0)


@inlined
def load_4(line: Any, cols: Any, run: int, fill: Any, row: Any) -> None:
    """Load a row of an image with four interleaved channels; arguments as of `load_1`."""
    width = row.shape[1]
    if run == 0 or width < BLOCK:
        load_many(line, cols, run, fill, row)
    elif run == 1:
        low = 4 * cols[0]
        for x in range(0, width - BLOCK, BLOCK):
            load_block(4, line, low + 4 * x, False, row, x)
        load_block(4, line, low + 4 * (width - BLOCK), False, row, width - BLOCK)
    else:
        low = 4 * cols[width - 1]
        for x in range(0, width - BLOCK, BLOCK):
            load_block(4, line, low + 4 * x, True, row, width - BLOCK - x)
        load_block(4, line, low + 4 * (width - BLOCK), True, row, 0)


def load_block(channels: int, line: Any, at: int, backwards: bool, row: Any, x: int) -> None:
    """Load a block of interleaved pixels into a row; in a kernel this is machine code.

    Args:
        channels: 3 or 4, a literal.
        line: Pixels, flat.
        at: Where in the line the block begins.
        backwards: Whether the block is mirrored, a literal.
        row: ``(C, W)``, is written.
        x: Where in the row the block goes.
    """
    for c in range(channels):
        values = line[at + c : at + channels * BLOCK : channels]
        row[c, x : x + BLOCK] = values[::-1] if backwards else values


@jitable
def load_many(line: Any, cols: Any, run: int, fill: Any, row: Any) -> None:
    """Load a row of an image with any number of interleaved channels; arguments as of `load_1`."""
    channels, width = row.shape
    for c in range(channels):
        for x in range(width):
            at = cols[x]
            row[c, x] = fill[c] if at < 0 else line[at * channels + c]


@inlined
def load_planes(image: Any, at_row: int, cols: Any, run: int, fill: Any, row: Any) -> None:
    """Load a row of an image with its channels first."""
    channels, width = row.shape
    for c in range(channels):
        line = image[c][at_row]
        plane = row[c]
        if run == 1:
            part = line[cols[0] : cols[0] + width]
            for x in range(width):
                plane[x] = part[x]
        else:
            outside = row.dtype.type(fill[c])
            for x in range(width):
                at = cols[x]
                plane[x] = outside if at < 0 else row.dtype.type(line[at])


@jitable
def load_column(image: Any, at_col: int, rows: Any, fill: Any, row: Any) -> None:
    """Load a column of an image with its channels last into a row."""
    channels, width = row.shape
    for x in range(width):
        at = rows[x]
        for c in range(channels):
            row[c, x] = fill[c] if at < 0 else image[at, at_col, c]


@jitable
def load_plane_columns(image: Any, at_col: int, rows: Any, fill: Any, row: Any) -> None:
    """Load a column of an image with its channels first into a row."""
    channels, width = row.shape
    for x in range(width):
        at = rows[x]
        for c in range(channels):
            row[c, x] = fill[c] if at < 0 else image[c, at, at_col]


@jitable
def load_scattered(flat: Any, places: Any, steps: tuple[int, int, int], fill: Any, row: Any) -> None:
    """Load pixels from anywhere in an image.

    Args:
        flat: The source, flat.
        places: For each pixel of the row its number in the source, row by row, -1 for the fill.
        steps: From one source row, source column and channel to the next one in ``flat``.
        fill: Pixel value outside the source.
        row: ``(C, W)``, is written.
    """
    right, deep = steps[1], steps[2]
    for x in range(row.shape[1]):
        at = places[x]
        for c in range(row.shape[0]):
            row[c, x] = fill[c] if at < 0 else flat[np.uint64(at * right + c * deep)]


@inlined
def saturate(row: Any, low: float, high: float) -> None:
    """Round to the nearest integer, ties to even, and clip; NaN becomes 0."""
    least, most, zero = row.dtype.type(low), row.dtype.type(high), row.dtype.type(0)
    for c in range(row.shape[0]):
        plane = row[c]
        for x in range(len(plane)):
            value = np.rint(plane[x])
            value = value if value == value else zero
            value = value if value > least else least
            plane[x] = value if value < most else most


@inlined
def store_1(row: Any, line: Any) -> None:
    """Store a row into an image with one channel; ``line`` is the row in the target, flat."""
    plane = row[0]
    for x in range(len(plane)):
        line[x] = plane[x]


@inlined
def store_3(row: Any, line: Any) -> None:
    """Store a row into an image with three interleaved channels."""
    width = row.shape[1]
    if width < BLOCK:
        store_many(row, line)
        return
    for x in range(0, width - BLOCK, BLOCK):
        store_block(3, row, x, line, 3 * x)
    store_block(3, row, width - BLOCK, line, 3 * (width - BLOCK))


@inlined
def store_4(row: Any, line: Any) -> None:
    """Store a row into an image with four interleaved channels."""
    width = row.shape[1]
    if width < BLOCK:
        store_many(row, line)
        return
    for x in range(0, width - BLOCK, BLOCK):
        store_block(4, row, x, line, 4 * x)
    store_block(4, row, width - BLOCK, line, 4 * (width - BLOCK))


def store_block(channels: int, row: Any, x: int, line: Any, at: int) -> None:
    """Store a block of a row as interleaved pixels; in a kernel this is machine code.

    Args:
        channels: 3 or 4, a literal.
        row: ``(C, W)``.
        x: Where in the row the block begins.
        line: Pixels, flat, is written.
        at: Where in the line the block goes.
    """
    for c in range(channels):
        line[at + c : at + channels * BLOCK : channels] = row[c, x : x + BLOCK]


@jitable
def store_many(row: Any, line: Any) -> None:
    """Store a row into an image with any number of interleaved channels."""
    channels, width = row.shape
    for x in range(width):
        for c in range(channels):
            line[x * channels + c] = row[c, x]


@inlined
def store_planes(row: Any, image: Any, y: int) -> None:
    """Store a row into an image with its channels first."""
    for c in range(row.shape[0]):
        plane, line = row[c], image[c][y]
        for x in range(len(plane)):
            line[x] = plane[x]


@inlined
def scale_and_shift(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Scale and shift each channel of a row: ``numbers`` has all the scales, then all the shifts."""
    channels, width = row.shape
    for c in range(channels):
        plane = row[c]
        scale, shift = row.dtype.type(numbers[c]), row.dtype.type(numbers[channels + c])
        for x in range(width):
            plane[x] = plane[x] * scale + shift


@inlined
def store_planes_scaled(row: Any, image: Any, y: int, numbers: Any) -> None:
    """Do `scale_and_shift` and `store_planes` in one go."""
    channels = row.shape[0]
    for c in range(channels):
        plane, line = row[c], image[c][y]
        scale, shift = row.dtype.type(numbers[c]), row.dtype.type(numbers[channels + c])
        for x in range(len(plane)):
            line[x] = plane[x] * scale + shift


@jitable
def clear(target: Any) -> None:
    """Fill a contiguous array with zeros."""
    places = target.reshape(-1)
    for i in range(len(places)):
        places[i] = 0


@jitable
def copy_array(source: Any, target: Any) -> None:
    """Copy one contiguous array into another of the same size."""
    values, places = source.reshape(-1), target.reshape(-1)
    for i in range(len(values)):
        places[i] = values[i]
