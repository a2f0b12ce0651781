"""The stream of samples is a function of seed, epoch and index, whatever happens on the way (G4)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nogil_loader as nl
from tests.loading import Conducted, Conductor, Noisy, NoisyBatches, Numbers, crowd_of, samples_of, stream_of

WORKERS = (0, 1, 2, 5)


def draws_of(loader: nl.DataLoader) -> list[float]:
    return [number for batch in loader for number in batch["noise"][:, 0].tolist()]


@pytest.mark.parametrize("num_workers", [0, 8])
@pytest.mark.parametrize("dataset", [Noisy(64), NoisyBatches(64)], ids=["one by one", "batched fetch"])
def test_d01_every_sample_draws_numbers_of_its_own(dataset: Noisy, num_workers: int) -> None:
    with nl.DataLoader(dataset, batch_size=4, num_workers=num_workers, seed=0) as loader:
        assert len(set(draws_of(loader))) == 64


@pytest.mark.parametrize("num_workers", [0, 3])
def test_d02_epochs_differ_and_runs_with_the_same_seed_do_not(num_workers: int) -> None:
    def run() -> tuple[list[float], list[float]]:
        with nl.DataLoader(Noisy(32), batch_size=4, num_workers=num_workers, seed=7) as loader:
            return draws_of(loader), draws_of(loader)

    first, second = run()
    assert not set(first) & set(second)
    assert run() == (first, second)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("dataset", [Noisy, NoisyBatches])
@pytest.mark.parametrize("batch_size", [1, 4, 7])
def test_d03_the_number_of_workers_and_the_prefetch_depth_change_nothing(
    dataset: type[Noisy], batch_size: int, shuffle: bool
) -> None:
    def run(num_workers: int, prefetch_factor: int) -> list[Any]:
        with nl.DataLoader(
            dataset(33),
            batch_size,
            shuffle,
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            seed=3,
        ) as loader:
            return [stream_of(loader) for _ in range(2)]

    expected = run(0, 2)
    for num_workers in WORKERS:
        for prefetch_factor in (1, 4):
            assert run(num_workers, prefetch_factor) == expected


def test_d03_single_samples_are_the_same_stream_for_any_number_of_workers() -> None:
    def run(num_workers: int) -> list[Any]:
        with nl.DataLoader(Noisy(12), None, shuffle=True, num_workers=num_workers, seed=3) as loader:
            return stream_of(loader)

    assert all(run(num_workers) == run(0) for num_workers in WORKERS)


def test_a_batch_is_the_same_whether_it_is_fetched_at_once_or_one_by_one() -> None:
    def run(dataset: Any) -> list[Any]:
        return stream_of(nl.DataLoader(dataset, 5, shuffle=True, num_workers=2, seed=3))

    assert run(Noisy(33)) == run(NoisyBatches(33))


def test_the_draws_of_a_sample_do_not_depend_on_batch_size_or_order() -> None:
    def run(**arguments: Any) -> dict[int, float]:
        loader = nl.DataLoader(Noisy(20), num_workers=2, seed=5, **arguments)
        return {
            int(index): float(noise)
            for batch in loader
            for index, noise in zip(batch["index"], batch["noise"][:, 0], strict=True)
        }

    expected = run(batch_size=1)
    assert run(batch_size=6) == expected
    assert run(batch_size=6, shuffle=True) == expected
    assert run(batch_size=3, sampler=range(19, -1, -1)) == expected
    assert run(batch_size=3, in_order=False) == expected


def test_d05_global_random_numbers_in_a_dataset_do_no_harm() -> None:
    class Global(Numbers):
        def __getitem__(self, index: Any) -> Any:
            return np.random.rand()

    np.random.seed(0)
    for _ in range(2):
        drawn = samples_of(nl.DataLoader(Global(40), 4, num_workers=4))
        assert len(drawn) == 40
        assert all(0 <= number < 1 for number in drawn)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_loader_neither_reads_nor_changes_global_random_state(num_workers: int) -> None:
    def run() -> list[Any]:
        loader = nl.DataLoader(Noisy(16), 4, shuffle=True, num_workers=num_workers, seed=1)
        return [*stream_of(loader), loader.state_dict()]

    random.seed(11)
    np.random.seed(11)
    states = random.getstate(), repr(np.random.get_state())
    first = run()
    nl.DataLoader(Numbers(4))  # draws a seed of its own
    assert (random.getstate(), repr(np.random.get_state())) == states
    random.seed(12)
    np.random.seed(12)
    assert run() == first


def test_d07_the_stream_is_the_same_after_another_loader_ran_and_in_another_process(run_script: Any) -> None:
    def run(num_workers: int) -> list[float]:
        return draws_of(nl.DataLoader(Noisy(24), 4, shuffle=True, num_workers=num_workers, seed=0))

    first = run(1)
    list(nl.DataLoader(Noisy(10), 2, num_workers=3, seed=9))
    assert run(1) == first
    assert run(4) == first
    result = run_script(
        """
        import nogil_loader as nl
        from tests.loading import Noisy
        loader = nl.DataLoader(Noisy(24), 4, shuffle=True, num_workers=4, seed=0)
        print([number for batch in loader for number in batch["noise"][:, 0].tolist()])
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == repr(first)


