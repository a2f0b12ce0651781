"""Samplers are the caller's code: asked once per epoch, keys of any kind, errors passed through as they are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nogil_loader as nl
from tests.loading import Numbers, samples_of


class Recording:
    """A sampler, or a batch sampler, that notes how it is used."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys
        self.calls: list[str] = []
        self.epoch: int | None = None

    def set_epoch(self, epoch: int) -> None:
        self.calls.append(f"set_epoch({epoch})")
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        self.calls.append("iter")
        yield from self.keys
        self.calls.append("end")


@pytest.mark.parametrize("num_workers", [0, 1, 5])
@pytest.mark.parametrize("batched", [False, True])
def test_a_sampler_is_asked_once_per_epoch_and_not_again_after_its_end(
    num_workers: int, batched: bool
) -> None:
    sampler = Recording([[0, 1], [2], [3, 4]] if batched else [0, 1, 2, 3, 4])
    arguments: dict[str, Any] = {"batch_sampler" if batched else "sampler": sampler}
    with nl.DataLoader(Numbers(5), num_workers=num_workers, **arguments) as loader:
        for _ in range(3):
            sampler.calls.clear()
            iterator = iter(loader)
            assert samples_of(iterator) == [0, 1, 2, 3, 4]
            assert list(iterator) == []
            assert sampler.calls == ["iter", "end"]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batched", [False, True])
def test_a_sampler_is_told_the_epoch_only_once_the_caller_has_chosen_one(
    num_workers: int, batched: bool
) -> None:
    sampler = Recording([[0], [1], [2]] if batched else [0, 1, 2])
    arguments: dict[str, Any] = {
        "batch_sampler" if batched else "sampler": sampler,
        "num_workers": num_workers,
    }
    with nl.DataLoader(Numbers(3), **arguments) as loader:
        for epoch in (7, 3):  # its owner's business, which the loader's count must not overwrite
            sampler.set_epoch(epoch)
            list(loader)
            assert sampler.epoch == epoch
        sampler.calls.clear()
        loader.set_epoch(5)
        assert sampler.calls == []
        list(loader)
        assert sampler.calls == ["set_epoch(5)", "iter", "end"]
        loader.set_epoch(2)
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        iterator.close()
    sampler.calls.clear()
    with nl.DataLoader(Numbers(3), **arguments) as fresh:
        fresh.load_state_dict(state)
        assert sampler.calls == []
        assert samples_of(fresh) == [1, 2]
        assert sampler.calls == ["set_epoch(2)", "iter", "end"]


def test_two_live_iterators_read_a_sampler_that_depends_on_the_epoch_independently() -> None:
    class ByEpoch(Recording):
        def __iter__(self) -> Iterator[int]:
            for key in self.keys:
                yield (key + (self.epoch or 0)) % len(self.keys)

    with nl.DataLoader(Numbers(4), sampler=ByEpoch([0, 1, 2, 3]), num_workers=0) as loader:
        loader.set_epoch(0)
        first = iter(loader)
        loader.set_epoch(1)
        second = iter(loader)
        assert int(next(second)[0]) == 1
        assert int(next(first)[0]) == 0


@pytest.mark.parametrize(
    "keys",
    [
        ["a.png", "b.png", "c.png"],
        [("a", 1), ("b", 2), ("a", 3)],
        [frozenset({1, 2}), None, 3.5],
        [b"x", True, Ellipsis],
        [-1, 2**80, 0],
    ],
    ids=["names", "tuples", "mixed", "odd", "integers"],
)
@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize("how", ["sampler", "batch_sampler", "getitems"])
def test_d25_keys_of_any_kind_reach_the_dataset_unchanged(
    keys: list[Hashable], num_workers: int, how: str
) -> None:
    class Keyed:
        def __init__(self) -> None:
            self.samples = {key: position for position, key in enumerate(keys)}

        def __getitem__(self, key: Any) -> Any:
            assert any(key is mine for mine in keys)
            return self.samples[key]

    class KeyedBatches(Keyed):
        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key)

        def __getitems__(self, wanted: list[Any]) -> list[Any]:
            assert type(wanted) is list
            return [self[key] for key in wanted]

    dataset = KeyedBatches() if how == "getitems" else Keyed()
    with nl.DataLoader(
        dataset,
        1 if how == "batch_sampler" else 2,
        sampler=None if how == "batch_sampler" else keys,
        batch_sampler=[keys[:2], keys[2:]] if how == "batch_sampler" else None,
        num_workers=num_workers,
    ) as loader:
        assert [batch.tolist() for batch in loader] == [[0, 1], [2]]
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        iterator.close()
        loader.load_state_dict(state)
        assert [batch.tolist() for batch in loader] == [[2]]


