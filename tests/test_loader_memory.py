"""The argument ``memory=``: what is allowed, what follows from it, and what the statistics say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, MemoryPolicy
from nogil_loader.memory.decision import MemoryStatistics
from nogil_loader.memory.reading import MemoryReading
from tests.faults.machine import KINDS, MB, Machine, told
from tests.loading import Numbers

WORKERS = (0, 2)

WRONG_VALUES: list[Any] = [
    "",
    "4",
    "4G",
    "of",
    "OFF",
    "-1GiB",
    "1e3GiB",
    0,
    -5,
    17,
    0.0,
    1.01,
    -0.5,
    float("nan"),
]
WRONG_TYPES: list[Any] = [None, True, b"4GiB", [1], {"limit": 1}, object, MemoryPolicy, 1j, np.True_]


@pytest.mark.parametrize("value", WRONG_VALUES, ids=repr)
def test_a_value_that_means_nothing_is_refused(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^memory=.*expected 'off', a MemoryPolicy, 'auto', bytes"
    ) as caught:
        DataLoader(Numbers(4), memory=value)
    assert f"memory={value!r}" in str(caught.value)


@pytest.mark.parametrize("value", WRONG_TYPES, ids=lambda value: type(value).__name__)
def test_a_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^memory=.*expected 'off', a MemoryPolicy, 'auto', bytes.*, not "):
        DataLoader(Numbers(4), memory=value)


@pytest.mark.parametrize("value", ["auto", "off", "4GiB", 1 << 30, 0.5, 1.0, MemoryPolicy(soft=0.5)], ids=str)
@pytest.mark.parametrize("workers", WORKERS)
def test_every_value_that_is_allowed_loads_the_same(value: Any, workers: int) -> None:
    loader = DataLoader(Numbers(40), batch_size=8, num_workers=workers, memory=value)
    assert [batch.tolist() for batch in loader] == [
        list(range(start, start + 8)) for start in range(0, 40, 8)
    ]
    assert loader.memory_policy == MemoryPolicy.of(value)


def memory_of(loader: DataLoader) -> MemoryStatistics:
    memory = loader.statistics().memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("workers", WORKERS)
def test_off_asks_nobody_and_says_nothing(workers: int) -> None:
    loader = DataLoader(Numbers(40), batch_size=8, num_workers=workers, memory="off")
    assert len(list(loader)) == 5
    assert loader.statistics().memory is None


def test_before_the_first_epoch_there_is_nothing_to_tell() -> None:
    assert DataLoader(Numbers(4)).statistics().memory is None


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    ("limit", "bound", "words"),
    [
        ("auto", 80 * MB, "machine"),
        ("40MB", 40 * MB, "user limit on machine"),
        (40 * MB, 40 * MB, "user limit on machine"),
        (0.25, 20 * MB, "0.25 of machine"),
        ("4GiB", 80 * MB, "machine"),
    ],
    ids=str,
)
def test_the_limit_is_what_binds_and_is_named(limit: Any, bound: int, words: str, workers: int) -> None:
    machine = Machine(80 * MB)
    loader = DataLoader(
        KINDS["hinted"](machine, [1 * MB] * 48),
        batch_size=8,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(limit=limit),
    )
    indices = []
    for batch in loader:
        indices += told(batch)
    assert indices == list(range(48))
    assert machine.peak <= bound
    memory = memory_of(loader)
    assert (memory.limit, memory.source) == (bound, words)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_statistics_tell_in_the_middle_of_an_epoch_who_has_what(kind: str, workers: int) -> None:
    machine = Machine(400 * MB)
    loader = DataLoader(
        KINDS[kind](machine, [1 * MB] * 48),
        batch_size=8,
        num_workers=workers,
        collate_fn=list,
        memory=machine.policy(),
    )
    with loader:
        batches = iter(loader)
        kept = [next(batches), next(batches)]
        memory = memory_of(loader)
        assert memory.held == 16 * MB
        assert memory.limit == 400 * MB
        assert memory.ready <= 32 * MB
        assert not memory.parked
        rest = list(batches)
        assert sum(map(len, kept + rest)) == 48
        last = memory_of(loader)
        assert (last.promised, last.loading, last.ready, last.in_flight) == (0, 0, 0, 0)
        assert last.held == 48 * MB


@pytest.mark.parametrize("workers", WORKERS)
def test_a_share_of_what_is_not_known_is_no_limit(workers: int) -> None:
    def unknown() -> MemoryReading:
        raise OSError("no such machine")

    loader = DataLoader(
        Numbers(40),
        batch_size=8,
        num_workers=workers,
        memory=MemoryPolicy(limit=0.5, probe=unknown),
    )
    assert len(list(loader)) == 5
    assert memory_of(loader).limit is None


@pytest.mark.parametrize("workers", WORKERS)
def test_a_policy_serves_any_number_of_loaders(workers: int) -> None:
    machine = Machine(40 * MB)
    policy = machine.policy()
    for _ in range(2):
        loader = DataLoader(
            KINDS["samples"](machine, [1 * MB] * 24),
            batch_size=8,
            num_workers=workers,
            collate_fn=list,
            memory=policy,
        )
        indices = []
        for batch in loader:
            indices += told(batch)
            del batch
        assert indices == list(range(24))
    assert machine.peak <= machine.limit
