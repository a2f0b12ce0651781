"""Signals at another sampling rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.signals import between, linear, rounded, store_rounded
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.audio.signal import expect_signal, limits, working
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# Whole numbers up to here are exact in float32, in which the way between two samples is computed.
_HIGHEST = 1 << 24


@dataclass(frozen=True)
class Resample(Operation):
    """A signal at another sampling rate, linear between its samples.

    Output sample i is the signal at sample ``i * orig_freq / new_freq``. There is no filter against aliasing: of
    frequencies above half of the new rate, mirror images stay, and high frequencies are damped a little. That
    is good for augmentation and for slow signals; prepare speech and music with a filtering resampler.

    Takes float32, float64, int16 or int8 ``(T,)``, ``(C, T)`` or ``(…, T)`` and gives
    ``ceil(T * new_freq / orig_freq)`` samples of the same dtype; integers are rounded.

    Args:
        orig_freq: Samples per second (or any other time) of what comes in.
        new_freq: The same of what goes out.
    """

    orig_freq: int
    new_freq: int

    def __post_init__(self) -> None:
        settle(
            self,
            orig_freq=as_count("Resample.orig_freq", self.orig_freq, least=1, most=_HIGHEST),
            new_freq=as_count("Resample.new_freq", self.new_freq, least=1, most=_HIGHEST),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal.
        """
        expect_signal(self, spec)
        common = math.gcd(self.orig_freq, self.new_freq)
        stride, rate = self.orig_freq // common, self.new_freq // common
        *channels, length = spec.shape
        return Step(
            name=repr(self),
            kind="sample",
            function=resample if spec.dtype.kind == "f" else resample_integers,
            reference=_resample,
            source=spec,
            target=replace(spec, shape=(*channels, -(-length * rate // stride)), layout=""),
            numbers=(stride, rate, *limits(spec)),
            scratch=self._row if spec.dtype.kind != "f" else _nothing,
        )

    def _row(self, spec: Spec) -> tuple[int, int]:
        return -(-spec.shape[-1] * self.new_freq // self.orig_freq), 0


def _nothing(spec: Spec) -> tuple[int, int]:
    return 0, 0


@jitable
def resample(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Resample floats, channel by channel."""
    length, new_length = source.shape[-1], target.shape[-1]
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(values) // length):
        given = values[row * length : (row + 1) * length]
        resample_row(given, out[row * new_length : (row + 1) * new_length], int(numbers[0]), int(numbers[1]))


@jitable
def resample_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Resample integers, channel by channel, and round."""
    length, new_length = source.shape[-1], target.shape[-1]
    values, out = source.reshape(-1), target.reshape(-1)
    made = work[:new_length]
    for row in range(len(values) // length):
        given = values[row * length : (row + 1) * length]
        resample_row(given, made, int(numbers[0]), int(numbers[1]))
        store_rounded(made, out[row * new_length : (row + 1) * new_length], numbers[2], numbers[3])


@jitable
def resample_row(values: Any, out: Any, stride: int, rate: int) -> None:
    """Write every ``stride / rate``-th value of a row, computed in the type of ``out``.

    The position is a whole number ``at`` and ``rest / rate``, so that nothing adds up over a long signal.
    """
    step, step_rest = stride // rate, stride % rate
    unit = out.dtype.type(1.0 / rate)
    at, rest = 0, 0
    for i in range(len(out)):
        out[i] = between(values, at, out.dtype.type(rest) * unit, out)
        at += step
        rest += step_rest
        if rest >= rate:
            rest -= rate
            at += 1


def _resample(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    stride, rate = int(numbers[0]), int(numbers[1])
    dtype = working(array.dtype)
    at, rest = np.divmod(np.arange(-(-array.shape[-1] * rate // stride)) * stride, rate)
    share = rest.astype(dtype) * np.array(1.0 / rate, dtype)
    return rounded(linear(array, at, share, dtype), array.dtype)