@pytest.mark.parametrize(
    "keys",
    [
        range,
        lambda length: list(range(length)),
        np.arange,
        lambda length: np.arange(length, dtype=np.uint8),
        lambda length: [np.int32(index) for index in range(length)],
        lambda length: iter(range(length)),
    ],
    ids=["range", "list", "int64 array", "uint8 array", "numpy integers", "iterator"],
)
@pytest.mark.parametrize("getitems", [False, True])
def test_datasets_see_plain_ints_whatever_the_sampler_yields(keys: Any, getitems: bool) -> None:
    class Strict(Numbers):
        def __getitem__(self, index: Any) -> Any:
            assert type(index) is int
            return index

    class StrictBatches(Strict):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index)

        def __getitems__(self, indices: list[int]) -> list[int]:
            assert set(map(type, indices)) == {int}
            return indices

    dataset = StrictBatches(6) if getitems else Strict(6)
    assert samples_of(nl.DataLoader(dataset, 4, sampler=keys(6), num_workers=2)) == list(range(6))


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_built_in_orders_give_plain_ints(shuffle: bool) -> None:
    seen: list[type] = []

    class Typed(Numbers):
        def __getitem__(self, index: Any) -> Any:
            seen.append(type(index))
            return index

    list(nl.DataLoader(Typed(9), 2, shuffle, num_workers=2))
    assert seen == [int] * 9


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterator_as_sampler_serves_one_epoch_and_then_says_so(num_workers: int) -> None:
    with nl.DataLoader(Numbers(4), 2, sampler=iter(range(4)), num_workers=num_workers) as loader:
        assert samples_of(loader) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match=r"sampler=.*iter"):
            list(loader)


@pytest.mark.parametrize("num_workers", [0, 1, 4])
@pytest.mark.parametrize("batched", [False, True])
def test_b14_an_error_of_the_sampler_comes_after_the_batches_before_it_as_it_is(
    num_workers: int, batched: bool
) -> None:
    error = LookupError("no such shard")

    class Breaking(Recording):
        def __iter__(self) -> Iterator[Any]:
            yield from self.keys
            raise error

    sampler = Breaking([[0, 1], [2, 3]] if batched else [0, 1, 2, 3])
    arguments: dict[str, Any] = (
        {"batch_sampler": sampler} if batched else {"sampler": sampler, "batch_size": 2}
    )
    with nl.DataLoader(Numbers(9), num_workers=num_workers, **arguments) as loader:
        iterator = iter(loader)
        assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        for _ in range(2):
            with pytest.raises(LookupError) as caught:
                next(iterator)
            assert caught.value is error
        assert iterator.statistics().rebuilds == 0
        sampler.__class__ = Recording  # type: ignore[assignment]
        assert samples_of(loader) == [0, 1, 2, 3]  # the loader has not died of it


@pytest.mark.parametrize("num_workers", [0, 2])
def test_b14_a_sampler_whose_iter_raises_costs_no_epoch_and_no_state(num_workers: int) -> None:
    class Flaky(Recording):
        broken = False

        def __iter__(self) -> Iterator[Any]:
            if self.broken:
                raise ConnectionError("later")
            return super().__iter__()

    sampler = Flaky(list(range(6)))
    with nl.DataLoader(Numbers(6), 2, sampler=sampler, num_workers=num_workers) as loader:
        loader.set_epoch(3)
        iterator = iter(loader)
        next(iterator)
        iterator.close()
        loader.load_state_dict(loader.state_dict())
        state = loader.state_dict()
        sampler.broken = True
        for _ in range(2):
            with pytest.raises(ConnectionError):
                iter(loader)
            assert loader.state_dict() == state
        sampler.broken = False
        iterator = iter(loader)
        assert iterator.statistics().epoch == 3
        assert samples_of(iterator) == [2, 3, 4, 5]


