"""Packing: ragged arrays stand one after the other, offsets say where."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, Packed, pack_collate, pad_collate
from nogil_loader.errors import CollateError
from tests.collate.promises import assert_owned

LENGTHS = [3, 0, 7, 1, 0, 2]


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f2", "c16", "M8[s]", "U3", "i4,f8", object])
@pytest.mark.parametrize("item", [(), (5,), (0,)])
def test_every_dtype_is_packed(dtype: Any, item: tuple[int, ...]) -> None:
    samples = [np.ones((length, *item), dtype) for length in LENGTHS]
    batch = pack_collate()(samples)
    assert type(batch) is Packed
    np.testing.assert_array_equal(batch.values, np.concatenate(samples))
    assert batch.values.dtype == np.dtype(dtype)
    assert batch.offsets.tolist() == [0, 3, 3, 10, 11, 11, 13]
    assert batch.offsets.dtype == np.int64
    assert_owned(batch.values, samples)
    assert_owned(batch.offsets, [])


def test_offsets_lead_to_every_sample() -> None:
    samples = [np.arange(length) + 10 * length for length in LENGTHS]
    values, offsets = pack_collate()(samples)
    for at, sample in enumerate(samples):
        np.testing.assert_array_equal(values[offsets[at] : offsets[at + 1]], sample)


@pytest.mark.parametrize("lengths", [[1, 1000, 1], [0, 5], [1000, 0, 0, 0], [0, 0]])
def test_memory_grows_with_what_comes_and_shrinks_to_what_came(lengths: list[int]) -> None:
    samples = [np.full(length, length, np.float32) for length in lengths]
    slots = pack_collate().begin(samples[0], range(len(samples)))
    for position, sample in enumerate(samples):
        slots.put(sample, position)
    values, _ = slots.finish(len(samples))
    np.testing.assert_array_equal(values, np.concatenate(samples))
    held = values if values.base is None else values.base
    assert held.nbytes <= 1.25 * values.nbytes + 64
    assert_owned(values, samples)


def test_long_samples_are_cut_to_their_first_items() -> None:
    values, offsets = pack_collate(max_length=2)([np.arange(5), np.arange(1), [7, 8, 9]])
    assert values.tolist() == [0, 1, 0, 7, 8]
    assert offsets.tolist() == [0, 2, 3, 5]


def test_packed_and_padded_keys_stand_beside_each_other() -> None:
    collate = DefaultCollate(per_key={"boxes": pack_collate(), "ids": pad_collate(returns="values")})
    batch = collate([{"boxes": np.ones((n, 4)), "ids": np.arange(n), "n": n} for n in (2, 1)])
    assert batch["boxes"].values.shape == (3, 4)
    assert batch["boxes"].offsets.tolist() == [0, 2, 3]
    assert batch["ids"].tolist() == [[0, 1], [0, 0]]
    assert batch["n"].tolist() == [2, 1]


def test_a_none_beside_packed_rows_is_kept_where_that_is_allowed() -> None:
    assert pack_collate().none == "raise"
    with pytest.raises(CollateError, match="is None"):
        pack_collate()([np.zeros(2), None])
    kept = pack_collate(none="list")([np.zeros(2), None, np.ones(1)])
    assert [None if row is None else row.tolist() for row in kept] == [[0, 0], None, [1]]


def test_a28_offsets_are_64_bit_from_whatever_lengths() -> None:
    values, offsets = pack_collate(max_length=cast(int, np.int32(2**31 - 1)))([np.zeros(3, np.uint8)] * 2)
    assert offsets.dtype == np.int64
    assert values.shape == (6,)
