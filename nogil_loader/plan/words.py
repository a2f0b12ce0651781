"""What stands for a dataset key wherever random numbers are drawn for its sample."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

_WORD = 2**64 - 1


def word_of(key: Hashable) -> int:
    """Return 64 bits for a key: an integer's own if it has no more, else a hash of how the key prints."""
    if isinstance(key, (int, np.integer)) and -(2**63) <= int(key) <= _WORD:
        return int(key) & _WORD
    if isinstance(key, str):
        key = str(key)  # numpy's strings are equal to Python's, but print otherwise
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")
