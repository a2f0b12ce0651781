"""What cannot fit ends the epoch with an error that has the numbers, and what came before is not lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, LoaderError, MemoryBudgetError
from tests.faults.machine import KINDS, MB, Files, FileStream, HintedFiles, Machine, told

WORKERS = (0, 2)


def sizes_with(large: int, at: int, count: int = 40) -> list[int]:
    sizes = [1 * MB] * count
    sizes[at] = large
    return sizes


def until_error(loader: DataLoader) -> tuple[list[list[int]], MemoryBudgetError]:
    """What came, each batch let go of, and the error that ended it."""
    batches = []
    with pytest.raises(MemoryBudgetError) as raised:
        for batch in loader:
            batches.append(told(batch))
            del batch
    return batches, raised.value


@pytest.mark.parametrize("workers", WORKERS)
def test_g5_a_sample_that_cannot_fit_is_named_with_the_numbers(workers: int) -> None:
    machine = Machine(30 * MB)
    loader = DataLoader(
        HintedFiles(machine, sizes_with(50 * MB, at=18)),
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=0.05),
    )
    batches, error = until_error(loader)
    assert [index for batch in batches for index in batch] == list(range(18))
    assert error.needed is not None
    assert error.needed >= 50 * MB
    assert (error.limit, error.source) == (30 * MB, "machine")
    assert error.budget is not None
    assert error.budget <= 30 * MB
    for said in ("index 18", "50.0 MB", "of 30.0 MB are in use (machine)", "consumer holds", "what to do"):
        assert said in str(error)
    assert isinstance(error, MemoryError)
    assert isinstance(error, LoaderError)
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("workers", WORKERS)
def test_g5_the_index_is_the_datasets_not_the_position(workers: int) -> None:
    machine = Machine(30 * MB)
    order = list(range(39, -1, -1))
    loader = DataLoader(
        HintedFiles(machine, sizes_with(50 * MB, at=18)),
        batch_size=4,
        sampler=order,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=0.05),
    )
    batches, error = until_error(loader)
    assert [index for batch in batches for index in batch] == order[:21]
    assert "index 18)" in str(error)


@pytest.mark.parametrize("workers", WORKERS)
def test_g5_a_batch_that_may_not_be_made_smaller_is_named_as_such(workers: int) -> None:
    machine = Machine(30 * MB)
    loader = DataLoader(
        HintedFiles(machine, [1 * MB] * 12 + [3 * MB] * 12),
        batch_size=12,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(fixed_batch_size=True, stall=0.05),
    )
    batches, error = until_error(loader)
    assert batches == [list(range(12))]
    assert "the next 12 samples (index 12) need 36.0 MB" in str(error)
    assert "fixed_batch_size=False" in str(error)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_g5_neighbours_that_take_everything_end_the_epoch_in_bounded_time(kind: str, workers: int) -> None:
    machine = Machine(30 * MB)
    loader = DataLoader(
        KINDS[kind](machine, [1 * MB] * 60),
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=0.05),
    )
    batches = iter(loader)
    indices = told(next(batches))
    machine.others = 30 * MB
    with pytest.raises(MemoryBudgetError) as raised:
        for batch in batches:
            indices += told(batch)
            del batch
    assert indices == list(range(len(indices)))
    assert len(indices) < 60
    assert raised.value.limit == 30 * MB
    with pytest.raises(MemoryBudgetError) as again:
        next(batches)
    assert again.value is raised.value
    # It is no death: nobody has to rebuild anything.
    machine.others = 0
    assert [index for batch in loader for index in told(batch)] == list(range(60))


def whole(batch: Any) -> Any:
    return batch


def row(batch: Any) -> Any:
    return batch[0]


def element(batch: Any) -> Any:
    return batch[-1:, -1:]


def by_dlpack(batch: Any) -> Any:
    return np.from_dlpack(batch)


def buffer(batch: Any) -> Any:
    return memoryview(batch)


WAYS: list[Callable[[Any], Any]] = [whole, row, element, by_dlpack, buffer]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("keep", WAYS)
def test_g5_whoever_keeps_everything_is_told_how_much_that_is(
    keep: Callable[[Any], Any], workers: int
) -> None:
    machine = Machine(20 * MB)
    loader = DataLoader(
        HintedFiles(machine, [1 * MB] * 100),
        batch_size=2,
        num_workers=workers,
        collate_fn=machine.stack,
        memory=machine.policy(stall=0.05),
    )
    kept = []
    with pytest.raises(MemoryBudgetError, match="let go of batches") as raised:
        for batch in loader:
            kept.append(keep(batch))
            del batch
    assert machine.peak <= machine.limit
    said = str(raised.value)
    held = float(said.split("of which ")[1].split(" MB")[0]) * MB
    assert held == pytest.approx(machine.used, abs=0.1 * MB)
    assert held >= 14 * MB


@pytest.mark.torch
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("way", ["tensor", "view", "numpy", "dlpack", "storage"])
def test_g5_so_is_who_keeps_tensors_or_what_shares_their_memory(way: str, workers: int) -> None:
    torch = pytest.importorskip("torch")
    keep = {
        "tensor": whole,
        "view": lambda batch: batch[-1, -1],
        "numpy": lambda batch: batch.numpy()[0],
        "dlpack": torch.from_dlpack,
        "storage": lambda batch: batch.untyped_storage(),
    }[way]
    machine = Machine(60 * MB, buffers=True)  # where a batch of one sample is still a block of the pool
    loader = DataLoader(
        HintedFiles(machine, [5 * MB] * 30),
        batch_size=2,
        num_workers=workers,
        output="torch",
        memory=machine.policy(stall=0.05),
    )
    kept, nbytes = [], 0
    with pytest.raises(MemoryBudgetError, match="let go of batches") as raised:
        for batch in loader:
            nbytes += batch.nbytes
            kept.append(keep(batch))
            del batch
    held = float(str(raised.value).split("of which ")[1].split(" MB")[0]) * MB
    assert held == pytest.approx(nbytes, abs=0.1 * MB)
    assert nbytes >= 30 * MB


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_after_the_error_the_state_leads_on_exactly_where_the_consumer_was(kind: str, workers: int) -> None:
    machine = Machine(20 * MB)
    loader = DataLoader(
        KINDS[kind](machine, [1 * MB] * 60),
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        shuffle=None if kind == "stream" else True,
        seed=5,
        memory=machine.policy(stall=0.05),
    )
    kept = []
    with pytest.raises(MemoryBudgetError):
        for batch in loader:
            kept.append(batch)
            del batch
    before = [told(batch) for batch in kept]
    kept.clear()
    state = loader.state_dict()
    undisturbed = [
        index
        for batch in DataLoader(
            KINDS[kind](Machine(600 * MB), [1 * MB] * 60),
            batch_size=4,
            num_workers=0,
            collate_fn=list,
            shuffle=None if kind == "stream" else True,
            seed=5,
            memory="off",
        )
        for index in told(batch)
    ]
    loader.load_state_dict(state)
    if kind == "stream":
        with pytest.warns(UserWarning, match="reads over"):
            batches = iter(loader)
    else:
        batches = iter(loader)
    after = []
    for batch in batches:
        after.append(told(batch))
        del batch
    assert [index for batch in before + after for index in batch] == undisturbed


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("dataset", [Files, FileStream])
def test_it_goes_on_without_an_error_when_memory_comes_back_in_time(dataset: Any, workers: int) -> None:
    """The neighbours leave while the loader waits: after some more readings."""

    class Leaving(Machine):
        def probe(self) -> Any:
            reading = super().probe()
            if self.others and self.readings > 40:
                self.others = 0
            return reading

    machine = Leaving(30 * MB)
    loader = DataLoader(
        dataset(machine, [1 * MB] * 60),
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=20.0),
    )
    batches = iter(loader)
    indices = told(next(batches))
    machine.readings = 0
    machine.others = 29 * MB
    for batch in batches:
        indices += told(batch)
        del batch
    assert indices == list(range(60))
    assert machine.others == 0
