"""How much of something a sample gets: one number, drawn from a range, for some samples or for all."""

from __future__ import annotations

from typing import Any

from nogil_loader.kernels.compiler.jit import jitable


@jitable
def draw_amount(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw from a range.

    ``numbers`` begin with the probability that the sample gets anything, the range's low and high end, and the
    amount that leaves an image as it is.
    """
    drawn[0] = numbers[3]
    if uniforms[0] < numbers[0]:
        amount = numbers[1] + uniforms[1] * (numbers[2] - numbers[1])
        # The product may be rounded up to the whole range, and the sum beyond its end.
        drawn[0] = amount if amount < numbers[2] else numbers[2]
