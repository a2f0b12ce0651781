"""A bad sample takes its whole batch along, is dropped without a trace, or is found again next to good ones.

Under ``on_failure="skip"`` the one sample that fails is left out and recorded, and nothing else is missing.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError, FailurePolicy
from tests.faults.traps import (
    MAP_KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Stream,
    Trap,
    cut,
    indices,
    killed,
    make,
    raises,
    safe,
    stream,
    until_death,
)

SPRINGS = {
    "exception": raises(OSError("damaged")),
    "SystemExit": raises(SystemExit(1)),
    "StopIteration": raises(StopIteration),
    "killed": killed(),
}


def skipping(dataset: Any, *, skip: int | float = 5, rebuild: int = 0, **arguments: Any) -> DataLoader:
    return DataLoader(dataset, on_failure=FailurePolicy(rebuild=rebuild, skip=skip), **arguments)


def without(bad: set[int], length: int, size: int) -> list[list[int]]:
    batches = [[index for index in batch if index not in bad] for batch in cut(length, size)]
    return [batch for batch in batches if batch]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("spring", SPRINGS)
def test_b30_only_the_bad_sample_is_left_out_and_recorded(spring: str, kind: str, workers: int) -> None:
    trap = Trap(SPRINGS[spring], at={10})
    loader = skipping(make(kind, 20, trap), batch_size=4, num_workers=workers)
    assert [indices(batch) for batch in loader] == without({10}, 20, 4)
    (record,) = loader.skipped
    assert (record.index, record.epoch, record.position) == (10, 0, 10)
    assert record.error is not None
    assert type(record.error).__name__ in record.reason
    statistics = loader.statistics()
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (20, 19, 1)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("position", [0, 1, 18, 19])
def test_at_the_first_and_last_positions(position: int, kind: str, workers: int) -> None:
    loader = skipping(
        make(kind, 20, Trap(raises(ValueError), at={position})), batch_size=4, num_workers=workers
    )
    assert [indices(batch) for batch in loader] == without({position}, 20, 4)
    assert [record.index for record in loader.skipped] == [position]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("bad", [{4, 5, 6, 7}, {0}, {3, 4}, set(range(20)), {0, 1, 2, 3, 16, 17, 18, 19}])
def test_several_bad_samples_in_a_batch_up_to_all_of_them(
    bad: set[int], kind: str, workers: int, in_order: bool
) -> None:
    loader = skipping(
        make(kind, 20, Trap(raises(ValueError), at=bad)),
        skip=20,
        batch_size=4,
        num_workers=workers,
        in_order=in_order,
    )
    received = [indices(batch) for batch in loader]
    if not in_order:
        received.sort()
    assert received == without(bad, 20, 4)
    assert sorted(int(str(record.index)) for record in loader.skipped) == sorted(bad)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_the_good_samples_of_a_batch_keep_their_random_numbers(kind: str, workers: int) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 5}
    clean = stream(DataLoader(make(kind, 40), num_workers=0, **arguments))
    loader = skipping(make(kind, 40, Trap(raises(ValueError), at={3, 17})), num_workers=workers, **arguments)
    assert stream(loader) == [[row for row in batch if row[0] not in (3, 17)] for batch in clean]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_more_than_the_allowed_number_raises_and_says_so(kind: str, workers: int) -> None:
    trap = Trap(raises(ValueError("damaged")), at={8, 9, 10, 11})
    loader = skipping(make(kind, 20, trap), skip=2, batch_size=4, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == cut(20, 4)[:2]
    assert isinstance(death.__cause__, ValueError)
    assert "2 samples were skipped already" in str(death)
    assert death.index == 10


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_the_allowance_is_spent_in_plan_order(kind: str, workers: int) -> None:
    later = threading.Event()

    def fail(index: int) -> NoReturn:
        if index == 6:
            later.set()
        elif workers > 1:
            assert later.wait(PATIENCE)  # however fast the later one fails
        raise ValueError(index)

    loader = skipping(make(kind, 20, Trap(fail, at={1, 6})), skip=1, batch_size=4, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == [[0, 2, 3]]
    assert 6 in death.indices
    assert [record.index for record in loader.skipped] == [1]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_share_is_rounded_up(workers: int) -> None:
    def new(length: int) -> DataLoader:
        trap = Trap(raises(ValueError), at={5, 50})
        return skipping(Samples(length, trap), skip=0.01, batch_size=200, num_workers=workers)

    assert [len(batch) for batch in new(150)] == [148]
    _, death = until_death(new(100))
    assert death.index == 50


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_a_sample_is_tried_again_before_it_is_left_out(kind: str, workers: int) -> None:
    flaky, bad = Trap(raises(ValueError), at={3}, times=2), Trap(raises(ValueError), at={8})

    def both(index: int) -> None:
        flaky(index)
        bad(index)

    loader = skipping(make(kind, 12, both), skip=1, rebuild=2, batch_size=3, num_workers=workers)
    assert [indices(batch) for batch in loader] == without({8}, 12, 3)
    assert [record.index for record in loader.skipped] == [8]
    assert bad.visits[8] >= 3


@pytest.mark.parametrize("workers", WORKERS)
def test_records_of_later_epochs_name_their_epoch(workers: int) -> None:
    loader = skipping(Samples(6, Trap(raises(ValueError), at={2})), skip=1, num_workers=workers)
    for _ in range(3):
        assert [indices(batch) for batch in loader] == without({2}, 6, 1)
    assert [(record.index, record.epoch) for record in loader.skipped] == [(2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_record_is_made_when_the_place_of_the_sample_is_reached(workers: int) -> None:
    loader = skipping(Samples(12, Trap(raises(ValueError), at={5})), batch_size=3, num_workers=workers)
    iterator = iter(loader)
    next(iterator)
    assert list(loader.skipped) == []
    next(iterator)
    assert [record.index for record in loader.skipped] == [5]
    iterator.close()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_a_state_taken_after_a_skip_neither_repeats_nor_loses_a_sample(kind: str, workers: int) -> None:
    def new() -> DataLoader:
        trap = Trap(raises(ValueError), at={3, 4, 17})
        return skipping(
            make(kind, 24, trap), batch_size=4, shuffle=True, seed=2, num_workers=workers, in_order=True
        )

    whole = [indices(batch) for batch in new()]
    for received in range(len(whole)):
        loader = new()
        iterator = iter(loader)
        before = [indices(next(iterator)) for _ in range(received)]
        state = loader.state_dict()
        iterator.close()
        other = new()
        other.load_state_dict(state)
        assert before + [indices(batch) for batch in other] == whole


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [*MAP_KINDS, "stream"])
def test_a_sample_that_cannot_be_collated_is_found_and_left_out(kind: str, workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        if any(sample[0] == 7 for sample in samples):
            raise ValueError("cannot be collated")
        return np.stack(samples)

    loader = skipping(make(kind, 12), batch_size=4, collate_fn=collate, num_workers=workers)
    assert [indices(batch) for batch in loader] == without({7}, 12, 4)
    assert [record.index for record in loader.skipped] == [7]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [*MAP_KINDS, "stream"])
def test_a_batch_that_fails_only_as_a_whole_is_no_single_samples_fault(kind: str, workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        if len(samples) > 1 and samples[0][0] == 4:
            raise ValueError("not together")
        return np.stack(samples)

    loader = skipping(make(kind, 12), batch_size=4, collate_fn=collate, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == cut(12, 4)[:1]
    assert death.indices == (4, 5, 6, 7)
    assert death.index is None
    assert "no single sample" in str(death)
    assert loader.skipped == ()


@pytest.mark.parametrize("workers", WORKERS)
def test_a_sample_of_another_shape_is_left_out_by_its_index(workers: int) -> None:
    class Ragged(Samples):
        def __getitem__(self, index: int) -> np.ndarray:
            return np.zeros(5 if index == 6 else 2) + index

    loader = skipping(Ragged(12), batch_size=4, num_workers=workers)
    assert [indices(batch) for batch in loader] == without({6}, 12, 4)
    (record,) = loader.skipped
    assert record.index == 6
    assert "(5,)" in record.reason


@pytest.mark.parametrize("workers", WORKERS)
def test_an_iterable_that_fails_for_good_cannot_be_skipped_over(workers: int) -> None:
    dataset = Stream(12, Trap(raises(ValueError), at={7}))
    loader = skipping(dataset, rebuild=1, batch_size=4, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == cut(12, 4)[:1]
    assert death.index == 7
    assert loader.skipped == ()


@pytest.mark.parametrize("workers", WORKERS)
def test_samples_that_are_handed_through_are_skipped_singly(workers: int) -> None:
    dataset = Samples(6, Trap(raises(ValueError), at={2, 3}))
    loader = skipping(dataset, batch_size=None, num_workers=workers)
    assert [int(sample[0]) for sample in loader] == [0, 1, 4, 5]
    assert [record.index for record in loader.skipped] == [2, 3]


@pytest.mark.parametrize("workers", WORKERS)
def test_duplicate_and_unhashable_looking_keys_are_skipped_where_they_stand(workers: int) -> None:
    names = ["a", "b", "a", "c", "b", "a"]

    class Named:
        calls = 0

        def __getitem__(self, name: str) -> str:
            if name == "b":
                raise KeyError(name)
            return name

        def __len__(self) -> int:
            return len(names)

    loader = skipping(Named(), sampler=names, batch_size=3, num_workers=workers)
    assert list(loader) == [["a", "a"], ["c", "a"]]
    assert [(record.index, record.position) for record in loader.skipped] == [("b", 1), ("b", 4)]


@pytest.mark.parametrize("workers", WORKERS)
def test_exceptions_whose_truth_raises_can_be_recorded(workers: int) -> None:
    class Undecided(Exception):
        def __bool__(self) -> bool:
            raise RuntimeError("neither true nor false")

    def fail(index: int) -> NoReturn:
        raise ValueError("outer") from Undecided("inner")

    loader = skipping(Samples(6, Trap(fail, at={2})), num_workers=workers)
    assert [indices(batch) for batch in loader] == without({2}, 6, 1)
    assert [record.reason for record in loader.skipped] == ["ValueError: outer"]


def test_what_is_recorded_keeps_no_local_variables_alive() -> None:
    loader = skipping(Samples(6, Trap(raises(ValueError), at={2})), batch_size=3, num_workers=1)
    list(loader)
    error = loader.skipped[0].error
    assert error is not None
    trace = error.__traceback__
    while trace is not None:
        assert trace.tb_frame.f_locals == {}
        trace = trace.tb_next


@pytest.mark.parametrize("shorthand", ["skip"])
@pytest.mark.parametrize("workers", WORKERS)
def test_the_shorthand_allows_one_in_a_thousand(shorthand: str, workers: int) -> None:
    loader = DataLoader(
        Samples(1001, Trap(raises(ValueError), at={5, 1000})),
        batch_size=100,
        num_workers=workers,
        on_failure=shorthand,
    )
    assert sum(len(batch) for batch in loader) == 999
    with pytest.raises(DeadWorkerError):
        list(
            DataLoader(
                Samples(1000, Trap(raises(ValueError), at={5, 999})), num_workers=workers, on_failure="skip"
            )
        )


def test_nothing_is_skipped_without_being_asked_for() -> None:
    loader = DataLoader(Samples(10, Trap(raises(ValueError), at={2})), num_workers=1, on_failure="rebuild")
    _, death = until_death(loader)
    assert "skipped" not in str(death)
    assert loader.skipped == ()
    assert [indices(b) for b in skipping(Samples(4, safe), num_workers=1)] == cut(4, 1)