def test_d08_a_transform_that_keeps_a_generator_is_not_frozen_by_cloning() -> None:
    class Jitter(Numbers):
        def __init__(self, length: int) -> None:
            super().__init__(length)
            self.rng = np.random.default_rng(0)

        def __getitem__(self, index: Any) -> Any:
            return self.rng.random(), nl.sample_rng().random()

    with nl.DataLoader(Jitter(32), 4, num_workers=4, clone_dataset=True, seed=0) as loader:
        batches = list(loader)
    own = [number for batch in batches for number in batch[0].tolist()]
    keyed = [number for batch in batches for number in batch[1].tolist()]
    # A clone is made once per worker, not once per sample: at most the workers' copies share draws.
    assert len(set(own)) >= 32 / 4
    assert len(set(keyed)) == 32


# Whatever the order of events


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 5]),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_any_order_in_which_samples_get_ready_gives_the_same_stream(
    dice: int, num_workers: int, batch_size: int, prefetch_factor: int
) -> None:
    expected = stream_of(nl.DataLoader(Noisy(23), batch_size, shuffle=True, num_workers=0, seed=4))
    order = samples_of(nl.DataLoader(Numbers(23), shuffle=True, num_workers=0, seed=4))
    capacity = num_workers * (prefetch_factor + 1)
    crowd = crowd_of(order, batch_size=batch_size, num_workers=num_workers, capacity=capacity)
    conductor = Conductor(random.Random(dice).choice, crowd)
    loader = nl.DataLoader(
        Conducted(Noisy(23), conductor),
        batch_size,
        shuffle=True,
        num_workers=num_workers,
        prefetch_factor=prefetch_factor,
        seed=4,
    )
    with conductor.conducting(), loader:
        assert stream_of(loader) == expected
    assert set(conductor.played) == set(range(23))


class Relay(Numbers):
    """Of each five samples the last is ready first: each waits for the one after it."""

    def __init__(self, length: int, runners: int) -> None:
        super().__init__(length)
        self.runners = runners
        self.done = [threading.Event() for _ in range(length)]
        self.order: list[int] = []

    def __getitem__(self, index: Any) -> Any:
        following = index + 1
        if following % self.runners and following < self.length:
            assert self.done[following].wait(20)
        self.order.append(index)
        self.done[index].set()
        return index


def test_batches_that_get_ready_in_reverse_arrive_in_plan_order() -> None:
    dataset = Relay(20, runners=5)
    with nl.DataLoader(dataset, 1, num_workers=5) as loader:
        assert samples_of(loader) == list(range(20))
    assert dataset.order[:5] == [4, 3, 2, 1, 0]


class Fragile(Noisy):
    """Some samples kill whoever loads them the first time."""

    def __init__(self, length: int, deaths: dict[int, Callable[[], BaseException]]) -> None:
        super().__init__(length)
        self.deaths = dict(deaths)

    def __getitem__(self, index: Any) -> Any:
        drawn = super().__getitem__(index)
        death = self.deaths.pop(index, None)
        if death is not None:
            raise death()
        return drawn


