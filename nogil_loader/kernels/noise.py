"""A random number for every element of an array: words, uniform numbers, normal numbers.

Element e of an operation's noise depends on (key, index, position, e) alone, so rows may be filled in any order
and any part of an array gets the numbers that it gets within the whole. Its word is word e % 4 of block
2**31 + e // 4 (see `philox`): no block of noise is ever one of parameters. After 2**33 elements noise repeats.

Compiled loops and numpy give the same bits: every step is a single rounded operation in float32 (addition,
multiplication, square root) or works on integers, and logarithm, sine and cosine are written out.

A row costs a fraction of a nanosecond per element where the processor has vectors, because the rounds of philox
stand in the loop over blocks (compilers do not vectorise loops with calls, and `philox` is too long to be
inlined), and because the words of a row are put into the row itself and converted in a second pass.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.philox import HALF, LOW, ROUNDS, next_round_key, philox, philox_round

# Blocks of noise have the highest bit set; the others count.
_NOISE: Final = np.uint64(2**31)
_COUNTED: Final = np.uint64(2**31 - 1)

_ONE: Final = np.float32(1)
_HALF: Final = np.float32(0.5)
_MINUS_TWO: Final = np.float32(-2)
_STEP_24: Final = np.float32(2.0**-24)
_STEP_32: Final = np.float32(2.0**-32)
_HALF_STEP_32: Final = np.float32(2.0**-33)
_OCTANT: Final = np.float32(np.pi / 4 * 2.0**-31)  # an int32 times this is an angle in [-pi/4, pi/4]
_LN2: Final = np.float32(0.6931471805599453)

_SIGN: Final = np.uint32(2**31)
_BITS_1: Final = np.uint32(1)
_BITS_2: Final = np.uint32(2)
_BITS_8: Final = np.uint32(8)
_BITS_31: Final = np.int32(31)
_MANTISSA_BITS: Final = np.int32(23)
_ROOT_HALF: Final = np.float32(np.sqrt(0.5)).view(np.int32)

# Polynomials of logf, sinf and cosf in the Cephes library (Moshier, "Methods and programs for mathematical
# functions", 1989), highest power first: log(1 + x) = x - x**2/2 + x**3 P(x) for 1 + x from sqrt(1/2) to sqrt(2),
# sin(x) = x + x**3 S(x**2) and cos(x) = 1 - x**2/2 + x**4 C(x**2) for x from -pi/4 to pi/4.
_P8: Final = np.float32(7.0376836292e-2)
_P7: Final = np.float32(-1.1514610310e-1)
_P6: Final = np.float32(1.1676998740e-1)
_P5: Final = np.float32(-1.2420140846e-1)
_P4: Final = np.float32(1.4249322787e-1)
_P3: Final = np.float32(-1.6668057665e-1)
_P2: Final = np.float32(2.0000714765e-1)
_P1: Final = np.float32(-2.4999993993e-1)
_P0: Final = np.float32(3.3333331174e-1)
_S2: Final = np.float32(-1.9515295891e-4)
_S1: Final = np.float32(8.3321608736e-3)
_S0: Final = np.float32(-1.6666654611e-1)
_C2: Final = np.float32(2.443315711809948e-5)
_C1: Final = np.float32(-1.388731625493765e-3)
_C0: Final = np.float32(4.166664568298827e-2)


@jitable
def noise_word(key: Any, index: Any, position: Any, element: Any) -> Any:
    """Return the word of one element, uint32."""
    words = _block(key, index, position, element)
    return np.uint32(words[element % 4])


@jitable
def normal_number(key: Any, index: Any, position: Any, element: Any) -> Any:
    """Return the normal number of one element, float32."""
    words = _block(key, index, position, element)
    lane = element % 4
    first = lane - lane % 2
    pair = normal_pair(np.uint32(words[first]), np.uint32(words[first + 1]))
    return pair[lane % 2]


@jitable
def _block(key: Any, index: Any, position: Any, element: Any) -> tuple[Any, Any, Any, Any]:
    word = np.uint64(index)
    block = (np.uint64(element // 4) & _COUNTED) | _NOISE
    return philox(word & LOW, word >> HALF, np.uint64(position), block, key)


@jitable
def fill_noise_words(key: Any, index: Any, position: Any, start: Any, out: Any) -> None:
    """Fill a row with the words of the elements from ``start`` on.

    It is fastest where ``start`` and the length are multiples of 4.

    Args:
        key: Of the epoch, uint64.
        index: The sample's word, uint64.
        position: Of the operation, 0 to 2**32 - 1.
        start: First element, int64, 0 or more.
        out: ``(count,)`` uint32, C-contiguous.
    """
    word, place = np.uint64(index), np.uint64(position)
    low, high = word & LOW, word >> HALF
    head = min(-start % 4, len(out))
    blocks = (len(out) - head) // 4
    first = (start + head) // 4
    body = out[head:]
    for block in range(blocks):
        c0, c1, c2, c3 = low, high, place, (np.uint64(first + block) & _COUNTED) | _NOISE
        k0, k1 = key & LOW, key >> HALF
        for _ in range(ROUNDS):
            c0, c1, c2, c3 = philox_round(c0, c1, c2, c3, k0, k1)
            k0, k1 = next_round_key(k0, k1)
        body[4 * block] = np.uint32(c0)
        body[4 * block + 1] = np.uint32(c1)
        body[4 * block + 2] = np.uint32(c2)
        body[4 * block + 3] = np.uint32(c3)
    for end in range(len(out) - 4 * blocks):
        at = end if end < head else end + 4 * blocks
        out[at] = noise_word(key, index, position, start + at)


@jitable
def fill_uniform_noise(key: Any, index: Any, position: Any, start: Any, out: Any) -> None:
    """Fill a row with uniform numbers in [0, 1), multiples of 2**-24.

    Args:
        key: Of the epoch, uint64.
        index: The sample's word, uint64.
        position: Of the operation, 0 to 2**32 - 1.
        start: First element, int64, 0 or more.
        out: ``(count,)`` float32, C-contiguous.
    """
    words = out.view(np.uint32)
    fill_noise_words(key, index, position, start, words)
    for element in range(len(out)):
        out[element] = np.float32(words[element] >> _BITS_8) * _STEP_24


@jitable
def fill_normal_noise(key: Any, index: Any, position: Any, start: Any, out: Any) -> None:
    """Fill a row with standard normal numbers, of at most 6.77 in magnitude.

    Args:
        key: Of the epoch, uint64.
        index: The sample's word, uint64.
        position: Of the operation, 0 to 2**32 - 1.
        start: First element, int64, 0 or more.
        out: ``(count,)`` float32, C-contiguous.
    """
    head = min(start % 2, len(out))
    pairs = (len(out) - head) // 2
    fill_noise_words(key, index, position, start, out.view(np.uint32))
    # A view of the slice, not a slice of the view: seen as two pointers, they would be taken for overlapping.
    body = out[head:]
    words = body.view(np.uint32)
    for pair in range(pairs):
        body[2 * pair], body[2 * pair + 1] = normal_pair(words[2 * pair], words[2 * pair + 1])
    for end in range(len(out) - 2 * pairs):
        at = end if end < head else end + 2 * pairs
        out[at] = normal_number(key, index, position, start + at)


@jitable
def normal_pair(radial: Any, angular: Any) -> tuple[Any, Any]:
    """Return two independent standard normal numbers, float32 (Box and Muller, 1958).

    The radius comes from one word; of the other, 30 bits are an angle in a quarter of the circle and 2 bits
    say which quarter, so that sine and cosine need no reduction. Each is within 2e-7 (1 + radius) of what exact
    arithmetic makes of the radial word as a float32 from 2**-33 to 1; that rounding moves no probability by more
    than 2**-24.

    Args:
        radial: uint32, scalar or array.
        angular: uint32, likewise.
    """
    # Half a step keeps 0 out of the logarithm. The step is lost near 1, where it does not matter.
    radius = np.sqrt(_MINUS_TWO * _log(np.float32(radial) * _STEP_32 + _HALF_STEP_32))
    x = np.float32(np.uint32(angular << _BITS_2).view(np.int32)) * _OCTANT
    z = x * x
    sine = ((_S2 * z + _S1) * z + _S0) * z * x + x
    cosine = ((_C2 * z + _C1) * z + _C0) * z * z - _HALF * z + _ONE
    # On the bits, since a choice between two values is written differently for scalars and arrays: the highest
    # bit is the cosine's sign, all bits of the mask are the next one, and the mask exchanges the two.
    first = np.float32(cosine * radius).view(np.uint32) ^ (angular & _SIGN)
    second = np.float32(sine * radius).view(np.uint32)
    mask = np.int32(np.uint32(angular << _BITS_1).view(np.int32) >> _BITS_31).view(np.uint32)
    exchanged = (first ^ second) & mask
    return np.uint32(first ^ exchanged).view(np.float32), np.uint32(second ^ exchanged).view(np.float32)


@jitable
def _log(value: Any) -> Any:
    """Return the natural logarithm of a positive, normal float32, to a relative 2e-7."""
    bits = np.float32(value).view(np.int32)
    exponent = np.int32(np.int32(bits - _ROOT_HALF) >> _MANTISSA_BITS)
    x = np.int32(bits - np.int32(exponent << _MANTISSA_BITS)).view(np.float32) - _ONE
    z = x * x
    p = (((_P8 * x + _P7) * x + _P6) * x + _P5) * x + _P4
    p = (((p * x + _P3) * x + _P2) * x + _P1) * x + _P0
    return np.float32(exponent) * _LN2 + (x + (p * x * z - _HALF * z))


def noise_words(key: np.uint64, index: int, position: int, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Return what `fill_noise_words` puts into a row of ``count`` elements."""
    word = np.uint64(index)
    first = start // 4
    blocks = np.arange(first, (start + count + 3) // 4, dtype=np.uint64)
    drawn = philox(word & LOW, word >> HALF, np.uint64(position), (blocks & _COUNTED) | _NOISE, key)
    flat = np.stack(drawn, axis=-1).astype(np.uint32).reshape(-1)
    return flat[start - 4 * first :][:count]


def uniform_noise(
    key: np.uint64, index: int, position: int, start: int, count: int
) -> npt.NDArray[np.float32]:
    """Return what `fill_uniform_noise` puts into a row of ``count`` elements."""
    return (noise_words(key, index, position, start, count) >> _BITS_8).astype(np.float32) * _STEP_24


def normal_noise(
    key: np.uint64, index: int, position: int, start: int, count: int
) -> npt.NDArray[np.float32]:
    """Return what `fill_normal_noise` puts into a row of ``count`` elements."""
    head = start % 2
    pairs = noise_words(key, index, position, start - head, count + head + (start + count) % 2).reshape(-1, 2)
    return np.stack(normal_pair(pairs[:, 0], pairs[:, 1]), axis=-1).reshape(-1)[head:][:count]
