"""Pixel values on the scale that a model expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.images.pixels import scale_and_shift
from nogil_loader.transforms.arguments import as_numbers, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# A mean of pixels that are scaled to 0-1 is not so large in any unit that anyone uses.
_FAR = 10.0


@dataclass(frozen=True)
class Normalize(Operation):
    """``(value - mean) / std`` for each channel, as float32; integer pixels are scaled to 0-1 first.

    Computed as ``value * scale + shift`` in float32, so that it may differ from the formula in the last bits.

    Args:
        mean: One number for each channel, or one for all.
        std: The same; positive.
    """

    mean: float | Sequence[float]
    std: float | Sequence[float]

    def __post_init__(self) -> None:
        mean, std = as_numbers("Normalize.mean", self.mean), as_numbers("Normalize.std", self.std)
        if min(std) <= 0:
            raise ValueError(f"Normalize.std={self.std!r}: expected positive numbers")
        settle(self, mean=mean, std=std)

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: ``mean`` or ``std`` has another number of values than the image has channels.
        """
        spec = spec.image(self)
        mean = _per_channel(self, "mean", self.mean, spec)
        std = _per_channel(self, "std", self.std, spec)
        if spec.dtype.kind in "iu" and max(map(abs, mean)) > _FAR:
            raise ValueError(
                f"{self}: integer pixels are scaled to 0-1 first, and a mean of {max(map(abs, mean)):g} is far "
                f"from that; divide mean and std by {spec.white:g}"
            )
        scale = [1.0 / (spec.white * s) for s in std]
        shift = [-m / s for m, s in zip(mean, std, strict=True)]
        return Step(
            name=repr(self),
            kind="point",
            function=scale_and_shift,
            reference=_scale_and_shift,
            source=spec,
            target=spec.with_dtype(np.float32),
            numbers=(*scale, *shift),
        )


def _per_channel(who: Normalize, name: str, values: Any, spec: Spec) -> tuple[float, ...]:
    if len(values) not in (1, spec.channels):
        raise ValueError(
            f"{who}: {name} has {len(values)} values, but the image ({spec}) has {spec.channels} channels; "
            f"give one value for each, or one for all"
        )
    return tuple(values) * (spec.channels if len(values) == 1 else 1)


def _scale_and_shift(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    scale, shift = np.asarray(numbers, values.dtype).reshape(2, -1)
    result: npt.NDArray[Any] = values * scale + shift
    return result
