"""Arguments of transforms, checked when one is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.errors import describe

# A longer image is a mistake (bytes for pixels, say). Positions in float64 are exact far beyond.
_LONGEST = 1 << 24


def as_number(name: str, value: Any, *, least: float = -math.inf, most: float = math.inf) -> float:
    """Return ``value`` as a finite float.

    Args:
        name: ``"Transform.argument"``.
        value: What the caller passed.
        least: The smallest value that is allowed.
        most: The largest.

    Raises:
        TypeError: It is not a real number, or is a bool.
        ValueError: It is not finite or out of range.
    """
    allowed = _allowed(least, most)
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}={describe(value, 200)}: expected {allowed}, not {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number) or not least <= number <= most:
        raise ValueError(f"{name}={describe(value, 200)}: expected {allowed}")
    return number


def as_chance(name: str, value: Any) -> float:
    """Return ``value`` as a probability.

    Raises:
        TypeError: It is not a real number.
        ValueError: It is not from 0 to 1.
    """
    return as_number(name, value, least=0.0, most=1.0)


def as_pair(name: str, value: Any, *, least: int = 1) -> tuple[int, int]:
    """Return a number of pixels, or a pair (height, width) of them, as a pair.

    Raises:
        TypeError: It is neither.
        ValueError: A number is out of range, or there are not two.
    """
    if is_sequence(value):
        if len(value) != 2:
            raise ValueError(f"{name}={describe(value, 200)}: expected one number or (height, width)")
        first, second = value
    else:
        first = second = value
    return (
        as_count(name, first, least=least, most=_LONGEST),
        as_count(name, second, least=least, most=_LONGEST),
    )


def as_range(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    around: float | None = None,
) -> tuple[float, float]:
    """Return a pair (low, high) of floats.

    Args:
        name: ``"Transform.argument"``.
        value: A pair, or one number.
        least: The smallest value that is allowed.
        most: The largest.
        around: What one number v means: (around - v, around + v), not below ``least``. None: (v, v).

    Raises:
        TypeError: It is neither a number nor a pair.
        ValueError: A number is out of range, or the low one is above the high one.
    """
    if is_sequence(value):
        if len(value) != 2:
            raise ValueError(f"{name}={describe(value, 200)}: expected one number or (low, high)")
        low, high = (as_number(name, each, least=least, most=most) for each in value)
    elif around is None:
        low = high = as_number(name, value, least=least, most=most)
    else:
        reach = as_number(name, value, least=0.0)
        low, high = max(around - reach, least), min(around + reach, most)
    if low > high:
        raise ValueError(f"{name}={describe(value, 200)}: expected (low, high) with low ≤ high")
    return low, high


def as_numbers(
    name: str, value: Any, *, least: float = -math.inf, most: float = math.inf
) -> tuple[float, ...]:
    """Return one number or a sequence of them as a tuple of floats, at least one.

    Raises:
        TypeError: It is neither.
        ValueError: It is empty, or a number is not finite or out of range.
    """
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.reshape(-1).tolist()
    if is_sequence(value):
        if not len(value):
            raise ValueError(f"{name}={describe(value, 200)}: expected at least one number")
        return tuple(as_number(name, each, least=least, most=most) for each in value)
    return (as_number(name, value, least=least, most=most),)


def as_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of the strings allowed.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(value, str) or value not in allowed:
        expected = " or ".join(repr(each) for each in allowed)
        raise ValueError(f"{name}={describe(value, 200)}: expected {expected}")
    return value


def settle(transform: Any, **values: Any) -> None:
    """Store checked arguments in a frozen dataclass, in its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(transform, name, value)


def is_sequence(value: Any) -> TypeGuard[Any]:
    """Whether it has several items, unlike text, and unlike an array without axes, which is a number."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _allowed(least: float, most: float) -> str:
    if math.isinf(least) and math.isinf(most):
        return "a finite number"
    if math.isinf(most):
        return f"a finite number ≥ {least:g}"
    if math.isinf(least):
        return f"a finite number ≤ {most:g}"
    return f"a number from {least:g} to {most:g}"
