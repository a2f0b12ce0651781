"""64-bit mixing on numpy integers: how seeds, epochs and keys become bits that look random.

numpy's own random streams may change between its versions, and a saved position of an epoch must stay valid
for years. What is here depends on nothing but 64-bit multiplication, so the same input gives the same bits on
every platform and with every numpy.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

UInt64Array: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

MASK64 = (1 << 64) - 1

# The odd integer nearest to 2**64 / golden ratio: consecutive multiples of it are spread evenly over 64 bits
# (the increment of SplitMix64, Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
GOLDEN = 0x9E3779B97F4A7C15

# Stafford's "variant 13" of MurmurHash3's 64-bit finaliser, the one that SplitMix64 uses.
MULTIPLIER = 0xBF58476D1CE4E5B9
_SECOND_MULTIPLIER = 0x94D049BB133111EB


def mix(value: int) -> int:
    """Return a bijective scrambling of a 64-bit integer; higher bits of ``value`` are ignored."""
    value &= MASK64
    value = ((value ^ (value >> 30)) * MULTIPLIER) & MASK64
    value = ((value ^ (value >> 27)) * _SECOND_MULTIPLIER) & MASK64
    return value ^ (value >> 31)


def mix_array(values: UInt64Array) -> UInt64Array:
    """Return ``mix`` of every element, as a new array.

    Args:
        values: Array of any shape, uint64.
    """
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(MULTIPLIER)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND_MULTIPLIER)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def derive_keys(seed: int, epoch: int, count: int) -> list[int]:
    """Return ``count`` 64-bit keys of (seed, epoch); neighbouring seeds and epochs share nothing visible."""
    # Mixing between the two keeps (seed, epoch + 1) and (seed + 1, epoch) apart.
    state = mix(mix(seed + GOLDEN) + epoch * GOLDEN)
    return [mix(state + step * GOLDEN) for step in range(1, count + 1)]
