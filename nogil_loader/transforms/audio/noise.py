"""Signals with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.noise import fill_normal_noise, normal_noise
from nogil_loader.kernels.signals import lane_sum, rounded, store_rounded, sum_squares
from nogil_loader.transforms.arguments import as_range, settle
from nogil_loader.transforms.audio.gain import draw_between
from nogil_loader.transforms.audio.signal import (
    MOST_DECIBELS,
    NEPERS,
    expect_signal,
    limits,
    one_row,
    working,
)
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# Times any normal number, it is finite in float32.
_STRONGEST: Final = 1e30


@dataclass(frozen=True)
class AddNoise(Operation):
    """A signal with Gaussian noise, of a random ratio of signal to noise.

    The noise has the standard deviation ``rms / 10 ** (snr_db / 20)``, where ``rms`` is the root of the signal's
    mean square over all channels. Silence stays silent. Noise is computed in float32.

    Takes float32, float64, int16 or int8 ``(T,)``, ``(C, T)`` or ``(…, T)`` and keeps shape and dtype; integers
    are rounded and clipped.

    Args:
        snr_db: Range of the ratio in decibels, or one number; at 0 dB the noise is as strong as the signal.
    """

    snr_db: float | tuple[float, float] = (10.0, 30.0)

    def __post_init__(self) -> None:
        ratio = as_range("AddNoise.snr_db", self.snr_db, least=-MOST_DECIBELS, most=MOST_DECIBELS)
        settle(self, snr_db=ratio)

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal.
        """
        expect_signal(self, spec)
        low, high = as_range("AddNoise.snr_db", self.snr_db)
        return Step(
            name=repr(self),
            kind="sample",
            function=add_noise_by_ratio if spec.dtype.kind == "f" else add_noise_by_ratio_to_integers,
            reference=_add_noise_by_ratio,
            source=spec,
            target=spec,
            numbers=(low, high, *limits(spec)),
            draw=draw_between,
            uniforms=1,
            parameters=("snr_db",),
            scratch=one_row,
        )


@dataclass(frozen=True)
class Jitter(Operation):
    """A signal with Gaussian noise of a given strength, as is common for the data of sensors.

    Noise is computed in float32. (Um et al., "Data augmentation of wearable sensor data for Parkinson's disease
    monitoring using convolutional neural networks", 2017.)

    Takes float32, float64, int16 or int8 ``(T,)``, ``(C, T)`` or ``(…, T)`` and keeps shape and dtype; integers
    are rounded and clipped.

    Args:
        std: Standard deviation of the noise in the units of the signal, or a range from which it is drawn.
    """

    std: float | tuple[float, float] = 0.05

    def __post_init__(self) -> None:
        settle(self, std=as_range("Jitter.std", self.std, least=0.0, most=_STRONGEST))

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal.
        """
        expect_signal(self, spec)
        low, high = as_range("Jitter.std", self.std)
        return Step(
            name=repr(self),
            kind="sample",
            function=add_noise if spec.dtype.kind == "f" else add_noise_to_integers,
            reference=_add_noise,
            source=spec,
            target=spec,
            numbers=(low, high, *limits(spec)),
            draw=draw_between,
            uniforms=1,
            parameters=("std",),
            scratch=one_row,
        )


@jitable
def noise_level(source: Any, decibels: float) -> float:
    """Return the standard deviation of noise that is so many decibels below a signal."""
    mean_square = sum_squares(source.reshape(-1), 0.0) / source.size
    return math.sqrt(mean_square) * math.exp(-decibels * NEPERS)


@jitable
def add_noise_by_ratio(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Add noise to floats; the ratio was drawn."""
    add_normal(source, target.reshape(-1), noise_level(source, drawn[0]), rng, work)


@jitable
def add_noise_by_ratio_to_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Add noise to integers; the ratio was drawn."""
    sums = work[: source.size]
    add_normal(source, sums, noise_level(source, drawn[0]), rng, work)
    store_rounded(sums, target.reshape(-1), numbers[2], numbers[3])


@jitable
def add_noise(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Add noise to floats; its standard deviation was drawn."""
    add_normal(source, target.reshape(-1), drawn[0], rng, work)


@jitable
def add_noise_to_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Add noise to integers; its standard deviation was drawn."""
    sums = work[: source.size]
    add_normal(source, sums, drawn[0], rng, work)
    store_rounded(sums, target.reshape(-1), numbers[2], numbers[3])


@jitable
def add_normal(source: Any, out: Any, level: float, rng: Any, work: Any) -> None:
    """Write a signal with noise to a row, computed in its type; it may be the beginning of ``work``."""
    values, noise = source.reshape(-1), work[: source.size]
    fill_normal_noise(rng[0], rng[1], rng[2], 0, noise)
    scale = out.dtype.type(level)
    for i in range(len(out)):
        out[i] = out.dtype.type(values[i]) + out.dtype.type(noise[i]) * scale


def _add_noise_by_ratio(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    mean_square = lane_sum(array.reshape(-1).astype(np.float64) ** 2) / array.size
    return _with_noise(array, np.sqrt(mean_square) * math.exp(-drawn[0] * NEPERS), rng)


def _add_noise(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return _with_noise(array, drawn[0], rng)


def _with_noise(array: npt.NDArray[Any], level: float, rng: Any) -> npt.NDArray[Any]:
    dtype = working(array.dtype)
    noise = normal_noise(rng[0], int(rng[1]), int(rng[2]), 0, array.size).reshape(array.shape)
    return rounded(array.astype(dtype) + noise.astype(dtype) * np.array(level, dtype), array.dtype)
