"""New arrays are aligned, writable, alias nothing, and give their memory back."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise
from typing import Any

import hypothesis.extra.numpy as nps
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from nogil_loader.memory.buffers import aligned_empty, allocate
from nogil_loader.memory.pool import pool
from tests.scripts import RunScript


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@given(nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9), nps.scalar_dtypes())
def test_any_shape_and_dtype_is_contiguous_writable_and_aligned(shape: tuple[int, ...], dtype: Any) -> None:
    array = aligned_empty(shape, dtype)
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == (shape, dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.aligned
    assert address(array) % 64 == 0
    array[...] = np.zeros((), dtype)


@pytest.mark.parametrize("nbytes", [(4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9_000_001])
def test_large_arrays_are_aligned_too_and_can_be_written_to_the_last_byte(nbytes: int) -> None:
    arrays = [aligned_empty(nbytes, np.uint8) for _ in range(3)]
    for value, array in enumerate(arrays):
        assert address(array) % 64 == 0
        assert array.shape == (nbytes,)
        array[:] = value
    assert [int(array[-1]) for array in arrays] == [0, 1, 2]
    assert [int(array.min()) for array in arrays] == [0, 1, 2]


def test_arrays_alias_nothing() -> None:
    arrays = [aligned_empty((100,), np.uint8) for _ in range(50)]
    arrays += [aligned_empty((5 << 20,), np.uint8) for _ in range(3)]
    spans = sorted((address(array), address(array) + array.nbytes) for array in arrays)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


@pytest.mark.parametrize("dtype", [object, [("a", object), ("b", "f8")]])
def test_arrays_of_references_are_initialised_by_numpy(dtype: Any) -> None:
    array = aligned_empty((3, 2), dtype)
    assert array.shape == (3, 2)
    assert (array["a"] if array.dtype.names else array).tolist() == [[None] * 2] * 3


def test_a28_32_bit_lengths_are_widened_before_they_are_multiplied() -> None:
    with np.errstate(all="raise"):
        array = aligned_empty((np.int32(70_000), np.int32(40_000)), np.uint8)
    assert array.nbytes == 2_800_000_000
    array[-1, -1] = 7  # one page of 2.8 GB of address space
    assert int(array[-1, -1]) == 7


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a28_a_batch_of_more_than_2_to_31_elements_is_right_to_its_last_bytes(run_script: RunScript) -> None:
    result = run_script(
        """
        import numpy as np
        from nogil_loader.collate import default_collate
        sample = np.zeros(22_000_000, np.uint8)
        slots = default_collate.begin(sample, range(100))
        for at in range(100):
            sample[-2:] = at, 200 + at % 50
            slots.put(sample, at)
        batch = slots.finish(100)
        assert batch.size == 2_200_000_000
        assert batch[:, -2:].tolist() == [[at, 200 + at % 50] for at in range(100)]
        assert batch.reshape(-1)[-1] == 249
        """,
        timeout=150,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("shape", "failure"),
    [((-1,), ValueError), ((2.5,), TypeError), (("2",), TypeError), ((True,), TypeError), (None, TypeError)],
)
def test_lengths_that_are_none_are_refused(shape: Any, failure: type[Exception]) -> None:
    with pytest.raises(failure, match="shape"):
        aligned_empty(shape, np.uint8)


@pytest.mark.parametrize("nbytes", [1000, 5 << 20])
def test_zeroed_memory_is_zero_when_it_is_used_again_too(nbytes: int) -> None:
    for _ in range(3):
        array = allocate((nbytes,), np.dtype(np.uint8), zeroed=True)
        assert not array.any()
        array[:] = 255
        del array


def test_large_arrays_lie_in_the_pool() -> None:
    pool.trim()
    address_of_first = address(aligned_empty((5 << 20,), np.uint8))
    assert pool.idle_bytes >= 6 << 20
    again = aligned_empty((1000, 643), np.float64)
    assert address(again) == address_of_first
    assert again.flags.writeable
    assert again.base is not None
    assert again.base.nbytes == again.nbytes


def test_more_than_the_address_space_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="system refuses"):
        aligned_empty((2**56,), np.uint8)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
@pytest.mark.parametrize("how", ["pooled", "suspended"])
def test_memory_goes_back_to_the_system(run_script: RunScript, how: str) -> None:
    result = run_script(
        """
        import os
        import sys
        from pathlib import Path
        import numpy as np
        from nogil_loader.memory.buffers import aligned_empty
        from nogil_loader.memory.pool import pool

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        start = resident()
        arrays = [aligned_empty((4 << 20) + 12_345, np.uint8) for _ in range(20)]
        for array in arrays:
            array[:] = 1
        size = sum(array.nbytes for array in arrays)
        assert size <= resident() - start < 1.02 * size  # nothing is resident beyond the arrays
        kept = arrays[3][100:200].view(np.int32)
        if sys.argv[1] == "pooled":
            del arrays, array
            assert pool.trim() >= size - (6 << 20)
        else:
            pool.suspend(pool)
            del arrays, array
            assert pool.idle_bytes == 0
        assert resident() - start < 0.1 * size
        assert kept.tolist() == [0x01010101] * 25
        """,
        arguments=[how],
    )
    assert result.returncode == 0, result.stderr


def test_a_view_keeps_the_memory_alive() -> None:
    view = aligned_empty((8 << 20,), np.uint8)[-10:]
    view[:] = 5
    gc.collect()
    assert view.tolist() == [5] * 10


@given(st.integers(0, 300))
def test_a_single_length_may_stand_for_a_shape(length: int) -> None:
    assert aligned_empty(length, np.float32).shape == (length,)
