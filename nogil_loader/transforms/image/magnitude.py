"""Steps whose strength is a magnitude, as those of RandAugment and its like: what RandAugment draws from.

All magnitudes are on one scale of bins. A step draws its bin, in RandAugment always the same one, and with equal
chances whether the effect is turned around. Operations on pixels share one step, and so do those that move them:
which it is is drawn as well, and the others' parameters are those that change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import blend_with_luma, invert_from, round_down, scale
from nogil_loader.kernels.images.resized import warp_image
from nogil_loader.transforms.image.grey import luma
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step, Taps

# Of uint8.
_BITS = 8
_WHITE = 255.0


@dataclass(frozen=True)
class Scale:
    """What a magnitude means.

    Attributes:
        first: The weakest bin that is drawn, 0 for no effect.
        last: The strongest.
        bins: How many there are.
        shear: Of the strongest bin, in pixels per pixel; so are the others.
        translate_share: In sides of the image.
        translate_pixels: In pixels, added to it.
        rotate: In degrees.
        factor: How far factors of brightness, colour, contrast and sharpness are from 1.
        bits: How many bits of each value are dropped.
    """

    first: int
    last: int
    bins: int
    shear: float
    translate_share: float
    translate_pixels: float
    rotate: float
    factor: float
    bits: int

    def numbers(self, *strongest: float) -> tuple[float, ...]:
        """Return the constants of a draw: the range of bins, and what the strongest of all bins means."""
        return (self.first, self.last, self.bins - 1, *strongest)


@jitable
def share(chance: float, numbers: Any) -> float:
    """Return a drawn bin as a share of the strongest one; ``numbers`` begin with `Scale.numbers`."""
    return (numbers[0] + math.floor(chance * (numbers[1] - numbers[0] + 1.0))) / numbers[2]  # type: ignore[no-any-return]


# A factor around 1


def with_factor(step: Step, of: Scale) -> Step:
    """Return a step that has ``factor`` for its only parameter, with the factor drawn by magnitude.

    The step's own constants keep their places.
    """
    return replace(step, draw=draw_factor, uniforms=2, numbers=(*step.numbers, *of.numbers(of.factor)))


@jitable
def draw_factor(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw a factor around 1; the last four ``numbers`` are the magnitude's."""
    own = numbers[len(numbers) - 4 :]
    distance = share(uniforms[0], own) * own[3]
    drawn[0] = 1.0 - distance if uniforms[1] < 0.5 else 1.0 + distance


# Values of pixels


def tone_step(spec: Spec, of: Scale) -> Step:
    """Return the step that changes brightness, colour or the number of bits, or solarises, one of the four.

    Args:
        spec: An image of uint8.
        of: What a magnitude means.
    """
    return Step(
        name="Brightness, Color, Posterize or Solarize",
        kind="point",
        function=change_tone,
        reference=_change_tone,
        source=spec,
        target=spec,
        numbers=of.numbers(of.factor, of.bits),
        draw=draw_tone,
        uniforms=3,
        parameters=("brightness", "color", "bits", "threshold"),
    )


@jitable
def draw_tone(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw one of four operations and its strength."""
    drawn[0], drawn[1], drawn[2], drawn[3] = 1.0, 1.0, _BITS, math.inf
    which, strength = int(4.0 * uniforms[0]), share(uniforms[1], numbers)
    distance = strength * numbers[3]
    if which < 2:
        drawn[which] = 1.0 - distance if uniforms[2] < 0.5 else 1.0 + distance
    elif which == 2:
        drawn[2] = _BITS - np.rint(strength * numbers[4])
    else:
        drawn[3] = _WHITE * (1.0 - strength)


@jitable
def change_tone(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Do what was drawn; images of one channel have no colours to change."""
    if drawn[0] != 1.0:
        scale(row, drawn[0])
    if drawn[1] != 1.0 and row.shape[0] == 3:
        blend_with_luma(row, drawn[1])
    if drawn[2] < _BITS:
        round_down(row, 2.0 ** (_BITS - drawn[2]))
    if drawn[3] <= _WHITE:
        invert_from(row, drawn[3], _WHITE)


def _change_tone(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    brightness, color, bits, threshold = drawn
    changed: npt.NDArray[Any] = np.where(values >= threshold, values.dtype.type(_WHITE) - values, values)
    if brightness != 1:
        changed = values * values.dtype.type(brightness)
    elif color != 1 and values.shape[-1] == 3:
        changed = values * values.dtype.type(color) + luma(values) * values.dtype.type(1 - color)
    elif bits < _BITS:
        changed = values - values % (1 << int(_BITS - bits))
    return changed


# Places of pixels


def motion_step(spec: Spec, of: Scale, *, taps: Taps, fill: tuple[float, ...]) -> Step:
    """Return the step that shears, moves or rotates an image, one of the three and in one direction.

    Args:
        spec: The image.
        of: What a magnitude means.
        taps: ``"nearest"`` or ``"bilinear"``.
        fill: Value of pixels outside the image.
    """
    return Step(
        name="ShearX, ShearY, TranslateX, TranslateY or Rotate",
        kind="affine",
        function=place_motion,
        reference=partial(_move, taps, fill),
        source=spec,
        target=spec,
        numbers=of.numbers(of.shear, of.translate_share, of.translate_pixels, of.rotate),
        draw=draw_motion,
        uniforms=3,
        parameters=("shear_x", "shear_y", "translate_x", "translate_y", "degrees"),
        fill=fill,
        taps=taps,
        exact=True,
    )


@jitable
def draw_motion(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw one of five motions, its strength and its direction."""
    for each in range(5):
        drawn[each] = 0.0
    which, strength = int(5.0 * uniforms[0]), share(uniforms[1], numbers)
    if uniforms[2] < 0.5:
        strength = -strength
    if which < 2:
        drawn[which] = strength * numbers[3]
    elif which == 2:
        drawn[2] = np.trunc(strength * (numbers[4] * size[1] + numbers[5]))
    elif which == 3:
        drawn[3] = np.trunc(strength * (numbers[4] * size[0] + numbers[5]))
    else:
        drawn[4] = strength * numbers[6]


@jitable
def place_motion(numbers: Any, drawn: Any, size: Any, out_size: Any, matrix: Any) -> None:
    """Output pixel → source: sheared from the top left corner, moved, or turned clockwise about the middle."""
    angle = math.radians(drawn[4])
    cosine, sine = math.cos(angle), math.sin(angle)
    matrix[0], matrix[1] = cosine, drawn[0] + sine
    matrix[3], matrix[4] = drawn[1] - sine, cosine
    # A shear leaves the corner where it is, which is half a pixel from the first pixel's centre.
    matrix[2] = 0.5 * drawn[0] - drawn[2]
    matrix[5] = 0.5 * drawn[1] - drawn[3]
    if drawn[4] != 0.0:
        x, y = (size[1] - 1) / 2.0, (size[0] - 1) / 2.0
        matrix[2] = x - cosine * x - sine * y
        matrix[5] = y + sine * x - cosine * y


def _move(
    taps: Taps,
    fill: tuple[float, ...],
    image: npt.NDArray[Any],
    numbers: Any,
    drawn: Any,
    size: tuple[int, int],
) -> npt.NDArray[Any]:
    matrix = np.zeros(6)
    place_motion(numbers, drawn, np.asarray(size), np.asarray(size), matrix)
    return warp_image(image, matrix, size, taps, np.asarray(fill), Spec.of(image).work)
