"""Colours of a row of pixels ``(C, W)``, changed in place.

Loops have no branches, only choices between two values, so that they become vector instructions. Arithmetic is
in the dtype of the row, float32 or float64, and constants are made of that dtype: numba takes a Python float for
float64, and one float64 in an expression makes all of it float64.

NaN stays NaN: what chooses between two values does not depend on a comparison with NaN being false.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable

# ITU-R BT.601, with as many digits as torchvision has.
RED: Final = 0.2989
GREEN: Final = 0.587
BLUE: Final = 0.114


@jitable
def scale(row: Any, factor: float) -> None:
    """Multiply all channels."""
    values = row.reshape(-1)
    by = row.dtype.type(factor)
    for x in range(len(values)):
        values[x] = values[x] * by


@jitable
def to_luma(row: Any) -> None:
    """Set the first channel of a row of three to its luma."""
    red, green, blue = row[0], row[1], row[2]
    of_red, of_green, of_blue = row.dtype.type(RED), row.dtype.type(GREEN), row.dtype.type(BLUE)
    for x in range(len(red)):
        red[x] = red[x] * of_red + green[x] * of_green + blue[x] * of_blue


@jitable
def repeat_first(row: Any) -> None:
    """Copy the first channel to all others."""
    first = row[0]
    for c in range(1, row.shape[0]):
        other = row[c]
        for x in range(len(first)):
            other[x] = first[x]


@jitable
def blend_with_luma(row: Any, factor: float) -> None:
    """Move the three channels away from their luma: 0 gives grey, 1 what was there, 2 doubles the distance."""
    red, green, blue = row[0], row[1], row[2]
    of_red, of_green, of_blue = row.dtype.type(RED), row.dtype.type(GREEN), row.dtype.type(BLUE)
    by, rest = row.dtype.type(factor), row.dtype.type(1.0 - factor)
    for x in range(len(red)):
        r, g, b = red[x], green[x], blue[x]
        grey = (r * of_red + g * of_green + b * of_blue) * rest
        red[x] = r * by + grey
        green[x] = g * by + grey
        blue[x] = b * by + grey


@jitable
def turn_hue(row: Any, turns: float) -> None:
    """Turn the hue of the three channels; brightness (the largest channel) and chroma stay.

    The hue is found as for HSV, in sextants of the circle: between which two of the primary colours the pixel
    lies, and where. What each channel is at the new hue then follows from its distance to its primary colour.
    """
    red, green, blue = row[0], row[1], row[2]
    zero, one, two = row.dtype.type(0.0), row.dtype.type(1.0), row.dtype.type(2.0)
    three, four, six = row.dtype.type(3.0), row.dtype.type(4.0), row.dtype.type(6.0)
    shift = row.dtype.type(6.0 * (turns - math.floor(turns)))
    for x in range(len(red)):
        r, g, b = red[x], green[x], blue[x]
        most = r if r > g else g
        most = most if most > b else b
        # The other way around than above: then NaN in red or blue reaches the spread, in green the hue.
        least = b if b < g else g
        least = least if least < r else r
        spread = most - least
        divisor = one if spread == zero else spread
        from_red, from_green, from_blue = g - b, b - r, r - g
        distance = from_green if g == most else from_blue
        sextant = two if g == most else four
        distance = from_red if r == most else distance
        sextant = zero if r == most else sextant
        hue = sextant + distance / divisor + shift
        hue = hue + six if hue < zero else hue
        hue = hue - six if hue >= six else hue
        in_red = abs(hue - three) - one
        in_green = two - abs(hue - two)
        in_blue = two - abs(hue - four)
        in_red = zero if in_red < zero else in_red
        in_green = zero if in_green < zero else in_green
        in_blue = zero if in_blue < zero else in_blue
        red[x] = least + spread * (one if in_red > one else in_red)
        green[x] = least + spread * (one if in_green > one else in_green)
        blue[x] = least + spread * (one if in_blue > one else in_blue)


@jitable
def invert_from(row: Any, threshold: float, white: float) -> None:
    """Replace values of ``threshold`` and above by what they are short of white."""
    values = row.reshape(-1)
    bound, top = row.dtype.type(threshold), row.dtype.type(white)
    for x in range(len(values)):
        value = values[x]
        values[x] = top - value if value >= bound else value


@jitable
def round_down(row: Any, step: float) -> None:
    """Round down to multiples of ``step``, a power of 2."""
    values = row.reshape(-1)
    size, inverse = row.dtype.type(step), row.dtype.type(1.0 / step)
    for x in range(len(values)):
        values[x] = np.floor(values[x] * inverse) * size
