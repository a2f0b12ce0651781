"""Arrays as a dataset: samples are rows, and a batch taken at once equals the collated samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.collate import default_collate
from nogil_loader.data import ArrayDataset, batched_fetch
from tests.naming import told

DTYPES = [
    *(
        "?",
        "i1",
        "u1",
        "<i2",
        ">i2",
        "<u4",
        ">u4",
        "<i8",
        "u8",
        "<f2",
        ">f2",
        "<f4",
        ">f4",
        ">f8",
        "<c8",
        ">c16",
    ),
    *("M8[s]", ">M8[D]", "m8[ms]", "S3", "<U3", ">U3", "longdouble"),
]
STRUCTURED = np.dtype([("id", ">i4"), ("box", "<f4", (2, 2)), ("name", "S2")])

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "reversed rows": lambda array: array[::-1],
    "reversed everywhere": lambda array: array[(slice(None, None, -1),) * array.ndim],
    "every second row": lambda array: np.repeat(array, 2, axis=0)[::2],
    "unaligned": lambda array: unaligned(array),
}


def unaligned(array: np.ndarray) -> np.ndarray:
    block = np.empty(array.nbytes + 1, np.uint8)
    shifted = np.ndarray(array.shape, array.dtype, buffer=block, offset=1)
    shifted[...] = array
    return shifted


def filled(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array of arbitrary but valid bytes, the same every time."""
    dtype = np.dtype(dtype)
    numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    if dtype == STRUCTURED:
        array = np.zeros(shape, dtype)
        array["id"], array["name"] = numbers, numbers.astype("S2")
        array["box"] = numbers[..., None, None] * [[1, 2], [3, 4]]
        return array
    return (numbers % 2 if dtype.kind == "?" else numbers).astype(dtype)


def assert_is_the_collated_batch(batch: Any, samples: list[Any]) -> None:
    collated = default_collate(samples)
    assert type(batch) is type(collated)
    if isinstance(batch, dict):
        assert list(batch) == list(collated)
        batch, collated = tuple(batch.values()), tuple(collated.values())
    parts = zip(batch, collated, strict=True) if isinstance(batch, tuple) else [(batch, collated)]
    for array, expected in parts:
        assert array.dtype == expected.dtype
        assert array.dtype.isnative
        assert array.shape == expected.shape
        # The bytes, so that NaNs are compared too; but a long double has bytes that mean nothing.
        is_same = array.tobytes() == expected.tobytes()
        assert is_same or (array.dtype == np.longdouble and np.array_equal(array, expected))
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0


# --- samples -----------------------------------------------------------------------------------------------


def test_one_array_gives_rows_several_give_tuples_and_names_give_dicts() -> None:
    x, y = np.arange(6).reshape(3, 2), np.array([7, 8, 9])
    assert ArrayDataset(x)[1].tolist() == [2, 3]
    assert ArrayDataset(y)[-1] == 9
    first, second = ArrayDataset(x, y)[2]
    assert (first.tolist(), second) == ([4, 5], 9)
    for named in (ArrayDataset(x=x, y=y), ArrayDataset({"x": x, "y": y})):
        sample = named[0]
        assert list(sample) == ["x", "y"]
        assert (sample["x"].tolist(), sample["y"]) == ([0, 1], 7)
    assert list(ArrayDataset({"y": y})[0]) == ["y"], "a mapping stays a mapping with one array too"
    assert list(ArrayDataset({("image", 0): y})[0]) == [("image", 0)]


def test_samples_are_views_and_not_copies() -> None:
    x = np.zeros((3, 2))
    sample = ArrayDataset(x)[1]
    assert np.shares_memory(sample, x)
    x[1] = 5
    assert sample.tolist() == [5, 5]


def test_the_samples_of_a_one_dimensional_array_keep_its_dtype() -> None:
    for dtype in ("f2", "f4", "u1", "?", "M8[s]"):
        sample = ArrayDataset(np.zeros(3, dtype))[0]
        assert isinstance(sample, np.generic)
        assert sample.dtype == np.dtype(dtype)


