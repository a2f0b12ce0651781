"""Sequences and signals of a fixed length."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.accept import as_value, check_fit, expect
from nogil_loader.transforms.arguments import as_choice, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# More items of one sample do not fit into a computer's memory; positions are exact in float64 far beyond.
_LONGEST = 1 << 40
_ARRAY = "an array (L,), (C, L) or (…)"


@dataclass(frozen=True)
class RandomCrop1D(Operation):
    """A part of a sequence or a signal at a random place, every place equally likely.

    Takes arrays of any bool, integer or float dtype with one axis or more: tokens ``(L,)``, audio ``(T,)`` or
    ``(C, T)``, a spectrogram ``(F, T)``; with ``axis=0`` vectors ``(L, D)``.

    Args:
        length: Items of the part.
        pad_value: What is put behind arrays that are shorter than that; None refuses them.
        axis: The axis that is cut, counted from the front or, if negative, from the end.
    """

    length: int
    pad_value: int | float | None = None
    axis: int = -1

    def __post_init__(self) -> None:
        settle(
            self,
            length=as_count("RandomCrop1D.length", self.length, least=1, most=_LONGEST),
            axis=as_count("RandomCrop1D.axis", self.axis, least=-64, most=63),
        )
        if self.pad_value is not None:
            settle(self, pad_value=as_value("RandomCrop1D.pad_value", self.pad_value))

    def step(self, spec: Spec) -> Step:
        """Return the step for an array.

        Raises:
            ValueError: The array is shorter than the part and there is no ``pad_value``, or one that its dtype
                does not hold; or it has no such axis.
        """
        outer, length, inner = _around(self, spec, self.axis)
        value = self.pad_value
        if length < self.length and value is None:
            raise ValueError(
                f"{self}: the array ({spec}) has {length} items, less than the {self.length} of the part; give "
                f"a pad_value, or pad it first"
            )
        if value is not None:
            check_fit(self, "pad_value", (value,), spec.dtype)
        return Step(
            name=repr(self),
            kind="sample",
            function=copy_drawn_window,
            reference=_drawn_window,
            source=spec,
            target=_lengthened(spec, self.axis, self.length),
            numbers=(self.length, outer, length, inner, value or 0, self.axis),
            draw=draw_start,
            uniforms=1,
            parameters=("start",),
        )


@dataclass(frozen=True)
class PadOrTruncate(Operation):
    """A sequence or a signal made exactly ``length`` long: filled up if it is shorter, cut if it is longer.

    Takes arrays of any bool, integer or float dtype with one axis or more, as `RandomCrop1D` does.

    Args:
        length: Items of the result.
        value: What to fill with.
        padding_side: Where the fill goes, ``"right"`` or ``"left"`` of the items.
        truncation_side: Where items are cut off.
        axis: The axis that is padded or cut, counted from the front or, if negative, from the end.
    """

    length: int
    value: int | float = 0
    padding_side: Literal["right", "left"] = "right"
    truncation_side: Literal["right", "left"] = "right"
    axis: int = -1

    def __post_init__(self) -> None:
        settle(
            self,
            length=as_count("PadOrTruncate.length", self.length, least=1, most=_LONGEST),
            value=as_value("PadOrTruncate.value", self.value),
            axis=as_count("PadOrTruncate.axis", self.axis, least=-64, most=63),
        )
        as_choice("PadOrTruncate.padding_side", self.padding_side, ("right", "left"))
        as_choice("PadOrTruncate.truncation_side", self.truncation_side, ("right", "left"))

    def step(self, spec: Spec) -> Step:
        """Return the step for an array.

        Raises:
            ValueError: The array's dtype does not hold ``value``, or it has no such axis.
        """
        outer, length, inner = _around(self, spec, self.axis)
        check_fit(self, "value", (self.value,), spec.dtype)
        side = self.padding_side if length < self.length else self.truncation_side
        # The kept items begin at 0, or they end where the array ends: with a fill before them that is below 0.
        start = 0 if side == "right" else length - self.length
        return Step(
            name=repr(self),
            kind="sample",
            function=copy_fixed_window,
            reference=_fixed_window,
            source=spec,
            target=_lengthened(spec, self.axis, self.length),
            numbers=(self.length, outer, length, inner, self.value, self.axis, start),
        )


def _around(who: Operation, spec: Spec, axis: int) -> tuple[int, int, int]:
    """Return how many items there are before, along and behind an axis."""
    expect(who, spec, "biuf", what=_ARRAY)
    axes = len(spec.shape)
    if not -axes <= axis < axes:
        raise ValueError(f"{who}: the array ({spec}) has no axis {axis}")
    at = axis % axes
    return math.prod(spec.shape[:at]), spec.shape[at], math.prod(spec.shape[at + 1 :])


def _lengthened(spec: Spec, axis: int, length: int) -> Spec:
    shape = list(spec.shape)
    shape[axis] = length
    return replace(spec, shape=tuple(shape), layout="")


@jitable
def draw_start(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw where a window begins: ``numbers`` are its length, one more, and the length of the array."""
    places = max(numbers[2] - numbers[0], 0.0) + 1.0
    drawn[0] = math.floor(uniforms[0] * places)


@jitable
def copy_drawn_window(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Copy the window that begins where it was drawn."""
    copy_window(source, target, numbers, int(drawn[0]))


@jitable
def copy_fixed_window(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Copy the window that begins where the constants say."""
    copy_window(source, target, numbers, int(numbers[6]))


@jitable
def copy_window(source: Any, target: Any, numbers: Any, start: int) -> None:
    """Copy a window of an array seen as ``(outer, length, inner)``, with a fill where it reaches beyond.

    Args:
        source: Any shape, C-contiguous.
        target: The same dtype.
        numbers: Length of the window, outer, length, inner, fill.
        start: Where the window begins; negative for a fill before the first item.
    """
    outer, inner = int(numbers[1]), int(numbers[3])
    width, length = int(numbers[0]) * inner, int(numbers[2]) * inner
    begin = start * inner
    values, out = source.reshape(-1), target.reshape(-1)
    fill = out.dtype.type(numbers[4])
    first = min(max(-begin, 0), width)
    last = max(min(length - begin, width), first)
    for row in range(outer):
        line = out[row * width : (row + 1) * width]
        line[:first] = fill
        line[last:] = fill
        given = values[row * length + begin + first : row * length + begin + last]
        for i in range(last - first):
            line[first + i] = given[i]


def _drawn_window(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return _window(array, numbers, int(drawn[0]))


def _fixed_window(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return _window(array, numbers, int(numbers[6]))


def _window(array: npt.NDArray[Any], numbers: Any, start: int) -> npt.NDArray[Any]:
    width, fill, axis = int(numbers[0]), numbers[4], int(numbers[5])
    items = np.moveaxis(array, axis, 0)
    result = np.full((width, *items.shape[1:]), fill, array.dtype)
    at = start + np.arange(width)
    inside = (at >= 0) & (at < len(items))
    result[inside] = items[at[inside]]
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))
