"""A misfit is told with key path, dataset index, position in the batch, and both of what differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, default_collate
from nogil_loader.errors import CollateError


def failure(
    samples: list[Any], indices: list[Any], collate: DefaultCollate = default_collate
) -> CollateError:
    """Return the error, after checking that collation one by one and of the whole list raise the same."""
    with pytest.raises(CollateError) as at_once:
        collate.collate(samples, indices)
    with pytest.raises(CollateError) as one_by_one:
        slots = collate.begin(samples[0], indices)
        for position, sample in enumerate(samples):
            slots.put(sample, position)
        slots.finish(len(samples))
    assert str(at_once.value) == str(one_by_one.value)
    assert vars(at_once.value) == vars(one_by_one.value)
    return at_once.value


def test_a13_a_none_is_named_with_path_index_and_position() -> None:
    samples: list[dict[str, Any]] = [{"x": 1, "meta": {"id": at}} for at in range(5)]
    samples[3]["meta"] = None
    error = failure(samples, [11, 13, 15, 17, 19])
    assert error.path == "meta"
    assert error.indices == (17,)
    assert "sample 17 (position 3 in the batch) is None at 'meta'" in str(error)
    assert 'none="list"' in str(error)


@pytest.mark.parametrize("others", [1, 1.5, "text", b"b", np.zeros(2), [1], {"a": 1}, object()])
@pytest.mark.parametrize("at", [0, 2])
def test_a13_a_none_is_found_among_any_values_and_at_any_position(others: Any, at: int) -> None:
    samples = [{"meta": others} for _ in range(3)]
    samples[at] = {"meta": None}
    error = failure(samples, [5, 6, 7])
    assert (error.path, error.indices) == ("meta", (5 + at,))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a13_none_can_be_kept_in_a_list(at: int) -> None:
    values: list[Any] = [3, 4, 5]
    values[at] = None
    samples = [{"x": np.full(2, 1), "meta": value} for value in values]
    batch = DefaultCollate(none="list")(samples)
    assert batch["meta"] == values
    assert batch["x"].tolist() == [[1, 1]] * 3


def test_a13_what_stands_beside_a_kept_none_is_no_view_of_a_sample() -> None:
    arrays = [np.zeros(2), np.ones(2)]
    samples = [
        {"box": {"at": arrays[0], "n": [1, "s"]}},
        {"box": None},
        {"box": {"at": arrays[1], "n": [2, "t"]}},
    ]
    batch = DefaultCollate(none="list")(samples)
    first, none, last = batch["box"]
    assert none is None
    assert (first["at"].tolist(), first["n"]) == ([0, 0], [1, "s"])
    assert (last["at"].tolist(), last["n"]) == ([1, 1], [2, "t"])
    assert not any(np.shares_memory(kept, array) for kept in (first["at"], last["at"]) for array in arrays)


def test_a13_without_any_none_the_option_changes_nothing() -> None:
    batch = DefaultCollate(none="list")([{"a": 1, "b": [np.zeros(2)]}] * 3)
    assert batch["a"].dtype == np.int64
    assert batch["b"][0].shape == (3, 2)
    assert DefaultCollate(none="list")([None, None]) == [None, None]


def test_a14_an_empty_batch_is_named_as_such() -> None:
    with pytest.raises(CollateError, match="empty batch"):
        default_collate([])
    with pytest.raises(ValueError, match="empty batch"):
        default_collate.collate([], [])
    with pytest.raises(CollateError, match="empty batch"):
        default_collate.begin(0, [])


def test_a16_lists_of_different_lengths_are_never_truncated() -> None:
    error = failure([{"bar": ["x"]}, {"bar": ["x", "x"]}], [0, 1])
    assert error.path == "bar"
    assert "has 2 items" in str(error)
    assert "has 1;" in str(error)


def test_a17_a_shape_error_names_both_shapes_path_and_index_and_hints_at_padding() -> None:
    samples = [{"image": np.zeros((3, 224, 224), np.uint8)} for _ in range(4)]
    samples[2] = {"image": np.zeros((3, 144, 192), np.uint8)}
    error = failure(samples, [7, 8, 41, 9])
    assert error.path == "image"
    assert error.indices == (7, 41)
    assert error.shapes == ((3, 224, 224), (3, 144, 192))
    for words in (
        "'image'",
        "sample 41 (position 2 in the batch) has (3, 144, 192)",
        "(3, 224, 224)",
        "pad_collate",
    ):
        assert words in str(error)


def test_a_dtype_error_names_both_dtypes_and_path() -> None:
    error = failure([[{"y": np.zeros(2)}], [{"y": np.zeros(2, np.float32)}]], ["a", "b"])
    assert error.path == "[0].y"
    assert error.dtypes == (np.float64, np.float32)
    assert "'b' (position 1 in the batch) has float32" in str(error)


def test_missing_and_extra_keys_are_named() -> None:
    error = failure([{"a": {"x": 1, "y": 1}}, {"a": {"x": 1, "z": 1}}], [0, 1])
    assert error.path == "a"
    assert "lacks 'y' and has 'z' in addition" in str(error)


@pytest.mark.parametrize("first", [1, np.int64(1)])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_an_int_that_64_bits_hold_without_a_sign_is_named_and_sent_there(first: Any, value: int) -> None:
    error = failure([{"id": first}, {"id": value}], [3, 4])
    assert (error.path, error.indices) == ("id", (4,))
    assert f"is {value}, which int64 cannot hold" in str(error)
    assert "np.uint64(value)" in str(error)
    assert default_collate([np.uint64(1), np.uint64(value)]).tolist() == [1, value]


@pytest.mark.parametrize("first", [1, np.int64(1)])
@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, pytest.param(10**5000, id="5001 digits")])
def test_an_int_that_no_64_bits_hold_is_not_sent_to_them(first: Any, value: int) -> None:
    error = failure([{"id": first}, {"id": value}], [3, 4])
    assert (error.path, error.indices) == ("id", (4,))
    assert "which int64 cannot hold" in str(error)
    assert "uint64" not in str(error)
    assert "hex(value)" in str(error)
    assert [int(kept, 16) for kept in default_collate([hex(1), hex(value)])] == [1, value]


def test_outside_a_loader_positions_stand_for_indices() -> None:
    with pytest.raises(CollateError, match="position 1 in the batch") as caught:
        default_collate([np.zeros(2), np.zeros(3)])
    assert caught.value.indices == ()


def test_building_the_message_never_fails() -> None:
    class Nameless:
        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            raise RuntimeError("no name")

    with pytest.raises(CollateError, match="RuntimeError"):
        default_collate.collate([np.zeros(2), Nameless()], [0, 1])
    with pytest.raises(CollateError, match="RuntimeError"):
        default_collate.collate([np.zeros(2), np.zeros(3)], [0, Nameless()])  # type: ignore[list-item]