@given(st.lists(st.integers(-100, 100), max_size=20), st.data())
def test_it_reads_like_a_list(values: list[int], data: st.DataObject) -> None:
    dataset = ArrayDataset(np.array(values, np.int64))
    take: Any = dataset.take
    assert len(dataset) == len(values)
    assert list(dataset) == values
    index = data.draw(st.integers(-25, 25))
    if -len(values) <= index < len(values):
        assert dataset[index] == values[index]
        assert dataset[np.int8(index)] == values[index]
        assert dataset.__getitems__([index, index]) == [values[index]] * 2
    else:
        for read in (dataset.__getitem__, lambda i: dataset.__getitems__([i]), lambda i: take([i])):
            with pytest.raises(IndexError, match=rf"index {index} .* length {len(values)}\b"):
                read(index)


@pytest.mark.parametrize("index", [1.0, "1", None, slice(0, 2), [0, 1], (0, 1), np.array([0, 1])], ids=told)
def test_an_index_that_is_no_integer_is_refused_by_every_way_of_reading(index: Any) -> None:
    dataset = ArrayDataset(np.arange(3))
    take: Any = dataset.take
    for read in (dataset.__getitem__, lambda i: dataset.__getitems__([i]), lambda i: take([0, i])):
        with pytest.raises(TypeError, match="an index of ArrayDataset is an integer"):
            read(index)


# --- construction ------------------------------------------------------------------------------------------


def test_arrays_of_different_lengths_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'x' has 3 rows and array 'y' has 2"):
        ArrayDataset(x=np.ones(3), z=np.ones(3), y=np.ones(2))
    with pytest.raises(ValueError, match="array 0 has 3 rows and array 1 has 2"):
        ArrayDataset(np.ones(3), np.ones(2))


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="array 1 of a dataset is 0-dimensional"):
        ArrayDataset(np.ones(3), np.array(1.0))
    with pytest.raises(ValueError, match="array 'x' of a dataset is 0-dimensional"):
        ArrayDataset(x=np.float32(1.0))
    with pytest.raises(ValueError, match="at least one array"):
        ArrayDataset()
    with pytest.raises(ValueError, match="at least one array"):
        ArrayDataset({})


@pytest.mark.parametrize("value", [[1, 2], (1, 2), "abc", None, 3, iter([1])], ids=told)
def test_what_is_no_array_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"array 'x' of a dataset is .*expected an array, not"):
        ArrayDataset(x=value)


def test_arrays_by_position_and_by_name_do_not_mix() -> None:
    with pytest.raises(TypeError, match="not both"):
        ArrayDataset(np.ones(3), y=np.ones(3))


def test_a_masked_array_is_refused_since_its_mask_would_be_lost() -> None:
    with pytest.raises(TypeError, match="masked array"):
        ArrayDataset(np.ma.masked_array([1, 2], [False, True]))


def test_the_repr_shows_names_dtypes_and_shapes_but_no_values() -> None:
    assert repr(ArrayDataset(x=np.zeros((3, 2), "f4"), y=np.zeros(3, "u1"))) == (
        "ArrayDataset(x: float32[3, 2], y: uint8[3])"
    )


def test_the_arrays_can_be_had_back() -> None:
    x, y = np.ones(3), np.zeros(3)
    assert ArrayDataset(x).arrays is x
    assert ArrayDataset(x, y).arrays == (x, y)
    assert ArrayDataset(x=x).arrays == {"x": x}


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*DTYPES, STRUCTURED], ids=str)
def test_a09_a_taken_batch_is_the_collated_batch_for_every_dtype_and_layout(dtype: Any, layout: str) -> None:
    for shape in [(5, 3), (5, 2, 2), (5, 0)]:
        dataset = ArrayDataset(x=LAYOUTS[layout](filled(dtype, shape)))
        assert dataset.take is not None
        for indices in ([4, 0, 0, -2], [3]):
            assert_is_the_collated_batch(dataset.take(indices), dataset.__getitems__(indices))


