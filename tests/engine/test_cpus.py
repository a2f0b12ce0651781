"""``num_workers="auto"`` follows affinity and every visible quota (C24)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine.cpus import available_cpus, parse_quota, schedulable_cpus


class Tree:
    """A fake ``/sys/fs/cgroup`` and ``/proc``."""

    def __init__(self, root: Path) -> None:
        self.cgroup_root = root / "cgroup"
        self.proc_root = root / "proc"
        self.cgroup_root.mkdir()
        (self.proc_root / "self").mkdir(parents=True)

    def memberships(self, *lines: str) -> None:
        (self.proc_root / "self" / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def v2(self, group: str, text: str) -> None:
        self.write(f"{group}/cpu.max", text)

    def v1(self, group: str, quota: str, period: str = "100000\n") -> None:
        self.write(f"{group}/cpu.cfs_quota_us", quota)
        self.write(f"{group}/cpu.cfs_period_us", period)

    def write(self, name: str, text: str) -> None:
        file = self.cgroup_root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cpus(self, affinity: int = 64) -> int:
        return available_cpus(affinity=affinity, cgroup_root=self.cgroup_root, proc_root=self.proc_root)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("50000 100000\n", 1),
        ("100000 100000\n", 1),
        ("100001 100000\n", 2),
        ("250000 100000\n", 3),
        ("1000 100000\n", 1),
        ("6400000 50000\n", 64),
        ("max 100000\n", 64),
    ],
)
def test_c24_a_quota_is_rounded_up_to_whole_cpus(tree: Tree, text: str, cpus: int) -> None:
    tree.memberships("0::/")
    tree.v2(".", text)
    assert tree.cpus() == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1\n", 64), ("50000\n", 1), ("300000\n", 3), ("0\n", 64)])
def test_c24_version_1_quotas_are_read_too(tree: Tree, quota: str, cpus: int) -> None:
    tree.memberships("12:memory:/", "4:cpu,cpuacct:/", "1:name=systemd:/", "0::/")
    tree.v1("cpu,cpuacct", quota)
    assert tree.cpus() == cpus


def test_c24_affinity_and_quota_hold_side_by_side(tree: Tree) -> None:
    tree.memberships("0::/")
    tree.v2(".", "400000 100000\n")
    assert tree.cpus(affinity=1) == 1
    assert tree.cpus(affinity=4) == 4
    assert tree.cpus(affinity=64) == 4


@pytest.mark.parametrize("tightest", ["a", "a/b", "a/b/c"])
def test_the_tightest_level_binds_wherever_it_stands(tree: Tree, tightest: str) -> None:
    tree.memberships("0::/a/b/c")
    for group in ("a", "a/b", "a/b/c"):
        tree.v2(group, "200000 100000\n" if group == tightest else "800000 100000\n")
    assert tree.cpus() == 2


def test_the_quota_of_a_sibling_or_a_child_does_not_count(tree: Tree) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a/b", "800000 100000\n")
    tree.v2("a/sibling", "100000 100000\n")
    tree.v2("a/b/child", "100000 100000\n")
    assert tree.cpus() == 8


def test_a_container_without_a_namespace_sees_its_own_group_as_the_root(tree: Tree) -> None:
    tree.memberships("4:cpu,cpuacct:/docker/0123456789ab")
    tree.v1("cpu,cpuacct", "200000\n")
    assert tree.cpus() == 2


def test_a_group_inside_of_such_a_container_is_found_under_its_visible_part(tree: Tree) -> None:
    tree.memberships("4:cpu,cpuacct:/docker/0123456789ab/job")
    tree.v1("cpu,cpuacct", "400000\n")
    tree.v1("cpu,cpuacct/job", "200000\n")
    assert tree.cpus() == 2


def test_a_group_outside_of_the_namespace_is_not_looked_for_outside_of_the_mount(tree: Tree) -> None:
    tree.memberships("0::/../other")
    tree.v2("../other", "100000 100000\n")
    tree.v2(".", "300000 100000\n")
    assert tree.cpus() == 3


def test_both_versions_side_by_side_are_read(tree: Tree) -> None:
    tree.memberships("4:cpu,cpuacct:/job", "0::/job")
    tree.v1("cpu/job", "500000\n")
    tree.v2("unified/job", "300000 100000\n")
    assert tree.cpus() == 3


@pytest.mark.parametrize(
    "text", ["", "\n", "max", "garbage", "1e5 100000", "100000 0", "-1 100000", "1 2 3", "\0\xff"]
)
def test_a_malformed_level_is_ignored_and_the_others_still_hold(tree: Tree, text: str) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a", "200000 100000\n")
    tree.v2("a/b", text)
    assert tree.cpus() == 2


@pytest.mark.parametrize("period", ["", "0\n", "-1\n", "garbage"])
def test_a_malformed_period_is_ignored(tree: Tree, period: str) -> None:
    tree.memberships("4:cpu:/")
    tree.v1("cpu", "100000\n", period)
    assert tree.cpus() == 64


@pytest.mark.parametrize("lines", [[], ["garbage"], ["::"], ["0::"], ["0:cpu"], [""]])
def test_malformed_memberships_set_no_limit(tree: Tree, lines: list[str]) -> None:
    tree.memberships(*lines)
    assert tree.cpus() == 64


def test_missing_file_systems_set_no_limit(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert available_cpus(affinity=3, cgroup_root=nowhere, proc_root=nowhere) == 3


def test_a_file_that_may_not_be_read_sets_no_limit(tree: Tree) -> None:
    tree.memberships("0::/a")
    (tree.cgroup_root / "a" / "cpu.max").mkdir(parents=True)  # reading a folder fails for every user
    assert tree.cpus() == 64


@pytest.mark.parametrize("affinity", [0, -1])
def test_there_is_always_one_cpu(tree: Tree, affinity: int) -> None:
    assert tree.cpus(affinity=affinity) == 1


@given(quota=st.text(), period=st.text())
def test_any_text_is_a_positive_quota_or_none(quota: str, period: str) -> None:
    parsed = parse_quota(quota, period)
    assert parsed is None or parsed > 0


def test_the_operating_system_is_asked_in_order_of_what_it_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 5, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    assert schedulable_cpus() == 5
    monkeypatch.delattr(os, "process_cpu_count")
    assert schedulable_cpus() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert schedulable_cpus() == 9
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert schedulable_cpus() == 1


def test_this_machine_has_at_least_one_cpu_and_no_more_than_it_schedules_on() -> None:
    assert 1 <= available_cpus() <= schedulable_cpus()
