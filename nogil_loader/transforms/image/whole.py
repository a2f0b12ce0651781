"""What steps on whole images share: how kernels see an image, and in which dtype they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.spec import Spec


def whole_numbers(who: object, spec: Spec) -> tuple[float, ...]:
    """Return (planes, rows, stride, whether integers, smallest, largest value) of an image.

    Raises:
        ValueError: It is made of bools; the message names the transform ``who``.
    """
    if spec.dtype.kind == "b":
        raise ValueError(f"{who}: an image of bool has only two values; cast it to uint8 or float32 first")
    planes = spec.channels if spec.layout == "CHW" else 1
    low, high = spec.limits() or (0.0, 0.0)
    return planes, spec.height, spec.channels // planes, spec.dtype.kind != "f", low, high


def work_length(spec: Spec, count: int) -> int:
    """Return how many float32 of scratch hold ``count`` numbers of the dtype that an image is computed in."""
    return count * spec.work.itemsize // 4


@jitable
def as_wide(work: Any) -> Any:
    """Return float32 scratch as float64."""
    return work[: len(work) // 2 * 2].view(np.float64)


@jitable
def draw_range(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw a number from ``numbers[0]`` to ``numbers[1]``, all equally likely."""
    drawn[0] = numbers[0] + uniforms[0] * (numbers[1] - numbers[0])


def split(array: npt.NDArray[Any], numbers: Any) -> npt.NDArray[Any]:
    """Return an image as (planes, H, W, stride), in the dtype to compute in; ``numbers`` are `whole_numbers`."""
    planes, rows, stride = (int(each) for each in numbers[:3])
    return array.reshape(planes, rows, -1, stride).astype(Spec.of(array).work, copy=False)


def joined(values: npt.NDArray[Any], array: npt.NDArray[Any], numbers: Any) -> npt.NDArray[Any]:
    """Return computed values as an image like ``array``, rounded to nearest and clipped if it holds integers."""
    if numbers[3]:
        values = np.clip(np.rint(values), numbers[4], numbers[5])
    return values.astype(array.dtype).reshape(array.shape)
