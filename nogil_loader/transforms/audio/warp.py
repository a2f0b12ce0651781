"""Stretched and compressed time, as in SpecAugment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.signals import between, linear, rounded, store_rounded
from nogil_loader.transforms.arguments import as_number, settle
from nogil_loader.transforms.audio.signal import expect_signal, limits, working
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

_LONGEST = float(1 << 40)


@dataclass(frozen=True)
class TimeWarp(Operation):
    """Time stretched on one side of a random point and compressed on the other; the length stays.

    A point at least ``max_warp`` from both ends is moved by up to ``max_warp`` to the left or to the right, what
    is before and behind it is stretched or compressed evenly, and both ends stay where they are (Park et al.,
    "SpecAugment: A simple data augmentation method for automatic speech recognition", 2019). Values between
    samples are linear between their neighbours.

    Takes float32, float64, int16 or int8 arrays whose last axis is time, ``(T,)``, ``(C, T)`` or ``(F, T)``, and
    keeps shape and dtype; integers are rounded. All channels or frequencies are warped alike.

    Args:
        max_warp: By how many time steps the point is moved at most; less than half of the signal.
    """

    max_warp: float

    def __post_init__(self) -> None:
        settle(self, max_warp=as_number("TimeWarp.max_warp", self.max_warp, least=0.0, most=_LONGEST))

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal, or shorter than ``2 * max_warp + 1``.
        """
        expect_signal(self, spec)
        length = spec.shape[-1]
        if 2 * self.max_warp + 1 > length:
            raise ValueError(
                f"{self}: the signal has {length} time steps; max_warp can be {(length - 1) / 2:g} at most"
            )
        return Step(
            name=repr(self),
            kind="sample",
            function=warp if spec.dtype.kind == "f" else warp_integers,
            reference=_warp,
            source=spec,
            target=spec,
            numbers=(self.max_warp, length - 1, *limits(spec)),
            draw=draw_warp,
            uniforms=2,
            parameters=("point", "shift"),
            scratch=_one_channel,
        )


def _one_channel(spec: Spec) -> tuple[int, int]:
    return spec.shape[-1], 0


@jitable
def draw_warp(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw the point and by how much it is moved."""
    drawn[0] = numbers[0] + uniforms[0] * (numbers[1] - 2.0 * numbers[0])
    drawn[1] = (2.0 * uniforms[1] - 1.0) * numbers[0]


@jitable
def warp(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Warp floats, channel by channel."""
    length = source.shape[-1]
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(values) // length):
        given = values[row * length : (row + 1) * length]
        warp_row(given, out[row * length : (row + 1) * length], drawn[0], drawn[1])


@jitable
def warp_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Warp integers, channel by channel, and round."""
    length = source.shape[-1]
    values, out = source.reshape(-1), target.reshape(-1)
    made = work[:length]
    for row in range(len(values) // length):
        warp_row(values[row * length : (row + 1) * length], made, drawn[0], drawn[1])
        store_rounded(made, out[row * length : (row + 1) * length], numbers[2], numbers[3])


@jitable
def warp_row(values: Any, out: Any, point: float, shift: float) -> None:
    """Write a row in which what was at ``point`` is at ``point + shift``."""
    last = float(len(out) - 1)
    knot = point + shift
    # Where there is less than one step on a side, it has no samples but the end, which stays.
    before = point / max(knot, 1.0)
    behind = (last - point) / max(last - knot, 1.0)
    for i in range(len(out)):
        position = i * before if i < knot else last - (last - i) * behind
        position = min(max(position, 0.0), last)
        at = int(position)
        out[i] = between(values, at, out.dtype.type(position - at), out)


def _warp(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    point, shift = drawn[:2]
    dtype = working(array.dtype)
    last, knot = float(array.shape[-1] - 1), point + shift
    i = np.arange(array.shape[-1])
    left = i * (point / max(knot, 1.0))
    right = last - (last - i) * ((last - point) / max(last - knot, 1.0))
    position = np.clip(np.where(i < knot, left, right), 0, last)
    at = position.astype(np.int64)
    return rounded(linear(array, at, position - at, dtype), array.dtype)
