"""Images with one random rectangle erased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.grain import add_normal_noise
from nogil_loader.transforms.arguments import as_chance, as_numbers, as_range, settle
from nogil_loader.transforms.image.holes import erase_holes, erased_holes, fill_numbers
from nogil_loader.transforms.image.noise import noise_rows, padded
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# As in torchvision: after so many rectangles that do not fit, the image stays as it is.
_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class RandomErasing(Operation):
    """One rectangle is erased, of random size, shape and place (Zhong et al., 2020), drawn as in torchvision.

    Args:
        p: Probability.
        scale: Range of the rectangle's share of the image's area.
        ratio: Range of its height divided by its width, drawn uniformly on a logarithmic scale.
        value: Pixel value of what is erased, in the image's own units, one for each channel or one for all
            (integer images take the nearest integer), or ``"random"``: normal numbers, for float images with
            mean 0 and standard deviation 1, for integers with half and a quarter of full intensity.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.value, str) and self.value != "random":
            raise ValueError(f"RandomErasing.value={describe(self.value, 200)}: expected numbers or 'random'")
        ratio = as_range("RandomErasing.ratio", self.ratio, least=0.0)
        if ratio[0] == 0.0:
            raise ValueError(f"RandomErasing.ratio={self.ratio!r}: expected positive numbers")
        random = isinstance(self.value, str)
        settle(
            self,
            p=as_chance("RandomErasing.p", self.p),
            scale=as_range("RandomErasing.scale", self.scale, least=0.0, most=1.0),
            ratio=ratio,
            value=self.value if random else as_numbers("RandomErasing.value", self.value),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The value does not fit the image's channels or dtype.
        """
        spec = spec.image(self)
        random = isinstance(self.value, str)
        if not random:
            value = fill_numbers(self, "value", self.value, spec)
        elif spec.dtype.kind == "f":
            value = (1.0, 0.0)
        else:
            value = (spec.white / 4, spec.white / 2)
        return Step(
            name=repr(self),
            kind="point",
            function=erase_with_noise if random else erase_holes,
            reference=_erase_with_noise if random else erased_holes,
            source=spec,
            target=spec,
            numbers=(self.p, *self.scale, *map(math.log, self.ratio), *value),
            draw=draw_erasing,
            uniforms=3 + 2 * _ATTEMPTS,
            parameters=("erased", "top", "left", "height", "width"),
            exact=not random,
        )


@jitable
def draw_erasing(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw whether to erase, top, left, height and width.

    ``numbers`` are p and the ranges of the share of the area and of the logarithm of height / width.
    """
    for i in range(5):
        drawn[i] = 0.0
    if uniforms[0] >= numbers[0]:
        return
    for attempt in range(_ATTEMPTS):
        share = numbers[1] + uniforms[3 + 2 * attempt] * (numbers[2] - numbers[1])
        ratio = math.exp(numbers[3] + uniforms[4 + 2 * attempt] * (numbers[4] - numbers[3]))
        area = share * size[0] * size[1]
        height, width = np.rint(math.sqrt(area * ratio)), np.rint(math.sqrt(area / ratio))
        if height < size[0] and width < size[1]:
            drawn[0] = 1.0
            drawn[1] = np.floor(uniforms[1] * (size[0] - height + 1.0))
            drawn[2] = np.floor(uniforms[2] * (size[1] - width + 1.0))
            drawn[3] = height
            drawn[4] = width
            return


@jitable
def erase_with_noise(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Put noise where one hole has row ``y``; the last of ``numbers`` are its standard deviation and mean."""
    top, left, height, width = int(drawn[1]), int(drawn[2]), int(drawn[3]), int(drawn[4])
    if top <= y < top + height:
        channels, zero = row.shape[0], row.dtype.type(0)
        deviation, mean = numbers[len(numbers) - 2], numbers[len(numbers) - 1]
        for c in range(channels):
            part = row[c, left : left + width]
            for x in range(width):
                part[x] = zero
            start = (y * channels + c) * padded(row.shape[1])
            add_normal_noise(rng[0], rng[1], rng[2], start, deviation, mean, part)


def _erase_with_noise(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    values = values.copy()
    top, left, height, width = (int(each) for each in drawn[1:5])
    rows, columns, channels = values.shape
    scale, shift = values.dtype.type(numbers[-2]), values.dtype.type(numbers[-1])
    noise = noise_rows(rng, rows * channels, columns).reshape(rows, channels, columns).transpose(0, 2, 1)
    values[top : top + height, left : left + width] = scale * noise[top : top + height, :width] + shift
    return values
