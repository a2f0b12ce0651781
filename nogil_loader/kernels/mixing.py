"""Samples of a batch mixed with the next one in it, in place.

Sample i is mixed with sample i + 1, the last one with the first. So a batch can be worked through from its
beginning, with a copy of its first sample for the end.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.pixels import copy_array
from nogil_loader.kernels.philox import fill_uniforms
from nogil_loader.kernels.rows import copy_bytes

# Keeps 0 out of the logarithm: uniform numbers are multiples of 2**-32, this puts them between those.
_HALF_STEP: Final = 2.0**-33


@jitable
def symmetric_beta(u: float, v: float, alpha: float) -> float:
    """Return a number of the distribution Beta(alpha, alpha), given two uniform numbers in [0, 1).

    Nothing is rejected. Student's t with 2 alpha degrees of freedom is made as in Bailey, "Polar generation of
    random variates with the t-distribution" (1994), and becomes a beta number as in Devroye, "Random variate
    generation in one line of code" (1996): with s = u**(1 / alpha) and c = cos(2 pi v) it is
    1/2 ± 1/2 sqrt((1 - s) c**2 / (s + (1 - s) c**2)), the sign being that of c.
    """
    power = math.exp(math.log(u + _HALF_STEP) / alpha)
    cosine = math.cos(2.0 * math.pi * v)
    square = (1.0 - power) * cosine * cosine
    half = 0.5 * math.sqrt(square / (power + square))
    return 0.5 + half if cosine > 0.0 else 0.5 - half


@jitable
def draw_weight(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw a sample's own weight; ``numbers`` are the probability that it is mixed, and alpha."""
    drawn[0] = 1.0
    if uniforms[0] < numbers[0]:
        drawn[0] = symmetric_beta(uniforms[1], uniforms[2], numbers[1])


@jitable
def draw_patch(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw the patch that is taken from the next sample: weight of what stays, top, left, bottom, right.

    As in torchvision: its centre is anywhere, its sides are sqrt(1 - weight) of the image's, what lies outside is
    cut off, and the weight is that of what is left.
    """
    draw_weight(uniforms, numbers, size, drawn)
    reach = 0.5 * math.sqrt(1.0 - drawn[0])
    for axis in range(2):
        length = float(size[axis])
        centre, half = math.floor(uniforms[3 + axis] * length), math.floor(reach * length)
        drawn[1 + axis] = max(centre - half, 0.0)
        drawn[3 + axis] = min(centre + half, length)
    drawn[0] = 1.0 - (drawn[3] - drawn[1]) * (drawn[4] - drawn[2]) / (float(size[0]) * float(size[1]))


@jitable
def draw_weights(keys: Any, epoch_key: Any, position: Any, numbers: Any, uniforms: Any, drawn: Any) -> None:
    """Do `draw_weight` for every sample of a batch.

    Args:
        keys: uint64 ``(B,)``, what stands for the samples in the random numbers.
        epoch_key: uint64, what stands for seed and epoch.
        position: What stands for the transform.
        numbers: See `draw_weight`.
        uniforms: float64 ``(3,)``, scratch.
        drawn: float64 ``(B, 1)``, is written.
    """
    for i in range(len(keys)):
        fill_uniforms(epoch_key, keys[i], position, uniforms)
        draw_weight(uniforms, numbers, uniforms, drawn[i])


@jitable
def draw_patches(
    keys: Any, epoch_key: Any, position: Any, numbers: Any, size: Any, uniforms: Any, drawn: Any
) -> None:
    """Do `draw_patch` for every sample of a batch; arguments as of `draw_weights`, with five columns drawn."""
    for i in range(len(keys)):
        fill_uniforms(epoch_key, keys[i], position, uniforms)
        draw_patch(uniforms, numbers, size, drawn[i])


@jitable
def blend_floats(samples: Any, first: Any, drawn: Any) -> None:
    """Mix samples of floats in place.

    Args:
        samples: ``(B, N)``, float32 or float64, C-contiguous.
        first: ``(N,)``, scratch.
        drawn: ``(B, 1)``, the samples' own weights; with 1 a sample stays as it is.
    """
    copy_array(samples[0], first)
    last = len(samples) - 1
    for i in range(len(samples)):
        own = first.dtype.type(drawn[i, 0])
        if own != first.dtype.type(1):
            _blend_floats(samples[i], first if i == last else samples[i + 1], own, first.dtype.type(1) - own)


@jitable
def _blend_floats(line: Any, other: Any, own: Any, others: Any) -> None:
    for x in range(len(line)):
        line[x] = line[x] * own + other[x] * others


@jitable
def blend_narrow(samples: Any, first: Any, drawn: Any) -> None:
    """Mix samples of integers of up to 16 bits in place, in float32, rounded; see `blend_floats`."""
    _blend_integers(samples, first, drawn, np.float32)


@jitable
def blend_wide(samples: Any, first: Any, drawn: Any) -> None:
    """Mix samples of integers of 32 bits in place, in float64, rounded; see `blend_floats`."""
    _blend_integers(samples, first, drawn, np.float64)


@jitable
def _blend_integers(samples: Any, first: Any, drawn: Any, real: Any) -> None:
    copy_array(samples[0], first)
    last = len(samples) - 1
    for i in range(len(samples)):
        own = real(drawn[i, 0])
        if own != real(1):
            _blend_rounded(samples[i], first if i == last else samples[i + 1], own, real(1) - own, real)


@jitable
def _blend_rounded(line: Any, other: Any, own: Any, others: Any, real: Any) -> None:
    for x in range(len(line)):
        line[x] = line.dtype.type(np.rint(real(line[x]) * own + real(other[x]) * others))


@jitable
def paste_patches(images: Any, first: Any, lengths: Any, drawn: Any) -> None:
    """Put a patch of the next image into every image, in place.

    Args:
        images: uint8 ``(B, N)``, C-contiguous.
        first: ``(N,)``, scratch.
        lengths: int64 ``(4,)``: height, width, planes, and bytes of a pixel in its plane.
        drawn: ``(B, 5)``, see `draw_patch`.
    """
    copy_bytes(first, 0, images[0], 0, len(first))
    height, width, planes, pixel = lengths
    last = len(images) - 1
    for i in range(len(images)):
        top, left, bottom, right = int(drawn[i, 1]), int(drawn[i, 2]), int(drawn[i, 3]), int(drawn[i, 4])
        image, other = images[i], first if i == last else images[i + 1]
        for plane in range(planes):
            for y in range(top, bottom):
                start = ((plane * height + y) * width + left) * pixel
                copy_bytes(image, start, other, start, (right - left) * pixel)
