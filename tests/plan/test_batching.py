from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader.plan import (
    Batching,
    RandomSampler,
    SequentialSampler,
    UserBatchSampler,
    UserSampler,
    nominal_batches,
)


class Sizeless:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        raise TypeError("this one does not know")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


@pytest.mark.parametrize(
    ("arguments", "sampler", "kind"),
    [
        ({}, SequentialSampler, "sequential"),
        ({"shuffle": False}, SequentialSampler, "sequential"),
        ({"shuffle": True}, RandomSampler, "random"),
        ({"sampler": [1]}, UserSampler, "sampler"),
        ({"batch_sampler": [[1]]}, UserBatchSampler, "batch_sampler"),
    ],
)
def test_the_arguments_choose_the_sampler(arguments: dict[str, Any], sampler: type, kind: str) -> None:
    batching = Batching.of(10, seed=0, **arguments)
    assert type(batching.sampler) is sampler
    assert batching.kind == kind


def test_f01_numpy_integers_are_accepted() -> None:
    batching = Batching.of(10, seed=np.uint32(7), batch_size=np.int64(2), shuffle=np.True_)  # type: ignore[arg-type]
    assert [type(batching.batch_size), batching.batch_size] == [int, 2]
    assert (
        next(batching.plan(0)).keys == next(Batching.of(10, seed=7, batch_size=2, shuffle=True).plan(0)).keys
    )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"batch_size": True}, TypeError, "batch_size=True"),
        ({"batch_size": 2.0}, TypeError, r"batch_size=2\.0"),
        ({"batch_size": "4"}, TypeError, "batch_size='4'"),
        ({"batch_size": 0}, ValueError, "batch_size=0"),
        ({"batch_size": -1}, ValueError, "batch_size=-1"),
        ({"shuffle": 1}, TypeError, "shuffle=1"),
        ({"shuffle": "yes"}, TypeError, "shuffle='yes'"),
        ({"drop_last": None}, TypeError, "drop_last=None"),
        ({"shuffle": True, "seed": -1}, ValueError, "seed=-1"),
        ({"shuffle": True, "seed": 2**64}, ValueError, "seed=18446744073709551616"),
        ({"sampler": 3}, TypeError, "sampler=3"),
        ({"batch_sampler": 3}, TypeError, "batch_sampler=3"),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler= and shuffle=True"),
        ({"batch_sampler": [[1]], "batch_size": 4}, ValueError, "batch_sampler= and batch_size=4"),
        ({"batch_sampler": [[1]], "batch_size": None}, ValueError, "batch_sampler= and batch_size=None"),
        ({"batch_sampler": [[1]], "shuffle": True}, ValueError, "batch_sampler= and shuffle=True"),
        ({"batch_sampler": [[1]], "sampler": [1]}, ValueError, r"batch_sampler= and sampler=\[1\]"),
        ({"batch_sampler": [[1]], "drop_last": True}, ValueError, "batch_sampler= and drop_last=True"),
        ({"batch_size": None, "drop_last": True}, ValueError, "drop_last=True with batch_size=None"),
    ],
)
def test_f01_bad_arguments_are_refused_by_name_and_value(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Batching.of(10, **{"seed": 0, **arguments})


def test_shuffle_false_goes_with_a_sampler() -> None:
    assert Batching.of(10, seed=0, sampler=[1], shuffle=False).kind == "sampler"
    assert Batching.of(10, seed=0, batch_sampler=[[1]], shuffle=False).kind == "batch_sampler"


def test_a_dataset_without_a_length_needs_a_sampler() -> None:
    with pytest.raises(TypeError, match=r"dataset: it has no length.*sampler= or batch_sampler="):
        Batching.of(None, seed=0)
    assert Batching.of(None, seed=0, sampler=["a"]).kind == "sampler"


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 1001])
@pytest.mark.parametrize("batch_size", [None, 1, 10])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("kind", [{}, {"shuffle": True}, {"sampler": ...}])
def test_nominal_batches_are_the_batches_of_an_undisturbed_epoch(
    length: int, batch_size: int | None, drop_last: bool, kind: dict[str, Any]
) -> None:
    if "sampler" in kind:
        kind = {"sampler": range(length)}
    drop_last = drop_last and batch_size is not None
    batching = Batching.of(length, seed=0, batch_size=batch_size, drop_last=drop_last, **kind)
    plan = batching.plan(0)
    total = plan.total
    slices = list(plan)
    assert batching.nominal_batches() == len(slices)
    assert total == plan.total == sum(len(piece.keys) for piece in slices)


def test_d22_the_number_of_batches_rounds_up() -> None:
    assert nominal_batches(1001, 10, False, source="dataset") == 101
    assert nominal_batches(1001, 10, True, source="dataset") == 100


def test_d22_without_a_length_len_says_what_has_none() -> None:
    with pytest.raises(TypeError, match=r"len\(loader\): the dataset has no length"):
        nominal_batches(None, 10, False, source="dataset")


def test_b14_a_len_that_raises_affects_nothing_but_len() -> None:
    sampler = Batching.of(10, seed=0, sampler=Sizeless([3, 1, 2]), batch_size=2)
    batches = Batching.of(10, seed=0, batch_sampler=Sizeless([[3, 1], [2]]))
    for batching, name in ((sampler, "sampler"), (batches, "batch_sampler")):
        with pytest.raises(TypeError, match=f"the {name} has no length"):
            batching.nominal_batches()
        plan = batching.plan(0)
        assert plan.total is None
        assert [piece.keys for piece in plan] == [[3, 1], [2]]
        assert plan.total == 3


def test_a_batch_sampler_counts_its_own_batches() -> None:
    assert Batching.of(10, seed=0, batch_sampler=[[1, 2], [3], [4]]).nominal_batches() == 3


def test_only_keys_of_user_samplers_are_fingerprinted() -> None:
    assert Batching.of(10, seed=0, shuffle=True).start().digest is None
    assert Batching.of(10, seed=0, sampler=[1]).start().digest is not None
    assert Batching.of(10, seed=0, batch_sampler=[[1]]).start().digest is not None
