"""Images turned by right angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.pixels import count_up
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.image.flip import count_down
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Rotate90(Operation):
    """The image turned counter-clockwise by a multiple of 90 degrees, as by ``numpy.rot90``.

    Args:
        times: By how many right angles, 0 to 3. None: drawn for each sample, all four equally likely, which
            needs square images.
    """

    times: int | None = None

    def __post_init__(self) -> None:
        if self.times is not None:
            settle(self, times=as_count("Rotate90.times", self.times, least=0, most=3))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: ``times`` is random and the image is not square.
        """
        spec = spec.image(self)
        if self.times is None and spec.height != spec.width:
            raise ValueError(
                f"{self}: an image of {spec.height} x {spec.width} pixels turned by a random angle has no fixed "
                f"size; crop it to a square first, or give times"
            )
        turned = self.times is not None and self.times % 2 == 1
        return Step(
            name=repr(self),
            kind="index",
            function=place_turn,
            reference=_turn,
            source=spec,
            target=spec.resized(spec.width, spec.height) if turned else spec,
            numbers=(-1 if self.times is None else self.times,),
            draw=draw_turn,
            uniforms=1,
            parameters=("times",),
        )


@dataclass(frozen=True)
class Transpose(Operation):
    """Rows and columns exchanged: the image mirrored at its diagonal."""

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="index",
            function=place_transposed,
            reference=_transpose,
            source=spec,
            target=spec.resized(spec.width, spec.height),
        )


@jitable
def draw_turn(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw the number of right angles, unless ``numbers[0]`` is one."""
    drawn[0] = numbers[0] if numbers[0] >= 0.0 else np.floor(4.0 * uniforms[0])


@jitable
def place_turn(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position of an image turned counter-clockwise."""
    times = int(drawn[0])
    if 1 <= times <= 2:
        count_down(rows)
    else:
        count_up(rows)
    if times >= 2:
        count_down(cols)
    else:
        count_up(cols)
    return times % 2


@jitable
def place_transposed(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position with rows and columns exchanged."""
    count_up(rows)
    count_up(cols)
    return 1


def _turn(image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]) -> npt.NDArray[Any]:
    return np.rot90(image, int(drawn[0]))


def _transpose(image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]) -> npt.NDArray[Any]:
    return image.transpose(1, 0, 2)
