"""Images turned, moved, scaled and sheared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.resized import warp_image
from nogil_loader.transforms.arguments import as_choice, as_numbers, as_range, is_sequence, settle
from nogil_loader.transforms.image.channels import as_pixel
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step, Taps
from nogil_loader.transforms.transform import Operation

INTERPOLATIONS = ("bilinear", "nearest")


@dataclass(frozen=True)
class Affine(Operation):
    """The image turned about its middle, scaled, sheared and moved, all drawn at random, in its own size.

    The map is that of torchvision's RandomAffine: shear first, then turn, scale, and move.

    Args:
        degrees: Range of the angle, clockwise; one number turns by it always.
        translate: The farthest move to either side as a share of the image: one number, or (of its width, of its
            height).
        scale: Range of the factor by which the content grows; one number for that very factor.
        shear: Range of the horizontal shear angle in degrees, one number for that very angle, or four numbers for
            the ranges of the horizontal and the vertical one.
        interpolation: ``"bilinear"``, or ``"nearest"``. Where the content shrinks much, bilinear takes the four
            nearest pixels only.
        fill: Pixel value outside of the image, in its own units, one for each channel or one for all. Integer
            images take the nearest integer.

    Integer pixels are rounded. A pixel is computed in float32, in float64 where it has 32 bits or more.
    """

    degrees: float | tuple[float, float] = 0.0
    translate: float | tuple[float, float] = 0.0
    scale: float | tuple[float, float] = 1.0
    shear: float | Sequence[float] = 0.0
    interpolation: str = "bilinear"
    fill: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        translate = as_numbers("Affine.translate", self.translate, least=0.0, most=1.0)
        if len(translate) > 2:
            raise ValueError(
                f"Affine.translate={describe(self.translate, 200)}: expected one number or (of the width, "
                f"of the height)"
            )
        scale = as_range("Affine.scale", self.scale, least=0.0)
        if scale[0] == 0.0:
            raise ValueError(f"Affine.scale={self.scale!r}: expected positive numbers")
        settle(
            self,
            degrees=as_range("Affine.degrees", self.degrees),
            translate=(translate * 2)[:2],
            scale=scale,
            shear=_as_shear("Affine.shear", self.shear),
            interpolation=as_choice("Affine.interpolation", self.interpolation, INTERPOLATIONS),
            fill=as_numbers("Affine.fill", self.fill),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The fill does not fit the image's channels or dtype.
        """
        spec = spec.image(self)
        assert isinstance(self.degrees, tuple)
        assert isinstance(self.translate, tuple)
        assert isinstance(self.scale, tuple)
        assert isinstance(self.shear, tuple)
        assert isinstance(self.fill, tuple)
        fill = as_pixel(self, "fill", self.fill, spec)
        taps: Taps = "nearest" if self.interpolation == "nearest" else "bilinear"
        return Step(
            name=repr(self),
            kind="affine",
            function=place_affine,
            reference=partial(_warp, taps, fill),
            source=spec,
            target=spec,
            numbers=(*self.degrees, *self.translate, *self.scale, *self.shear),
            draw=draw_affine,
            uniforms=6,
            parameters=("degrees", "right", "down", "scale", "shear_x", "shear_y"),
            fill=fill,
            taps=taps,
            exact=True,
        )


def _as_shear(name: str, value: Any) -> tuple[float, ...]:
    """Return (least, most, least vertical, most vertical) in degrees."""
    if is_sequence(value) and len(value) == 4:
        return (
            *as_range(name, value[:2], least=-89.0, most=89.0),
            *as_range(name, value[2:], least=-89.0, most=89.0),
        )
    return (*as_range(name, value, least=-89.0, most=89.0), 0.0, 0.0)


@jitable
def draw_affine(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw angle, move to the right and down in pixels, factor, and shear angles.

    ``numbers`` are the range of the angle, the farthest moves, and the ranges of the factor and the shear angles.
    """
    drawn[0] = numbers[0] + uniforms[0] * (numbers[1] - numbers[0])
    drawn[1] = (2.0 * uniforms[1] - 1.0) * numbers[2] * size[1]
    drawn[2] = (2.0 * uniforms[2] - 1.0) * numbers[3] * size[0]
    drawn[3] = numbers[4] + uniforms[3] * (numbers[5] - numbers[4])
    drawn[4] = numbers[6] + uniforms[4] * (numbers[7] - numbers[6])
    drawn[5] = numbers[8] + uniforms[5] * (numbers[9] - numbers[8])


@jitable
def place_affine(numbers: Any, drawn: Any, size: Any, out_size: Any, matrix: Any) -> None:
    """Write the map from output pixels to source pixels that undoes what was drawn."""
    turn, shear_x, shear_y = math.radians(drawn[0]), math.radians(drawn[4]), math.radians(drawn[5])
    # Turn and shear as one matrix (a b; c d) of determinant 1, as in torchvision.
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -a * math.tan(shear_x) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -c * math.tan(shear_x) + math.cos(turn)
    matrix[0], matrix[1] = d / drawn[3], -b / drawn[3]
    matrix[3], matrix[4] = -c / drawn[3], a / drawn[3]
    # The middle of the output, moved back, leads to the middle of the source.
    x, y = (out_size[1] - 1) / 2.0 + drawn[1], (out_size[0] - 1) / 2.0 + drawn[2]
    matrix[2] = (size[1] - 1) / 2.0 - matrix[0] * x - matrix[1] * y
    matrix[5] = (size[0] - 1) / 2.0 - matrix[3] * x - matrix[4] * y


def _warp(
    taps: Taps,
    fill: tuple[float, ...],
    image: npt.NDArray[Any],
    numbers: Any,
    drawn: Any,
    size: tuple[int, int],
) -> npt.NDArray[Any]:
    matrix = np.zeros(6)
    place_affine(numbers, drawn, np.asarray(image.shape[:2]), np.asarray(size), matrix)
    return warp_image(image, matrix, size, taps, np.asarray(fill), Spec.of(image).work)
