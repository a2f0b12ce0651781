"""Checks of the arrays and values that transforms of anything but images accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nogil_loader.errors import describe
from nogil_loader.transforms.spec import Spec

#: Limits of the integers that float64, in which constants reach a kernel, holds exactly.
EXACT = 1 << 53

_TOLD = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats"}


def as_value(name: str, value: Any) -> int | float:
    """Return ``value``, which elements of an array are to be set to, as a plain int or float.

    NaN and infinities are allowed.

    Raises:
        TypeError: It is not a real number, or is a bool.
        ValueError: It is an integer that float64 cannot hold.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}={describe(value, 200)}: expected a number, not {type(value).__name__}")
    if isinstance(value, float | np.floating):
        return float(value)
    whole = int(value)
    if abs(whole) > EXACT and (abs(whole) >= 1 << 64 or int(float(whole)) != whole):
        raise ValueError(
            f"{name}={whole}: expected an integer that float64 holds exactly, up to 2**53 for sure"
        )
    return whole


def check_fit(who: object, name: str, values: Sequence[int | float], dtype: np.dtype[Any]) -> None:
    """Check that elements of ``dtype`` can be set to ``values``.

    Raises:
        ValueError: One of them is no whole number or out of range; the message names the transform ``who``.
    """
    if dtype.kind == "f":
        return
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value in values:
        if not math.isfinite(value) or int(value) != value or not low <= int(value) <= high:
            raise ValueError(f"{who}: {name} {value!r} does not fit arrays of {dtype}, {low} to {high}")


def expect(who: object, spec: Spec, kinds: str, *, axes: int | None = None, what: str = "an array") -> None:
    """Check what comes into a transform.

    Args:
        who: The transform, for the message.
        spec: What comes in.
        kinds: Kinds of dtype that are allowed, as numpy abbreviates them: some of ``"biuf"``.
        axes: How many axes, None for at least one.
        what: What is expected, for the message: "a sequence (L,)".

    Raises:
        ValueError: The array has another dtype or another number of axes.
    """
    if spec.dtype.kind not in kinds:
        told = ", ".join(_TOLD[kind] for kind in kinds)
        raise ValueError(f"{who}: {spec.dtype} is not supported; expected {what} of {told}")
    if not spec.shape or (axes is not None and len(spec.shape) != axes):
        raise ValueError(f"{who}: expected {what}, not an array of shape {spec.shape}")
