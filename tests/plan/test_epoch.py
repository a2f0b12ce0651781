from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader.errors import ResumeError
from nogil_loader.plan import (
    Batching,
    EpochPlan,
    Permutation,
    RandomSampler,
    Received,
    SequentialSampler,
    Slice,
    UserBatchSampler,
    UserSampler,
)
from nogil_loader.plan.digest import KeyDigest

LETTERS = list("abcdefghij")


def sequential(length: int, **arguments: Any) -> EpochPlan:
    return EpochPlan(SequentialSampler(length), 0, **{"batch_size": 4, **arguments})


def received_of(keys: list[Any], *intervals: tuple[int, int]) -> Received:
    received = Received(digest=KeyDigest())
    for start, stop in intervals:
        received.add(start, stop, keys[start:stop])
    return received


def test_slices_cover_the_epoch_in_order() -> None:
    assert list(sequential(10)) == [
        Slice(0, [0, 1, 2, 3]),
        Slice(4, [4, 5, 6, 7]),
        Slice(8, [8, 9]),
    ]
    assert Slice(8, [8, 9]).stop == 10


def test_drop_last_leaves_out_the_incomplete_batch_alone() -> None:
    plan = sequential(10, drop_last=True)
    assert plan.total == 8
    assert [piece.keys for piece in plan] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(sequential(3, drop_last=True)) == []
    assert len(list(sequential(8, drop_last=True))) == 2


def test_without_a_batch_size_every_slice_is_one_sample() -> None:
    assert list(sequential(3, batch_size=None)) == [Slice(0, [0]), Slice(1, [1]), Slice(2, [2])]


def test_an_empty_epoch_ends_at_once() -> None:
    assert list(sequential(0)) == []
    assert list(EpochPlan(UserSampler([]), 0, batch_size=4)) == []
    assert list(EpochPlan(UserBatchSampler([]), 0, batch_size=None)) == []


def test_an_ended_plan_stays_ended() -> None:
    plan = sequential(2)
    assert len(list(plan)) == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(plan)


@pytest.mark.parametrize("batch_size", [1, 7, 4096, 16_384, 16_385, 50_000])
def test_long_epochs_go_on_from_one_computed_piece_to_the_next(batch_size: int) -> None:
    plan = EpochPlan(RandomSampler(40_000, 3), 2, batch_size=batch_size)
    slices = list(plan)
    flat = [key for piece in slices for key in piece.keys]
    assert flat == Permutation(40_000, 3, 2).indices(0, 40_000).tolist()
    assert {type(key) for key in flat} == {int}
    assert {len(piece.keys) for piece in slices[:-1]} <= {batch_size}
    assert [piece.start for piece in slices] == list(range(0, 40_000, batch_size))


def test_d27_an_endless_sampler_is_read_no_further_than_asked() -> None:
    drawn: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            drawn.append(len(drawn))
            yield drawn[-1]

    plan = EpochPlan(UserSampler(endless()), 0, batch_size=3)
    assert plan.total is None
    assert [next(plan).keys, next(plan).keys] == [[0, 1, 2], [3, 4, 5]]
    assert len(drawn) == 6


def test_d25_keys_of_any_type_reach_the_dataset() -> None:
    names = EpochPlan(UserSampler(["a.jpg", ("b", 2), np.int64(3)]), 0, batch_size=2)
    assert [piece.keys for piece in names] == [["a.jpg", ("b", 2)], [3]]
    batches = EpochPlan(UserBatchSampler([[("a", 1), ("b", 2)], (("c", 3),)]), 0, batch_size=None)
    assert list(batches) == [Slice(0, [("a", 1), ("b", 2)]), Slice(2, [("c", 3)])]


class Counted:
    """Counts how often it is started and advanced, and what comes after its end."""

    def __init__(self, items: list[Any], end: Callable[[], BaseException] = StopIteration) -> None:
        self.items = items
        self.end = end
        self.started = 0
        self.advanced = 0

    def __iter__(self) -> Iterator[Any]:
        self.started += 1
        return Counted.Running(self)

    class Running(Iterator[Any]):
        def __init__(self, owner: Counted) -> None:
            self.owner = owner

        def __next__(self) -> Any:
            place = self.owner.advanced
            self.owner.advanced += 1
            if place < len(self.owner.items):
                return self.owner.items[place]
            raise self.owner.end()


