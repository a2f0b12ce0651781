"""What the consumer holds is known to its end, without its help and without holding on to it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nogil_loader.engine.holdings import Holdings
from nogil_loader.memory.buffers import aligned_empty
from nogil_loader.memory.weigh import owners_of

PATIENCE = 20.0


def gone(holdings: Holdings) -> list[tuple[int, int]]:
    return [(one.start, one.nbytes) for one in holdings.collect()]


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda batch: batch,
    "a row": lambda batch: batch[3],
    "an element": lambda batch: batch[3:4, :1],
    "another shape": lambda batch: batch.reshape(-1).view(np.uint8),
    "transposed": lambda batch: batch.T,
    "memoryview": memoryview,
    "frombuffer": lambda batch: np.frombuffer(memoryview(batch), np.uint8),
    "dlpack": np.from_dlpack,
    "broadcast": lambda batch: np.broadcast_to(batch, (2, *batch.shape)),
    "asarray": lambda batch: np.asarray(memoryview(batch)),
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
@pytest.mark.parametrize("rows", [100, 100_000], ids=["of the heap", "of the pool"])
def test_whatever_shares_the_memory_of_a_batch_holds_it(rows: int, keep: Callable[[Any], Any]) -> None:
    holdings = Holdings()
    batch = aligned_empty((rows, 10), np.float64)
    holdings.add(7, owners_of(batch))
    kept = keep(batch)
    del batch
    assert gone(holdings) == []
    del kept
    assert gone(holdings) == [(7, rows * 80)]
    assert gone(holdings) == []


@pytest.mark.torch
@pytest.mark.parametrize("way", ["from_numpy", "view", "dlpack", "storage", "numpy"])
def test_so_do_tensors(way: str) -> None:
    torch = pytest.importorskip("torch")
    keep = {
        "from_numpy": torch.from_numpy,
        "view": lambda batch: torch.from_numpy(batch)[0],
        "dlpack": torch.from_dlpack,
        "storage": lambda batch: torch.from_numpy(batch).untyped_storage(),
        "numpy": lambda batch: torch.from_numpy(batch)[1:].numpy(),
    }[way]
    holdings = Holdings()
    batch = np.zeros((100, 10))
    holdings.add(7, owners_of(batch))
    kept = keep(batch)
    del batch
    assert gone(holdings) == []
    del kept
    assert gone(holdings) == [(7, 8000)]


def test_the_parts_of_a_batch_are_let_go_of_one_by_one() -> None:
    holdings = Holdings()
    batch = {"image": np.zeros(1000), "label": np.zeros(10)}
    holdings.add(0, owners_of(batch))
    del batch["image"]
    assert gone(holdings) == [(0, 8000)]
    batch.clear()
    assert gone(holdings) == [(0, 80)]


def test_it_keeps_nothing_alive() -> None:
    holdings = Holdings()
    batch = np.zeros(1000)
    holdings.add(0, owners_of(batch))
    end = weakref.ref(batch)
    del batch
    assert end() is None


def test_what_is_let_go_of_while_somebody_waits_wakes_him_and_is_counted() -> None:
    holdings = Holdings()
    batch = [np.zeros(1000)]
    holdings.add(3, owners_of(batch))
    woken = threading.Event()

    def wait() -> None:
        holdings.wait(PATIENCE)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    batch.clear()
    assert woken.wait(PATIENCE)
    thread.join()
    assert gone(holdings) == [(3, 8000)]


def test_closing_wakes_all_who_wait_and_still_tells_what_is_let_go() -> None:
    holdings = Holdings()
    kept = np.zeros(1000)
    holdings.add(0, owners_of(kept))
    threads = [threading.Thread(target=holdings.wait, args=(PATIENCE,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    holdings.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    del kept
    assert holdings.let_go == 8000
    assert gone(holdings) == [(0, 8000)]
    assert holdings.let_go == 0


def test_ringing_where_nobody_waits_leaves_nothing_behind() -> None:
    holdings = Holdings()
    for _ in range(1000):
        holdings.ring()
    assert not holdings._waiters


def test_batches_that_end_in_any_thread_and_in_the_garbage_collector_are_all_counted() -> None:
    holdings = Holdings()
    gate = threading.Barrier(4)

    class Circle:
        def __init__(self, batch: Any) -> None:
            self.batch, self.me = batch, self

    def end(first: int) -> None:
        gate.wait(PATIENCE)
        for start in range(first, first + 500):
            batch = np.zeros(10)
            holdings.add(start, owners_of(batch))
            if start % 3:
                Circle(batch)
            del batch

    threads = [threading.Thread(target=end, args=(first * 500,)) for first in range(4)]
    for thread in threads:
        thread.start()
    found: list[tuple[int, int]] = []
    while any(thread.is_alive() for thread in threads):
        found += gone(holdings)
    gc.collect()
    found += gone(holdings)
    assert sorted(found) == [(start, 80) for start in range(2000)]
    assert holdings._held == set()
