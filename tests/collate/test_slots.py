"""Slots take each sample at once, refuse misfits without harm, and are trimmed to a short batch."""

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
    slots = collate.begin(sample(0), range(5))
    for at in range(5):
        slots.put(sample(at), at)
    np.testing.assert_equal(slots.finish(5), collate([sample(at) for at in range(5)]))


@pytest.mark.parametrize("collate", COLLATES)
def test_a_short_batch_is_trimmed(collate: DefaultCollate) -> None:
    slots = collate.begin(sample(0), range(64))
    for at in range(3):
        slots.put(sample(at), at)
    batch = slots.finish(3)
    np.testing.assert_equal(batch, collate([sample(at) for at in range(3)]))
    assert_owned(batch["y"], [])


@pytest.mark.parametrize("collate", COLLATES)
def test_a_refused_sample_leaves_its_slot_to_another_and_the_batch_goes_on(collate: DefaultCollate) -> None:
    slots = collate.begin(sample(0), "abc")
    slots.put(sample(0), 0)
    with pytest.raises(CollateError) as refused:
        slots.put({**sample(1), "y": "not a number"}, 1)  # after "x" has been written
    assert (refused.value.path, refused.value.indices) == ("y", ("a", "b"))
    slots.put(sample(2), 1)
    np.testing.assert_equal(slots.finish(2), collate([sample(0), sample(2)]))


@pytest.mark.parametrize("collate", COLLATES)
def test_a_refused_first_sample_leaves_the_choice_to_the_next(collate: DefaultCollate) -> None:
    with pytest.raises(CollateError):
        slots = collate.begin(masked := {"x": np.ma.array([1, 2], mask=[True, False])}, [7, 8])
        slots.put(masked, 0)
    slots = collate.begin(sample(1), [7, 8])
    slots.put(sample(1), 0)
    np.testing.assert_equal(slots.finish(1), collate([sample(1)]))


def test_samples_are_not_kept() -> None:
    class Sample(dict[str, Any]):
        pass

    slots = default_collate.begin({"x": np.ones(10)}, range(2))
    gone: list[weakref.ref[Any]] = []
    for at in range(2):
        array = np.zeros(10)
        value = Sample(x=array)
        gone += [weakref.ref(value), weakref.ref(array)]
        slots.put(value, at)
        del value, array
        gc.collect()
        assert all(reference() is None for reference in gone)
    assert slots.finish(2)["x"].tolist() == [[0] * 10] * 2


@pytest.mark.parametrize("collate", COLLATES)
def test_more_samples_than_keys_are_refused(collate: DefaultCollate) -> None:
    slots = collate.begin(sample(0), ["only"])
    slots.put(sample(0), 0)
    with pytest.raises(IndexError):
        slots.put(sample(1), 1)
    np.testing.assert_equal(slots.finish(1), collate([sample(0)]))


@pytest.mark.parametrize("keys", [[], (), range(0), np.zeros(0, np.int64)])
def test_a_batch_without_keys_is_refused(keys: Any) -> None:
    with pytest.raises(CollateError, match="empty batch"):
        default_collate.begin(sample(0), keys)


def test_numpy_integers_are_keys_and_positions() -> None:
    slots = default_collate.begin(1.5, np.arange(2))  # type: ignore[arg-type]
    for position in np.arange(2):
        slots.put(1.5, position)  # type: ignore[arg-type]
    assert slots.finish(2).tolist() == [1.5, 1.5]


def test_two_batches_of_one_collate_share_nothing() -> None:
    first = default_collate.begin(np.zeros(3, np.int64), range(2))
    second = default_collate.begin({"other": 0}, range(2))
    for at in range(2):
        first.put(np.full(3, at), at)
        second.put({"other": at}, at)
    assert first.finish(2).tolist() == [[0] * 3, [1] * 3]
    assert second.finish(2)["other"].tolist() == [0, 1]
