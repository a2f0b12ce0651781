"""The doctor says which limits there are, which one binds, and what a loader would take."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from nogil_loader.doctor import MemoryDiagnosis, as_json, examine_memory
from nogil_loader.memory.gauge import Gauge
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy
from tests.doctor.machine import only, severities, told
from tests.memory.trees import GB, MB, Tree

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine of 24 GB with 20 available; a job in a pod of 8 GB, 2 of them used, without a limit of its own."""
    tree = Tree(tmp_path)
    tree.memberships("0::/pod/job")
    tree.v2("pod", 8 * GB, 2 * GB)
    tree.v2("pod/job", "max", GB)
    return tree


def found(tree: Tree, memory: Any = "auto", **environ: str) -> MemoryDiagnosis:
    limit = memory if isinstance(memory, int) else None
    return examine_memory(memory, probe=tree.probe(limit=limit), environ=environ, proc_root=tree.proc_root)


def test_every_level_has_a_row_and_the_one_that_binds_is_marked(tree: Tree) -> None:
    tree.v2("pod/job", "max", GB, high="nonsense")
    rows = found(tree).lines()
    assert [row.split() for row in rows[:7]] == [
        ["limit", "used", "left", "set", "by"],
        ["25.77", "GB", "4.29", "GB", "21.47", "GB", "host"],
        ["no", "limit", "cgroup", "v2", "/pod/job"],
        rows[3].split(),
        ["8.59", "GB", "2.15", "GB", "6.44", "GB", "cgroup", "v2", "/pod", "<-", "binds"],
        ["no", "limit", "cgroup", "v2", "/pod", "memory.high"],
        rows[6].split(),
    ]
    assert rows[3].lstrip().startswith("not known  cgroup v2 /pod/job memory.high: ValueError: ")
    assert rows[6] == "A loader with memory='auto'"


def test_a_level_that_cannot_be_read_is_warned_of(tree: Tree) -> None:
    tree.v2("pod/job", "max", GB, high="nonsense")
    assert only(found(tree), "warning").found.startswith(
        "cgroup v2 /pod/job memory.high cannot be read: ValueError"
    )


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
    assert told(found(tree), "ok")[0].found == (
        f"{share.room / 1e9:.2f} GB may be in flight (cgroup v2 /pod binds)"
    )


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
    off = found(tree, "off")
    assert "does not watch memory" in "\n".join(off.lines())
    assert any(each.advice == 'leave memory="auto", the default' for each in told(off, "note"))
    tree.memberships()
    (tree.proc_root / "meminfo").unlink()
    monkeypatch.delattr(psutil, "virtual_memory")
    finding = found(tree)
    assert finding.share is None
    assert "cannot know how much there is" in "\n".join(finding.lines())
    assert finding.facts()["binding"] == ""
    assert "memory='4GiB'" in [each.advice[-13:] for each in told(finding, "warning")]


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
    assert {"severity", "found", "advice"} == set(facts["findings"][0])


@pytest.mark.parametrize(("limit", "is_enough"), [(64 * MB, False), (128 * MB, True)])
def test_a_group_that_python_itself_does_not_fit_in_is_a_problem(
    tree: Tree, limit: int, is_enough: bool
) -> None:
    tree.v2("pod/job", limit, 30 * MB)
    finding = found(tree)
    if is_enough:
        assert "problem" not in severities(finding)
    else:
        problem = only(finding, "problem")
        assert (
            "the limit of 67.1 MB (cgroup v2 /pod/job) is below what Python with numba takes" in problem.found
        )
        assert "docker run --memory=8g" in problem.advice


def test_a_limit_of_the_users_below_what_the_process_has_is_a_problem(tree: Tree) -> None:
    tree.statm(*[300 * MB // 4096] * 2, 0, 0, 0, 0, 0)
    problem = only(found(tree, 200 * MB), "problem")
    assert problem.found.endswith("takes itself, about 209.7 MB")  # its use counts up to the limit
    assert problem.advice == f"raise the loader's argument: memory={200 * MB} is little"


def test_a_share_that_is_too_small_is_the_arguments_fault(tree: Tree) -> None:
    problem = only(found(tree, 0.001), "problem")
    assert problem.found.startswith("the limit of 8.6 MB (0.001 of cgroup v2 /pod) is below")
    assert problem.advice == "raise the loader's argument: memory=0.001 is little"


@pytest.mark.parametrize(("used", "is_full"), [(6.0, False), (7.3, True), (7.99, True), (8.0, True)])
def test_memory_that_others_have_filled_is_warned_of(tree: Tree, used: float, is_full: bool) -> None:
    tree.v2("pod", 8 * GB, int(used * GB))
    finding = found(tree)
    assert ("warning" in severities(finding)) is is_full
    if is_full:
        warning = only(finding, "warning")
        assert warning.found.startswith(f"nearly full ({used * GB / 1e9:.2f} GB used of 8.59 GB")
        assert warning.advice.startswith("let go of memory, or raise it where the job is started: docker run")


def test_swap_is_told_only_where_there_is_some(tree: Tree) -> None:
    assert "swap" not in str(found(tree).findings())
    tree.host(24 * GB, 20 * GB, swap=4 * GB, swap_free=3 * GB)
    (swap,) = [each for each in told(found(tree), "note") if "swap" in each.found]
    assert swap.found.startswith("swap is on (1.07 GB of 4.29 GB used)")
    assert "vmstat 1" in swap.advice


def test_without_swap_lines_swap_is_not_known(tree: Tree) -> None:
    tree.write(tree.proc_root / "meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
    assert found(tree).swap is None