def test_b14_a_missing_length_only_affects_len() -> None:
    class Unsized(Recording):
        __len__ = None  # type: ignore[assignment]

    class Refusing(Recording):
        def __len__(self) -> int:
            raise TypeError("endless")

    for sampler in (Unsized([[0], [1]]), Refusing([[0], [1]])):
        loader = nl.DataLoader(Numbers(2), batch_sampler=sampler, num_workers=2)
        with pytest.raises(TypeError, match=r"batch_sampler.*__len__"):
            len(loader)
        assert samples_of(loader) == [0, 1]
        plain = nl.DataLoader(Numbers(2), sampler=type(sampler)([0, 1]), num_workers=0)
        with pytest.raises(TypeError, match=r"sampler.*__len__"):
            len(plain)
        assert samples_of(plain) == [0, 1]


def test_progress_has_no_total_while_nobody_knows_it() -> None:
    with nl.DataLoader(Numbers(1), sampler=(0 for _ in range(50)), num_workers=0) as loader:
        iterator = iter(loader)
        next(iterator)
        assert (iterator.progress().items_processed, iterator.progress().items_total) == (1, None)
        list(iterator)
        assert (iterator.progress().items_processed, iterator.progress().items_total) == (50, 50)


@pytest.mark.parametrize("told", [0, 2, 100])
def test_a_sampler_with_a_wrong_length_loses_nothing(told: int) -> None:
    class Liar(Recording):
        def __len__(self) -> int:
            return told

    for num_workers in (0, 2):
        loader = nl.DataLoader(Numbers(7), 2, sampler=Liar(list(range(7))), num_workers=num_workers)
        assert samples_of(loader) == list(range(7))
        assert len(loader) == -(-told // 2)


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([[0], []], "batch 1 is empty"),
        ([[0], 1], "batch 1 is 1"),
        ([[0], "ab"], "batch 1 is 'ab'"),
        ([[0], {1: 2}], "batch 1"),
    ],
)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_sampler_that_gives_no_lists_of_keys_is_told_so_by_batch(
    batches: list[Any], says: str, num_workers: int
) -> None:
    with nl.DataLoader(Numbers(5), batch_sampler=batches, num_workers=num_workers) as loader:
        iterator = iter(loader)
        assert next(iterator).tolist() == [0]
        with pytest.raises((TypeError, ValueError), match=says):
            next(iterator)


def test_batches_of_a_batch_sampler_may_be_of_any_size_and_type() -> None:
    batches = [(3,), np.array([1, 2]), range(5), [0, 0]]
    with nl.DataLoader(Numbers(5), batch_sampler=batches, num_workers=3) as loader:
        assert len(loader) == 4
        assert [batch.tolist() for batch in loader] == [[3], [1, 2], [0, 1, 2, 3, 4], [0, 0]]


def test_a_batch_that_its_sampler_reuses_is_not_changed_under_way() -> None:
    class Reusing:
        def __iter__(self) -> Iterator[list[int]]:
            batch = [0, 0]
            for start in range(0, 20, 2):
                batch[:] = [start, start + 1]
                yield batch

    assert samples_of(nl.DataLoader(Numbers(20), batch_sampler=Reusing(), num_workers=3)) == list(range(20))


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 9), max_size=25),
    st.integers(1, 7),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
)
def test_any_list_of_keys_is_delivered_as_it_is_with_its_repetitions(
    keys: list[int], batch_size: int, num_workers: int, drop_last: bool
) -> None:
    with nl.DataLoader(
        Numbers(10), batch_size, sampler=keys, num_workers=num_workers, drop_last=drop_last
    ) as loader:
        kept = len(keys) // batch_size * batch_size if drop_last else len(keys)
        assert samples_of(loader) == keys[:kept]


# Batched fetching


class Squares(Numbers):
    def __getitem__(self, index: Any) -> Any:
        return index * index

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [index * index for index in indices]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_d26_an_overridden_getitem_wins_over_an_inherited_batched_fetch(num_workers: int) -> None:
    class Negative(Squares):
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)

    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def __len__(self) -> int:
            return len(self.inner)

        def __getitem__(self, index: Any) -> Any:
            return -self.inner[index]

    for dataset in (Negative(6), Wrapper(Squares(6))):
        with nl.DataLoader(dataset, 4, num_workers=num_workers) as loader:
            assert samples_of(loader) == [0, -1, -4, -9, -16, -25]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("change", [lambda items: items[1:], lambda items: [*items, 7], lambda items: []])