def rows_of(batches: Iterable[Any]) -> list[tuple[int, bytes]]:
    """The samples one by one: a batch for which memory ran out twice comes in halves."""
    return [
        (int(index), noise.tobytes())
        for batch in batches
        for index, noise in zip(batch["index"], batch["noise"], strict=True)
    ]


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.integers(0, 22),
        st.sampled_from([ValueError, SystemExit, StopIteration, GeneratorExit, MemoryError]),
        max_size=6,
    ),
    st.sampled_from(WORKERS),
    st.integers(1, 6),
    st.booleans(),
)
def test_transient_deaths_leave_no_trace_in_the_stream(
    deaths: dict[int, Callable[[], BaseException]], num_workers: int, batch_size: int, shuffle: bool
) -> None:
    expected = rows_of(nl.DataLoader(Noisy(23), batch_size, shuffle, num_workers=0, seed=4))
    loader = nl.DataLoader(
        Fragile(23, deaths),
        batch_size,
        shuffle,
        num_workers=num_workers,
        seed=4,
        on_failure=nl.FailurePolicy(rebuild=6),
    )
    with loader:
        assert rows_of(loader) == expected
        statistics = loader.statistics()
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (23, 23, 0)


def test_b10_a_death_in_the_middle_of_a_shuffled_epoch_changes_nothing() -> None:
    expected = stream_of(nl.DataLoader(Noisy(40), 4, shuffle=True, num_workers=0, seed=1))
    dataset = Fragile(40, {7: ConnectionError})
    with nl.DataLoader(dataset, 4, shuffle=True, num_workers=3, seed=1, on_failure="rebuild") as loader:
        assert stream_of(loader) == expected
        assert loader.statistics().restarts == 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sample_that_only_its_own_numbers_betray_is_found_and_skipped_alone(num_workers: int) -> None:
    with nl.testing.sample_scope(seed=9, index=7):
        culprit = nl.sample_rng().random()

    def collate(samples: list[float]) -> list[float]:
        if culprit in samples:
            raise ValueError("one of them is bad, and nobody says which")
        return samples

    class Draw(Numbers):
        def __getitem__(self, index: Any) -> Any:
            return nl.sample_rng().random()

    expected = samples_of(nl.DataLoader(Draw(16), 4, num_workers=0, seed=9))
    policy = nl.FailurePolicy(skip=1)
    with nl.DataLoader(
        Draw(16), 4, num_workers=num_workers, seed=9, collate_fn=collate, on_failure=policy
    ) as loader:
        assert samples_of(loader) == expected[:7] + expected[8:]
        assert [record.index for record in loader.skipped] == [7]


# Seeds


def test_a_seed_that_is_not_given_is_drawn_once_and_can_be_given_later() -> None:
    loader = nl.DataLoader(Noisy(16), 4, shuffle=True, num_workers=2)
    again = nl.DataLoader(Noisy(16), 4, shuffle=True, num_workers=0, seed=loader.seed)
    with loader:
        assert [stream_of(loader) for _ in range(2)] == [stream_of(again) for _ in range(2)]
    assert nl.DataLoader(Numbers(4)).seed != nl.DataLoader(Numbers(4)).seed


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, np.uint32(5), np.uint64(2**64 - 1)])
def test_seeds_over_the_whole_range_work(seed: Any) -> None:
    loader = nl.DataLoader(Noisy(8), 4, shuffle=True, num_workers=0, seed=seed)
    assert type(loader.seed) is int
    assert loader.seed == int(seed)
    assert len(set(draws_of(loader))) == 8


def test_different_seeds_give_different_orders_and_draws() -> None:
    def run(seed: int) -> tuple[list[int], list[float]]:
        batches = list(nl.DataLoader(Noisy(30), 30, shuffle=True, num_workers=0, seed=seed))
        return batches[0]["index"].tolist(), batches[0]["noise"][:, 0].tolist()

    orders, draws = zip(*map(run, range(5)), strict=True)
    assert len(set(map(tuple, orders))) == 5
    assert len({number for row in draws for number in row}) == 150


def test_a_numpy_generator_gives_the_seed_and_is_drawn_from_once() -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Numbers(4), generator=np.random.default_rng(3))

    assert make().seed == make().seed
    generator = np.random.default_rng(3)
    first, second = (nl.DataLoader(Numbers(4), generator=generator) for _ in range(2))
    assert first.seed == make().seed
    assert second.seed != first.seed


# sample_rng


def test_sample_rng_continues_within_a_sample_and_starts_anew_with_an_index() -> None:
    class Twice(Numbers):
        def __getitem__(self, index: Any) -> Any:
            first, second = nl.sample_rng().random(), nl.sample_rng().random()
            return first, second, nl.sample_rng(index).random(), nl.sample_rng(index).random(2)[1]

    for batch in nl.DataLoader(Twice(6), 3, num_workers=2):
        first, second, first_again, second_again = batch
        assert (first == first_again).all()
        assert (second == second_again).all()
        assert (first != second).all()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_sample_rng_asks_for_an_index_where_a_whole_batch_is_loaded(num_workers: int) -> None:
    class Careless(Numbers):
        def __getitems__(self, indices: list[Any]) -> list[Any]:
            return [nl.sample_rng().random() for _ in indices]

    def collate(samples: list[Any]) -> Any:
        return nl.sample_rng().random()

    for dataset, collate_fn in ((Careless(4), None), (Numbers(4), collate)):
        with nl.DataLoader(dataset, 2, num_workers=num_workers, collate_fn=collate_fn) as loader:
            with pytest.raises(nl.DeadWorkerError) as caught:
                list(loader)
            assert isinstance(caught.value.__cause__, RuntimeError)
            assert "sample_rng(index)" in str(caught.value)


def test_sample_rng_of_an_index_can_be_had_in_collate() -> None:
    def collate(samples: list[int]) -> list[float]:
        return [nl.sample_rng(index).random() for index in samples]

    expected = draws_of(nl.DataLoader(Noisy(12), 4, num_workers=0, seed=2))
    drawn = samples_of(nl.DataLoader(Numbers(12), 4, num_workers=3, seed=2, collate_fn=collate))
    assert drawn == expected


def test_an_inner_loader_has_random_numbers_of_its_own_and_leaves_the_outer_ones_alone() -> None:
    class Nested(Numbers):
        def __init__(self, length: int, inner_workers: int) -> None:
            super().__init__(length)
            self.inner_workers = inner_workers

        def __getitem__(self, index: Any) -> Any:
            before = nl.sample_rng().random()
            with nl.DataLoader(Noisy(4), 2, num_workers=self.inner_workers, seed=index) as inner:
                inside = draws_of(inner)
            return before, nl.sample_rng().random(), inside

    def run(num_workers: int, inner_workers: int) -> list[Any]:
        return stream_of(nl.DataLoader(Nested(6, inner_workers), 2, num_workers=num_workers, seed=8))

    expected = run(0, 0)
    assert run(0, 2) == run(2, 0) == run(2, 2) == expected
    (first, second, inside) = next(iter(nl.DataLoader(Nested(6, 0), 6, num_workers=0, seed=8)))
    plain = next(iter(nl.DataLoader(Noisy(6), 6, num_workers=0, seed=8)))["noise"]
    assert (first == plain[:, 0]).all()
    assert (second == plain[:, 1]).all()
    assert len({float(number) for row in inside for number in row}) == 24


def test_sample_scope_by_hand_gives_the_numbers_of_the_loader() -> None:
    with nl.DataLoader(Noisy(9), 3, shuffle=True, num_workers=2, seed=6) as loader:
        for epoch in range(2):
            for batch in loader:
                for index, noise in zip(batch["index"], batch["noise"], strict=True):
                    with nl.testing.sample_scope(seed=6, epoch=epoch, index=int(index)):
                        assert (nl.sample_rng().random(3) == noise).all()


@pytest.mark.parametrize(
    "keys", [["a", "b", "c"], [("x", 1), ("x", 2), ("y", 1)], [-1, -2, -3], [2**70, 5, 6]]
)
def test_keys_of_any_kind_have_random_numbers_of_their_own(keys: list[Hashable], run_script: Any) -> None:
    class Draw(Numbers):
        def __getitem__(self, index: Any) -> Any:
            return nl.sample_rng().random()

    def run(num_workers: int) -> list[float]:
        return samples_of(nl.DataLoader(Draw(3), sampler=keys, num_workers=num_workers, seed=6))

    drawn = run(0)
    assert len(set(drawn)) == 3
    assert run(3) == drawn
    script = f"""
        import nogil_loader as nl
        for key in {keys!r}:
            with nl.testing.sample_scope(seed=6, epoch=0, index=key):
                print(nl.sample_rng().random())
        """
    result = run_script(script, environment={"PYTHONHASHSEED": "5"})
    assert result.stdout.split() == list(map(repr, drawn)), result.stderr