@pytest.mark.parametrize("length", range(6))
@pytest.mark.parametrize("drop_last", [False, True])
def test_d23_a_sampler_is_started_once_and_never_asked_again_after_its_end(
    length: int, drop_last: bool
) -> None:
    source = Counted(LETTERS[:length])
    plan = EpochPlan(UserSampler(source), 0, batch_size=2, drop_last=drop_last)
    flat = [key for piece in plan for key in piece.keys]
    assert list(plan) == []
    assert flat == LETTERS[: length // 2 * 2 if drop_last else length]
    assert (source.started, source.advanced) == (1, length + 1)


def test_d23_a_batch_sampler_is_started_once_and_never_asked_again_after_its_end() -> None:
    source = Counted([["a"], ["b", "c"]])
    plan = EpochPlan(UserBatchSampler(source), 0, batch_size=None)
    assert len(list(plan)) == 2
    assert list(plan) == []
    assert (source.started, source.advanced) == (1, 3)


class Refused(BaseException):
    pass


@pytest.mark.parametrize("error", [LookupError("gone"), GeneratorExit(), KeyboardInterrupt(), Refused()])
def test_b14_a_samplers_error_comes_after_the_good_batches_and_stays(error: BaseException) -> None:
    for sampler, per_batch in (
        (UserSampler(Counted(LETTERS[:5], lambda: error)), 6),
        (UserBatchSampler(Counted([["a", "b"], ["c", "d"]], lambda: error)), 3),
    ):
        plan = EpochPlan(sampler, 0, batch_size=2)
        assert [next(plan).keys, next(plan).keys] == [["a", "b"], ["c", "d"]]
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                next(plan)
            assert caught.value is error
        source = sampler.sampler if isinstance(sampler, UserSampler) else sampler.batch_sampler
        assert isinstance(source, Counted)
        assert source.advanced == per_batch


def test_b14_a_sampler_that_cannot_be_started_says_so_itself() -> None:
    class Broken:
        def __iter__(self) -> Iterator[Any]:
            raise LookupError("no order today")

    for sampler in (UserSampler(Broken()), UserBatchSampler(Broken())):
        with pytest.raises(LookupError, match="no order today"):
            EpochPlan(sampler, 0, batch_size=2)


def test_a_wrong_len_of_a_sampler_is_put_right_at_the_end() -> None:
    class Liar(list[str]):
        def __len__(self) -> int:
            return 100

    plan = EpochPlan(UserSampler(Liar(LETTERS)), 0, batch_size=4)
    assert plan.total == 100
    assert sum(len(piece.keys) for piece in plan) == 10
    assert plan.total == 10


def test_a_resumed_plan_counts_what_was_received_in_its_total() -> None:
    plan = sequential(10, received=Received(3, [(5, 6)]))
    assert plan.total == 10
    list(plan)
    assert plan.total == 10


def test_after_a_resume_batches_are_full_again() -> None:
    plan = sequential(10, received=Received(3))
    assert list(plan) == [Slice(3, [3, 4, 5, 6]), Slice(7, [7, 8, 9])]


def test_drop_last_after_a_resume_leaves_out_what_does_not_fill_the_last_batch() -> None:
    plan = sequential(10, drop_last=True, received=Received(3))
    assert plan.total == 7
    assert list(plan) == [Slice(3, [3, 4, 5, 6])]
    assert len(list(sequential(10, drop_last=True, received=Received(2)))) == 2


def test_gaps_before_samples_received_ahead_are_filled_first_and_never_dropped() -> None:
    received = Received(1, [(7, 9)])
    expected = [Slice(1, [1, 2, 3, 4]), Slice(5, [5, 6]), Slice(9, [9, 10, 11, 12])]
    assert list(sequential(14, drop_last=True, received=received)) == expected
    assert list(sequential(14, received=received)) == [*expected, Slice(13, [13])]
    assert (received.prefix, received.ahead) == (1, ((7, 9),))


def test_gaps_of_a_user_sampler_are_filled_alike() -> None:
    received = received_of(LETTERS, (0, 1), (6, 8))
    plan = EpochPlan(UserSampler(LETTERS), 0, batch_size=4, received=received)
    assert list(plan) == [Slice(1, list("bcde")), Slice(5, ["f"]), Slice(8, list("ij"))]
    assert plan.total == 10


def test_a_partly_received_batch_of_a_batch_sampler_gives_its_rest() -> None:
    batches = [list("abc"), list("de"), list("fghi"), ["j"]]
    received = received_of(LETTERS, (0, 4), (6, 8))
    plan = EpochPlan(UserBatchSampler(batches), 0, batch_size=None, received=received)
    assert list(plan) == [Slice(4, ["e"]), Slice(5, ["f"]), Slice(8, ["i"]), Slice(9, ["j"])]
    assert plan.total == 10


def test_an_epoch_received_in_full_has_nothing_left() -> None:
    for sampler, size in ((UserSampler(LETTERS), 4), (UserBatchSampler([LETTERS]), None)):
        plan = EpochPlan(sampler, 0, batch_size=size, received=received_of(LETTERS, (0, 10)))
        assert list(plan) == []
        assert plan.total == 10
    assert list(sequential(10, received=Received(10))) == []


@pytest.mark.parametrize(
    "order", [LETTERS[::-1], [*LETTERS[:3], "x", *LETTERS[4:]], ["b", "a", *LETTERS[2:]]]
)
def test_a_sampler_with_another_order_is_refused_before_anything_is_delivered(order: list[str]) -> None:
    received = received_of(LETTERS, (0, 2), (3, 5))
    for sampler in (UserSampler(order), UserBatchSampler([order[:4], order[4:]])):
        with pytest.raises(
            ResumeError, match="sampler gives other keys than those received before"
        ) as caught:
            EpochPlan(sampler, 0, batch_size=2, received=received)
        assert caught.value.field == "digest"


def test_a_sampler_may_change_what_was_not_received() -> None:
    received = received_of(LETTERS, (0, 2))
    plan = EpochPlan(UserSampler(["a", "b", "x"]), 0, batch_size=2, received=received)
    assert list(plan) == [Slice(2, ["x"])]


@pytest.mark.parametrize("items", [[], LETTERS[:3]])
def test_a_sampler_that_became_shorter_than_what_was_received_is_refused(items: list[str]) -> None:
    received = received_of(LETTERS, (0, 5))
    for sampler in (UserSampler(items), UserBatchSampler([[key] for key in items])):
        with pytest.raises(ResumeError, match=f"up to position 5.*ended after {len(items)}") as caught:
            EpochPlan(sampler, 0, batch_size=2, received=received)
        assert caught.value.field == "received"


def test_d18_an_unseeded_shuffling_sampler_cannot_resume_by_mistake() -> None:
    class Reshuffling:
        def __init__(self) -> None:
            self.random = np.random.default_rng(0)

        def __iter__(self) -> Iterator[int]:
            return iter(self.random.permutation(100).tolist())

    batching = Batching.of(100, seed=0, batch_size=10, sampler=Reshuffling())
    received = batching.start()
    drawn = next(batching.plan(0))
    received.add(drawn.start, drawn.stop, drawn.keys)
    with pytest.raises(ResumeError, match="seed it, or let its set_epoch do so"):
        batching.plan(0, received)


@pytest.mark.parametrize("batch_size", [0, True, 1.5])
def test_a_bad_batch_size_is_named(batch_size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"batch_size={batch_size}"):
        sequential(3, batch_size=batch_size)


def test_set_epoch_of_a_sampler_is_called_unless_it_is_not_to_be_told() -> None:
    class Told(list[Any]):
        epochs: list[int] = []

        def set_epoch(self, epoch: int) -> None:
            self.epochs.append(epoch)

    for announce in (True, False):
        EpochPlan(UserSampler(Told("ab")), 4, batch_size=1, announce=announce)
        EpochPlan(UserBatchSampler(Told([["a"], ["b"]])), 5, batch_size=None, announce=announce)
    assert Told.epochs == [4, 5]
