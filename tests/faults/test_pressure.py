"""Memory gets short while an epoch is loaded: it goes on with less, delivers everything once, and says so."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nogil_loader import DataLoader
from tests.faults.machine import KINDS, MB, Machine, told

WORKERS = (0, 1, 4)


def sizes_of(count: int, seed: int = 0) -> list[int]:
    """Sizes that vary a hundredfold."""
    dice = random.Random(seed)
    return [int(min(8 * MB, max(0.08 * MB, dice.lognormvariate(13.8, 1.0)))) for _ in range(count)]


def load(kind: str, machine: Machine, sizes: list[int], **changes: Any) -> tuple[list[list[int]], Any]:
    """Load an epoch as most consumers do: a batch is held until the next one has come."""
    arguments: dict[str, Any] = {"batch_size": 16, "collate_fn": list, "memory": machine.policy()} | changes
    loader = DataLoader(KINDS[kind](machine, sizes), **arguments)
    batches = []
    for batch in loader:
        assert machine.used <= machine.limit
        batches.append(told(batch))
    return batches, loader.statistics()


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
