"""Colours of images: more or less of them, or others. Red, green and blue are the channels 0, 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import blend_with_luma, turn_hue
from nogil_loader.transforms.arguments import as_chance, as_range, settle
from nogil_loader.transforms.image.amount import draw_amount
from nogil_loader.transforms.image.grey import luma
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


def colour_image(who: object, spec: Spec) -> Spec:
    """Return the spec of an image with its layout, if it has three channels.

    Raises:
        ValueError: It has not; the message names the transform ``who``.
    """
    spec = spec.image(who)
    if spec.channels != 3:
        raise ValueError(
            f"{who}: expected an image of 3 channels, red, green and blue, not {spec.channels} ({spec})"
        )
    return spec


@dataclass(frozen=True)
class Saturation(Operation):
    """Colours moved away from grey of the same luma, as torchvision's ``adjust_saturation``.

    Integers are rounded and saturate; torchvision rounds down, luma as well. Floats are not clipped; torchvision
    clips them to 0-1.

    Args:
        factor: Range from which the factor is drawn for each sample, or one number; 0 gives grey, 1 the image as
            it is, 2 twice the distance from grey.
        p: Probability that a sample is changed at all.
    """

    factor: float | tuple[float, float]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            factor=as_range("Saturation.factor", self.factor, least=0.0),
            p=as_chance("Saturation.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: It has not three channels.
        """
        spec = colour_image(self, spec)
        return Step(
            name=repr(self),
            kind="point",
            function=change_saturation,
            reference=_change_saturation,
            source=spec,
            target=spec,
            numbers=(self.p, *as_range("Saturation.factor", self.factor), 1.0),
            draw=draw_amount,
            uniforms=2,
            parameters=("factor",),
        )


@jitable
def change_saturation(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Change the saturation by the factor drawn."""
    if drawn[0] != 1.0:
        blend_with_luma(row, drawn[0])


def _change_saturation(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    if drawn[0] == 1:
        return values
    factor, rest = values.dtype.type(drawn[0]), values.dtype.type(1 - drawn[0])
    result: npt.NDArray[Any] = values * factor + luma(values) * rest
    return result


@dataclass(frozen=True)
class Hue(Operation):
    """Hues turned around the colour circle, as torchvision's ``adjust_hue``; value and saturation (HSV) stay.

    Integers are rounded; torchvision rounds down. A NaN makes the whole pixel NaN, an infinity makes it infinite
    or NaN.

    Args:
        turns: Range from which the angle is drawn for each sample, or one number, in whole turns, from -0.5 to
            0.5; 1/3 makes red green.
        p: Probability that a sample is changed at all.
    """

    turns: float | tuple[float, float]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            turns=as_range("Hue.turns", self.turns, least=-0.5, most=0.5),
            p=as_chance("Hue.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: It has not three channels.
        """
        spec = colour_image(self, spec)
        return Step(
            name=repr(self),
            kind="point",
            function=change_hue,
            reference=_change_hue,
            source=spec,
            target=spec,
            numbers=(self.p, *as_range("Hue.turns", self.turns), 0.0),
            draw=draw_amount,
            uniforms=2,
            parameters=("turns",),
        )


@jitable
def change_hue(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Turn the hue as drawn."""
    if drawn[0] != 0.0:
        turn_hue(row, drawn[0])


def _change_hue(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    if drawn[0] == 0:
        return values
    of = values.dtype.type
    red, green, blue = np.moveaxis(values, -1, 0)
    most, least = values.max(-1), values.min(-1)
    spread = most - least
    # Where in the circle, in sextants: red at 0, green at 2, blue at 4.
    cases = [most == red, most == green]
    distance = np.select(cases, [green - blue, blue - red], red - green)
    sextant = np.select(cases, [of(0), of(2)], of(4))
    hue = sextant + distance / np.where(spread == 0, of(1), spread) + of(6 * (drawn[0] - np.floor(drawn[0])))
    hue = np.where(hue < 0, hue + of(6), hue)
    hue = np.where(hue >= 6, hue - of(6), hue)
    shares = np.abs(hue - of(3)) - of(1), of(2) - np.abs(hue - of(2)), of(2) - np.abs(hue - of(4))
    return np.stack([least + spread * np.clip(share, of(0), of(1)) for share in shares], -1)
