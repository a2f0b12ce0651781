"""Images whose levels follow from their own histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.filters import as_planes
from nogil_loader.kernels.images.levels import LEVELS, equalize, stretch
from nogil_loader.transforms.image.whole import as_wide, whole_numbers
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Equalize(Operation):
    """Levels spread so that each is about equally frequent in a channel, as by Pillow's ``ImageOps.equalize``.

    For uint8 images.
    """

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is not of uint8.
        """
        spec = spec.image(self)
        if spec.dtype != np.uint8:
            raise ValueError(
                f"{self}: an image of {spec.dtype} cannot be equalised, uint8 alone; apply it before the dtype "
                f"changes"
            )
        return Step(
            name=repr(self),
            kind="sample",
            function=equalize_image,
            reference=_equalize,
            source=spec,
            target=spec,
            numbers=whole_numbers(self, spec),
            scratch=_table,
        )


@dataclass(frozen=True)
class AutoContrast(Operation):
    """Each channel stretched so that its darkest pixel becomes 0 and its brightest full intensity.

    Bit by bit Pillow's ``ImageOps.autocontrast`` for uint8; other integers lose their fraction too. A channel of
    one value stays as it is. Of float images, full intensity is 1.0; NaN stays NaN and counts neither as dark nor
    as bright. Computed in float64.
    """

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is made of bools.
        """
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="sample",
            function=stretch_image,
            reference=_stretch,
            source=spec,
            target=spec,
            numbers=(*whole_numbers(self, spec), spec.dtype == np.uint8, spec.white),
            scratch=_scales,
        )


def _table(spec: Spec) -> tuple[int, int]:
    return 0, 2 * LEVELS


def _scales(spec: Spec) -> tuple[int, int]:
    # Two float64 for each element of a row, in units of float32.
    return 4 * spec.width * (1 if spec.layout == "CHW" else spec.channels), 0


@jitable
def equalize_image(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Equalise an image."""
    planes, rows, stride = int(numbers[0]), int(numbers[1]), int(numbers[2])
    equalize(as_planes(source, planes, rows), as_planes(target, planes, rows), stride, table)


@jitable
def stretch_image(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Stretch an image to full intensity."""
    planes, rows, stride = int(numbers[0]), int(numbers[1]), int(numbers[2])
    stretch(
        as_planes(source, planes, rows),
        as_planes(target, planes, rows),
        stride,
        numbers[3] != 0.0,
        numbers[6] != 0.0,
        numbers[7],
        as_wide(work),
    )


def _channels(array: npt.NDArray[Any], numbers: Any) -> npt.NDArray[Any]:
    """Return an image as (channels, pixels)."""
    planes, rows, stride = (int(each) for each in numbers[:3])
    return np.moveaxis(array.reshape(planes, rows, -1, stride), 3, 1).reshape(planes * stride, -1)


def _whole(channels: npt.NDArray[Any], array: npt.NDArray[Any], numbers: Any) -> npt.NDArray[Any]:
    """Return (channels, pixels) as an image like ``array``."""
    planes, rows, stride = (int(each) for each in numbers[:3])
    columns = array.size // (planes * rows * stride)
    moved = np.moveaxis(channels.reshape(planes, stride, rows, columns), 1, 3)
    return moved.reshape(array.shape).astype(array.dtype)


def _equalize(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    channels = _channels(array, numbers)
    new = np.empty_like(channels)
    for values, result in zip(channels, new, strict=True):
        counts = np.bincount(values, minlength=LEVELS)
        share = (counts.sum() - counts[values.max()]) // (LEVELS - 1)
        if share == 0:
            result[:] = values
            continue
        below = np.cumsum(counts) - counts
        levels = np.minimum((share // 2 + below) // share, LEVELS - 1)
        result[:] = levels[values]
    return _whole(new, array, numbers)


def _stretch(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    values = _channels(array, numbers).astype(np.float64)
    with np.errstate(all="ignore"):  # pixels may be infinite
        low = np.fmin.reduce(values, axis=1, keepdims=True)
        high = np.fmax.reduce(values, axis=1, keepdims=True)
        differs = low < high
        scale = np.where(differs, numbers[7] / (high - low), 1.0)
        low = np.where(differs, low, 0.0)
        values = values * scale - low * scale if numbers[6] else (values - low) * scale
        values = np.trunc(values) if numbers[3] else values
        return _whole(values, array, numbers)
