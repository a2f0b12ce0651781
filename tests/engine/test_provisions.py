"""What the epochs of a loader share: one source of readings, one estimate, one warning."""

from __future__ import annotations

from typing import Any

import pytest

from nogil_loader.engine.provisions import Provisions
from nogil_loader.memory import heap
from nogil_loader.memory.reading import Kind, MemoryReading
from nogil_loader.policies import MemoryPolicy

MB = 1_000_000


def policy(kind: Kind = "cgroup", **fields: Any) -> MemoryPolicy:
    chosen: dict[str, Any] = {"probe": lambda: MemoryReading.of(100 * MB, 0, "machine", kind)}
    return MemoryPolicy(**(chosen | fields))


@pytest.fixture
def fixed_thresholds(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes each time that the C library would be told; it cannot be told otherwise again."""
    told: list[bool] = []

    def fix() -> bool:
        told.append(True)
        return True

    monkeypatch.setattr(heap, "fix_thresholds", fix)
    return told


@pytest.mark.parametrize(
    ("kind", "fields", "times"),
    [
        ("cgroup", {}, 1),
        ("user", {}, 1),
        ("rlimit", {}, 1),
        ("host", {}, 0),
        ("cgroup", {"tune_malloc": False}, 0),
    ],
)
def test_the_c_library_is_told_where_there_is_a_limit_and_the_policy_allows_it(
    kind: Kind, fields: dict[str, Any], times: int, fixed_thresholds: list[bool]
) -> None:
    Provisions(policy(kind, **fields), copies=1, rereadable=True)
    assert len(fixed_thresholds) == times


def test_it_is_not_where_nothing_is_known(fixed_thresholds: list[bool]) -> None:
    def probe() -> MemoryReading:
        raise OSError("no reading")

    Provisions(policy(probe=probe), copies=1, rereadable=True)
    assert fixed_thresholds == []


@pytest.mark.parametrize(
    ("fixed", "sharded", "divisible"),
    [
        (None, False, True),
        (None, True, False),
        (False, True, True),
        (False, False, True),
        (True, False, False),
        (True, True, False),
    ],
)
def test_batches_stay_whole_where_ranks_have_to_make_the_same_steps(
    fixed: bool | None,
    sharded: bool,
    divisible: bool,
    fixed_thresholds: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2" if sharded else "1")
    provisions = Provisions(policy(fixed_batch_size=fixed), copies=1, rereadable=True)
    assert provisions.rations(workers=2, capacity=6).divisible is divisible


def test_each_epoch_has_its_own_account(fixed_thresholds: list[bool]) -> None:
    provisions = Provisions(policy(), copies=1, rereadable=True)
    first = provisions.rations(workers=2, capacity=6)
    second = provisions.rations(workers=1, capacity=3)
    assert first.statistics().in_flight_allowed == 6
    assert second.statistics().in_flight_allowed == 3
    assert first.statistics().events == ()
