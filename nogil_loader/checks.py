"""Argument checks whose messages name the argument, show the value and say what is allowed."""

from __future__ import annotations

import math
import operator
from typing import Any


def as_count(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return ``value`` as a plain int.

    numpy integers (and whatever else has ``__index__``) are accepted. bool is refused although it is an int:
    ``batch_size=True`` is always a mistake. Floats are refused although ``2.0`` would convert.

    Raises:
        TypeError: ``value`` is not an integer.
        ValueError: ``value`` is below ``least`` or above ``most``.
    """
    allowed = f"an integer ≥ {least}" if most is None else f"an integer from {least} to {most}"
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise TypeError(f"{name}={value!r}: expected {allowed}, not a bool")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: expected {allowed}, not {type(value).__name__}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{name}={value!r}: expected {allowed}")
    return count


def as_seconds(name: str, value: Any) -> float:
    """Return ``value`` as a finite number of seconds, 0 or more.

    Raises:
        TypeError: ``value`` is not a real number, or is a bool.
        ValueError: ``value`` is negative, infinite or NaN.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected seconds ≥ 0, not a bool")
    try:
        seconds = float(value) if not isinstance(value, str) else None
    except (TypeError, ValueError):
        seconds = None
    if seconds is None:
        raise TypeError(f"{name}={value!r}: expected seconds ≥ 0, not {type(value).__name__}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{name}={value!r}: expected a finite number of seconds ≥ 0")
    return seconds


def as_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool.

    Raises:
        TypeError: ``value`` is neither a bool nor numpy's bool.
    """
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{name}={value!r}: expected True or False, not {type(value).__name__}")
