"""Padding: ragged arrays become rows of one length, with exact lengths or mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, Masked, Padded, default_collate, pack_collate, pad_collate
from nogil_loader.errors import CollateError
from tests.collate.promises import assert_owned


def ragged(
    lengths: list[int], dtype: Any = np.int64, item: tuple[int, ...] = ()
) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    return [generator.integers(1, 100, (length, *item)).astype(dtype) for length in lengths]


def reference(samples: list[np.ndarray[Any, Any]], value: Any, side: str, width: int) -> np.ndarray[Any, Any]:
    out = np.full((len(samples), width, *samples[0].shape[1:]), value, samples[0].dtype)
    for row, sample in zip(out, samples, strict=True):
        begin = 0 if side == "right" else width - len(sample)
        row[begin : begin + len(sample)] = sample
    return out


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "g", "i4,f8", object]
)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("item", [(), (5,), (2, 3)])
def test_every_dtype_is_padded_on_either_side(dtype: Any, side: Any, item: tuple[int, ...]) -> None:
    samples = ragged([3, 0, 7, 1], dtype, item)
    values, lengths = pad_collate(side=side)(samples)
    np.testing.assert_array_equal(values, reference(samples, 0, side, 7))
    assert values.dtype == samples[0].dtype
    assert lengths.tolist() == [3, 0, 7, 1]
    assert lengths.dtype == np.int64
    assert_owned(values, samples)
    assert_owned(lengths, [])


def test_a25_samples_of_length_zero_are_padded_like_any_other() -> None:
    values, lengths = pad_collate(value=-1)(ragged([3, 0, 2], np.int32))
    assert values.shape == (3, 3)
    assert values.dtype == np.int32
    assert values[1].tolist() == [-1, -1, -1]
    assert lengths.tolist() == [3, 0, 2]


@pytest.mark.parametrize("item", [(), (5,)])
@pytest.mark.parametrize("returns", ["lengths", "mask", "values"])
def test_a25_a_batch_of_empty_samples_has_width_zero_and_keeps_its_dtype(item: Any, returns: Any) -> None:
    batch = pad_collate(returns=returns)([np.zeros((0, *item), np.int32)] * 4)
    values = batch if returns == "values" else batch[0]
    assert values.shape == (4, 0, *item)
    assert values.dtype == np.int32
    if returns == "lengths":
        assert batch.lengths.tolist() == [0] * 4
    if returns == "mask":
        assert batch.mask.shape == (4, 0)


@pytest.mark.parametrize("rows", [[[], [1, 2], [3]], [[1, 2], [], [3]], [(1, 2), (), (3,)]])
def test_a25_lists_of_numbers_are_rows_and_empty_ones_take_the_dtype_of_the_others(rows: Any) -> None:
    values, lengths = pad_collate(value=9)(rows)
    assert values.dtype == np.int64
    assert values.tolist() == [[*row, *[9] * (2 - len(row))] for row in rows]
    assert lengths.tolist() == [len(row) for row in rows]


def test_a25_empty_lists_alone_are_integers() -> None:
    values, lengths = pad_collate()([[], []])
    assert (values.shape, values.dtype, lengths.tolist()) == ((2, 0), np.int64, [0, 0])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), "i8"),
        (-1, "u1"),
        (300, "u1"),
        (2**31, "i4"),
        (0.5, "i4"),
        (2, "?"),
        (1e6, "f2"),
        ("x", "f4"),
        (None, "i8"),
        (0, "U3"),
        ("long", "U3"),
        (0, "M8[s]"),
        (1, "i4,f8"),
    ],
)
def test_a26_a_pad_value_that_does_not_fit_is_refused_with_value_and_dtype(value: Any, dtype: str) -> None:
    with pytest.raises(CollateError) as caught:
        pad_collate(value=value)([{"x": np.zeros(2, dtype)}])
    assert caught.value.path == "x"
    assert repr(value) in str(caught.value)
    assert str(np.dtype(dtype)) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), "f2"),
        (float("-inf"), "f4"),
        (-100, "i8"),
        (255, "u1"),
        (3.0, "i4"),
        (True, "?"),
        (1, "?"),
        (1 + 2j, "c8"),
        ("pad", "U3"),
        (b"x", "S2"),
        (np.datetime64("NaT"), "M8[s]"),
        (np.float32(0.5), "f8"),
        (None, object),
    ],
)
def test_a26_a_pad_value_that_fits_fills_exactly(value: Any, dtype: Any) -> None:
    samples = [np.zeros(2, dtype), np.zeros(0, dtype)]
    values, _ = pad_collate(value=value)(samples)
    np.testing.assert_array_equal(values[1], np.full(2, value, dtype))
    np.testing.assert_array_equal(values[0], samples[0])


def test_rows_longer_than_the_filler_are_filled_to_their_end() -> None:
    samples = ragged([10_000, 1, 5_000], np.int32, (3,))
    values, _ = pad_collate(value=7)(samples)
    np.testing.assert_array_equal(values, reference(samples, 7, "right", 10_000))


def test_widths_are_rounded_up_to_a_multiple() -> None:
    values, lengths = pad_collate(multiple_of=8)(ragged([3, 9]))
    assert values.shape == (2, 16)
    assert lengths.tolist() == [3, 9]


@pytest.mark.parametrize("side", ["right", "left"])
def test_long_samples_are_cut_to_their_first_items(side: Any) -> None:
    samples = ragged([3, 9, 2])
    values, lengths = pad_collate(max_length=4, side=side)(samples)
    np.testing.assert_array_equal(values, reference([sample[:4] for sample in samples], 0, side, 4))
    assert lengths.tolist() == [3, 4, 2]


def test_one_static_shape_comes_from_a_multiple_of_the_maximum() -> None:
    collate = pad_collate(max_length=8, multiple_of=8)
    assert {collate(ragged(lengths)).values.shape for lengths in ([1, 2], [8, 8], [0, 20])} == {(2, 8)}


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_mask_is_true_exactly_where_a_sample_is(side: Any) -> None:
    samples = ragged([3, 0, 5])
    batch = pad_collate(returns="mask", side=side, multiple_of=4)(samples)
    assert type(batch) is Masked
    expected = reference([np.ones(len(sample), bool) for sample in samples], False, side, 8)
    np.testing.assert_array_equal(batch.mask, expected)
    assert_owned(batch.mask, [])


def test_only_the_named_keys_are_padded() -> None:
    samples = [{"tokens": np.arange(at), "image": np.zeros((3, 4)), "label": at} for at in (2, 3)]
    batch = pad_collate(keys=["tokens"])(samples)
    assert type(batch["tokens"]) is Padded
    assert batch["image"].shape == (2, 3, 4)
    assert batch["label"].tolist() == [2, 3]


def test_keys_may_be_positions_paths_and_whole_branches() -> None:
    samples = [([1] * at, {"a": {"x": np.arange(at), "y": np.arange(at)}, "b": at}) for at in (2, 3)]
    first, second = pad_collate(keys=[0, "[1].a"], returns="values")(samples)
    assert first.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert second["a"]["x"].tolist() == second["a"]["y"].tolist() == [[0, 1, 0], [0, 1, 2]]
    assert second["b"].tolist() == [2, 3]


def test_without_keys_every_array_is_padded_whatever_its_lengths() -> None:
    samples = [{"a": np.zeros(3), "b": [np.zeros(2), 1], "c": np.float32(1), "d": "text"}] * 2
    batch = pad_collate()(samples)
    assert type(batch["a"]) is type(batch["b"][0]) is Padded
    assert batch["b"][1].tolist() == [1, 1]
    assert batch["c"].tolist() == [1, 1]
    assert batch["d"] == ["text", "text"]


def test_per_key_pads_parts_of_a_sample_with_different_values() -> None:
    collate = DefaultCollate(
        per_key={
            "ids": pad_collate(value=0, returns="mask"),
            "labels": pad_collate(value=-100, returns="values"),
        }
    )
    batch = collate([{"ids": [5, 6], "labels": [1, 2], "n": 2}, {"ids": [7], "labels": [3], "n": 1}])
    assert batch["ids"].values.tolist() == [[5, 6], [7, 0]]
    assert batch["ids"].mask.tolist() == [[True, True], [True, False]]
    assert batch["labels"].tolist() == [[1, 2], [3, -100]]
    assert batch["n"].tolist() == [2, 1]


def test_keys_of_a_collate_for_a_part_are_looked_for_in_that_part() -> None:
    collate = DefaultCollate(per_key={"inputs": pad_collate(keys=["ids"], returns="values")})
    batch = collate(
        [{"inputs": {"ids": [1], "fixed": np.zeros(2)}}, {"inputs": {"ids": [1, 2], "fixed": np.ones(2)}}]
    )
    assert batch["inputs"]["ids"].tolist() == [[1, 0], [1, 2]]
    assert batch["inputs"]["fixed"].shape == (2, 2)


def test_a_key_that_no_sample_has_is_named_with_what_there_is() -> None:
    with pytest.raises(CollateError, match=r"no 'tokn'.*'label', 'tokens'"):
        pad_collate(keys=["tokn"])([{"tokens": np.arange(2), "label": 1}])


def test_strided_big_endian_and_read_only_rows_are_padded() -> None:
    locked = np.arange(4)
    locked.flags.writeable = False
    samples = [
        np.arange(10)[::-2],
        np.arange(3).astype(">i8"),
        locked,
        np.asfortranarray(np.ones((4, 4), int))[1],
    ]
    values, _ = pad_collate()(samples)
    np.testing.assert_array_equal(values, reference([s.astype(np.int64) for s in samples], 0, "right", 5))
    assert_owned(values, samples)


@pytest.mark.parametrize(
    "samples",
    [
        [np.zeros((2, 3)), np.zeros((2, 4))],
        [np.zeros(2), np.zeros((2, 1))],
        [np.zeros(2), np.zeros(())],
        [np.zeros((2, 3)), np.zeros(2)],
        [np.zeros(2), np.zeros(2, np.float32)],
        [np.zeros(2), np.ma.masked_array([1.0, 2.0])],
        [np.zeros(2), "text"],
        [np.zeros(2), {"a": 1}],
        [np.zeros(2), None],
        [[1, 2], [1.5]],
        [[1, 2], ["a"]],
        [[1, 2], [2**63]],
        [[1, 2], [[1], [1, 2]]],
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_index(samples: list[Any]) -> None:
    with pytest.raises(CollateError) as at_once:
        pad_collate().collate(samples, ["first", "second"])
    assert at_once.value.indices[-1] == "second"
    slots = pad_collate().begin(samples[0], ["first", "second"])
    slots.put(samples[0], 0)
    with pytest.raises(CollateError) as one_by_one:
        slots.put(samples[1], 1)
    assert str(one_by_one.value) == str(at_once.value)


def test_padding_agrees_with_the_default_where_nothing_is_ragged() -> None:
    samples = ragged([4] * 6, np.float32, (3,))
    np.testing.assert_array_equal(pad_collate(returns="values")(samples), default_collate(samples))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"side": "middle"}, "side='middle'"),
        ({"returns": "length"}, "returns='length'"),
        ({"multiple_of": 0}, "multiple_of=0"),
        ({"multiple_of": 2.0}, "multiple_of=2.0"),
        ({"max_length": -1}, "max_length=-1"),
        ({"max_length": True}, "max_length=True"),
        ({"max_length": 100, "multiple_of": 64}, "max_length=100: expected a multiple of multiple_of=64"),
        ({"keys": "tokens"}, "keys='tokens': expected a list of keys"),
        ({"none": "skip"}, "none='skip'"),
    ],
)
def test_arguments_are_checked_when_they_are_given(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        pad_collate(**arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", ["c8", "c16", ">c8", "f2", ">f4", "b1"])
@pytest.mark.parametrize("collate", [pad_collate(), pack_collate()], ids=["pad", "pack"])
def test_a05_a09_rows_of_any_number_come_out_the_same_one_by_one_and_as_a_list(
    collate: Any, dtype: str
) -> None:
    rows = [np.arange(3).astype(dtype), np.arange(0).astype(dtype), np.arange(1, 6).astype(dtype)]
    slots = collate.begin(rows[0], [0, 1, 2])
    for position, row in enumerate(rows):
        slots.put(row, position)
    for one, other in zip(slots.finish(3), collate(rows), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
        assert one.dtype.isnative


@pytest.mark.parametrize("value", [[1], np.array([3]), {}])
def test_a26_a_pad_value_that_is_no_single_value_is_refused_at_once(value: Any) -> None:
    with pytest.raises(TypeError, match=r"PadCollate\.value=.*expected one value"):
        pad_collate(value=value)


def test_a26_a_pad_value_may_be_a_0_d_array() -> None:
    assert pad_collate(value=np.array(7), returns="values")([[1], [1, 2]]).tolist() == [[1, 7], [1, 2]]
