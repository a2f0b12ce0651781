"""Argument checks whose messages name the argument, show the value and say what is allowed."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from nogil_loader.errors import describe

# A mistaken argument may be a whole array; its beginning is enough to recognise it by.
_SHOWN_CHARACTERS = 200


def as_count(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return ``value`` as a plain int.

    numpy integers (and whatever else has ``__index__``) are accepted. bool is refused although it is an int:
    ``batch_size=True`` is always a mistake. Floats are refused although ``2.0`` would convert.

    Raises:
        TypeError: ``value`` is not an integer.
        ValueError: ``value`` is below ``least`` or above ``most``.
    """
    allowed = f"an integer ≥ {least}" if most is None else f"an integer from {least} to {most}"
    if _is_bool(value):
        raise TypeError(f"{_shown(name, value)}: expected {allowed}, not a bool")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{_shown(name, value)}: expected {allowed}, not {type(value).__name__}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{_shown(name, value)}: expected {allowed}")
    return count


def as_seconds(name: str, value: Any) -> float:
    """Return ``value`` as a finite number of seconds, 0 or more.

    Raises:
        TypeError: ``value`` is not a real number, or is a bool.
        ValueError: ``value`` is negative, infinite or NaN.
    """
    if _is_bool(value):
        raise TypeError(f"{_shown(name, value)}: expected seconds ≥ 0, not a bool")
    try:
        # float() reads text and bytes as well, where a string is more likely a forgotten conversion.
        seconds = None if isinstance(value, str | bytes | bytearray) else float(value)
    except OverflowError:
        seconds = math.inf
    except (TypeError, ValueError):
        seconds = None
    if seconds is None:
        raise TypeError(f"{_shown(name, value)}: expected seconds ≥ 0, not {type(value).__name__}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{_shown(name, value)}: expected a finite number of seconds ≥ 0")
    return seconds


def as_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool.

    Raises:
        TypeError: ``value`` is neither a bool nor numpy's bool.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{_shown(name, value)}: expected True or False, not {type(value).__name__}")
    return bool(value)


def _is_bool(value: Any) -> bool:
    # By the name of the dtype for arrays and tensors: torch.tensor(True) has an __index__.
    return isinstance(value, bool | np.bool_) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def _shown(name: str, value: Any) -> str:
    return f"{name}={describe(value, _SHOWN_CHARACTERS)}"
