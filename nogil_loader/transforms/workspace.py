"""A thread's scratch memory for kernels, which allocate nothing themselves."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.memory.buffers import allocate
from nogil_loader.transforms.fit import Fit

_FLOAT64 = np.dtype(np.float64)
_FLOAT32 = np.dtype(np.float32)
_INT64 = np.dtype(np.int64)


class Workspace(threading.local):
    """Arrays that are made when a thread first needs them, grow when more is needed, and end with the thread."""

    def __init__(self) -> None:
        self._memory: dict[object, npt.NDArray[Any]] = {}
        self._fit: Fit | None = None
        self._arrays: tuple[npt.NDArray[Any], ...] = ()

    def arrays(self, fit: Fit) -> tuple[npt.NDArray[Any], ...]:
        """Return the scratch arrays and the buffers of a kernel, in the order of its arguments."""
        if fit is not self._fit:
            self._arrays = self._make(fit)
            self._fit = fit
        return self._arrays

    def _make(self, fit: Fit) -> tuple[npt.NDArray[Any], ...]:
        need = fit.scratch
        return (
            self._take("uniforms", (need.uniforms,), _FLOAT64),
            self._take("drawn", (need.steps, need.parameters), _FLOAT64),
            self._take("rng", (4,), np.dtype(np.uint64)),
            self._take("tables", (9, need.side), _INT64),
            self._take("box", (6,), _FLOAT64),
            self._take("row", (need.row,), _FLOAT32),
            self._take("wide row", (need.wide_row,), _FLOAT64),
            self._take("work", (need.work,), _FLOAT32),
            self._take("wide work", (need.wide_work,), _FLOAT64),
            self._take("marks", (need.marks,), _INT64),
            *(self._take(at, spec.shape, stored(spec.dtype)) for at, spec in enumerate(fit.buffers)),
        )

    def _take(self, name: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        nbytes = math.prod(shape) * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.nbytes < nbytes:
            self._memory[name] = memory = allocate((nbytes,), np.dtype(np.uint8))
        return memory[:nbytes].view(dtype).reshape(shape)


def stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype as which kernels see values: bool as bytes."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype
