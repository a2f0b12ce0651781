"""A fingerprint of which key stood at which position, independent of the order in which it was learnt."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from nogil_loader.errors import describe
from nogil_loader.plan.mixing import GOLDEN, MASK64, UInt64Array, mix_array

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class KeyDigest:
    """A 64-bit sum, modulo 2**64, of one hash per (position, key).

    A sum does not care in which order its terms come, so keys of batches that were received out of order
    count at once, and nothing has to be kept until a gap is closed (the additive multiset hash of Bellare and
    Micciancio, 1997). It finds mistakes, such as a sampler that shuffles anew; it does not stop a forger.
    """

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"KeyDigest({self.hex()!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDigest) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]  # mutable

    def hex(self) -> str:
        """Return the value as 16 hexadecimal digits."""
        return f"{self.value:016x}"

    def add(self, start: int, keys: Sequence[Any]) -> None:
        """Count ``keys``, which stood at position ``start`` and after."""
        positions = np.arange(start, start + len(keys), dtype=np.uint64)
        terms = mix_array(mix_array(_hash_keys(keys)) + positions * np.uint64(GOLDEN))
        self.value = (self.value + int(terms.sum(dtype=np.uint64))) & MASK64


def _hash_keys(keys: Sequence[Any]) -> UInt64Array:
    if set(map(type, keys)) == {int} and min(keys) >= _INT64_MIN and max(keys) <= _INT64_MAX:
        return np.array(keys, dtype=np.int64).view(np.uint64)
    return np.fromiter(map(_hash_key, keys), dtype=np.uint64, count=len(keys))


def _hash_key(key: Any) -> int:
    if type(key) is int and _INT64_MIN <= key <= _INT64_MAX:
        return key & MASK64
    if type(key) is str:
        text = repr(key)
    elif isinstance(key, frozenset):
        # What changes from process to process must not count: the order within a set, …
        text = f"frozenset of {len(key)}"
    else:
        # … and addresses in the repr of objects that have no better one.
        text = _ADDRESS.sub("", describe(key))
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little")
