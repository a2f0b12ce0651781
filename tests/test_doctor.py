"""The doctor says which limits there are, which one binds, and what a loader would take."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from nogil_loader import doctor
from nogil_loader.doctor import Heap, MemoryFinding, as_json, as_text, examine, examine_memory
from nogil_loader.memory.gauge import Gauge
from nogil_loader.memory.pool import pool
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy
from tests.memory.trees import GB, Tree

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine of 24 GB with 20 available; a job in a pod of 8 GB, 2 of them used, without a limit of its own."""
    tree = Tree(tmp_path)
    tree.memberships("0::/pod/job")
    tree.v2("pod", 8 * GB, 2 * GB)
    tree.v2("pod/job", "max", GB)
    return tree


def found(tree: Tree, memory: Any = "auto", **environ: str) -> MemoryFinding:
    limit = memory if isinstance(memory, int) else None
    return examine_memory(memory, probe=tree.probe(limit=limit), environ=environ)


def test_every_level_has_a_row_and_the_one_that_binds_is_marked(tree: Tree) -> None:
    tree.v2("pod/job", "max", GB, high="nonsense")
    rows = found(tree).lines()
    assert [row.split() for row in rows[1:8]] == [
        ["limit", "used", "left", "set", "by"],
        ["25.77", "GB", "4.29", "GB", "21.47", "GB", "host"],
        ["no", "limit", "cgroup", "v2", "/pod/job"],
        rows[4].split(),
        ["8.59", "GB", "2.15", "GB", "6.44", "GB", "cgroup", "v2", "/pod", "<-", "binds"],
        ["no", "limit", "cgroup", "v2", "/pod", "memory.high"],
        rows[7].split(),
    ]
    assert rows[4].lstrip().startswith("not known  cgroup v2 /pod/job memory.high: ValueError: ")
    assert rows[7] == "A loader with memory='auto'"


def test_the_marks_and_the_room_are_those_of_the_governor(tree: Tree) -> None:
    share = found(tree).share
    assert share is not None
    gauge = Gauge(MemoryPolicy())
    gauge.observe(MemoryReading.of(8 * GB, 2 * GB, "cgroup v2 /pod"), 0.0)
    level = gauge.level(0, 0.0)
    assert level is not None
    assert (share.soft, share.hard) == (level.soft, level.hard)
    assert share.room == share.room_each == share.soft - 2 * GB
    text = "\n".join(found(tree).lines())
    assert f"begins batches while less than {share.soft / 1e9:.2f} GB is in use" in text
    assert f"gives up batches above {share.hard / 1e9:.2f} GB" in text
    assert f"could have {share.room / 1e9:.2f} GB of batches in flight now" in text


def test_a_share_and_a_limit_of_the_users_change_what_the_loader_goes_by(tree: Tree) -> None:
    half, bytes_ = found(tree, 0.5).share, found(tree, 1 << 30)
    assert half is not None
    assert half.reading == MemoryReading(4 * GB, 2 * GB, 2 * GB, "0.5 of cgroup v2 /pod")
    assert bytes_.levels[-1].source == "user limit"


def test_ranks_share_what_is_shared(tree: Tree) -> None:
    finding = found(tree, LOCAL_WORLD_SIZE="4")
    assert finding.share is not None
    assert finding.share.room_each == finding.share.room // 4
    assert (
        f"4 ranks on this machine, which share that: {finding.share.room_each / 1e9:.2f} GB each"
        in "\n".join(finding.lines())
    )
    assert "ranks" not in "\n".join(found(tree).lines())


def test_ranks_do_not_share_the_limit_that_the_user_gives_each(tree: Tree) -> None:
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    finding = found(tree, GB, LOCAL_WORLD_SIZE="4")
    assert finding.share is not None
    assert finding.share.reading.source == "user limit"
    assert finding.share.room_each == finding.share.room
    assert "4 ranks on this machine, which have that each" in "\n".join(finding.lines())


