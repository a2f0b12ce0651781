"""What others' users reported of memory limits, through the loader, on machines made of files.

The samples are small; the dataset says that they are large, so that a machine of any size can be filled.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, MemoryPolicy
from nogil_loader.memory.decision import MemoryStatistics
from nogil_loader.memory.probe import MemoryProbe
from tests.faults.machine import Clock
from tests.memory.trees import GB, MB, Tree

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")

WORKERS = (0, 2)
BATCH = 16


class Heavy:
    """Samples that are said to take ``nbytes`` each."""

    def __init__(self, length: int, nbytes: int = 100 * MB) -> None:
        self.length = length
        self.each = nbytes

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> np.ndarray:
        return np.array([index])

    def nbytes(self, index: int) -> int:
        return self.each


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def loader_on(
    tree: Tree, workers: int, length: int = 64, nbytes: int = 100 * MB, **fields: Any
) -> DataLoader:
    """A loader on a machine of files, whose readings are never older than the files."""
    probe = MemoryProbe(proc_root=tree.proc_root, cgroup_root=tree.cgroup_root, clock=lambda: tree.now)

    def read() -> Any:
        tree.tick()
        return probe.read()

    chosen: dict[str, Any] = {"probe": read, "scratch": 0.0, "stall": 0.3, "tune_malloc": False} | fields
    policy = MemoryPolicy(**chosen)
    return DataLoader(Heavy(length, nbytes), batch_size=BATCH, num_workers=workers, memory=policy)


def load(loader: DataLoader) -> tuple[list[int], MemoryStatistics]:
    """The sizes of an epoch's batches, after a look at its order; and the memory at its end."""
    sizes, indices = [], []
    for batch in loader:
        sizes.append(len(batch))
        indices += batch[:, 0].tolist()
    assert indices == list(range(len(loader.dataset)))
    memory = loader.statistics().memory
    assert memory is not None
    return sizes, memory


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("version", [1, 2])
def test_c01_a_container_is_under_pressure_although_its_host_is_not(
    tree: Tree, version: int, workers: int
) -> None:
    tree.host(256 * GB, 128 * GB)
    if version == 2:
        tree.memberships("0::/")
        tree.v2(".", 4 * GB, 3800 * MB)
    else:
        tree.memberships("4:memory:/docker/abc")
        tree.v1("docker/abc", 4 * GB, 3800 * MB)
    # A sample of 100 MB fits, alone; a batch of 1.6 GB does not.
    sizes, memory = load(loader_on(tree, workers, length=24, hard=0.97, soft=0.95))
    assert max(sizes) < BATCH
    assert memory.limit == 4 * GB
    assert memory.used == pytest.approx(3800 * MB, abs=MB)
    assert f"cgroup v{version}" in memory.source
    assert memory.splits > 0
    assert memory.events != ()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("limit", ["max", "", "garbage", "-1"])
def test_c02_a_limit_that_is_none_leaves_the_host_in_charge(
    tree: Tree, limit: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    tree.host(64 * GB, 60 * GB)
    tree.memberships("0::/a")
    tree.v2("a", limit, 3 * GB)
    sizes, memory = load(loader_on(tree, workers))
    assert sizes == [BATCH] * 4
    assert memory.source == "host"
    assert sum(record.levelname == "WARNING" for record in caplog.records) <= 1


@pytest.mark.parametrize("limit", [9223372036854771712, 9223372036854710272, 2**60, 100 * GB], ids=str)
@pytest.mark.parametrize("workers", WORKERS)
def test_c05_a_limit_of_version_1_above_the_machines_memory_is_none(
    tree: Tree, limit: int, workers: int
) -> None:
    tree.memberships("4:memory:/job")
    tree.v1("job", limit, 3 * GB)
    _, memory = load(loader_on(tree, workers))
    assert (memory.limit, memory.source) == (24 * GB, "host")


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("cached", ["active_file", "inactive_file"])
def test_c08_files_in_the_page_cache_are_no_pressure(
    tree: Tree, cached: str, version: int, workers: int
) -> None:
    tree.host(64 * GB, 60 * GB)
    files: dict[str, Any] = {cached: 8704 * MB}
    if version == 2:
        tree.memberships("0::/job")
        tree.v2("job", 10 * GB, 9728 * MB, **files)
    else:
        tree.memberships("4:memory:/job")
        tree.v1("job", 10 * GB, 9728 * MB, **files)
    sizes, memory = load(loader_on(tree, workers, nbytes=10 * MB))
    assert sizes == [BATCH] * 4
    assert memory.limit == 10 * GB
    assert memory.used == pytest.approx(1024 * MB, abs=MB)
    assert (memory.splits, memory.cuts, memory.revoked, memory.parks) == (0, 0, 0, 0)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "counters",
    [
        {"usage": 1 * GB, "inactive_file": 3 * GB},
        {"usage": 1 * GB, "inactive_file": 3 * GB, "active_file": 3 * GB, "slab_reclaimable": 3 * GB},
        {"usage": 0},
    ],
    ids=["inactive above current", "everything above current", "nothing used"],
)
def test_c11_counters_that_disagree_disturb_nothing(
    tree: Tree, counters: dict[str, Any], workers: int
) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 16 * GB, **counters)
    sizes, memory = load(loader_on(tree, workers))
    assert sizes == [BATCH] * 4
    assert (memory.limit, memory.used) == (16 * GB, 0)


