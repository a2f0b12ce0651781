"""Threads and memory pile up: of epochs left early, cells run again, loaders forgotten, workers that died."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader
from tests.conftest import loader_threads
from tests.faults.traps import (
    KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Trap,
    cut,
    indices,
    make,
    raises,
    until_death,
)


def gone(threads: set[threading.Thread]) -> bool:
    """Wait for threads that have been told to end; nothing else makes them end."""
    deadline = time.monotonic() + PATIENCE
    while (left := threads.intersection(threading.enumerate())) and time.monotonic() < deadline:
        for thread in left:
            if thread.is_alive():  # and not just being started
                thread.join(PATIENCE)
    return not left


@pytest.mark.parametrize("kind", KINDS)
def test_b19_taking_the_first_batch_again_and_again_piles_up_nothing(kind: str) -> None:
    loader = DataLoader(make(kind, 100), num_workers=4)
    before = loader_threads()
    gc.disable()
    try:
        for _ in range(200 if kind == "samples" else 50):
            assert indices(next(iter(loader))) == [0]
        # Each iterator was dropped before the next was made, so at most a few are on their way out.
        left = loader_threads() - before
        assert gone(left)
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["break", "error", "close", "del", "with", "loader", "complete", "death"])
def test_threads_end_however_an_epoch_is_left(way: str, kind: str) -> None:
    before = loader_threads()
    trap = Trap(raises(ValueError), at={20} if way == "death" else {})
    loader: Any = DataLoader(make(kind, 40, trap), num_workers=3)
    iterator: Any = iter(loader)
    mine = loader_threads() - before
    assert len(mine) == (4 if kind == "stream" else 3)
    gc.disable()
    try:
        if way == "break":
            for _ in iterator:
                break
            del iterator
        elif way == "error":
            with pytest.raises(RuntimeError):
                _train(iterator)
            del iterator
        elif way == "close":
            iterator.close()
        elif way == "del":
            del iterator
        elif way == "with":
            with iterator as batches:
                next(batches)
        elif way == "loader":
            loader.close()
        elif way == "complete":
            list(iterator)
            assert len(loader_threads() - before) == 3  # kept for the next epoch
            del iterator, loader
        else:
            until_death(iterator)
        assert gone(mine)
    finally:
        gc.enable()


def _train(batches: Any) -> None:
    for _ in batches:
        raise RuntimeError


def test_threads_are_kept_between_epochs_and_ended_with_the_loader() -> None:
    before = loader_threads()
    loader = DataLoader(Samples(10), num_workers=3)
    list(loader)
    first = loader_threads() - before
    for _ in range(5):
        list(loader)
        assert loader_threads() - before == first
    loader.close()
    assert gone(first)


def test_without_persistent_workers_each_epoch_ends_its_threads() -> None:
    before = loader_threads()
    loader = DataLoader(Samples(10), num_workers=3, persistent_workers=False)
    for _ in range(3):
        iterator = iter(loader)
        mine = loader_threads() - before
        list(iterator)
        assert gone(mine)


@pytest.mark.parametrize("circle", ["dataset", "collate_fn", "iterator"])
def test_a_forgotten_loader_in_a_circle_is_collected_with_its_threads(circle: str) -> None:
    before = loader_threads()

    def leave() -> None:
        dataset: Any = Samples(40)
        holder: dict[str, Any] = {}

        def collate(samples: list[Any]) -> Any:
            assert "loader" in holder
            return np.stack(samples)

        loader = DataLoader(dataset, num_workers=3, collate_fn=collate if circle == "collate_fn" else None)
        holder["loader"] = loader
        if circle == "dataset":
            dataset.loader = loader
        iterator = iter(loader)
        next(iterator)
        if circle == "iterator":
            dataset.iterator = iterator
        elif circle == "collate_fn":
            holder["iterator"] = iterator

    leave()
    mine = loader_threads() - before
    # The threads themselves let go of the circle when they next look, within half a second.
    while any(thread.is_alive() for thread in mine):
        gc.collect()
        for thread in mine:
            thread.join(0.05)
    assert gone(mine)


@pytest.mark.parametrize("kind", KINDS)
def test_an_iterator_may_be_collected_on_any_thread_even_its_own_worker(kind: str) -> None:
    """A finaliser that waited for the thread it runs on would never come back."""
    box: list[Any] = []
    dropped = threading.Event()

    def drop(index: int) -> None:
        if box:
            box.clear()
            dropped.set()

    before = loader_threads()
    ready = threading.Event()

    def wait_then_drop(index: int) -> None:
        assert ready.wait(PATIENCE)
        drop(index)

    loader = DataLoader(make(kind, 40, Trap(wait_then_drop, at={3})), num_workers=2)
    box.append(iter(loader))
    mine = loader_threads() - before
    ready.set()
    assert dropped.wait(PATIENCE)
    assert gone(mine)
    assert len(list(loader)) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_closing_from_within_a_worker_is_no_deadlock(kind: str) -> None:
    iterator: Any = None
    closed = threading.Event()
    ready = threading.Event()

    def close(index: int) -> None:
        assert ready.wait(PATIENCE)
        iterator.close()
        closed.set()

    before = loader_threads()
    iterator = iter(DataLoader(make(kind, 40, Trap(close, at={3}, times=1)), num_workers=2))
    mine = loader_threads() - before
    ready.set()
    assert closed.wait(PATIENCE)
    assert gone(mine)


@pytest.mark.parametrize("workers", WORKERS)
def test_closing_twice_from_several_threads_at_once(workers: int) -> None:
    loader = DataLoader(Samples(40), num_workers=workers)
    iterator = iter(loader)
    next(iterator)
    barrier = threading.Barrier(6, timeout=PATIENCE)
    done: list[int] = []

    def close(number: int) -> None:
        barrier.wait()
        (iterator.close if number % 2 else loader.close)()
        done.append(number)

    threads = [threading.Thread(target=close, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    assert gone(set(threads))
    assert sorted(done) == list(range(6))
    assert [indices(batch) for batch in loader] == cut(40, 1)


def test_rebuilt_workers_leave_no_thread_behind() -> None:
    before = loader_threads()
    loader = DataLoader(
        Samples(100, Trap(raises(SystemExit), at=range(100), times=1)), num_workers=3, on_failure="rebuild"
    )
    iterator = iter(loader)
    seen: set[threading.Thread] = set()
    for _ in iterator:
        seen |= loader_threads() - before
    loader.close()
    assert gone(seen)
    assert gone(loader_threads() - before)
