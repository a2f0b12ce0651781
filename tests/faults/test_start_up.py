"""A worker dies or hangs before it has loaded anything, and nobody can say so.

Start-up is whatever runs before the first ticket: the copy of the dataset, ``worker_init_fn``. Its failure is
named as such, comes before the first batch, and its duration is on nobody's clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from nogil_loader import DataLoader, FailurePolicy, get_worker_info
from tests.faults.traps import KINDS, PATIENCE, Samples, Trap, cut, indices, make, raises, until_death


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, StopIteration])
def test_b13_an_error_in_worker_init_fn_names_the_worker_and_comes_first(
    error: type[BaseException], kind: str
) -> None:
    start_up = Trap(raises(error), at={1})
    loader = DataLoader(make(kind, 40), num_workers=3, worker_init_fn=start_up)
    batches, death = until_death(loader)
    assert batches == []
    assert death.worker_id == 1
    assert death.during == "worker_init_fn"
    assert "worker 1 died in worker_init_fn" in str(death)
    assert type(death.__cause__) is error
    assert (death.batch, death.indices) == (None, ())


@pytest.mark.parametrize("kind", KINDS)
def test_b13_all_workers_may_fail_to_start(kind: str) -> None:
    loader = DataLoader(make(kind, 40), num_workers=3, worker_init_fn=raises(OSError("no connection")))
    batches, death = until_death(loader)
    assert batches == []
    assert isinstance(death.__cause__, OSError)


@pytest.mark.parametrize("policy", ["rebuild", "skip"])
@pytest.mark.parametrize("kind", KINDS)
def test_b13_a_start_up_that_fails_once_is_repeated(kind: str, policy: str) -> None:
    start_up = Trap(raises(OSError), at={1}, times=1)
    loader = DataLoader(make(kind, 10), num_workers=3, worker_init_fn=start_up, on_failure=policy)
    assert [indices(batch) for batch in loader] == cut(10, 1)
    assert start_up.visits[1] == 2
    assert loader.statistics().rebuilds == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_b13_a_start_up_that_always_fails_is_not_repeated_for_ever(workers: int) -> None:
    start_up = Trap(raises(OSError), at={0})
    loader = DataLoader(
        Samples(10), num_workers=workers, worker_init_fn=start_up, on_failure=FailurePolicy(rebuild=4)
    )
    batches, death = until_death(loader)
    assert batches == []
    assert death.during == "worker_init_fn"
    assert start_up.visits[0] >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataset_that_cannot_be_copied_is_an_error_of_start_up(kind: str) -> None:
    dataset = make(kind, 10)
    dataset.lock = threading.Lock()  # deepcopy refuses it
    batches, death = until_death(DataLoader(dataset, num_workers=2, clone_dataset=True))
    if kind == "stream" and batches:
        pytest.fail("an iterable's copies are made before anything is delivered")
    assert batches == []
    assert death.during == "clone_dataset"
    assert isinstance(death.__cause__, TypeError)


def test_a_factory_of_datasets_that_fails_for_one_worker_names_it() -> None:
    def clone(worker_id: int) -> Samples:
        if worker_id == 2:
            raise FileNotFoundError("shard-2")
        return Samples(10)

    batches, death = until_death(DataLoader(Samples(10), num_workers=3, clone_dataset=clone))
    assert batches == []
    assert (death.worker_id, death.during) == (2, "clone_dataset")
    assert "shard-2" in str(death)


def test_a_rebuilt_worker_starts_up_again_and_gets_a_dataset_of_its_own() -> None:
    made: list[Samples] = []
    trap = Trap(raises(OSError), at={3}, times=1)

    def clone(worker_id: int) -> Samples:
        made.append(Samples(6, trap))
        return made[-1]

    inits: list[Any] = []

    def start_up(worker_id: int) -> None:
        info = get_worker_info()
        assert info is not None
        inits.append(info.dataset)

    loader = DataLoader(
        Samples(6), num_workers=1, clone_dataset=clone, worker_init_fn=start_up, on_failure="rebuild"
    )
    assert [indices(batch) for batch in loader] == cut(6, 1)
    assert len(made) == 2
    assert all(one is other for one, other in zip(made, inits, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_b31_a_timeout_goes_with_any_number_of_workers(workers: int) -> None:
    assert list(DataLoader([], num_workers=workers, timeout=1)) == []
    loader = DataLoader(Samples(4), num_workers=workers, timeout=PATIENCE)
    assert [indices(batch) for batch in loader] == cut(4, 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_b31_start_up_is_not_on_the_clock(workers: int) -> None:
    looked, timed = threading.Event(), 0.05

    def start_up(worker_id: int) -> None:
        # Longer than the timeout by the watchdog's own measure: other workers' loaders come and go meanwhile.
        assert looked.wait(PATIENCE)

    loader = DataLoader(Samples(4), num_workers=workers, timeout=timed, worker_init_fn=start_up)
    iterator = iter(loader)
    release = rounds_of_the_consumer(iterator, 10, looked.set)
    assert [indices(batch) for batch in iterator] == cut(4, 1)
    assert release() >= 10


def rounds_of_the_consumer(iterator: Any, wanted: int, then: Callable[[], object]) -> Callable[[], int]:
    """Call ``then`` after the consumer has waited in vain, each time for a bounded step, ``wanted`` times."""
    count = 0
    wait = iterator._crew.wait

    def counted() -> None:
        nonlocal count
        count += 1
        if count == wanted:
            then()
        wait()

    iterator._crew.wait = counted
    return lambda: count


def test_a_worker_that_is_still_starting_does_not_hold_up_the_close() -> None:
    started, go_on = threading.Event(), threading.Event()

    def start_up(worker_id: int) -> None:
        started.set()
        assert go_on.wait(PATIENCE)

    iterator = iter(DataLoader(Samples(4), num_workers=2, worker_init_fn=start_up))
    assert started.wait(PATIENCE)
    iterator.close()  # bounded; a hang is what the test's own time limit would report
    go_on.set()


def test_the_errors_of_start_up_are_not_repeated_in_the_next_epoch_after_a_rebuild() -> None:
    start_up = Trap(raises(OSError), at={0, 1}, times=1)
    loader = DataLoader(Samples(4), num_workers=1, worker_init_fn=start_up)
    _, death = until_death(loader)
    assert death.during == "worker_init_fn"
    loader.rebuild()
    assert [indices(batch) for batch in loader] == cut(4, 1)


def test_an_iterables_copy_that_fails_later_than_the_reader_is_still_an_error() -> None:
    def clone(worker_id: int) -> NoReturn:
        raise ValueError("no copy")

    batches, death = until_death(DataLoader(make("stream", 10), num_workers=2, clone_dataset=clone))
    assert batches == []
    assert death.during == "clone_dataset"
