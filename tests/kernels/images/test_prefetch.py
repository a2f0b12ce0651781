"""Asking for memory changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.images.prefetch import prefetch_row


def ask(planes: Any, y: int) -> None:
    prefetch_row(planes, y)


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_nothing_happens_to_any_row(dtype: str) -> None:
    import numba

    from nogil_loader.kernels.images import vectors  # noqa: F401

    jit.introduce(numba)
    planes = np.arange(3 * 5 * 100).astype(dtype).reshape(3, 5, 100)
    before = planes.copy()
    signature = numba.types.void(numba.from_dtype(planes.dtype)[:, :, ::1], numba.types.int64)
    kernel = numba.njit(signature, nogil=True)(ask)
    for form in (ask, kernel):
        for y in (0, 4, 5, -1, 2**62, -(2**63)):
            form(planes, y)
    np.testing.assert_array_equal(planes, before)
