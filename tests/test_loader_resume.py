"""A state is the exact position of what the consumer received; going on from it loses and repeats nothing."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nogil_loader as nl
from tests.loading import Conducted, Conductor, Counter, Noisy, Numbers, Stream, samples_of, stream_of

WORKERS = (0, 1, 2, 5)


def take(loader: nl.DataLoader, batches: int) -> list[Any]:
    """The next batches of a new epoch, whose iterator is then closed."""
    with iter(loader) as iterator:
        return list(islice(iterator, batches))


def saved(loader: nl.DataLoader) -> dict[str, Any]:
    """The loader's state, as it comes back from a file."""
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    assert state == loader.state_dict()
    return state


class Reversed:
    """A sampler whose order depends on the epoch it was told."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.length))
        random.Random(self.epoch).shuffle(order)
        yield from order


class Pairs(Reversed):
    """A batch sampler of batches of different sizes."""

    def __iter__(self) -> Iterator[Any]:
        keys = list(super().__iter__())
        while keys:
            yield [keys.pop() for _ in range(min(len(keys), 1 + keys[-1] % 3))]


LOADERS: dict[str, Callable[..., nl.DataLoader]] = {
    "sequential": lambda batch_size, **rest: nl.DataLoader(Numbers(26), batch_size, **rest),
    "random": lambda batch_size, **rest: nl.DataLoader(Numbers(26), batch_size, shuffle=True, **rest),
    "sampler": lambda batch_size, **rest: nl.DataLoader(
        Numbers(26), batch_size, sampler=Reversed(26), **rest
    ),
    "batch_sampler": lambda batch_size, **rest: nl.DataLoader(Numbers(26), batch_sampler=Pairs(26), **rest),
    "iterable": lambda batch_size, **rest: nl.DataLoader(Stream(26), batch_size, **rest),
}
KINDS = pytest.mark.parametrize("kind", LOADERS)
# Resuming an iterable says once that it reads over what was received.
pytestmark = pytest.mark.filterwarnings("ignore:resuming an iterable dataset:UserWarning")


@KINDS
@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("consumed", [0, 1, 3])
def test_a_resumed_epoch_goes_on_at_the_next_sample(kind: str, num_workers: int, consumed: int) -> None:
    with LOADERS[kind](4, num_workers=num_workers, seed=3) as loader:
        loader.set_epoch(2)
        whole = samples_of(loader)
        after = samples_of(loader)
        loader.set_epoch(2)
        received = samples_of(take(loader, consumed))
        state = saved(loader)
    with LOADERS[kind](4, num_workers=3, seed=3) as fresh:
        fresh.load_state_dict(state)
        assert received + samples_of(fresh) == whole
        assert samples_of(fresh) == after


@KINDS
def test_d12_what_was_loaded_ahead_is_not_counted_as_received(kind: str) -> None:
    loaded = Counter()

    def collate(samples: list[int]) -> list[int]:
        loaded.add()
        return samples

    def make() -> nl.DataLoader:
        return LOADERS[kind](1, num_workers=4, prefetch_factor=8, seed=0, collate_fn=collate)

    with make() as loader:
        iterator = iter(loader)
        received = samples_of(islice(iterator, 3))
        # Nothing else is to come until the consumer takes more: all that may be loaded ahead is.
        batches = len(list(Pairs(26))) if kind == "batch_sampler" else 26
        loaded.wait_for(batches)
        state = saved(loader)
        rest = samples_of(iterator)
    with make() as resumed:
        resumed.load_state_dict(state)
        assert samples_of(resumed) == rest
    assert sorted(received + rest) == list(range(26))


@KINDS
@pytest.mark.parametrize("num_workers", [0, 2])
def test_d15_a_loaded_state_comes_back_unchanged_and_works_in_any_loader(kind: str, num_workers: int) -> None:
    def make() -> nl.DataLoader:
        return LOADERS[kind](3, num_workers=num_workers, seed=1)

    with make() as loader:
        states = [saved(loader)]
        iterator = iter(loader)
        states.append(saved(loader))
        for _ in range(2):
            next(iterator)
            states.append(saved(loader))
        list(iterator)
        states.append(saved(loader))
        iter(loader).close()
        states.append(saved(loader))
        rest = []
        for state in states:
            kept = copy.deepcopy(state)
            loader.load_state_dict(state)
            assert loader.state_dict() == state
            loader.load_state_dict(loader.state_dict())
            rest.append([samples_of(loader), samples_of(loader)])
            assert state == kept
    assert states[0] == states[1]
    for state, expected in zip(states, rest, strict=True):
        with make() as fresh:
            fresh.load_state_dict(state)
            assert fresh.state_dict() == state
            assert [samples_of(fresh), samples_of(fresh)] == expected
    assert [len(first) for first, _ in rest] == [
        26,
        26,
        *[26 - len(samples_of(take(make(), n))) for n in (1, 2)],
        26,
        26,
    ]


@KINDS
def test_a_state_after_the_last_batch_leads_to_the_empty_rest_and_after_the_end_to_the_next_epoch(
    kind: str,
) -> None:
    def make() -> nl.DataLoader:
        return LOADERS[kind](5, num_workers=2, seed=1)

    with make() as loader:
        loader.set_epoch(0)
        first, second = samples_of(loader), samples_of(loader)
    with make() as loader:
        loader.set_epoch(0)
        iterator = iter(loader)
        received: list[int] = []
        while len(received) < 26:
            received += samples_of([next(iterator)])
        before = saved(loader)
        assert list(iterator) == []
        after = saved(loader)
    assert received == first
    with make() as loader:
        loader.load_state_dict(before)
        assert samples_of(loader) == []
        assert samples_of(loader) == second
        loader.load_state_dict(after)
        assert samples_of(loader) == second


@pytest.mark.parametrize("kind", ["sequential", "random", "sampler", "iterable"])
def test_the_batch_size_may_change_and_batches_are_full_again(kind: str) -> None:
    with LOADERS[kind](26, num_workers=0, seed=5) as loader:
        (whole,) = (batch.tolist() for batch in loader)
    with LOADERS[kind](7, num_workers=2, seed=5) as loader:
        take(loader, 1)
        state = saved(loader)
    with LOADERS[kind](5, num_workers=2, seed=5) as loader:
        loader.load_state_dict(state)
        assert [batch.tolist() for batch in loader] == [whole[7:12], whole[12:17], whole[17:22], whole[22:]]


class Part(NamedTuple):
    """One life of a process that is to be interrupted."""

    batches: int
    batch_size: int = 3
    num_workers: int = 0
    prefetch_factor: int = 2
    close_first: bool = False


@settings(max_examples=60)
@given(
    st.sampled_from(list(LOADERS)),
    st.lists(
        st.builds(
            Part,
            st.integers(0, 12),
            st.integers(1, 9),
            st.sampled_from(WORKERS),
            st.integers(1, 3),
            st.booleans(),
        ),
        max_size=8,
    ),
)
def test_any_chain_of_interruptions_is_one_undisturbed_run(kind: str, parts: list[Part]) -> None:
    with LOADERS[kind](26, num_workers=0, seed=6) as loader:
        loader.set_epoch(0)
        state = saved(loader)
        epochs = [samples_of(loader) for _ in range(len(parts) + 1)]
    received: list[list[int]] = [[] for _ in epochs]
    for part in [*parts, Part(100)]:
        with LOADERS[kind](
            part.batch_size, num_workers=part.num_workers, prefetch_factor=part.prefetch_factor
        ) as loader:
            loader.load_state_dict(state)
            iterator = iter(loader)
            epoch = iterator.statistics().epoch
            received[epoch] += samples_of(islice(iterator, part.batches))
            state = saved(loader)
            if part.close_first:
                iterator.close()
                assert saved(loader) == state
    assert received[: epoch + 1] == epochs[: epoch + 1]
    assert not any(received[epoch + 1 :])


@settings(max_examples=30)
@given(
    st.sampled_from(["sequential", "random", "sampler", "batch_sampler"]),
    st.sampled_from([1, 2, 5]),
    st.integers(0, 2**32),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_f07_unordered_states_resume_exactly(
    kind: str, num_workers: int, seed: int, interruptions: list[int]
) -> None:
    dice = random.Random(seed)
    received: list[int] = []
    state: dict[str, Any] | None = None
    for wanted in [*interruptions, 100]:
        if state is not None and state["finished"]:
            break
        conductor = Conductor(random.Random(dice.random()).choice)
        plain = LOADERS[kind](dice.randint(1, 4), seed=0)
        with (
            conductor.conducting(),
            nl.DataLoader(
                Conducted(plain.dataset, conductor),
                1 if plain.batch_size is None else plain.batch_size,
                shuffle=kind == "random",
                sampler=plain.sampler,
                batch_sampler=plain.batch_sampler,
                num_workers=num_workers,
                seed=0,
                in_order=False,
            ) as loader,
        ):
            if state is not None:
                loader.load_state_dict(state)
            with iter(loader) as iterator:
                received += samples_of(islice(iterator, wanted))
                state = saved(loader)
    assert sorted(received) == list(range(26))


def test_f07_a_state_with_batches_received_out_of_order_names_them_and_iterables_refuse_it() -> None:
    state = {
        **nl.DataLoader(Stream(9), 1, num_workers=0, seed=0).state_dict(),
        "received": 2,
        "ahead": [[4, 6]],
    }
    with pytest.raises(nl.ResumeError, match=r"'ahead'.*in_order=True") as caught:
        nl.DataLoader(Stream(9), 1, num_workers=0, seed=0).load_state_dict(state)
    assert caught.value.field == "ahead"
    loader = nl.DataLoader(Numbers(9), 2, num_workers=0, seed=0)
    loader.load_state_dict({**state, "sampler": "sequential", "length": 9})
    assert [batch.tolist() for batch in loader] == [[2, 3], [6, 7], [8]]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_sample_rng_gives_the_same_numbers_after_a_resume(num_workers: int) -> None:
    with nl.DataLoader(Noisy(20), 3, shuffle=True, num_workers=0, seed=4) as loader:
        loader.set_epoch(5)
        whole = stream_of(loader)
        loader.set_epoch(5)
        take(loader, 2)
        state = saved(loader)
    with nl.DataLoader(Noisy(20), 3, shuffle=True, num_workers=num_workers) as loader:
        loader.load_state_dict(state)
        assert stream_of(loader) == whole[2:]


@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_state_taken_after_a_failure_resumes_at_the_first_undelivered_sample(
    num_workers: int, batch_size: int
) -> None:
    class Broken(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 13:
                raise OSError("disk gone")
            return index

    with nl.DataLoader(Broken(30), batch_size, num_workers=num_workers, shuffle=True, seed=1) as loader:
        received = []
        with pytest.raises(nl.DeadWorkerError):
            for batch in loader:
                received += batch.tolist()
        state = saved(loader)
        assert state["received"] == len(received)
    with nl.DataLoader(Numbers(30), 7, num_workers=2, shuffle=True, seed=1) as loader:
        loader.load_state_dict(state)
        rest = samples_of(loader)
        assert sorted(received + rest) == list(range(30))
    with nl.DataLoader(Broken(30), batch_size, num_workers=num_workers, shuffle=True, seed=1) as loader:
        with pytest.raises(nl.DeadWorkerError):
            list(loader)
        loader.dataset.__class__ = Numbers
        loader.rebuild()
        loader.load_state_dict(loader.state_dict())
        assert samples_of(loader) == rest


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["random", "sampler", "batch_sampler"])
def test_a_skipped_sample_counts_as_done_and_is_not_tried_again_after_a_resume(
    num_workers: int, kind: str
) -> None:
    class Spotty(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index % 7 == 3:
                raise ValueError(index)
            return index

    def make(dataset: Any) -> nl.DataLoader:
        plain = LOADERS[kind](4, seed=0)
        return nl.DataLoader(
            dataset,
            1 if plain.batch_size is None else plain.batch_size,
            shuffle=kind == "random",
            sampler=plain.sampler,
            batch_sampler=plain.batch_sampler,
            num_workers=num_workers,
            seed=0,
            on_failure=nl.FailurePolicy(skip=10),
        )

    for batches in range(1, 6):
        with make(Spotty(26)) as loader:
            received = samples_of(take(loader, batches))
            skipped = [record.index for record in loader.skipped]
            state = saved(loader)
        with make(Numbers(26)) as loader:
            loader.load_state_dict(state)
            rest = samples_of(loader)
        assert sorted(received + rest + skipped) == list(range(26))
        assert set(skipped) <= set(range(3, 26, 7))


def test_resilient_goes_on_with_new_loaders_until_the_epoch_is_complete() -> None:
    lives = iter([5, 11, None])

    class Mortal(Numbers):
        def __init__(self, length: int, dies_at: int | None) -> None:
            super().__init__(length)
            self.dies_at = dies_at

        def __getitem__(self, index: Any) -> Any:
            if index == self.dies_at:
                raise ConnectionError(index)
            return index

    stream = nl.resilient(lambda: nl.DataLoader(Mortal(20, next(lives)), 2, num_workers=2))
    assert samples_of(stream) == list(range(20))


# Seeds and epochs


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_without_a_seed_adopts_the_states_for_good(num_workers: int) -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Noisy(12), 4, shuffle=True, num_workers=num_workers)

    with make() as first:
        expected = [stream_of(first) for _ in range(3)]
        first.set_epoch(0)
        take(first, 1)
        state = saved(first)
    with make() as second:
        stream_of(second)
        second.load_state_dict(state)
        assert second.seed == first.seed
        assert stream_of(second) == expected[0][1:]
        assert [stream_of(second), stream_of(second)] == expected[1:]
        assert second.state_dict()["seed"] == first.seed


def test_a_state_for_the_epoch_that_is_set_stays_in_force_and_for_another_does_not() -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Numbers(10), 2, shuffle=True, num_workers=2, seed=0)

    with make() as loader:
        epochs = [samples_of(loader) for _ in range(4)]
        loader.set_epoch(1)
        take(loader, 2)
        state = saved(loader)
    with make() as loader:
        loader.load_state_dict(state)
        for epoch in range(1, 4):  # the loop of a trainer that restarts in epoch 1
            loader.set_epoch(epoch)
            assert samples_of(loader) == (epochs[1][4:] if epoch == 1 else epochs[epoch])
        loader.load_state_dict(state)
        loader.set_epoch(3)
        assert (loader.state_dict()["epoch"], loader.state_dict()["received"]) == (3, 0)
        assert samples_of(loader) == epochs[3]


def test_a_state_taken_before_the_first_epoch_is_its_beginning() -> None:
    loader = nl.DataLoader(Numbers(10), 2, num_workers=0, seed=0)
    assert loader.state_dict()["received"] == 0
    loader.set_epoch(7)
    state = saved(loader)
    assert state["epoch"] == 7
    again = nl.DataLoader(Numbers(10), 2, num_workers=0, seed=0)
    again.load_state_dict(state)
    iterator = iter(again)
    assert iterator.statistics().epoch == 7


def test_loading_a_state_leaves_a_live_iterator_alone() -> None:
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        iterator = iter(loader)
        next(iterator)
        state = saved(loader)
        loader.load_state_dict(state)
        assert samples_of(iterator) == list(range(2, 10))
        assert samples_of(loader) == list(range(2, 10))


def test_progress_after_a_resume_counts_what_was_received_before() -> None:
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        take(loader, 3)
        loader.load_state_dict(loader.state_dict())
        iterator = iter(loader)
        assert (iterator.progress().items_processed, iterator.progress().items_total) == (6, 10)
        assert len(list(iterator)) == 2
        assert iterator.progress().items_processed == 10
        assert iterator.statistics().delivered == 4


# What does not fit


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dataset": Numbers(11)}, "length"),
        ({"shuffle": False}, "shuffle"),
        ({"seed": 2}, "seed"),
        ({"shuffle": None, "sampler": range(10)}, "sampler"),
        ({"shuffle": None, "batch_size": 1, "batch_sampler": [[1], [2]]}, "sampler"),
        ({"shuffle": None, "dataset": Stream(10)}, "sampler"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_state_of_another_loader_is_refused_and_changes_nothing(change: dict[str, Any], field: str) -> None:
    base: dict[str, Any] = {
        "dataset": Numbers(10), "batch_size": 2, "shuffle": True, "seed": 1, "num_workers": 0,
    }  # fmt: skip
    loader = nl.DataLoader(**base)
    take(loader, 2)
    other = nl.DataLoader(**{**base, **change})
    before = other.state_dict()
    with pytest.raises(nl.ResumeError) as caught:
        other.load_state_dict(loader.state_dict())
    assert caught.value.field == field
    assert field in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert other.state_dict() == before
    assert sum(len(batch) for batch in other) >= 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 99),
        ("version", None),
        ("sampler", "alphabetical"),
        ("length", -1),
        ("length", 2.5),
        ("seed", 2**64),
        ("seed", "1"),
        ("epoch", -1),
        ("epoch", True),
        ("received", 11),
        ("received", -1),
        ("received", None),
        ("ahead", [[1, 2]]),
        ("ahead", [[8, 8]]),
        ("ahead", "none"),
        ("ahead", [[8, 12]]),
        ("finished", 1),
        ("digest", "00"),
        ("digest", "0" * 16),
    ],
)
def test_a_damaged_state_is_refused_by_field(field: str, value: Any) -> None:
    loader = nl.DataLoader(Numbers(10), 2, shuffle=True, num_workers=0, seed=1)
    take(loader, 1)
    state = loader.state_dict()
    with pytest.raises(nl.ResumeError) as caught:
        loader.load_state_dict({**state, field: value})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert loader.state_dict() == state


@pytest.mark.parametrize("field", nl.DataLoader(Numbers(1)).state_dict())
def test_a_state_with_a_missing_or_an_unknown_field_is_refused(field: str) -> None:
    loader = nl.DataLoader(Numbers(10), num_workers=0)
    state = loader.state_dict()
    state[field + "s"] = state.pop(field)
    with pytest.raises(nl.ResumeError) as caught:
        loader.load_state_dict(state)
    assert caught.value.field == field


@pytest.mark.parametrize("state", [None, [], "state", 5])
def test_what_is_no_state_at_all_is_refused(state: Any) -> None:
    with pytest.raises(nl.ResumeError, match="state"):
        nl.DataLoader(Numbers(10), num_workers=0).load_state_dict(state)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_that_gives_other_keys_is_refused_and_neither_epoch_nor_state_is_lost(
    num_workers: int,
) -> None:
    with nl.DataLoader(Numbers(10), 2, sampler=range(10), num_workers=0) as loader:
        take(loader, 2)
        state = saved(loader)
    keys = [3, 1, 2, 0, *range(4, 10)]
    with nl.DataLoader(Numbers(10), 2, sampler=keys, num_workers=num_workers) as loader:
        loader.load_state_dict(state)
        for _ in range(2):  # it is no use to try again with the same sampler
            with pytest.raises(nl.ResumeError) as caught:
                list(loader)
            assert caught.value.field == "digest"
            assert loader.state_dict() == state
        keys[:4] = range(4)
        assert samples_of(loader) == list(range(4, 10))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterable_that_has_become_shorter_is_an_error_and_not_an_end(num_workers: int) -> None:
    with nl.DataLoader(Stream(10), 2, num_workers=0) as loader:
        take(loader, 3)
        state = saved(loader)
    with nl.DataLoader(Stream(4), 2, num_workers=num_workers) as loader:
        loader.load_state_dict(state)
        with pytest.raises(nl.DeadWorkerError, match="ended after 4 samples where 6 were read"):
            list(loader)


def test_states_are_small_and_do_not_grow_with_the_dataset() -> None:
    loader = nl.DataLoader(np.arange(100_000), 64, shuffle=True, num_workers=0)
    take(loader, 500)
    assert len(json.dumps(loader.state_dict())) < 300
