"""Images with more or less contrast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import BLUE, GREEN, RED
from nogil_loader.kernels.images.contrast import blend_floats, blend_integers, mean_luma
from nogil_loader.kernels.images.pixels import copy_array
from nogil_loader.transforms.arguments import as_chance, as_range, settle
from nogil_loader.transforms.image.amount import draw_amount
from nogil_loader.transforms.image.grey import grey_or_colour_image
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Contrast(Operation):
    """Pixels moved away from the mean luma of the image, as torchvision's ``adjust_contrast``.

    Integers are rounded and saturate; torchvision rounds down, luma as well. Floats are not clipped; torchvision
    clips them to 0-1.

    Args:
        factor: Range from which the factor is drawn for each sample, or one number; 0 gives an image of one value,
            1 the image as it is, 2 twice the distance from the mean.
        p: Probability that a sample is changed at all.
    """

    factor: float | tuple[float, float]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            factor=as_range("Contrast.factor", self.factor, least=0.0),
            p=as_chance("Contrast.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: It has neither one channel nor three.
        """
        spec = grey_or_colour_image(self, spec)
        planar = spec.layout == "CHW"
        return Step(
            name=repr(self),
            kind="sample",
            function=_FUNCTIONS[spec.dtype.kind == "f", spec.work.itemsize],
            reference=_change_planes if planar else _change_pixels,
            source=spec,
            target=spec,
            numbers=(
                self.p,
                *as_range("Contrast.factor", self.factor),
                1.0,
                spec.channels,
                planar,
                *(spec.limits() or (0.0, 0.0)),
            ),
            draw=draw_amount,
            uniforms=2,
            parameters=("factor",),
        )


@jitable
def change_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Change the contrast of integers of up to 16 bits."""
    _change_integers(source, target, numbers, drawn, np.float32)


@jitable
def change_wide_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Change the contrast of integers of 32 bits."""
    _change_integers(source, target, numbers, drawn, np.float64)


@jitable
def _change_integers(source: Any, target: Any, numbers: Any, drawn: Any, real: Any) -> None:
    if drawn[0] == 1.0:
        copy_array(source, target)
        return
    level = mean_luma(source, int(numbers[4]), int(numbers[5]), np.int64)
    blend_integers(source, target, drawn[0], level, numbers[6:8], real)


@jitable
def change_float32(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Change the contrast of a float32 image."""
    _change_floats(source, target, numbers, drawn, np.float32)


@jitable
def change_float64(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Change the contrast of a float64 image."""
    _change_floats(source, target, numbers, drawn, np.float64)


@jitable
def _change_floats(source: Any, target: Any, numbers: Any, drawn: Any, real: Any) -> None:
    if drawn[0] == 1.0:
        copy_array(source, target)
        return
    level = mean_luma(source, int(numbers[4]), int(numbers[5]), np.float64)
    blend_floats(source, target, drawn[0], level, real)


# By whether pixels are floats, and by the bytes of the dtype in which they are computed.
_FUNCTIONS = {
    (False, 4): change_integers,
    (False, 8): change_wide_integers,
    (True, 4): change_float32,
    (True, 8): change_float64,
}


def _change_pixels(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    pixels = array.reshape(-1, int(numbers[4]))
    return _change(array, [pixels[:, channel] for channel in range(pixels.shape[1])], numbers, drawn[0])


def _change_planes(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return _change(array, list(array.reshape(int(numbers[4]), -1)), numbers, drawn[0])


def _change(
    array: npt.NDArray[Any], channels: list[npt.NDArray[Any]], numbers: Any, factor: float
) -> npt.NDArray[Any]:
    if factor == 1 or array.size == 0:
        return array.copy()
    work = Spec.of(array).work.type
    level = _mean_luma(channels)
    changed: npt.NDArray[Any] = array.astype(work) * work(factor) + work(level * (1 - factor))
    if array.dtype.kind != "f":
        changed = np.clip(np.rint(changed), numbers[6], numbers[7])
    return changed.astype(array.dtype)


def _mean_luma(channels: list[npt.NDArray[Any]]) -> float:
    kind = np.float64 if channels[0].dtype.kind == "f" else np.int64
    # A running sum adds one by one, as the kernel does; a plain one adds in pairs.
    sums = [float(np.cumsum(channel, dtype=kind)[-1]) for channel in channels]
    if len(sums) == 3:
        sums = [sums[0] * RED + sums[1] * GREEN + sums[2] * BLUE]
    return sums[0] / channels[0].size
