"""Errors of the caller's own sampler are blamed on a worker, come too early, or are lost.

A sampler runs in the consumer's thread. What it raises is raised there as it is, after the batches that it
had planned before; no worker dies of it and nothing is rebuilt.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from nogil_loader import DataLoader, DeadWorkerError
from tests.conftest import loader_threads
from tests.faults.traps import WORKERS, Samples, cut, indices


class BreakingBatches:
    """Two good batches, then an error."""

    def __init__(self, error: BaseException, good: int = 2) -> None:
        self.error = error
        self.good = good
        self.asked = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.asked += 1
        for number in range(self.good):
            yield [2 * number, 2 * number + 1]
        raise self.error


class BreakingKeys(BreakingBatches):
    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield from batch


@pytest.mark.parametrize("policy", ["raise", "rebuild", "skip"])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("good", [0, 2, 50])
def test_b14_a_batch_samplers_error_comes_after_its_batches_as_it_is(
    good: int, workers: int, policy: str
) -> None:
    error = LookupError("no such class")
    batches = BreakingBatches(error, good)
    loader = DataLoader(Samples(100), batch_sampler=batches, num_workers=workers, on_failure=policy)
    if not good:
        for _ in range(3):
            with pytest.raises(LookupError) as caught:
                next(iter(loader))
            assert caught.value is error
        return
    iterator = iter(loader)
    assert [indices(next(iterator)) for _ in range(good)] == cut(2 * good, 2)
    for _ in range(3):
        with pytest.raises(LookupError) as caught:
            next(iterator)
        assert caught.value is error
    assert loader.statistics().rebuilds == 0
    assert batches.asked == 1
    again = iter(loader)
    assert [indices(next(again)) for _ in range(good)] == cut(2 * good, 2)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("good", [1, 2, 50])
def test_b14_a_samplers_error_comes_after_what_it_gave(good: int, workers: int) -> None:
    error = LookupError("no such class")
    loader = DataLoader(Samples(100), sampler=BreakingKeys(error, good), batch_size=2, num_workers=workers)
    received = []
    with pytest.raises(LookupError) as caught:
        for batch in loader:
            received.append(indices(batch))  # noqa: PERF401 - what came before the error counts
    assert caught.value is error
    assert received == cut(2 * good, 2)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("error", [RuntimeError, OSError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_b14_errors_of_every_kind_pass_through(error: type[BaseException], workers: int) -> None:
    class Sampler:
        """An iterator of its own, since a generator has opinions about GeneratorExit."""

        position = 0

        def __iter__(self) -> Sampler:
            return self

        def __next__(self) -> list[int]:
            self.position += 1
            if self.position > 20:
                raise error("of the sampler")
            return [self.position]

    loader = DataLoader(Samples(40), batch_sampler=Sampler(), num_workers=workers)
    received = []
    with pytest.raises(error, match="of the sampler") as caught:
        for batch in loader:
            received.append(indices(batch))  # noqa: PERF401 - what came before the error counts
    assert not isinstance(caught.value, DeadWorkerError)
    # Ctrl-C and the like end the program, so they are not held back for the batches in flight.
    assert received == [[index] for index in range(1, 21)][: len(received)]
    if issubclass(error, Exception):
        assert len(received) == 20


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("argument", ["sampler", "batch_sampler"])
def test_b14_an_error_when_the_sampler_is_opened_is_the_callers_own(argument: str, workers: int) -> None:
    class CannotBeOpened:
        def __iter__(self) -> Iterator[Any]:
            raise LookupError("closed")

    loader = DataLoader(Samples(4), num_workers=workers, **{argument: CannotBeOpened()})  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="closed"):
        list(loader)
    with pytest.raises(LookupError, match="closed"):
        list(loader)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("argument", ["sampler", "batch_sampler"])
def test_b14_a_missing_or_broken_length_concerns_len_alone(argument: str, workers: int) -> None:
    class NoLength:
        def __iter__(self) -> Iterator[Any]:
            return iter([0, 1, 2] if argument == "sampler" else [[0], [1], [2]])

    class BrokenLength(NoLength):
        def __len__(self) -> int:
            raise TypeError("nobody knows")

    for sampler in (NoLength(), BrokenLength()):
        loader = DataLoader(Samples(4), num_workers=workers, **{argument: sampler})  # type: ignore[arg-type]
        assert [indices(batch) for batch in loader] == [[0], [1], [2]]
        with pytest.raises(TypeError):
            len(loader)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_key_that_the_dataset_does_not_have_is_the_datasets_failure(workers: int) -> None:
    class Keyed:
        def __getitem__(self, key: str) -> int:
            return {"a": 1, "b": 2}[key]

        def __len__(self) -> int:
            return 2

    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(Keyed(), sampler=["a", "z"], num_workers=workers))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.index == "z"


@pytest.mark.parametrize("workers", [1, 3])
def test_a_samplers_error_leaves_no_thread(workers: int) -> None:
    loader = DataLoader(Samples(40), batch_sampler=BreakingBatches(LookupError("x")), num_workers=workers)
    before = loader_threads()
    iterator = iter(loader)
    mine = loader_threads() - before
    assert len(mine) == workers
    with pytest.raises(LookupError):
        list(iterator)
    for thread in mine:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("workers", WORKERS)
def test_an_interrupt_while_the_first_batches_are_planned_leaves_the_loader_usable(workers: int) -> None:
    class InterruptedOnce:
        interrupted = False

        def __iter__(self) -> Iterator[int]:
            yield 0
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            yield 1

    loader = DataLoader(Samples(2), sampler=InterruptedOnce(), num_workers=workers)
    with pytest.raises(KeyboardInterrupt):
        list(loader)
    gc.collect()
    assert [indices(batch) for batch in loader] == [[0], [1]]
