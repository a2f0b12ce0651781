"""Memory runs out in a worker, and the error turns into another one, ends the run, or is tried for ever.

A MemoryError is no fault of the worker: what was loaded is let go of and the ticket tried again, alone and then in
halves, a bounded number of times and under every policy. After that the sample that does not fit is named.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError, FailurePolicy, MemoryBudgetError, MemoryPolicy
from nogil_loader.engine.ledger import MEMORY_RETRIES
from tests.faults.traps import (
    MAP_KINDS,
    WORKERS,
    Samples,
    Trap,
    cut,
    indices,
    make,
    raises,
    stream,
    until_death,
)

POLICIES = ["raise", "rebuild", FailurePolicy(skip=1)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("error", [MemoryError(), MemoryBudgetError("too large")])
def test_b28_memory_that_runs_out_once_leaves_no_trace(
    error: MemoryError, kind: str, workers: int, policy: Any
) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 4}
    undisturbed = stream(DataLoader(make(kind, 40), num_workers=0, **arguments))
    loader = DataLoader(
        make(kind, 40, Trap(raises(error), at={9}, times=1)),
        num_workers=workers,
        on_failure=policy,
        **arguments,
    )
    assert stream(loader) == undisturbed
    statistics = loader.statistics()
    assert (statistics.delivered, statistics.skipped, statistics.rebuilds) == (40, 0, 0)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("rebuild", [0, 2])
def test_b28_memory_that_always_runs_out_raises_after_a_bounded_number_of_tries(
    rebuild: int, kind: str, workers: int
) -> None:
    error = MemoryError("cannot allocate")
    trap = Trap(raises(error), at={9})
    loader = DataLoader(
        make(kind, 40, trap), batch_size=4, num_workers=workers, on_failure=FailurePolicy(rebuild=rebuild)
    )
    batches: list[list[int]] = []
    with pytest.raises(MemoryBudgetError, match=r"no memory for sample 9 .*cannot allocate") as raised:
        batches.extend(indices(batch) for batch in loader)
    assert batches == [*cut(40, 4)[:2], [8]]
    assert raised.value.__cause__ is error
    assert raised.value.limit is not None
    assert raised.value.source in str(raised.value)
    # In its batch, in the batch alone, in half of it, and by itself until that has failed twice.
    assert trap.visits[9] == 5
    assert loader.statistics().rebuilds == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("memory", ["off", MemoryPolicy(fixed_batch_size=True)])
def test_b28_batches_that_stay_whole_are_tried_again_as_they_are(memory: Any, workers: int) -> None:
    error = MemoryError("cannot allocate")
    trap = Trap(raises(error), at={9})
    loader = DataLoader(make("samples", 40, trap), batch_size=4, num_workers=workers, memory=memory)
    batches: list[list[int]] = []
    with pytest.raises(DeadWorkerError if memory == "off" else MemoryBudgetError) as raised:
        batches.extend(indices(batch) for batch in loader)
    assert batches == cut(40, 4)[:2]
    assert raised.value.__cause__ is error
    assert "sample" in str(raised.value)
    assert trap.visits[9] == 1 + MEMORY_RETRIES


def test_the_loader_is_not_dead_when_a_sample_does_not_fit() -> None:
    trap = Trap(raises(MemoryError), at={9})
    loader = DataLoader(make("samples", 40, trap), batch_size=4, num_workers=2)
    for _ in range(2):
        with pytest.raises(MemoryBudgetError):
            list(loader)
    state = loader.state_dict()
    trap.disarm()
    loader.load_state_dict(state)
    assert [index for batch in loader for index in indices(batch)] == list(range(9, 40))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_b28_under_skip_the_sample_that_never_fits_is_left_out(kind: str, workers: int) -> None:
    trap = Trap(raises(MemoryError), at={9})
    loader = DataLoader(
        make(kind, 20, trap), batch_size=4, num_workers=workers, on_failure=FailurePolicy(skip=1)
    )
    came = [index for batch in loader for index in indices(batch)]
    assert came == [index for index in range(20) if index != 9]
    (record,) = loader.skipped
    assert record.index == 9
    assert isinstance(record.error, MemoryError)
    assert trap.visits[9] < 10


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", WORKERS)
def test_b28_in_collate_fn_as_well(workers: int, policy: Any) -> None:
    trap = Trap(raises(MemoryError), at={8}, times=1)

    def collate(samples: list[Any]) -> Any:
        trap(int(samples[0][0]))
        return np.stack(samples)

    for kind in ("samples", "batches", "stream"):
        trap.visits.clear()
        loader = DataLoader(
            make(kind, 20), batch_size=4, collate_fn=collate, num_workers=workers, on_failure=policy
        )
        assert [indices(batch) for batch in loader] == cut(20, 4)
        assert trap.visits[8] == 2


@pytest.mark.parametrize("workers", WORKERS)
def test_b28_an_iterable_is_opened_anew_only_where_the_policy_says_so(workers: int) -> None:
    trap = Trap(raises(MemoryError), at={9}, times=1)
    loader = DataLoader(make("stream", 20, trap), batch_size=4, num_workers=workers, on_failure="rebuild")
    assert [indices(batch) for batch in loader] == cut(20, 4)
    trap.visits.clear()
    _, death = until_death(DataLoader(make("stream", 20, trap), batch_size=4, num_workers=workers))
    assert isinstance(death.__cause__, MemoryError)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_retry_begins_without_the_samples_of_the_failed_try(workers: int) -> None:
    class Big:
        """An object, so that nobody copies it; the second try looks what is left of the first."""

    first: list[weakref.ref[Big]] = []
    left: list[int] = []

    class Needs:
        tries = 0

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Big:
            if index == 0:
                gc.collect()
                left.append(sum(reference() is not None for reference in first))
            if index == 3 and not self.tries:
                self.tries += 1
                raise MemoryError
            sample = Big()
            if not self.tries:
                first.append(weakref.ref(sample))
            return sample

    loader = DataLoader(Needs(), batch_size=4, collate_fn=list, num_workers=workers)
    assert len(next(iter(loader))) == 4
    assert left == [0, 0]


def test_every_batch_may_run_out_of_memory_once() -> None:
    trap = Trap(raises(MemoryError), at=range(0, 24, 3), times=1)
    loader = DataLoader(Samples(24, trap), batch_size=3, num_workers=3)
    assert [indices(batch) for batch in loader] == cut(24, 3)
