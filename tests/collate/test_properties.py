"""For any samples of one shape and dtype collation equals np.stack; types and structure survive."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import hypothesis.extra.numpy as nps
import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from nogil_loader.collate import DefaultCollate, default_collate, pack_collate, pad_collate
from tests.collate.promises import assert_owned

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Record:
    value: Any
    rest: Any


DTYPES = st.one_of(
    nps.boolean_dtypes(),
    nps.integer_dtypes(endianness="="),
    nps.unsigned_integer_dtypes(endianness="="),
    nps.floating_dtypes(endianness="="),
    nps.complex_number_dtypes(endianness="="),
    nps.datetime64_dtypes(endianness="="),
    nps.timedelta64_dtypes(endianness="="),
    nps.byte_string_dtypes(min_len=1),
    nps.unicode_string_dtypes(endianness="=", min_len=1),
    st.just(np.dtype("u1,>f8,(2,)i2")),
)


@st.composite
def laid_out(draw: st.DrawFn, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values in any memory: strided, reversed, transposed, big-endian, misaligned, read-only."""
    match draw(
        st.sampled_from(["as is", "Fortran", "strided", "reversed", "swapped", "misaligned", "locked"])
    ):
        case "Fortran":
            array = np.array(array, order="F")
        case "strided" if array.ndim:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            array = wide[..., ::2]
        case "reversed" if array.ndim:
            array = array[::-1].copy()[::-1]
        case "swapped" if array.dtype.names is None:
            array = array.astype(array.dtype.newbyteorder())
        case "misaligned":
            memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
            odd = np.ndarray(array.shape, array.dtype, memory)
            odd[...] = array
            array = odd
        case "locked":
            array = array.copy()
            array.flags.writeable = False
    return array


@st.composite
def batches(draw: st.DrawFn) -> list[np.ndarray[Any, Any]]:
    dtype = draw(DTYPES)
    shape = draw(nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    count = draw(st.integers(1, 5))
    arrays = [draw(nps.arrays(dtype, shape)) for _ in range(count)]
    return [draw(laid_out(array)) for array in arrays]


def same_bytes(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@given(batches(), st.booleans())
def test_collate_equals_np_stack_for_any_dtype_shape_and_memory(
    samples: list[np.ndarray[Any, Any]], one_by_one: bool
) -> None:
    if one_by_one:
        slots = default_collate.begin(samples[0], range(len(samples) + 2))
        for position, sample in enumerate(samples):
            slots.put(sample, position)
        batch = slots.finish(len(samples))
    else:
        batch = default_collate(samples)
    native = samples[0].dtype.newbyteorder("=")
    expected = np.stack([np.ascontiguousarray(sample).astype(native) for sample in samples])
    assert same_bytes(batch, expected.reshape(batch.shape))
    assert_owned(batch, samples)


def leaves() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [lambda at: np.full((2, 2), at), float, lambda at: f"no {at}", np.float32, lambda at: at % 2 == 0]
    )


def trees() -> st.SearchStrategy[Any]:
    """Functions from a sample's number to its tree; all samples of one tree have one structure."""
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda makes: lambda at: [make(at) for make in makes]),
            st.lists(inner, max_size=3).map(lambda makes: lambda at: tuple(make(at) for make in makes)),
            st.dictionaries(st.text(max_size=3), inner, max_size=3).map(
                lambda makes: lambda at: {key: make(at) for key, make in makes.items()}
            ),
            st.tuples(inner, inner).map(lambda makes: lambda at: Pair(*(make(at) for make in makes))),
            st.tuples(inner, inner).map(lambda makes: lambda at: Record(*(make(at) for make in makes))),
        ),
        max_leaves=8,
    )


def assert_stacked(batch: Any, samples: list[Any]) -> None:
    first = samples[0]
    if isinstance(first, (np.ndarray, np.generic, float, bool)):
        np.testing.assert_array_equal(batch, np.stack(samples), strict=True)
    elif isinstance(first, str):
        assert batch == samples
    else:
        assert type(batch) is type(first)
        if isinstance(first, dict):
            assert list(batch) == list(first)
            items = [(batch[key], [sample[key] for sample in samples]) for key in first]
        elif isinstance(first, Record):
            items = [(getattr(batch, at), [getattr(s, at) for s in samples]) for at in ("value", "rest")]
        else:
            assert len(batch) == len(first)
            items = [(batch[at], [sample[at] for sample in samples]) for at in range(len(first))]
        for part, parts in items:
            assert_stacked(part, parts)


@given(trees(), st.integers(1, 4), st.sampled_from([default_collate, DefaultCollate(none="list")]))
def test_any_tree_keeps_its_types_and_collates_leaf_by_leaf(
    make: Any, count: int, collate: DefaultCollate
) -> None:
    samples = [make(at) for at in range(count)]
    assert_stacked(collate(samples), samples)
    slots = collate.begin(samples[0], range(count))
    for position, sample in enumerate(samples):
        slots.put(sample, position)
    assert_stacked(slots.finish(count), samples)


@st.composite
def ragged_batches(draw: st.DrawFn) -> list[np.ndarray[Any, Any]]:
    dtype = draw(st.one_of(nps.integer_dtypes(endianness="="), nps.floating_dtypes(endianness="=")))
    item = draw(nps.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    return [draw(laid_out(draw(nps.arrays(dtype, (length, *item))))) for length in lengths]


@given(
    ragged_batches(),
    st.sampled_from(["left", "right"]),
    st.sampled_from([1, 4]),
    st.sampled_from([None, 4]),
    st.booleans(),
)
def test_padded_and_packed_rows_give_every_sample_back(
    samples: list[np.ndarray[Any, Any]], side: Any, multiple: int, max_length: int | None, one_by_one: bool
) -> None:
    native = samples[0].dtype.newbyteorder("=")
    rows = [sample[:max_length].astype(native) for sample in samples]
    results = []
    for collate in (
        pad_collate(value=1, side=side, multiple_of=multiple, max_length=max_length),
        pack_collate(max_length=max_length),
    ):
        if one_by_one:
            slots = collate.begin(samples[0], range(len(samples)))
            for position, sample in enumerate(samples):
                slots.put(sample, position)
            results.append(slots.finish(len(samples)))
        else:
            results.append(collate(samples))
    (values, lengths), (packed, offsets) = results
    assert lengths.tolist() == np.diff(offsets).tolist() == [len(row) for row in rows]
    assert values.shape[1] % multiple == 0
    assert values.shape[1] < max(map(len, rows)) + multiple
    for at, row in enumerate(rows):
        begin = 0 if side == "right" else values.shape[1] - len(row)
        assert same_bytes(values[at, begin : begin + len(row)], row)
        fill = np.delete(values[at], np.s_[begin : begin + len(row)], axis=0)
        assert (fill == 1).all()
        assert same_bytes(packed[offsets[at] : offsets[at + 1]], row)
    assert_owned(values, samples)
    assert_owned(packed, samples)
