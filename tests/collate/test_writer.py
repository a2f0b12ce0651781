"""The writer copies each sample at once, refuses misfits without harm, and trims short batches."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, default_collate, pack_collate, pad_collate
from nogil_loader.errors import CollateError
from tests.collate.promises import assert_owned

COLLATES = [default_collate, DefaultCollate(none="list"), pad_collate(), pack_collate()]


def sample(at: int) -> dict[str, Any]:
    return {"x": np.full((4, 3), at, np.float32), "y": at, "name": f"no {at}"}


@pytest.mark.parametrize("collate", COLLATES)
def test_one_by_one_gives_what_the_whole_list_gives(collate: DefaultCollate) -> None:
    writer = collate.writer(5)
    for at in range(5):
        writer.put(sample(at), at)
    np.testing.assert_equal(writer.finish(), collate([sample(at) for at in range(5)]))


@pytest.mark.parametrize("collate", COLLATES)
def test_a_short_batch_is_trimmed(collate: DefaultCollate) -> None:
    writer = collate.writer(64)
    for at in range(3):
        writer.put(sample(at), at)
    batch = writer.finish()
    np.testing.assert_equal(batch, collate([sample(at) for at in range(3)]))
    assert_owned(batch["y"], [])


@pytest.mark.parametrize("collate", COLLATES)
def test_a_refused_sample_takes_no_slot_and_the_batch_goes_on(collate: DefaultCollate) -> None:
    writer = collate.writer(3)
    writer.put(sample(0), 0)
    with pytest.raises(CollateError):
        writer.put({**sample(1), "y": "not a number"}, 1)  # after "x" has been written
    writer.put(sample(2), 2)
    np.testing.assert_equal(writer.finish(), collate([sample(0), sample(2)]))


@pytest.mark.parametrize("collate", COLLATES)
def test_a_refused_first_sample_leaves_the_choice_to_the_next(collate: DefaultCollate) -> None:
    writer = collate.writer(2)
    with pytest.raises(CollateError):
        writer.put({"x": np.ma.array([1, 2], mask=[True, False])}, 0)
    writer.put(sample(1), 1)
    np.testing.assert_equal(writer.finish(), collate([sample(1)]))


def test_samples_are_not_kept() -> None:
    class Sample(dict[str, Any]):
        pass

    writer = default_collate.writer(2)
    gone: list[weakref.ref[Any]] = []
    for at in range(2):
        array = np.zeros(10)
        value = Sample(x=array)
        gone += [weakref.ref(value), weakref.ref(array)]
        writer.put(value, at)
        del value, array
        gc.collect()
        assert all(reference() is None for reference in gone)
    assert writer.finish()["x"].shape == (2, 10)


def test_more_samples_than_slots_are_refused() -> None:
    writer = default_collate.writer(1)
    writer.put(1, 0)
    with pytest.raises(ValueError, match="size=1"):
        writer.put(2, 1)
    assert writer.finish().tolist() == [1]


@pytest.mark.parametrize("size", [0, -1, True, 2.0])
def test_a_size_that_is_no_count_is_refused(size: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="size"):
        default_collate.writer(size)


def test_numpy_integers_are_sizes() -> None:
    writer = default_collate.writer(np.int64(2))  # type: ignore[arg-type]
    writer.put(1.5, 0)
    assert writer.finish().tolist() == [1.5]


def test_two_writers_of_one_collate_share_nothing() -> None:
    first, second = default_collate.writer(2), default_collate.writer(2)
    for at in range(2):
        first.put(np.full(3, at), at)
        second.put({"other": at}, at)
    assert first.finish().tolist() == [[0] * 3, [1] * 3]
    assert second.finish()["other"].tolist() == [0, 1]
