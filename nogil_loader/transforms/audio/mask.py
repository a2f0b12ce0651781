"""Blanked stretches of time and bands of frequency, as in SpecAugment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.accept import as_value, check_fit, expect
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# Each mask is a run over the array; more than these are a mistake.
_MOST_MASKS = 1024
_LONGEST = 1 << 40


@dataclass(frozen=True)
class TimeMask(Operation):
    """Random stretches of time set to one value, in all channels or frequencies alike.

    For each mask a length from 0 to ``max_length`` is drawn, then a start at which it fits (Park et al.,
    "SpecAugment: A simple data augmentation method for automatic speech recognition", 2019). Masks may overlap.

    Takes arrays of any integer or float dtype whose last axis is time, ``(T,)``, ``(C, T)``, ``(F, T)`` or
    ``(C, F, T)``, and keeps shape and dtype.

    Args:
        max_length: Time steps of the longest mask.
        count: How many masks.
        value: What masked items become. Where spectrograms are standardised, 0 is their mean.
    """

    max_length: int
    count: int = 1
    value: int | float = 0

    def __post_init__(self) -> None:
        settle(self, **_mask_arguments(self))

    def step(self, spec: Spec) -> Step:
        """Return the step for an array.

        Raises:
            ValueError: ``max_length`` is longer than the array, or ``value`` does not fit its dtype.
        """
        expect(self, spec, "iuf", what="an array (T,), (C, T) or (…, T)")
        return _mask_step(self, spec, len(spec.shape) - 1)


@dataclass(frozen=True)
class FrequencyMask(Operation):
    """Random bands of frequency set to one value, at all times and in all channels alike.

    For each mask a number of bins from 0 to ``max_length`` is drawn, then a start at which they fit (Park et al.,
    "SpecAugment", 2019). Masks may overlap.

    Takes arrays of any integer or float dtype whose last two axes are frequency and time, ``(F, T)`` or
    ``(C, F, T)``, and keeps shape and dtype.

    Args:
        max_length: Bins of the broadest mask.
        count: How many masks.
        value: What masked items become.
    """

    max_length: int
    count: int = 1
    value: int | float = 0

    def __post_init__(self) -> None:
        settle(self, **_mask_arguments(self))

    def step(self, spec: Spec) -> Step:
        """Return the step for a spectrogram.

        Raises:
            ValueError: The array has one axis only, ``max_length`` is more than its bins, or ``value`` does not
                fit its dtype.
        """
        expect(self, spec, "iuf", what="a spectrogram (F, T) or (…, F, T)")
        if len(spec.shape) < 2:
            raise ValueError(
                f"{self}: expected a spectrogram (F, T) or (…, F, T), not an array of shape {spec.shape}"
            )
        return _mask_step(self, spec, len(spec.shape) - 2)


def _mask_arguments(transform: TimeMask | FrequencyMask) -> dict[str, Any]:
    name = type(transform).__name__
    return {
        "max_length": as_count(f"{name}.max_length", transform.max_length, least=1, most=_LONGEST),
        "count": as_count(f"{name}.count", transform.count, least=1, most=_MOST_MASKS),
        "value": as_value(f"{name}.value", transform.value),
    }


def _mask_step(who: TimeMask | FrequencyMask, spec: Spec, axis: int) -> Step:
    length = spec.shape[axis]
    if who.max_length > length:
        raise ValueError(
            f"{who}: the array ({spec}) has {length} items along the axis that is masked, less than max_length"
        )
    check_fit(who, "value", (who.value,), spec.dtype)
    outer, inner = math.prod(spec.shape[:axis]), math.prod(spec.shape[axis + 1 :])
    return Step(
        name=repr(who),
        kind="sample",
        function=blank_masks,
        reference=_blank_masks,
        source=spec,
        target=spec,
        numbers=(who.max_length, who.count, who.value, outer, length, inner),
        draw=draw_masks,
        uniforms=2 * who.count,
        parameters=tuple(f"{name} {k}" for k in range(who.count) for name in ("start", "length")),
    )


@jitable
def draw_masks(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw start and length of each mask."""
    for k in range(int(numbers[1])):
        length = math.floor(uniforms[2 * k] * (numbers[0] + 1.0))
        drawn[2 * k] = math.floor(uniforms[2 * k + 1] * (numbers[4] - length + 1.0))
        drawn[2 * k + 1] = length


@jitable
def blank_masks(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Copy an array seen as ``(outer, length, inner)`` and blank the masks along ``length``."""
    values, out = source.reshape(-1), target.reshape(-1)
    for i in range(len(out)):
        out[i] = values[i]
    outer, inner = int(numbers[3]), int(numbers[5])
    line = int(numbers[4]) * inner
    blank = out.dtype.type(numbers[2])
    for k in range(int(numbers[1])):
        first = int(drawn[2 * k]) * inner
        count = int(drawn[2 * k + 1]) * inner
        for row in range(outer):
            out[row * line + first : row * line + first + count] = blank


def _blank_masks(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    _, count, value, outer, length, inner = numbers
    at = np.arange(int(length))
    blank = np.zeros(int(length), bool)
    for start, width in np.reshape(drawn[: 2 * int(count)], (-1, 2)):
        blank |= (at >= start) & (at < start + width)
    parts = array.reshape(int(outer), int(length), int(inner))
    masked: npt.NDArray[Any] = np.where(blank[:, None], array.dtype.type(value), parts)
    return masked.reshape(array.shape)
