"""The compiled kernels of colour and tone, many operations in each, against numpy: bitwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.cast import Cast, ToFloat
from nogil_loader.transforms.image.colour import Hue, Saturation
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.grey import Grayscale, RandomGrayscale
from nogil_loader.transforms.image.jitter import ColorJitter
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.levels import Invert, Posterize, Solarize
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.image.tone import Brightness, Gamma
from tests.transforms.image.agree import run

_TONES = [
    Brightness((0, 2), p=0.8),
    Contrast((0, 2), p=0.8),
    Saturation((0, 2), p=0.8),
    Hue((-0.5, 0.5), p=0.8),
]
_CHAINS = {
    "uint8": Compose(
        [
            ColorJitter(0.9, 0.9, 0.9, 0.5),
            Gamma((0.3, 3), gain=1.1, p=0.8),
            Solarize((0, 255), p=0.8),
            Invert(0.5),
            Posterize((1, 8)),
            RandomGrayscale(0.3),
            ToFloat(),
            Normalize((0.5, 0.4, 0.3), 0.25),
            ToCHW(),
        ]
    ),
    "float32": Compose([ToHWC(), *_TONES, Gamma((0.3, 3), p=0.8), Grayscale(), Cast("uint8")]),
    "int32": Compose([*_TONES[1:], Posterize((1, 31)), Cast("float64"), Contrast(0.9), Cast("int16")]),
}


def pixels(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Pixels of every kind: noise, greys, black and white, and for floats what is outside of 0-1 or no number."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        values: Any = rng.integers(info.min, info.max, shape, endpoint=True)
        values = np.where(
            rng.random(shape) < 0.1, info.max, np.where(rng.random(shape) < 0.1, info.min, values)
        )
    else:
        values = rng.normal(0.5, 0.4, shape)
        for odd in (0.0, 1.0, np.nan, np.inf, -np.inf):
            values = np.where(rng.random(shape) < 0.01, odd, values)
    return np.asarray(values, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])  # a chain takes a compiler ten seconds
@settings(max_examples=15)
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
)
def test_fused_kernel_agrees_with_numpy(dtype: str, size: tuple[int, int], seed: int, index: int) -> None:
    planar = dtype == "float32"
    shape = (3, *size) if planar else (*size, 3)
    run(_CHAINS[dtype], pixels(dtype, shape, seed), seed=seed, index=index, compiled=True)
