"""What a loader does when something goes wrong: frozen values, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.errors import describe


@dataclass(frozen=True)
class FailurePolicy:
    """How often a failing batch is tried again, and how many samples may be left out.

    Args:
        rebuild: How many times one batch is loaded again on a rebuilt worker before giving up on it. 0 raises
            at the first failure.
        skip: How many failing samples of an epoch may be left out once ``rebuild`` is used up: a count (int)
            or a share of the epoch's samples (float below 1, rounded up). Every sample left out is recorded.

    Raises:
        TypeError: A field is not a number, or is a bool.
        ValueError: A field is out of range.
    """

    rebuild: int = 0
    skip: int | float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rebuild", as_count("FailurePolicy.rebuild", self.rebuild, least=0))
        if isinstance(self.skip, float | np.floating):
            share = float(self.skip)
            if not 0.0 <= share < 1.0:
                raise ValueError(
                    f"FailurePolicy.skip={share!r}: a float is a share of the samples, from 0.0 up to but "
                    f"not including 1.0; a count is an int"
                )
            object.__setattr__(self, "skip", share)
        else:
            object.__setattr__(self, "skip", as_count("FailurePolicy.skip", self.skip, least=0))

    def skip_allowance(self, planned: int) -> int:
        """How many samples out of ``planned`` may be left out; by a share, never all of them."""
        if isinstance(self.skip, int):
            return self.skip
        # Of the decimal that was written: in binary, 7 % of 100 is a little more than 7 and would round up.
        return min(math.ceil(Fraction(repr(self.skip)) * planned), max(planned - 1, 0))

    @classmethod
    def of(cls, value: FailurePolicy | str) -> FailurePolicy:
        """Resolve the shorthand ``"raise"``, ``"rebuild"`` or ``"skip"``; a policy is returned as it is.

        Raises:
            ValueError: The string is none of the shorthands.
            TypeError: ``value`` is neither a string nor a policy.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(
                f"on_failure={describe(value, 200)}: expected 'raise', 'rebuild', 'skip' or a FailurePolicy, "
                f"not {type(value).__name__}"
            )
        try:
            return _SHORTHANDS[value]
        except KeyError:
            raise ValueError(
                f"on_failure={describe(value, 200)}: expected 'raise', 'rebuild', 'skip' or a FailurePolicy"
            ) from None


_SHORTHANDS = {
    "raise": FailurePolicy(),
    "rebuild": FailurePolicy(rebuild=3),
    "skip": FailurePolicy(rebuild=1, skip=0.001),
}
