"""Small images of every kind that transforms take."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.layout import ToCHW
from nogil_loader.transforms.transform import Transform

NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
DTYPES = ("bool", *NUMBERS)


def picture(
    height: int, width: int, channels: int | None = 3, dtype: Any = np.uint8, seed: int = 0
) -> np.ndarray:
    """Random pixels, (H, W, C) or (H, W): of integers all values, of floats -1 to 2."""
    rng = np.random.default_rng(seed)
    shape = (height, width) if channels is None else (height, width, channels)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (rng.random(shape) * 3 - 1).astype(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, shape, kind, endpoint=True)


@st.composite
def pictures(
    draw: Any, dtypes: tuple[str, ...] = DTYPES, shortest: int = 1, longest: int = 9, square: bool = False
) -> np.ndarray:
    """Images of all sizes, channels and dtypes."""
    height = draw(st.integers(shortest, longest))
    width = height if square else draw(st.integers(shortest, longest))
    channels = draw(st.sampled_from([None, 1, 2, 3, 4, 5]))
    return picture(height, width, channels, draw(st.sampled_from(dtypes)), draw(st.integers(0, 99)))


def channels_first(transform: Transform) -> Transform:
    """The transform applied to an image whose channels have been put first."""
    return Compose([ToCHW(), transform])


def channels_last(array: np.ndarray) -> np.ndarray:
    """What such a transform has made, with the channels last."""
    return np.moveaxis(array, 0, 2)
