"""Images with more or less sharpness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.filters import as_planes, sharpen
from nogil_loader.transforms.arguments import as_range, settle
from nogil_loader.transforms.image.whole import as_wide, draw_range, joined, split, whole_numbers, work_length
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Sharpness(Operation):
    """The image mixed with a smoothed version of itself: ``smooth + factor * (image - smooth)``.

    Smoothed as by Pillow's ``ImageEnhance.Sharpness``: the mean of 3 by 3 pixels, the middle one counted five
    times; the outermost pixels stay as they are. Integers are rounded once, at the end. Pillow rounds the smoothed
    image and cuts off the fraction of the mixture, so that results may differ by 1, for factors above 2 by more.

    Args:
        factor: Range of the factor, drawn for each sample, or one number: 0 gives the smoothed image, 1 the image
            as it is, 2 a sharpened one.
    """

    factor: float | tuple[float, float]

    def __post_init__(self) -> None:
        settle(self, factor=as_range("Sharpness.factor", self.factor, least=0.0))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is made of bools.
        """
        spec = spec.image(self)
        factor = as_range("Sharpness.factor", self.factor)
        return Step(
            name=repr(self),
            kind="sample",
            function=sharpen_image if spec.work == np.float32 else sharpen_wide_image,
            reference=_sharpen,
            source=spec,
            target=spec,
            numbers=(*factor, *whole_numbers(self, spec)),
            draw=draw_range,
            uniforms=1,
            parameters=("factor",),
            scratch=_scratch,
        )


def _scratch(spec: Spec) -> tuple[int, int]:
    return work_length(spec, 2 * spec.width * (1 if spec.layout == "CHW" else spec.channels)), 0


@jitable
def sharpen_image(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Sharpen or smooth an image, in float32."""
    _sharpen_planes(source, target, numbers, drawn, work)


@jitable
def sharpen_wide_image(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Sharpen or smooth an image, in float64."""
    _sharpen_planes(source, target, numbers, drawn, as_wide(work))


@jitable
def _sharpen_planes(source: Any, target: Any, numbers: Any, drawn: Any, work: Any) -> None:
    planes, rows, stride = int(numbers[2]), int(numbers[3]), int(numbers[4])
    sharpen(
        as_planes(source, planes, rows),
        as_planes(target, planes, rows),
        drawn[0],
        stride,
        numbers[5] != 0.0,
        numbers[6],
        numbers[7],
        work,
    )


def _sharpen(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    values = split(array, numbers[2:]).copy()
    factor, four, share = (values.dtype.type(each) for each in (drawn[0], 4.0, 1.0 / 13.0))
    with np.errstate(over="ignore", invalid="ignore"):  # pixels may be infinite
        columns = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
        middle = values[:, 1:-1, 1:-1]
        mean = (columns[:, :, :-2] + columns[:, :, 1:-1] + columns[:, :, 2:] + four * middle) * share
        values[:, 1:-1, 1:-1] = mean + factor * (middle - mean)
        return joined(values, array, numbers[2:])
