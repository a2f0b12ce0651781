"""Images, and memory that shows who has written beside it."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt

KINDS = ("nearest", "bilinear", "triangle", "area")
_GUARD = 64


@st.composite
def parts(draw: st.DrawFn, longest: int = 60) -> tuple[float, float, int]:
    """A part of an axis: start, extent and the axis' length; in whole pixels or not."""
    limit = draw(st.integers(1, longest))
    begin = draw(st.integers(0, limit - 1))
    end = draw(st.integers(begin + 1, limit))
    if draw(st.booleans()):
        return float(begin), float(end - begin), limit
    start = begin + draw(st.floats(0.0, 0.999))
    return start, max(min(end, limit - 0.001) - start, 0.001), limit


class Guarded:
    """Arrays with numbers around them that have to stay as they are."""

    def __init__(self) -> None:
        self._memory: list[npt.NDArray[np.uint8]] = []

    def array(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return an array without content: NaN, or large numbers."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = np.full(size + 2 * _GUARD, 0x7F, np.uint8)
        self._memory.append(memory)
        memory[_GUARD : _GUARD + size] = 0xFF if np.dtype(dtype).kind == "f" else 0x5A
        array: npt.NDArray[Any] = memory[_GUARD : _GUARD + size].view(dtype).reshape(shape)
        return array

    def check(self) -> None:
        """Fail if something beside the arrays has changed."""
        for memory in self._memory:
            assert (memory[:_GUARD] == 0x7F).all()
            assert (memory[-_GUARD:] == 0x7F).all()


def noise(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> npt.NDArray[Any]:
    """An image of random pixels over the whole range of an integer dtype, or from -1 to 1."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-1.0, 1.0, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
