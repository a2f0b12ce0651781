"""Arrays as people can look at them: pictures of 8 bits, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.step import Node, Step

Array = npt.NDArray[Any]

# What no photograph contains: pixels that are NaN or infinite.
_NOT_FINITE = (255, 0, 255)
# Augmentations push some values beyond black and white, where they are cut off; more than this share of them means
# that the values are on another scale.
_MOST_CUT = 0.25
# What cannot be seen, such as the rounding of what Normalize has made.
_HALF_LEVEL = 0.5 / 255
# Integers that use less of their range than this are labels, or 12 bits of a camera, and would be black.
_LEAST_RANGE = 1 / 8
# Differences of larger numbers may overflow.
_LARGEST = 1e300
# Fewer signals than this, each longer than that many times their number, are curves rather than an image.
_MOST_CURVES = 8
_LONGER = 8


@dataclass(frozen=True)
class Picture:
    """An image.

    Attributes:
        pixels: ``(H, W, 3)`` uint8.
        notes: What was done to show it, in words.
    """

    pixels: npt.NDArray[np.uint8]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curves:
    """Signals of one length.

    Attributes:
        values: ``(signals, length)`` float64, NaN where there is nothing to show.
        span: The values at the lower and at the upper edge of the picture.
        notes: What was done to show them, in words.
    """

    values: npt.NDArray[np.float64]
    span: tuple[float, float]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scale:
    """How values came about that a trailing ``Normalize`` has made: ``(pixel / white) * scale + shift``.

    Attributes:
        scale: One number for each channel.
        shift: The same.
    """

    scale: tuple[float, ...]
    shift: tuple[float, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Scale | None:
        """Return the scale that the last ``Normalize`` of a chain has put the values on, None if there is none."""
        for node in reversed(nodes):
            if isinstance(node, Step) and node.name.partition("(")[0] == Normalize.__name__:
                channels = len(node.numbers) // 2
                scale = tuple(number * node.source.white for number in node.numbers[:channels])
                return cls(scale, node.numbers[channels:])
        return None

    def undo(self, image: Array) -> Array:
        """Return intensities, 0 black and 1 white, of an image ``(H, W, C)``."""
        undone: Array = (image - np.asarray(self.shift)) / np.asarray(self.scale)
        return undone


def show(array: Array, layout: Layout = "", scale: Scale | None = None) -> Picture | Curves:
    """Return an array as a picture or as curves.

    Args:
        array: Numbers; one axis is a curve, two or three are an image, of more the first of each is taken.
        layout: Of an image, ``""`` where it has to be guessed.
        scale: What the values have gone through.

    Raises:
        ValueError: It does not consist of real numbers, or there are none.
    """
    if array.dtype.kind not in "biuf" or array.size == 0:
        raise ValueError(f"{Spec(array.shape, array.dtype)} cannot be shown")
    notes = []
    while array.ndim > 3:
        notes.append(f"first of {array.shape[0]}")
        array = array[0]
    if array.ndim < 2 or (not layout and array.ndim == 2 and _is_signals(array.shape)):
        return _as_curves(np.atleast_2d(array).astype(np.float64), notes)
    image, told = _choose_channels(_channels_last(array, layout))
    notes += told
    values = image.astype(np.float64)
    is_finite = np.isfinite(values)
    if not is_finite.all():
        notes.append(f"not finite: {np.count_nonzero(~is_finite)} (magenta)")
        values = np.where(is_finite, values, values[is_finite].min(initial=_LARGEST))
    values = np.clip(values, -_LARGEST, _LARGEST)
    if scale is not None and array.dtype.kind == "f" and len(scale.scale) == image.shape[2]:
        values = scale.undo(values)
    values, told = _as_intensities(values, array.dtype)
    notes += told
    pixels = np.broadcast_to(np.rint(values * 255), (*values.shape[:2], 3)).astype(np.uint8)
    pixels[~is_finite.all(axis=2)] = _NOT_FINITE
    return Picture(pixels, tuple(notes))


def with_common_span(shown: Sequence[Picture | Curves]) -> list[Picture | Curves]:
    """Return the same with curves that can be compared with each other."""
    spans = [each.span for each in shown if isinstance(each, Curves)]
    common = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else (0.0, 0.0)
    return [replace(each, span=common) if isinstance(each, Curves) else each for each in shown]


def _as_curves(values: npt.NDArray[np.float64], notes: list[str]) -> Curves:
    is_finite = np.isfinite(values)
    if not is_finite.all():
        notes.append(f"not finite: {np.count_nonzero(~is_finite)} (gaps)")
    values = np.where(is_finite, np.clip(values, -_LARGEST, _LARGEST), np.nan)
    finite = values[is_finite]
    span = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return Curves(values, span, tuple(notes))


def _is_signals(shape: tuple[int, ...]) -> bool:
    return shape[0] <= _MOST_CURVES and shape[1] > _LONGER * shape[0]


def _channels_last(array: Array, layout: Layout) -> Array:
    if array.ndim == 2:
        return array[:, :, None]
    if not layout:
        layout = "CHW" if array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4) else "HWC"
    return np.moveaxis(array, 0, 2) if layout == "CHW" else array


def _choose_channels(image: Array) -> tuple[Array, list[str]]:
    """Return one channel or three of an image."""
    channels = image.shape[2]
    if channels in (1, 3):
        return image, []
    if channels == 4:
        return image[:, :, :3], ["without channel 3"]
    if channels == 2:
        return image[:, :, :1], ["channel 0 of 2"]
    return image[:, :, :3], [f"channels 0 to 2 of {channels}"]


def _as_intensities(values: Array, dtype: np.dtype[Any]) -> tuple[Array, list[str]]:
    """Return values between 0 and 1, and what was done to bring them there."""
    low, high = float(values.min()), float(values.max())
    if dtype.kind in "iu" and dtype != np.uint8:
        white = float(np.iinfo(dtype).max)
        if low >= 0 and high > _LEAST_RANGE * white:
            return values / white, []
    elif dtype == np.uint8:
        return values / 255, []
    elif np.mean((values < -_HALF_LEVEL) | (values > 1 + _HALF_LEVEL)) <= _MOST_CUT:
        return np.clip(values, 0, 1), []
    span = high - low
    note = f"{low:.4g} to {high:.4g} shown as black to white"
    return (values - low) / span if span > 0 else np.full_like(values, 0.5), [note]
