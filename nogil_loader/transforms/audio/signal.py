"""What the transforms of signals have in common: time is the last axis, integers are computed in float32."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nogil_loader.transforms.accept import expect
from nogil_loader.transforms.spec import Spec

#: e to the power of (decibels times this) is 10 to the power of (decibels / 20). A power of 10 would not do: some
#: compilers make exp10 of it, which has other last bits.
NEPERS: Final = math.log(10) / 20
#: A factor of 10**10. What goes beyond is a mistake, and 770 dB overflow float32.
MOST_DECIBELS: Final = 200.0
# Integers of which float32 holds every one.
_INTEGERS = (np.dtype(np.int16), np.dtype(np.int8))


def expect_signal(who: object, spec: Spec) -> None:
    """Check that an array is a signal.

    Raises:
        ValueError: It is not float32, float64, int16 or int8, has no axis or no items.
    """
    told = "a signal (T,), (C, T) or (…, T)"
    if spec.dtype.kind != "f" and spec.dtype not in _INTEGERS:
        raise ValueError(f"{who}: {spec.dtype} is not supported; expected {told} of floats, int16 or int8")
    expect(who, spec, "fi", what=told)
    if not math.prod(spec.shape):
        raise ValueError(f"{who}: expected {told}, not an empty one: {spec}")


def working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which a signal is computed."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def limits(spec: Spec) -> tuple[float, float]:
    """Return the smallest and the largest value of a signal's dtype, infinities for floats."""
    return spec.limits() or (-math.inf, math.inf)


def one_row(spec: Spec) -> tuple[int, int]:
    """Return the scratch of a step that needs a float32 for each item that comes in."""
    return math.prod(spec.shape), 0
