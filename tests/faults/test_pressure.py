"""Memory gets short while an epoch is loaded: it goes on with less, delivers everything once, and says so."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

import numpy as np
import pytest

from nogil_loader import (
    ArrayDataset,
    DataLoader,
    MemoryBudgetError,
    MemoryPolicy,
    default_collate,
    pad_collate,
)
from nogil_loader.memory.decision import MemoryStatistics
from nogil_loader.memory.reading import MemoryReading
from tests.faults.machine import KB, KINDS, MB, Files, HintedFiles, Machine, ToldFiles, told
from tests.faults.traps import PATIENCE, cut

WORKERS = (0, 2)
MAP_KINDS = ("samples", "hinted", "batches")


def sizes_of(count: int, seed: int = 0) -> list[int]:
    """Sizes that vary a hundredfold."""
    dice = random.Random(seed)
    return [int(min(8 * MB, max(0.08 * MB, dice.lognormvariate(13.8, 1.0)))) for _ in range(count)]


def load(kind: str, machine: Machine, sizes: list[int], **changes: Any) -> tuple[list[list[int]], Any]:
    """Load an epoch as most consumers do: a batch is held until the next one has come."""
    arguments: dict[str, Any] = {"batch_size": 16, "collate_fn": list, "memory": machine.policy()} | changes
    loader = DataLoader(KINDS[kind](machine, sizes), **arguments)
    batches = [told(batch) for batch in loader]
    return batches, loader.statistics()


def memory_of(loader: DataLoader) -> MemoryStatistics:
    memory = loader.statistics().memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_g5_an_epoch_completes_in_order_on_a_machine_that_holds_a_few_samples(
    kind: str, workers: int
) -> None:
    sizes = sizes_of(160)
    machine = Machine(40 * MB)
    batches, statistics = load(kind, machine, sizes, num_workers=workers)
    assert [index for batch in batches for index in batch] == list(range(160))
    assert machine.peak <= machine.limit
    assert (statistics.planned, statistics.delivered, statistics.skipped) == (160, 160, 0)
    assert max(len(batch) for batch in batches) <= 16


@pytest.mark.parametrize("workers", WORKERS)
def test_g5_with_exact_hints_use_stays_below_the_soft_mark_as_long_as_two_batches_fit(workers: int) -> None:
    machine = Machine(60 * MB)
    batches, _ = load("hinted", machine, [1 * MB] * 128, batch_size=8, num_workers=workers)
    assert batches == cut(128, 8)
    assert machine.peak <= 0.85 * machine.limit


@pytest.mark.parametrize("workers", WORKERS)
def test_g5_a_collation_that_copies_is_counted_twice_from_the_first_batch_on(workers: int) -> None:
    machine = Machine(40 * MB)
    batches, _ = load(
        "hinted", machine, [1 * MB] * 96, batch_size=8, num_workers=workers, collate_fn=machine.copy
    )
    assert [index for batch in batches for index in batch] == list(range(96))
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_g5_just_above_the_floor_it_goes_on_one_sample_at_a_time(kind: str, workers: int) -> None:
    machine = Machine(10 * MB)
    machine.others = 5 * MB  # what is left holds the sample that the consumer has, and one more
    batches, _ = load(kind, machine, [2 * MB] * 12, batch_size=4, num_workers=workers)
    assert [index for batch in batches for index in batch] == list(range(12))
    assert batches[-1] == [11]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_c21_outliers_two_hundred_times_as_large_stay_within_the_limit(kind: str, workers: int) -> None:
    dice = random.Random(21)
    sizes = [20 * MB if dice.random() < 0.05 else 100 * KB for _ in range(200)]
    machine = Machine(64 * MB)
    batches, _ = load(kind, machine, sizes, num_workers=workers)
    assert [index for batch in batches for index in batch] == list(range(200))
    # Where a batch is fetched in one call, its outliers are there before anybody can know of them.
    unseen = max(sum(sizes[start : start + 16]) for start in range(200)) if kind == "batches" else 0
    assert machine.peak <= machine.limit + unseen


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_c21_a_sample_larger_than_the_soft_mark_leaves_passes_alone(kind: str, workers: int) -> None:
    sizes = [100 * KB] * 40
    sizes[17] = 36 * MB
    machine = Machine(40 * MB)
    batches = []
    for batch in DataLoader(
        KINDS[kind](machine, sizes),
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(),
    ):
        batches.append(told(batch))
        del batch
    assert [index for batch in batches for index in batch] == list(range(40))
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("workers", WORKERS)
def test_c18_of_an_iterable_less_than_a_batch_is_dropped_and_only_at_the_end(workers: int) -> None:
    machine = Machine(20 * MB)
    batches, _ = load("stream", machine, [1 * MB] * 100, batch_size=32, drop_last=True, num_workers=workers)
    indices = [index for batch in batches for index in batch]
    assert indices == list(range(len(indices)))
    assert 96 <= len(indices) <= 100


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_c19_with_a_fixed_batch_size_a_rank_under_pressure_makes_the_same_steps_as_one_without(
    kind: str, workers: int
) -> None:
    steps = []
    for limit in (24 * MB, 4000 * MB):
        machine = Machine(limit)
        policy = machine.policy(fixed_batch_size=True, stall=20.0)
        batches, _ = load(kind, machine, [1 * MB] * 100, batch_size=8, num_workers=workers, memory=policy)
        steps.append(batches)
        assert machine.peak <= machine.limit
    assert steps[0] == steps[1] == cut(100, 8)


@pytest.mark.parametrize("collate", [None, default_collate, pad_collate()], ids=["none", "default", "pad"])
@pytest.mark.parametrize("workers", WORKERS)
def test_batches_that_were_cut_have_the_samples_that_they_should_have(workers: int, collate: Any) -> None:
    machine = Machine(2 * MB)
    machine.others = 1500 * KB
    loader = DataLoader(
        Files(machine, [32 * KB] * 60),
        batch_size=20,
        num_workers=workers,
        collate_fn=collate,
        memory=machine.policy(),
    )
    indices = []
    for batch in loader:
        values = getattr(batch, "values", batch)
        assert values.shape[1] == 4000
        indices += values[:, 0].tolist()
    assert indices == list(range(60))
    assert loader.statistics().batches > 3


@pytest.mark.parametrize("workers", WORKERS)
def test_single_samples_are_governed_as_well(workers: int) -> None:
    machine = Machine(10 * MB)
    indices = []
    for sample in DataLoader(
        Files(machine, [2 * MB] * 30), batch_size=None, num_workers=workers, memory=machine.policy()
    ):
        indices.append(int(sample[0]))
        assert machine.used <= machine.limit
        del sample
    assert indices == list(range(30))
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("factor", [0, 0.1, 10], ids=str)
@pytest.mark.parametrize("workers", WORKERS)
def test_hints_that_are_wrong_by_a_factor_cost_no_sample(workers: int, factor: float) -> None:
    machine = Machine(40 * MB)
    dataset = ToldFiles(machine, [1 * MB] * 80, say=lambda index: int(factor * MB))
    indices = []
    for batch in DataLoader(
        dataset,
        batch_size=4,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(stall=0.2),
    ):
        indices += told(batch)
        del batch
    assert indices == list(range(80))
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_c18_dropping_the_last_batch_drops_the_same_samples_however_small_batches_become(
    kind: str, workers: int
) -> None:
    machine = Machine(20 * MB)
    batches, statistics = load(
        kind, machine, [1 * MB] * 100, batch_size=32, drop_last=True, num_workers=workers
    )
    assert [index for batch in batches for index in batch] == list(range(96))
    assert max(map(len, batches)) < 32
    assert statistics.planned == statistics.delivered == 96


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_a_batch_is_smaller_than_the_least_batch_size(kind: str, workers: int) -> None:
    machine = Machine(16 * MB)
    batches, _ = load(
        kind,
        machine,
        [1 * MB] * 96,
        batch_size=16,
        num_workers=workers,
        memory=machine.policy(min_batch_size=3),
    )
    assert [index for batch in batches for index in batch] == list(range(96))
    assert 3 <= min(map(len, batches)) < 16


@pytest.mark.parametrize("workers", WORKERS)
def test_readers_of_whole_arrays_are_governed_as_well(workers: int) -> None:
    limit, used = 10 * MB, 9 * MB
    rows = np.arange(200_000).reshape(100, 2000)  # 16 KB each
    loader = DataLoader(
        ArrayDataset(rows),
        batch_size=50,
        num_workers=workers,
        memory=MemoryPolicy(
            probe=lambda: MemoryReading.of(limit, used, "machine"), tune_malloc=False, stall=1.0
        ),
    )
    batches = list(loader)
    assert np.array_equal(np.concatenate(batches), rows)
    assert memory_of(loader).splits > 0
    assert max(map(len, batches)) < 50


NONSENSE: dict[str, Any] = {
    "raises": lambda index: 1 // 0,
    "none": lambda index: None,
    "text": lambda index: "1 MB",
    "negative": lambda index: -1,
    "nan": lambda index: float("nan"),
    "infinite": lambda index: float("inf"),
    "flag": lambda index: True,
    "too many arguments": lambda: 5,
    "later": lambda index: 1 * MB if index < 30 else None,
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("say", NONSENSE.values(), ids=NONSENSE)
def test_hints_that_make_no_sense_cost_nothing_but_one_warning(
    say: Any, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(20 * MB)
    dataset = ToldFiles(machine, [1 * MB] * 60, say=say)
    loader = DataLoader(dataset, batch_size=8, num_workers=workers, collate_fn=list, memory=machine.policy())
    for _ in range(2):
        assert [index for batch in loader for index in told(batch)] == list(range(60))
    assert machine.peak <= machine.limit
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "hints ignored" in warnings[0].getMessage()


@pytest.mark.parametrize("loaders", [1, 2])
def test_g5_live_epochs_know_of_each_others_promises(loaders: int) -> None:
    """Both ask at once, before either has filled what it was promised."""
    machine = Machine(24 * MB)
    both_admitted = threading.Barrier(2)

    def trap(index: int) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both_admitted.wait(0.2)  # in vain, where the other one has to wait for this one

    made = [
        DataLoader(
            HintedFiles(machine, [15 * MB], trap),
            batch_size=None,
            num_workers=1,
            memory=machine.policy(stall=PATIENCE),
        )
        for _ in range(loaders)
    ]
    for epoch in [iter(made[0]), iter(made[-1])]:
        for sample in epoch:
            del sample
    assert machine.peak <= machine.limit


@pytest.mark.parametrize("interval", [0.05, 0.2])
@pytest.mark.parametrize(("nbytes", "batch_size"), [(300 * KB, 1), (50 * KB, 4)])
@pytest.mark.parametrize("workers", [0, 2])
def test_g5_batches_that_need_no_question_do_not_outrun_the_readings(
    workers: int, nbytes: int, batch_size: int, interval: float
) -> None:
    machine = Machine(30 * MB)
    loader = DataLoader(
        Files(machine, [nbytes] * 3000),
        batch_size=batch_size,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(interval=interval, stall=0.05),
    )
    kept = []
    with pytest.raises(MemoryBudgetError, match="let go of batches"):
        for batch in loader:
            kept.append(batch)
            del batch
    assert machine.peak <= machine.limit
