"""An exception with a meaning for loops and generators comes out of user code, and the epoch seems complete.

Peers let IndexError or StopIteration from a dataset pass for its end. Here an epoch ends by full delivery or
by raising, whatever raises, wherever it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, DatasetError, DeadWorkerError
from tests.faults.traps import KINDS, WORKERS, Samples, Trap, cut, indices, make, raises, until_death

ENDINGS = [StopIteration, IndexError, GeneratorExit, StopAsyncIteration, EOFError]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", [0, 4, 9])
@pytest.mark.parametrize("error", ENDINGS)
def test_b06_what_means_an_end_elsewhere_is_a_failure_here(
    error: type[BaseException], position: int, kind: str, workers: int
) -> None:
    loader = DataLoader(make(kind, 10, Trap(raises(error), at={position})), num_workers=workers)
    batches, death = until_death(loader)
    assert batches == cut(10, 1)[:position]
    cause = death.__cause__
    if kind == "stream" and error is StopIteration:
        # Python itself turns it into RuntimeError inside a generator.
        assert isinstance(cause, RuntimeError)
        cause = cause.__cause__
    assert type(cause) is error


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("error", ENDINGS)
def test_b06_the_same_holds_for_samples_that_are_handed_through(
    error: type[BaseException], workers: int
) -> None:
    dataset = Samples(10, Trap(raises(error), at={4}))
    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert type(caught.value.__cause__) is error
    assert caught.value.index == 4


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ENDINGS)
def test_b06_the_same_holds_for_collate_fn(error: type[BaseException], kind: str, workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        if samples[0][0] == 4:
            raise error
        return np.stack(samples)

    loader = DataLoader(make(kind, 10), batch_size=2, collate_fn=collate, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == cut(10, 2)[:2]
    assert type(death.__cause__) is error
    assert death.during == "collate"


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("error", ENDINGS)
def test_b06_an_iterable_that_cannot_be_opened_is_no_empty_epoch(
    error: type[BaseException], workers: int
) -> None:
    class Closed:
        def __iter__(self) -> Iterator[int]:
            raise error

    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(Closed(), num_workers=workers))
    cause = caught.value.__cause__
    if error is StopIteration:
        assert isinstance(cause, DatasetError)
        cause = cause.__cause__
    assert type(cause) is error
    assert caught.value.worker_id == "reader"


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "fetch",
    [
        lambda indices: indices[:-1],
        lambda indices: [*indices, 0],
        lambda indices: [],
        lambda indices: iter(indices[:-1]),
        lambda indices: (index for index in indices if index != 3),
    ],
)
def test_fetching_a_wrong_number_of_samples_is_a_failure(
    fetch: Callable[[list[int]], Any], workers: int
) -> None:
    class Miscounts:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            raise AssertionError("batches are fetched")

        def __getitems__(self, indices: list[int]) -> Any:
            return fetch(indices)

    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(Miscounts(), batch_size=4, num_workers=workers))
    assert isinstance(caught.value.__cause__, DatasetError)
    assert "4 samples" in str(caught.value.__cause__)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("error", ENDINGS)
def test_a_death_outside_of_samples_ends_no_epoch_silently(error: type[BaseException], workers: int) -> None:
    def start_up(worker_id: int) -> None:
        raise error

    loader = DataLoader(Samples(4), num_workers=workers, worker_init_fn=start_up)
    if workers == 0:
        assert [indices(batch) for batch in loader] == cut(4, 1)  # as in torch, there is no worker to start
    else:
        assert type(until_death(loader)[1].__cause__) is error


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_that_ended_stays_ended(kind: str, workers: int) -> None:
    iterator = iter(DataLoader(make(kind, 4), num_workers=workers))
    assert [indices(batch) for batch in iterator] == cut(4, 1)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    statistics = iterator.statistics()
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (4, 4, 0)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_dataset_is_an_empty_epoch(kind: str, workers: int) -> None:
    loader = DataLoader(make(kind, 0), batch_size=2, num_workers=workers)
    assert list(loader) == []
    assert list(loader) == []
