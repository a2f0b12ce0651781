"""Rows of bytes are laid out exactly, from read-only and writable memory alike."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from nogil_loader.kernels import pad_rows


@given(
    lengths=st.lists(st.integers(0, 20), min_size=0, max_size=8),
    extra=st.integers(0, 9),
    filler=st.binary(min_size=1, max_size=7),
    left=st.booleans(),
    locked=st.booleans(),
)
def test_padded_rows_hold_values_and_repetitions_of_the_filler(
    lengths: list[int], extra: int, filler: bytes, left: bool, locked: bool
) -> None:
    offsets = np.cumsum([0, *lengths])
    values = np.arange(offsets[-1]).astype(np.uint8)
    values.flags.writeable = offsets.flags.writeable = not locked
    width = max(lengths, default=0) + extra
    out = np.full(len(lengths) * width + 3, 250, np.uint8)
    pad_rows(values, offsets, np.frombuffer(filler, np.uint8), out, width, left)
    for row, length in enumerate(lengths):
        fill = (filler * (width + 1))[: width - length]
        data = values[offsets[row] : offsets[row + 1]].tobytes()
        expected = fill + data if left else data + fill
        assert out[row * width : (row + 1) * width].tobytes() == expected
    assert out[len(lengths) * width :].tolist() == [250] * 3


@pytest.mark.parametrize("width", [5_000, 100_000])
def test_the_plain_function_and_the_kernel_agree(width: int) -> None:
    generator = np.random.default_rng(0)
    offsets = np.cumsum([0, *generator.integers(0, width, 5)])
    values = generator.integers(0, 255, offsets[-1]).astype(np.uint8)
    filler = generator.integers(0, 255, 4096).astype(np.uint8)
    plain, compiled = np.zeros(5 * width, np.uint8), np.ones(5 * width, np.uint8)
    pad_rows.python(values, offsets, filler, plain, width, 1)
    pad_rows(values, offsets, filler, compiled, width, 1)
    np.testing.assert_array_equal(plain, compiled)
