from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from nogil_loader.plan import RandomSampler, SequentialSampler, UserBatchSampler, UserSampler, length_of
from nogil_loader.plan.samplers import plain_keys


class EpochAware:
    """Reads its epoch where a generator does: at the first ``next``."""

    def __init__(self, length: int = 3) -> None:
        self.epoch = -1
        self.length = length
        self.calls: list[str] = []

    def __len__(self) -> int:
        return self.length

    def set_epoch(self, epoch: int) -> None:
        self.calls.append(f"set_epoch({epoch})")
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        self.calls.append("iter")
        return self._keys()

    def _keys(self) -> Iterator[Any]:
        epoch = self.epoch
        for number in range(self.length):
            yield f"{epoch}/{number}"


def test_the_sequential_order_counts() -> None:
    order = SequentialSampler(10).order(4)
    assert order.indices(3, 6).tolist() == [3, 4, 5]
    assert order.indices(3, 6).dtype == np.int64


def test_d18_the_random_order_changes_with_every_epoch_and_comes_back_with_it() -> None:
    sampler = RandomSampler(50, seed=0)
    orders = [sampler.order(epoch).indices(0, 50).tolist() for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert RandomSampler(50, seed=0).order(1).indices(0, 50).tolist() == orders[1]
    assert RandomSampler(50, seed=1).order(1).indices(0, 50).tolist() != orders[1]


def test_set_epoch_comes_before_the_only_iter() -> None:
    sampler = EpochAware()
    keys = UserSampler(sampler).open(5)
    assert list(keys) == ["5/0", "5/1", "5/2"]
    assert sampler.calls == ["set_epoch(5)", "iter"]


def test_b25_an_epoch_opened_in_between_does_not_change_one_already_open() -> None:
    sampler = EpochAware()
    first, second = UserSampler(sampler).open(0), UserSampler(sampler).open(1)
    assert list(zip(first, second, strict=True)) == [("0/0", "1/0"), ("0/1", "1/1"), ("0/2", "1/2")]


def test_a_used_up_generator_is_named_instead_of_giving_an_empty_epoch() -> None:
    source = (key for key in "ab")
    sampler = UserSampler(source)
    assert list(sampler.open(0)) == ["a", "b"]
    with pytest.raises(ValueError, match=r"sampler=<generator.*epoch 1 would be empty.*starts anew"):
        sampler.open(1)


def test_an_iterator_that_starts_anew_serves_every_epoch() -> None:
    class Restarting:
        def __iter__(self) -> Restarting:
            self.left = 2
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

    sampler = UserSampler(Restarting())
    assert [list(sampler.open(epoch)) for epoch in range(2)] == [[1, 0], [1, 0]]


def test_an_empty_sampler_is_an_empty_epoch() -> None:
    assert list(UserSampler([]).open(0)) == []


def test_the_old_sequence_protocol_is_iterable_too() -> None:
    class Old:
        def __getitem__(self, place: int) -> str:
            return "xyz"[place]

    assert list(UserSampler(Old()).open(0)) == ["x", "y", "z"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "name"), [(UserSampler, "sampler=5"), (UserBatchSampler, "batch_sampler=5")]
)
def test_what_cannot_be_iterated_is_refused_by_name(make: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: expected an iterable"):
        make(5)


def test_length_of_takes_the_two_ways_of_saying_no_for_none() -> None:
    class Refusing:
        def __init__(self, error: type[Exception]) -> None:
            self.error = error

        def __len__(self) -> int:
            raise self.error("no")

    assert length_of([1, 2]) == 2
    assert length_of(iter([1, 2])) is None
    assert length_of(Refusing(TypeError)) is None
    assert length_of(Refusing(NotImplementedError)) is None
    with pytest.raises(ZeroDivisionError):
        length_of(Refusing(ZeroDivisionError))


class Colour(IntEnum):
    RED = 1


def test_indices_of_array_libraries_become_plain_ints() -> None:
    scalars = [np.int64(3), np.uint8(4), np.array(5), np.array(6, dtype=">i2"), 7]
    keys = plain_keys(scalars)
    assert keys == [3, 4, 5, 6, 7]
    assert [type(key) for key in keys] == [int] * 5


@pytest.mark.torch
def test_torch_indices_become_plain_ints() -> None:
    torch = pytest.importorskip("torch")
    keys = plain_keys([*torch.randperm(5), torch.tensor(3, dtype=torch.uint8)])
    assert [type(key) for key in keys] == [int] * 6
    untouched = [torch.tensor(True), torch.tensor(1.0), torch.tensor([1])]
    assert all(one is other for one, other in zip(plain_keys(untouched), untouched, strict=True))


def test_d25_other_keys_pass_through_unchanged() -> None:
    keys = [
        "name.jpg",
        ("a", 1),
        b"x",
        None,
        True,
        np.bool_(True),
        np.float32(1.0),
        np.timedelta64(3, "s"),
        np.array([1]),
        Colour.RED,
        slice(3),
        ValueError("a legal key"),
    ]
    assert all(one is other for one, other in zip(plain_keys(keys), keys, strict=True))


def test_batches_arrive_as_lists_of_their_own() -> None:
    reused: list[int] = []

    class Reusing:
        def __iter__(self) -> Iterator[list[int]]:
            for number in range(3):
                reused[:] = [number, number + 10]
                yield reused

    batches = list(UserBatchSampler(Reusing()).open(0))
    assert batches == [[0, 10], [1, 11], [2, 12]]


@pytest.mark.parametrize("batch", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), iter([1, 2])])
def test_a_batch_may_be_any_ordered_iterable_of_keys(batch: Any) -> None:
    (keys,) = UserBatchSampler([batch]).open(0)
    assert keys == [1, 2]
    assert [type(key) for key in keys] == [int, int]


@pytest.mark.parametrize("batch", [7, "ab", b"ab", None, np.int64(3), {1: 2}, {1, 2}, np.array(3)])
def test_what_is_no_batch_is_refused_with_its_number(batch: Any) -> None:
    batches = UserBatchSampler([[0], [1], batch]).open(0)
    assert [next(batches), next(batches)] == [[0], [1]]
    with pytest.raises(TypeError, match=r"batch_sampler: batch 2 is .*expected a list of dataset keys"):
        next(batches)


@pytest.mark.parametrize("batch", [[], (), np.array([])])
def test_an_empty_batch_is_refused_with_its_number(batch: Any) -> None:
    batches = UserBatchSampler([[0], batch]).open(0)
    assert next(batches) == [0]
    with pytest.raises(ValueError, match="batch_sampler: batch 1 is empty"):
        next(batches)


def test_an_order_belongs_to_a_length_that_is_a_count() -> None:
    for make in (SequentialSampler, lambda length: RandomSampler(length, 0)):
        with pytest.raises(ValueError, match="length=-1"):
            make(-1)


def test_an_order_of_another_length_keeps_its_seed() -> None:
    resized = RandomSampler(5, seed=3).resized(9)
    assert resized.order(1).indices(0, 9).tolist() == RandomSampler(9, seed=3).order(1).indices(0, 9).tolist()
    assert SequentialSampler(5).resized(9).length == 9


def test_a_sampler_that_is_not_told_keeps_the_epoch_its_user_gave_it() -> None:
    sampler = EpochAware(2)
    sampler.set_epoch(7)
    assert list(UserSampler(sampler).open(0, announce=False)) == ["7/0", "7/1"]
    assert sampler.calls == ["set_epoch(7)", "iter"]
