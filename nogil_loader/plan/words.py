"""What stands for a dataset key wherever random numbers are drawn for its sample."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

_WORD = 2**64 - 1


def word_of(key: Hashable) -> int:
    """Return 64 bits for a key; for keys that are no integers, a hash that is the same in every process."""
    if isinstance(key, (int, np.integer)):
        return int(key) & _WORD
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
