"""What tests of random numbers measure them by: a generator in Python's integers, and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def reference(counter: Sequence[int], key: int) -> list[int]:
    """Philox4x32-10 in Python's integers."""
    low, high = key % 2**32, key >> 32
    c = list(counter)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ low, right % 2**32, left >> 32 ^ c[3] ^ high, left % 2**32]
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return c


def reference_key(seed: int, epoch: int) -> int:
    """The epoch key as it is documented."""
    words = [int.from_bytes(text, "big") for text in (b"augm", b"ents")]
    first, second, *_ = reference([epoch % 2**32, epoch % 2**64 >> 32, *words], seed % 2**64)
    return first | second << 32


def assert_independent(a: Any, b: Any) -> None:
    """Neither correlation nor a chi-square over a grid tells two rows of uniform numbers from independent ones."""
    assert abs(np.corrcoef(a, b)[0, 1]) * len(a) ** 0.5 < 5
    assert abs(excess(np.histogram2d(a, b, 16, [[0, 1], [0, 1]])[0])) < 5


def excess(counts: Any) -> float:
    """How many standard deviations chi-square lies above what equally likely bins give."""
    expected = counts.sum() / counts.size
    degrees = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - degrees) / (2 * degrees) ** 0.5)