def test_d26_a_wrong_number_of_samples_is_an_error_that_names_both(num_workers: int, change: Any) -> None:
    class Wrong(Squares):
        def __getitem__(self, index: Any) -> Any:
            return index * index

        def __getitems__(self, indices: list[Any]) -> list[Any]:
            return change(super().__getitems__(indices))  # type: ignore[no-any-return]

    with nl.DataLoader(Wrong(6), 3, num_workers=num_workers) as loader:
        with pytest.raises(nl.DeadWorkerError) as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, nl.DatasetError)
        text = str(caught.value.__cause__)
        assert "__getitems__" in text
        assert "3" in text
        assert str(len(change([1, 2, 3]))) in text
        assert caught.value.indices == (0, 1, 2)


def test_a_batched_fetch_that_spoils_its_list_of_indices_does_no_harm() -> None:
    class Spoiling(Squares):
        def __getitem__(self, index: Any) -> Any:
            return index * index

        def __getitems__(self, indices: list[Any]) -> list[Any]:
            samples = super().__getitems__(indices)
            indices.clear()
            return samples

    with nl.DataLoader(Spoiling(7), 3, sampler=list(range(7)), num_workers=2) as loader:
        assert samples_of(loader) == [index * index for index in range(7)]
        assert loader.state_dict()["received"] == 7


# Huge datasets


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_d27_twenty_million_samples_need_no_list_of_indices(shuffle: bool, num_workers: int) -> None:
    tracemalloc.start()
    try:
        loader = nl.DataLoader(Numbers(20_000_000), 64, shuffle, num_workers=num_workers, seed=0)
        assert len(loader) == 312_500
        with iter(loader) as iterator:
            first = next(iterator)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(first.tolist())) == 64
    # 8 bytes per index would be 160 MB; what is kept at a time is a piece of the order.
    assert peak < 8_000_000


def test_d27_a_sampler_is_not_read_ahead_of_what_is_loaded() -> None:
    drawn = 0

    def endless() -> Iterator[int]:
        nonlocal drawn
        while True:
            drawn += 1
            yield drawn

    with nl.DataLoader(Numbers(1), 4, sampler=endless(), num_workers=2, prefetch_factor=2) as loader:
        iterator = iter(loader)
        for batches in range(1, 6):
            next(iterator)
            # Those delivered, those that may exist beside them, and the one that makes room for the next.
            assert drawn <= 4 * (batches + 2 * (2 + 1)) + 1


class Numbered:
    """As torch's DistributedSampler: its order depends on the epoch that it was told, 0 if it was not."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(12).tolist())


@pytest.mark.parametrize("told", [True, False])
def test_d12_a_sampler_is_resumed_beyond_the_first_epoch_whether_it_is_told_the_epoch_or_not(
    told: bool,
) -> None:
    def epoch(loader: nl.DataLoader, number: int) -> Iterator[Any]:
        if told:
            loader.set_epoch(number)
        return iter(loader)

    first = nl.DataLoader(Numbers(12), batch_size=3, sampler=Numbered(), num_workers=2, seed=0)
    list(epoch(first, 0))
    running = epoch(first, 1)
    head = [next(running).tolist() for _ in range(2)]
    state = first.state_dict()
    tail = [batch.tolist() for batch in running]

    second = nl.DataLoader(Numbers(12), batch_size=3, sampler=Numbered(), num_workers=2, seed=0)
    second.load_state_dict(state)
    assert [batch.tolist() for batch in second] == tail
    assert len(head + tail) == 4
    first.close()
    second.close()


@pytest.mark.parametrize("columns", [{"a": 1, "b": 2}, {1, 2}, "ab", b"ab", None, 2], ids=repr)
def test_d26_what_getitems_returns_has_to_be_samples(columns: Any) -> None:
    class Columns:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            return index

        def __getitems__(self, indices: list[int]) -> Any:
            return columns

    with pytest.raises(
        nl.DeadWorkerError, match=r"__getitems__ was asked for 2 samples and returned a"
    ) as caught:
        list(nl.DataLoader(Columns(), batch_size=2, num_workers=0))
    assert isinstance(caught.value.__cause__, nl.DatasetError)
