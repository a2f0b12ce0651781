"""Augmentations chosen at random from a list that others have searched: RandAugment and TrivialAugment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.transforms.arguments import as_choice, as_numbers, settle
from nogil_loader.transforms.compose import draw_one_of
from nogil_loader.transforms.image.channels import as_pixel
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.grey import grey_or_colour_image
from nogil_loader.transforms.image.histogram import AutoContrast, Equalize
from nogil_loader.transforms.image.magnitude import Scale, motion_step, tone_step, with_factor
from nogil_loader.transforms.image.sharpness import Sharpness
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node, Step, Taps
from nogil_loader.transforms.transform import Lowered, Transform

_TAPS = ("nearest", "bilinear")

# How many of the operations each alternative has, in the order of `_alternatives`: shears, translations, rotation;
# brightness, colour, posterize, solarize; contrast; sharpness; autocontrast; equalize; and the image as it is.
_WEIGHTS = (5, 4, 1, 1, 1, 1, 1)


@dataclass(frozen=True)
class RandAugment(Transform):
    """Some operations in a row, each drawn from a list of 14, all of the same magnitude.

    Cubuk, Zoph, Shlens, Le: "RandAugment: practical automated data augmentation with a reduced search space",
    2019, with the list and the magnitudes of torchvision: identity, ShearX, ShearY, TranslateX, TranslateY,
    Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast, Equalize. For uint8 images
    of 1 or 3 channels; with one, Color changes nothing.

    Args:
        num_ops: How many operations each sample gets, 1 to 16. Every one adds to the time that compiling takes.
        magnitude: How strong they are, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: How many magnitudes there are, 2 or more.
        interpolation: ``"nearest"`` or ``"bilinear"``, for operations that move pixels.
        fill: Value of pixels outside the image, one for each channel or one for all.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        bins = as_count("RandAugment.num_magnitude_bins", self.num_magnitude_bins, least=2, most=1 << 16)
        settle(
            self,
            num_ops=as_count("RandAugment.num_ops", self.num_ops, least=1, most=16),
            magnitude=as_count("RandAugment.magnitude", self.magnitude, least=0, most=bins - 1),
            num_magnitude_bins=bins,
            interpolation=as_choice("RandAugment.interpolation", self.interpolation, _TAPS),
            fill=as_numbers("RandAugment.fill", self.fill),
        )

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart: a choice for each operation.

        Raises:
            ValueError: The image is not of uint8, or has neither one channel nor three.
        """
        scale = Scale(
            first=self.magnitude,
            last=self.magnitude,
            bins=self.num_magnitude_bins,
            shear=0.3,
            translate_share=150.0 / 331.0,
            translate_pixels=0.0,
            rotate=30.0,
            factor=0.9,
            bits=4,
        )
        spec = _bytes_image(self, spec)
        choices = [_choice(self, spec, scale, positions) for _ in range(self.num_ops)]
        return Lowered(tuple(choices), spec)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """One operation, drawn from a list of 14, with a magnitude that is drawn as well.

    Müller, Hutter: "TrivialAugment: tuning-free yet state-of-the-art data augmentation", 2021, with the list and
    the magnitudes of torchvision; the list is that of `RandAugment`. For uint8 images of 1 or 3 channels.

    Args:
        num_magnitude_bins: How many magnitudes there are, 2 or more.
        interpolation: ``"nearest"`` or ``"bilinear"``, for operations that move pixels.
        fill: Value of pixels outside the image, one for each channel or one for all.
    """

    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        bins = as_count(
            "TrivialAugmentWide.num_magnitude_bins", self.num_magnitude_bins, least=2, most=1 << 16
        )
        settle(
            self,
            num_magnitude_bins=bins,
            interpolation=as_choice("TrivialAugmentWide.interpolation", self.interpolation, _TAPS),
            fill=as_numbers("TrivialAugmentWide.fill", self.fill),
        )

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart: a choice of operations.

        Raises:
            ValueError: The image is not of uint8, or has neither one channel nor three.
        """
        scale = Scale(
            first=0,
            last=self.num_magnitude_bins - 1,
            bins=self.num_magnitude_bins,
            shear=0.99,
            translate_share=0.0,
            translate_pixels=32.0,
            rotate=135.0,
            factor=0.99,
            bits=6,
        )
        spec = _bytes_image(self, spec)
        return Lowered((_choice(self, spec, scale, positions),), spec)


def _bytes_image(who: Transform, spec: Spec) -> Spec:
    spec = grey_or_colour_image(who, spec)
    if spec.dtype != np.uint8:
        raise ValueError(f"{who}: expected an image of uint8, not {spec}; apply it before the dtype changes")
    return spec


def _choice(
    who: RandAugment | TrivialAugmentWide, spec: Spec, scale: Scale, positions: Iterator[int]
) -> Choice:
    position = next(positions)
    branches: list[tuple[Node, ...]] = [
        (replace(step, position=next(positions)),) for step in _alternatives(who, spec, scale)
    ]
    branches.append(())
    bounds = tuple(sum(_WEIGHTS[: at + 1]) / sum(_WEIGHTS) for at in range(len(_WEIGHTS)))
    return Choice(
        repr(who), spec, tuple(branches), draw_one_of, uniforms=1, numbers=bounds, position=position
    )


def _alternatives(who: RandAugment | TrivialAugmentWide, spec: Spec, scale: Scale) -> Iterator[Step]:
    fill = as_pixel(who, "fill", as_numbers("fill", who.fill), spec)
    taps: Taps = "nearest" if who.interpolation == "nearest" else "bilinear"
    yield motion_step(spec, scale, taps=taps, fill=fill)
    yield tone_step(spec, scale)
    yield with_factor(Contrast(1.0).step(spec), scale)
    yield with_factor(Sharpness(1.0).step(spec), scale)
    yield AutoContrast().step(spec)
    yield Equalize().step(spec)