def test_off_and_unknown_are_said_in_words(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not watch memory" in "\n".join(found(tree, "off").lines())
    tree.memberships()
    (tree.proc_root / "meminfo").unlink()
    monkeypatch.delattr(psutil, "virtual_memory")
    finding = found(tree)
    assert finding.share is None
    assert "cannot know how much there is" in "\n".join(finding.lines())
    assert finding.facts()["binding"] == ""


@pytest.mark.parametrize("memory", ["4 apples", 0.0, 17, "-1GB"])
def test_a_limit_that_the_loader_refuses_is_refused(tree: Tree, memory: Any) -> None:
    with pytest.raises(ValueError, match=r"memory="):
        examine_memory(memory, probe=tree.probe())


def test_the_facts_are_json_with_sizes_in_bytes(tree: Tree) -> None:
    facts = json.loads(as_json({"memory": found(tree, LOCAL_WORLD_SIZE="2")}))["memory"]
    assert facts["binding"] == "cgroup v2 /pod"
    assert facts["ranks"] == 2
    assert facts["share"]["reading"]["limit"] == 8 * GB
    assert facts["share"]["reading"]["kind"] == "cgroup"
    assert [level["source"] for level in facts["levels"]][:2] == ["host", "cgroup v2 /pod/job"]
    assert facts["levels"][1]["reading"] is None


@pytest.mark.parametrize(
    ("environ", "fixed"),
    [
        ({}, False),
        ({"MALLOC_ARENA_MAX": "2"}, False),
        ({"MALLOC_MMAP_THRESHOLD_": ""}, False),
        ({"MALLOC_MMAP_THRESHOLD_": "1048576"}, True),
        ({"MALLOC_TRIM_THRESHOLD_": "1048576"}, True),
        ({"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.mmap_threshold=1048576"}, True),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, False),
    ],
)
def test_a_threshold_that_the_environment_fixes_is_seen(environ: dict[str, str], fixed: bool) -> None:
    assert Heap.of(environ).has_fixed_threshold is fixed


@pytest.mark.parametrize(
    ("text", "pages", "words"),
    [
        ("always [madvise] never\n", "madvise", "on huge pages"),
        ("always madvise [never]\n", "never", "without huge pages"),
        ("nothing", "", "on huge pages where the system has them"),
        (None, "", "on huge pages where the system has them"),
    ],
)
def test_huge_pages_are_told_as_the_kernel_has_them(
    tmp_path: Path, text: str | None, pages: str, words: str
) -> None:
    file = tmp_path / "enabled"
    if text is not None:
        file.write_text(text)
    heap = Heap.of({}, huge_pages=file)
    assert heap.huge_pages == pages
    assert f"are mappings {words}," in heap.lines()[-2]


def test_what_the_pool_may_keep_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "most_idle", 300 * 10**6)
    heap = Heap.of({})
    assert heap.most_idle == 300 * 10**6
    assert "up to 300.0 MB of them may be idle" in heap.lines()[-1]


@pytest.mark.parametrize("answer", [AttributeError("no confstr"), ValueError("unknown name"), None])
def test_without_glibc_nothing_is_said_of_its_thresholds(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    def confstr(_name: str) -> Any:
        if answer is not None:
            raise answer

    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    heap = Heap.of({})
    assert heap.library == ""
    assert "MALLOC" not in "\n".join(heap.lines())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_the_advice_on_glibc_is_given_unless_it_is_followed() -> None:
    heap = Heap.of({})
    if not heap.library:
        pytest.skip("another C library")
    assert "MALLOC_MMAP_THRESHOLD_=1048576" in "\n".join(heap.lines())
    followed = Heap.of({"MALLOC_MMAP_THRESHOLD_": "1048576"})
    assert "MALLOC_MMAP_THRESHOLD_" not in "\n".join(followed.lines())


def test_this_machine_is_examined() -> None:
    findings = examine(doctor.PARTS)
    assert tuple(findings) == doctor.PARTS
    facts = json.loads(as_json(findings))["memory"]
    assert facts["share"]["soft"] < facts["share"]["hard"] <= facts["share"]["reading"]["limit"]
    text = as_text(findings)
    assert f"{facts['binding']} <- binds" in text
    assert text.count("<- binds") == 1