@pytest.mark.parametrize("layout", ["C", "reversed rows", "unaligned"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind not in "SU"])
def test_a12_a_taken_batch_of_scalars_keeps_the_dtype_of_the_array(dtype: str, layout: str) -> None:
    array = LAYOUTS[layout](filled(dtype, (5,)))
    dataset = ArrayDataset(array, array)
    assert dataset.take is not None
    batch = dataset.take([4, 0, -2])
    assert batch[0].dtype == array.dtype.newbyteorder("=")
    assert_is_the_collated_batch(batch, dataset.__getitems__([4, 0, -2]))


def test_a_taken_batch_of_structures_keeps_their_fields() -> None:
    dataset = ArrayDataset(filled(STRUCTURED, (5,)))
    assert dataset.take is not None
    assert_is_the_collated_batch(dataset.take([4, -5]), dataset.__getitems__([4, -5]))


@given(
    hnp.arrays(hnp.scalar_dtypes() | st.just(np.dtype("f2")), hnp.array_shapes(min_dims=2, max_side=4)),
    st.data(),
)
def test_a_taken_batch_is_the_collated_batch_whatever_the_array(
    array: np.ndarray, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(1, array.ndim)))
    dataset = ArrayDataset(array.transpose(0, *order))
    indices = data.draw(st.lists(st.integers(-len(array), len(array) - 1), min_size=1, max_size=8))
    assert dataset.take is not None
    for given_as in (indices, np.array(indices), np.array(indices, np.int32), tuple(indices)):
        assert_is_the_collated_batch(dataset.take(given_as), dataset.__getitems__(indices))


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array([1, None], object),
        np.array([[1, None], [2, 3]], object),
        np.array(["a", "b"], np.dtypes.StringDType()),
        np.zeros(2, [("a", object)]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_a07_batches_of_objects_and_of_strings_are_left_to_the_collate_function(array: np.ndarray) -> None:
    dataset = ArrayDataset(np.arange(2), array)
    assert dataset.take is None
    assert batched_fetch(dataset, "take") is None
    assert np.array_equal(dataset[1][1], array[1])


def test_a03_a_batch_of_a_read_only_array_is_writable_and_the_array_stays_as_it_was() -> None:
    array = np.arange(12.0).reshape(4, 3)
    array.flags.writeable = False
    dataset = ArrayDataset(array)
    assert dataset.take is not None
    batch = dataset.take([2, 1])
    batch[...] = -1
    assert array.tolist() == np.arange(12.0).reshape(4, 3).tolist()
    assert not dataset[0].flags.writeable


def test_an_index_out_of_range_within_a_batch_is_named() -> None:
    dataset = ArrayDataset(np.arange(3))
    assert dataset.take is not None
    for indices in (
        [0, 3],
        [0, -4],
        np.array([0, 2**62]),
        [0, 2**80],
        [0, -(2**80)],
        np.array([2**63 + 1], "u8"),
    ):
        with pytest.raises(
            IndexError, match=rf"index {int(indices[-1])} is out of range for ArrayDataset of length 3"
        ):
            dataset.take(indices)


def test_a_batch_of_nothing_is_empty() -> None:
    dataset = ArrayDataset(np.zeros((3, 2), "f4"))
    assert dataset.take is not None
    assert dataset.take([]).shape == (0, 2)


def test_taking_leaves_the_indices_as_they_were() -> None:
    indices = np.array([-1, 0])
    dataset = ArrayDataset(np.arange(3))
    assert dataset.take is not None
    assert dataset.take(indices).tolist() == [2, 0]
    assert indices.tolist() == [-1, 0]


@pytest.mark.torch
def test_tensors_are_taken_as_the_arrays_they_share_memory_with() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6).reshape(3, 2)
    sample = ArrayDataset(tensor)[1]
    assert isinstance(sample, np.ndarray)
    tensor[1] = 9
    assert sample.tolist() == [9, 9]
