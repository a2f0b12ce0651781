"""Random numbers that are a function of (seed, epoch, index, operation): no state, any thread, any order.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
four 32-bit words of counter are encrypted under 64 bits of key into four words that pass all known tests.

- Key: seed and epoch give one *epoch key*, the first two words of philox(counter = (epoch low, epoch high,
  "augm", "ents"), key = seed).
- Counter of a draw: (index low, index high, operation position, block). Index is the 64-bit word that stands for
  a sample. Blocks below 2**31 are an operation's parameters, four to a block; `noise` uses those above.

The source of `philox` is the same for compiled code, for numpy scalars and for numpy arrays. Words are carried
in uint64, where neither the product of two words nor the sum of two overflows, and all constants are uint64,
because numba and numpy turn int64 with uint64 into float64.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable

LOW: Final = np.uint64(0xFFFF_FFFF)
HALF: Final = np.uint64(32)
ROUNDS: Final = 10

# Multipliers and key increments as published with the generator.
_M0: Final = np.uint64(0xD251_1F53)
_M1: Final = np.uint64(0xCD9E_8D57)
_W0: Final = np.uint64(0x9E37_79B9)
_W1: Final = np.uint64(0xBB67_AE85)

_MASK64: Final = 2**64 - 1
# The upper half of the counter under which seeds become epoch keys; plain words, so that nothing is hidden in it.
_AUGM: Final = np.uint64(int.from_bytes(b"augm", "big"))
_ENTS: Final = np.uint64(int.from_bytes(b"ents", "big"))
# A word times this is in [0, 1), exactly.
_UNIT: Final = 2.0**-32


def epoch_key(seed: int, epoch: int) -> np.uint64:
    """Return the key of all draws of an epoch.

    Args:
        seed: The loader's seed, 0 to 2**64 - 1; higher bits are ignored.
        epoch: Of any size; it counts modulo 2**64.
    """
    word = np.uint64(epoch & _MASK64)
    w0, w1, _, _ = philox(word & LOW, word >> HALF, _AUGM, _ENTS, np.uint64(seed & _MASK64))
    return np.uint64(w0 | (w1 << HALF))


@jitable
def philox_round(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Return the counter after one round under the round's key."""
    p0 = _M0 * c0
    p1 = _M1 * c2
    return (p1 >> HALF) ^ c1 ^ k0, p1 & LOW, (p0 >> HALF) ^ c3 ^ k1, p0 & LOW


@jitable
def next_round_key(k0: Any, k1: Any) -> tuple[Any, Any]:
    """Return the key of the round that follows the one with this key."""
    return (k0 + _W0) & LOW, (k1 + _W1) & LOW


@jitable
def philox(c0: Any, c1: Any, c2: Any, c3: Any, key: Any) -> tuple[Any, Any, Any, Any]:
    """Return four random words, uint64 below 2**32.

    Args:
        c0: First word of the counter; like the others uint64 below 2**32, a scalar or an array.
        c1: Second word.
        c2: Third word.
        c3: Fourth word.
        key: uint64; its low half is the first word of the key.
    """
    k0, k1 = key & LOW, key >> HALF
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = philox_round(c0, c1, c2, c3, k0, k1)
        k0, k1 = next_round_key(k0, k1)
    return c0, c1, c2, c3


@jitable
def fill_uniforms(key: Any, index: Any, position: Any, out: Any) -> None:
    """Fill a row with an operation's uniform numbers in [0, 1), each a word times 2**-32.

    Args:
        key: Of the epoch, uint64.
        index: The sample's word, uint64.
        position: Of the operation, 0 to 2**32 - 1.
        out: ``(count,)`` float64, count below 2**33.
    """
    word, place = np.uint64(index), np.uint64(position)
    for block in range((len(out) + 3) // 4):
        words = philox(word & LOW, word >> HALF, place, np.uint64(block), key)
        for lane in range(min(4, len(out) - 4 * block)):
            out[4 * block + lane] = words[lane] * _UNIT


def uniforms(
    key: np.uint64, indices: npt.NDArray[np.uint64], position: int, count: int
) -> npt.NDArray[np.float64]:
    """Return what `fill_uniforms` draws, for many samples at once.

    Args:
        key: Of the epoch.
        indices: The samples' words, ``(B,)`` uint64.
        position: Of the operation, 0 to 2**32 - 1.
        count: How many numbers for each sample.

    Returns:
        ``(B, count)`` float64.
    """
    words = indices.astype(np.uint64, copy=False)[:, None]
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)[None, :]
    drawn = philox(words & LOW, words >> HALF, np.uint64(position), blocks, key)
    return np.stack(drawn, axis=-1).reshape(len(indices), 4 * blocks.size)[:, :count] * _UNIT
