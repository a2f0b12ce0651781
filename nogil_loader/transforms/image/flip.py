"""Mirrored images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.pixels import count_up
from nogil_loader.transforms.arguments import as_chance, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class HorizontalFlip(Operation):
    """Left and right exchanged, with probability ``p``.

    Args:
        p: Probability.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        settle(self, p=as_chance("HorizontalFlip.p", self.p))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="index",
            function=place_horizontal_flip,
            reference=_flip_columns,
            source=spec,
            target=spec,
            numbers=(self.p,),
            draw=draw_flag,
            uniforms=1,
            parameters=("flipped",),
        )


@dataclass(frozen=True)
class VerticalFlip(Operation):
    """Top and bottom exchanged, with probability ``p``.

    Args:
        p: Probability.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        settle(self, p=as_chance("VerticalFlip.p", self.p))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="index",
            function=place_vertical_flip,
            reference=_flip_rows,
            source=spec,
            target=spec,
            numbers=(self.p,),
            draw=draw_flag,
            uniforms=1,
            parameters=("flipped",),
        )


@jitable
def draw_flag(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw 1 with probability ``numbers[0]``, else 0."""
    drawn[0] = 1.0 if uniforms[0] < numbers[0] else 0.0


@jitable
def place_horizontal_flip(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position: columns from the right when drawn."""
    count_up(rows)
    count_up(cols)
    if drawn[0] != 0.0:
        count_down(cols)
    return 0


@jitable
def place_vertical_flip(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position: rows from the bottom when drawn."""
    count_up(rows)
    count_up(cols)
    if drawn[0] != 0.0:
        count_down(rows)
    return 0


@jitable
def count_down(table: Any) -> None:
    """Fill a table with its own positions, the last one first."""
    last = len(table) - 1
    for i in range(len(table)):
        table[i] = last - i


def _flip_columns(
    image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]
) -> npt.NDArray[Any]:
    return np.flip(image, 1) if drawn[0] else image


def _flip_rows(image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]) -> npt.NDArray[Any]:
    return np.flip(image, 0) if drawn[0] else image
