"""Gathering equals indexing, releases nothing unchecked to memory, and leaves the GIL to others."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.extra.numpy as nps
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from nogil_loader.kernels import gather_rows

DTYPES = ["?", "u1", "i2", "f2", "f4", "i8", "c16", "g", "M8[s]", "S3", "U5", "i4,f8", ">f4", ">U2", object]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("item", [(), (3,), (2, 0), (2, 3, 4)])
def test_gathering_equals_indexing_for_every_dtype(dtype: Any, item: tuple[int, ...]) -> None:
    source = np.arange(7 * int(np.prod(item))).astype("i1").reshape(7, *item).astype(dtype)
    source.flags.writeable = False
    indices = np.array([6, 0, 3, 3, 1])
    out = np.empty((5, *item), source.dtype.newbyteorder("="))
    gather_rows(source, indices, out)
    np.testing.assert_array_equal(out, source[indices])


@given(st.data())
def test_gathering_equals_indexing_for_any_rows(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 50))
    source = np.random.default_rng(0).integers(0, 255, (rows, data.draw(st.integers(1, 40))), np.uint8)
    indices = data.draw(nps.arrays(np.int64, st.integers(0, 30), elements=st.integers(0, rows - 1)))
    out = np.empty((len(indices), source.shape[1]), np.uint8)
    gather_rows(source, indices, out)
    np.testing.assert_array_equal(out, source[indices])


@pytest.mark.parametrize("bad", [-1, 4, 2**40, -(2**63)])
@pytest.mark.parametrize("at", [0, 2])
def test_an_index_out_of_range_is_named_and_nothing_is_written(bad: int, at: int) -> None:
    indices = np.array([1, 2, 3])
    indices[at] = bad
    out = np.full((3, 2), 7.0)
    with pytest.raises(IndexError, match=rf"indices\[{at}\]={bad}: expected 0 to 3"):
        gather_rows(np.zeros((4, 2)), indices, out)
    assert (out == 7.0).all()


def test_no_index_is_right_for_an_empty_source() -> None:
    gather_rows(np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros((0, 2)))
    with pytest.raises(IndexError):
        gather_rows(np.zeros((0, 2)), np.zeros(1, np.int64), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("source", "indices", "out", "words"),
    [
        (np.zeros((4, 4)).T[:2], [0], np.zeros((1, 4)), "source: expected a C-contiguous"),
        (np.zeros(()), [0], np.zeros(1), "source"),
        (np.zeros((4, 2)), [[0]], np.zeros((1, 2)), "indices: expected 1 dimension"),
        (np.zeros((4, 2)), np.array([0], np.int32), np.zeros((1, 2)), "indices"),
        (np.zeros((4, 2)), [0], np.zeros((2, 2)), r"out: expected \(1, 2\)"),
        (np.zeros((4, 2)), [0], np.zeros((1, 2), np.float32), "out: expected"),
        (np.zeros((4, 2)), [0, 1], np.zeros((2, 2)).T, "out: expected C-contiguous"),
        (np.zeros((4, 2)), [0], np.broadcast_to(0.0, (1, 2)), "out"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(source: Any, indices: Any, out: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gather_rows(source, np.asarray(indices), out)


def test_the_gil_is_released_while_rows_are_copied() -> None:
    # If gathering held the GIL, the other thread could not count between two looks at its counter.
    source = np.zeros((4, 8 << 20), np.uint8)
    indices, out = np.zeros(16, np.int64), np.empty((16, 8 << 20), np.uint8)
    counted, stop, started = [0], threading.Event(), threading.Event()

    def count() -> None:
        started.set()
        while not stop.is_set():
            counted[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        started.wait(10)
        advanced = 0
        for _ in range(50):
            before = counted[0]
            gather_rows(source, indices, out)
            advanced += counted[0] > before
    finally:
        stop.set()
        counter.join()
    assert advanced > 0
