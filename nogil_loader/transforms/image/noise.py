"""Images with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.grain import add_normal_noise
from nogil_loader.kernels.noise import normal_noise
from nogil_loader.transforms.arguments import as_chance, as_number, as_range, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class GaussianNoise(Operation):
    """Normal noise added to every pixel and channel independently.

    Integers saturate; floats are not clipped (torchvision's clips them to 0-1). The noise of a pixel depends on
    (seed, epoch, index) and its place only.

    Args:
        std: Range of the standard deviation, which is drawn for each sample, or one number; 1 is full intensity
            (255 for uint8).
        mean: Mean of the noise, in the same unit.
        p: Probability that a sample gets noise at all.
    """

    std: float | tuple[float, float] = (0.02, 0.1)
    mean: float = 0.0
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            std=as_range("GaussianNoise.std", self.std, least=0.0),
            mean=as_number("GaussianNoise.mean", self.mean),
            p=as_chance("GaussianNoise.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        std = as_range("GaussianNoise.std", self.std)
        return Step(
            name=repr(self),
            kind="point",
            function=add_noise,
            reference=_add_noise,
            source=spec,
            target=spec,
            numbers=(self.p, *std, self.mean, spec.white),
            draw=draw_noise,
            uniforms=2,
            parameters=("std", "mean"),
        )


@jitable
def draw_noise(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw standard deviation and mean, 0 and 0 for no noise; ``numbers`` are p, the range, and the mean."""
    drawn[0], drawn[1] = 0.0, 0.0
    if uniforms[0] < numbers[0]:
        drawn[0] = numbers[1] + uniforms[1] * (numbers[2] - numbers[1])
        drawn[1] = numbers[3]


@jitable
def add_noise(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Add the noise of row ``y``."""
    if drawn[0] == 0.0 and drawn[1] == 0.0:
        return
    line = row.reshape(-1)
    start = y * padded(len(line))
    add_normal_noise(rng[0], rng[1], rng[2], start, drawn[0] * numbers[4], drawn[1] * numbers[4], line)


@jitable
def padded(count: int) -> int:
    """Return the number of noise elements set aside for a row of ``count``: whole blocks of four."""
    return (count + 3) // 4 * 4


def _add_noise(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    if drawn[0] == 0.0 and drawn[1] == 0.0:
        return values
    scale = values.dtype.type(drawn[0] * numbers[4])
    shift = values.dtype.type(drawn[1] * numbers[4])
    height, width, channels = values.shape
    noise = noise_rows(rng, height, channels * width).reshape(height, channels, width).transpose(0, 2, 1)
    result: npt.NDArray[Any] = values + (scale * noise + shift)
    return result


def noise_rows(rng: Any, rows: int, count: int) -> npt.NDArray[np.float32]:
    """Return the normal numbers of rows of ``count`` elements, each of which begins with a whole block.

    Args:
        rng: As given to the step's function.
        rows: How many.
        count: Elements of a row.
    """
    stride = padded(count)
    flat = normal_noise(rng[0], int(rng[1]), int(rng[2]), 0, rows * stride)
    return flat.reshape(rows, stride)[:, :count]
