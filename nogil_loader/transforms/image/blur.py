"""Blurred images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.filters import as_planes, blur, blur_scratch, gaussian_weights
from nogil_loader.transforms.arguments import as_pair, as_range, settle
from nogil_loader.transforms.image.whole import as_wide, draw_range, joined, split, whole_numbers, work_length
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class GaussianBlur(Operation):
    """The image blurred with a Gaussian of random width, mirrored at its borders, as in torchvision.

    Columns are summed up first, then rows, in float32 (float64 for integers of 32 bits and float64).

    Args:
        kernel_size: How many pixels are summed up, odd: one number, or (height, width).
        sigma: Range of the Gaussian's standard deviation in pixels, drawn for each sample, or one number.
    """

    kernel_size: int | tuple[int, int]
    sigma: float | tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        size = as_pair("GaussianBlur.kernel_size", self.kernel_size)
        if size[0] % 2 == 0 or size[1] % 2 == 0:
            raise ValueError(f"GaussianBlur.kernel_size={self.kernel_size!r}: expected odd numbers")
        sigma = as_range("GaussianBlur.sigma", self.sigma, least=0.0)
        if sigma[0] == 0.0:
            raise ValueError(f"GaussianBlur.sigma={self.sigma!r}: expected positive numbers")
        settle(self, kernel_size=size, sigma=sigma)

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is too small for the kernel, or made of bools.
        """
        spec = spec.image(self)
        size = as_pair("GaussianBlur.kernel_size", self.kernel_size)
        if size[0] // 2 >= spec.height or size[1] // 2 >= spec.width:
            raise ValueError(
                f"{self}: an image of {spec.height} x {spec.width} pixels is too small; mirrored at its borders, "
                f"it goes with kernels up to {2 * spec.height - 1} x {2 * spec.width - 1}"
            )
        sigma = as_range("GaussianBlur.sigma", self.sigma)
        return Step(
            name=repr(self),
            kind="sample",
            function=blur_image if spec.work == np.float32 else blur_wide_image,
            reference=_blur,
            source=spec,
            target=spec,
            numbers=(*sigma, *whole_numbers(self, spec), size[0] // 2, size[1] // 2),
            draw=draw_range,
            uniforms=1,
            parameters=("sigma",),
            scratch=self._scratch,
        )

    def _scratch(self, spec: Spec) -> tuple[int, int]:
        size = as_pair("GaussianBlur.kernel_size", self.kernel_size)
        stride = 1 if spec.layout == "CHW" else spec.channels
        return work_length(spec, blur_scratch(size[0] // 2, size[1] // 2, stride, spec.width * stride)), 0


@jitable
def blur_image(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Blur an image, in float32."""
    _blur_planes(source, target, numbers, drawn, work)


@jitable
def blur_wide_image(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Blur an image, in float64."""
    _blur_planes(source, target, numbers, drawn, as_wide(work))


@jitable
def _blur_planes(source: Any, target: Any, numbers: Any, drawn: Any, work: Any) -> None:
    planes, rows, stride = int(numbers[2]), int(numbers[3]), int(numbers[4])
    blur(
        as_planes(source, planes, rows),
        as_planes(target, planes, rows),
        int(numbers[8]),
        int(numbers[9]),
        drawn[0],
        stride,
        numbers[5] != 0.0,
        numbers[6],
        numbers[7],
        work,
    )


def _blur(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    values = split(array, numbers[2:])
    with np.errstate(over="ignore", invalid="ignore"):  # pixels may be infinite
        values = _sum_along(1, values, int(numbers[8]), drawn[0])
        values = _sum_along(2, values, int(numbers[9]), drawn[0])
        return joined(values, array, numbers[2:])


def _sum_along(axis: int, values: npt.NDArray[Any], radius: int, sigma: float) -> npt.NDArray[Any]:
    """Return the weighted sum along an axis, the nearest pixels first, as the kernel adds them."""
    weights = np.empty(radius + 1, values.dtype)
    gaussian_weights(sigma, weights)
    margins = [(radius, radius) if each == axis else (0, 0) for each in range(values.ndim)]
    padded = np.moveaxis(np.pad(values, margins, "reflect"), axis, 0)
    count = values.shape[axis]
    total = weights[0] * padded[radius : radius + count]
    for k in range(1, radius + 1):
        total += weights[k] * (padded[radius - k :][:count] + padded[radius + k :][:count])
    return np.moveaxis(total, 0, axis)