@pytest.mark.parametrize("workers", WORKERS)
def test_c11_use_above_the_limit_is_pressure_and_no_failure_of_the_arithmetic(
    tree: Tree, workers: int
) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 4 * GB, 6 * GB)
    loader = loader_on(tree, workers)
    with loader, iter(loader) as batches, pytest.raises(MemoryError, match=r"of 4\.29 GB are in use"):
        next(batches)


@pytest.mark.parametrize("workers", WORKERS)
def test_c12_a_busy_host_does_not_stop_a_container_that_has_room(tree: Tree, workers: int) -> None:
    tree.host(1536 * GB, 75 * GB)
    tree.memberships("0::/job")
    tree.v2("job", 186 * GB, 25 * GB)
    sizes, memory = load(loader_on(tree, workers))
    assert sizes == [BATCH] * 4
    assert (memory.splits, memory.waits, memory.parks, memory.events) == (0, 0, 0, ())
    assert memory.limit is not None
    assert memory.limit - memory.used == pytest.approx(75 * GB, abs=MB)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("moved", [False, True], ids=["resized", "moved"])
def test_c23_a_limit_that_changes_while_running_is_followed_both_ways(
    tree: Tree, moved: bool, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock().install(monkeypatch)
    tree.host(256 * GB, 200 * GB)

    def limit(nbytes: int) -> None:
        if moved:
            tree.v2(f"job{nbytes}", nbytes, 1900 * MB)
            tree.memberships(f"0::/job{nbytes}")
            tree.tick(100.0)  # where the process is, is looked up now and then
        else:
            tree.memberships("0::/job")
            tree.v2("job", nbytes, 1900 * MB)

    limit(16 * GB)
    loader = loader_on(tree, workers, length=8 * 64, soft=0.97, hard=0.99)
    batches = iter(loader)
    sizes: list[int] = []

    def take(samples: int) -> list[int]:
        taken: list[int] = []
        while sum(taken) < samples:
            clock.skip(1.0)
            taken.append(len(next(batches)))
        sizes.extend(taken)
        return taken

    assert set(take(64)) == {BATCH}
    limit(2 * GB + 600 * MB)
    assert min(take(112)) < BATCH
    limit(16 * GB)
    take(240)
    assert set(take(8 * 64 - sum(sizes))) == {BATCH}
    assert list(batches) == []


@pytest.mark.parametrize("workers", WORKERS)
def test_c25_swap_is_no_room(tree: Tree, workers: int) -> None:
    tree.host(64 * GB, 60 * GB, swap=64 * GB, swap_free=64 * GB)
    tree.memberships("0::/job")
    tree.v2("job", 2 * GB, 200 * MB)  # beside 8 GB of swap that the group may use
    sizes, memory = load(loader_on(tree, workers))
    assert max(sizes) < BATCH
    assert memory.limit == 2 * GB


@pytest.mark.parametrize("workers", WORKERS)
def test_c25_what_is_swapped_out_while_the_loader_runs_is_pressure(tree: Tree, workers: int) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 8 * GB, 1 * GB)
    loader = loader_on(tree, workers, length=256)
    batches = iter(loader)
    assert len(next(batches)) == BATCH
    # The neighbours grow by 5.5 GB, of which the kernel swaps out 5.
    tree.v2("job", 8 * GB, 1536 * MB, swap=5 * GB)
    sizes = [len(batch) for batch in batches]
    assert BATCH + sum(sizes) == 256
    assert min(sizes) < BATCH
    memory = loader.statistics().memory
    assert memory is not None
    assert memory.used >= 6 * GB
