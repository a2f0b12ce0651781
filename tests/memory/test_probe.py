"""A reading tells limit and use of the level that binds, wherever it stands."""

from __future__ import annotations

import mmap
import os
import pickle
import shutil

import pytest

from nogil_loader.memory.probe import MemoryProbe
from nogil_loader.memory.reading import UNKNOWN, MemoryReading
from tests.memory.trees import GB, MB, Tree

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")

PAGE = mmap.PAGESIZE


def numbers(reading: MemoryReading) -> tuple[int, int, str]:
    assert reading.headroom == reading.limit - reading.used
    return reading.limit, reading.used, reading.source


def test_without_any_limit_the_host_binds(tree: Tree) -> None:
    assert tree.probe().read() == MemoryReading(24 * GB, 4 * GB, 20 * GB, "host")


def test_c01_a_containers_limit_counts_not_the_hosts_memory(tree: Tree) -> None:
    tree.host(256 * GB, 128 * GB)
    tree.memberships("0::/")
    tree.v2(".", 4 * GB, 3800 * MB)
    assert numbers(tree.probe().read()) == (4 * GB, 3800 * MB, "cgroup v2 /")


def test_c01_so_does_one_of_version_1_whose_mount_shows_the_container_as_the_root(tree: Tree) -> None:
    tree.memberships("4:memory:/docker/abc", "1:name=systemd:/docker/abc", "0::/")
    tree.v1(".", 4 * GB, 3800 * MB)
    assert numbers(tree.probe().read()) == (4 * GB, 3800 * MB, "cgroup v1 /docker/abc")


def test_c02_the_word_max_is_no_limit(tree: Tree) -> None:
    tree.memberships("0::/a")
    tree.v2("a", "max", 3 * GB)
    assert tree.probe().read().source == "host"


def test_c02_a_group_without_the_files_sets_no_limit_and_is_no_failure(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.memberships("0::/a")
    (tree.cgroup_root / "a").mkdir()
    assert tree.probe().read().source == "host"
    assert caplog.records == []


@pytest.mark.parametrize("text", ["", "\n", "garbage", "12 34", "-1\n", "1e9", "\0", "max max", "9" * 5000])
def test_c02_a_malformed_limit_is_ignored_with_one_warning(
    tree: Tree, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a", 4 * GB, GB)
    tree.v2("a/b", text, GB)
    probe = tree.probe()
    for _ in range(3):
        assert numbers(probe.read()) == (4 * GB, GB, "cgroup v2 /a")
        tree.tick()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cgroup v2 /a/b" in caplog.text
    assert "ValueError" in caplog.text


def test_c02_a_limit_that_may_not_be_read_is_ignored_with_one_warning(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a", 4 * GB, GB)
    tree.v2("a/b", 2 * GB, GB)
    (tree.cgroup_root / "a/b/memory.max").unlink()
    (tree.cgroup_root / "a/b/memory.max").mkdir()  # reading a folder fails for every user
    probe = tree.probe()
    for _ in range(3):
        assert numbers(probe.read()) == (4 * GB, GB, "cgroup v2 /a")
        tree.tick()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_c04_a_root_without_limits_does_not_lose_those_found_below(tree: Tree) -> None:
    tree.memberships("0::/a/b/c")
    tree.v2("a", "max", 9 * GB)
    tree.v2("a/b", 8 * GB, 5 * GB)
    tree.v2("a/b/c", "max", 4 * GB)
    assert not (tree.cgroup_root / "memory.max").exists()
    assert numbers(tree.probe().read()) == (8 * GB, 5 * GB, "cgroup v2 /a/b")


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(9223372036854771712, id="4 KiB pages"),
        pytest.param(9223372036854710272, id="64 KiB pages"),
        pytest.param(1 << 60, id="2^60"),
        pytest.param(100 * GB, id="more than the machine has"),
        pytest.param(24 * GB, id="what the machine has"),
        pytest.param(10**40, id="beyond 64 bits"),
    ],
)
def test_c05_a_limit_that_the_machine_cannot_reach_is_none(tree: Tree, limit: int) -> None:
    tree.memberships("4:memory:/a")
    tree.v1("a", limit, 23 * GB)
    assert numbers(tree.probe().read()) == (24 * GB, 4 * GB, "host")


def test_c08_page_cache_does_not_count_as_used(tree: Tree) -> None:
    tree.memberships("0::/")
    tree.v2(
        ".", 10 * GB, 9500 * MB, inactive_file=5000 * MB, active_file=3500 * MB, slab_reclaimable=100 * MB
    )
    assert numbers(tree.probe().read()) == (10 * GB, 900 * MB, "cgroup v2 /")


def test_c08_in_version_1_the_page_cache_of_child_groups_is_left_out_too(tree: Tree) -> None:
    tree.memberships("4:memory:/")
    tree.v1(
        ".", 10 * GB, 9500 * MB, inactive_file=5000 * MB, active_file=3500 * MB, own_inactive_file=100 * MB
    )
    assert numbers(tree.probe().read()) == (10 * GB, 1000 * MB, "cgroup v1 /")


def test_c08_without_statistics_all_that_is_used_counts(tree: Tree) -> None:
    tree.memberships("4:memory:/")
    tree.v1(".", 10 * GB, 9500 * MB, inactive_file=8500 * MB)
    (tree.cgroup_root / "memory/memory.stat").unlink()
    assert numbers(tree.probe().read()) == (10 * GB, 9500 * MB, "cgroup v1 /")


def test_c11_counters_that_disagree_are_clamped(tree: Tree) -> None:
    tree.memberships("0::/")
    tree.v2(".", 4 * GB, GB, inactive_file=2 * GB)
    probe = tree.probe()
    assert numbers(probe.read()) == (4 * GB, 0, "cgroup v2 /")
    tree.v2(".", 4 * GB, 5 * GB)
    tree.tick()
    assert numbers(probe.read()) == (4 * GB, 4 * GB, "cgroup v2 /")
    tree.v2(".", 0, 5 * GB)
    tree.tick()
    assert numbers(probe.read()) == (0, 0, "cgroup v2 /")
    tree.v2(".", "max", 5 * GB)
    tree.host(24 * GB, 25 * GB)
    tree.tick()
    assert numbers(probe.read()) == (24 * GB, 0, "host")


def test_c12_headroom_is_absolute_and_the_least_binds(tree: Tree) -> None:
    tree.host(1500 * GB, 75 * GB)
    tree.memberships("0::/job")
    tree.v2("job", 186 * GB, 25 * GB)
    reading = tree.probe().read()
    assert reading.headroom == 75 * GB
    assert numbers(reading) == (1500 * GB, 1425 * GB, "host")


def test_c12_an_ancestor_with_a_greater_limit_binds_when_siblings_fill_it(tree: Tree) -> None:
    tree.memberships("0::/pod/container")
    tree.v2("pod/container", 4 * GB, GB)
    tree.v2("pod", 8 * GB, 7 * GB)
    assert numbers(tree.probe().read()) == (8 * GB, 7 * GB, "cgroup v2 /pod")


def test_c23_a_limit_that_changes_is_seen_at_the_next_reading(tree: Tree) -> None:
    tree.memberships("0::/")
    tree.v2(".", 8 * GB, 1900 * MB)
    probe = tree.probe()
    for limit in (8, 2, 16):
        tree.write(tree.cgroup_root / "memory.max", f"{limit * GB}\n")
        tree.tick()
        assert numbers(probe.read()) == (limit * GB, 1900 * MB, "cgroup v2 /")


def test_c23_a_move_to_another_group_is_seen_at_the_next_reading(tree: Tree) -> None:
    tree.memberships("0::/before")
    tree.v2("before", 8 * GB, GB)
    tree.v2("after", 2 * GB, GB)
    probe = tree.probe()
    assert numbers(probe.read()) == (8 * GB, GB, "cgroup v2 /before")
    tree.memberships("0::/after")
    shutil.rmtree(tree.cgroup_root / "before")
    tree.tick()
    assert numbers(probe.read()) == (2 * GB, GB, "cgroup v2 /after")
    tree.memberships()
    tree.tick()
    assert probe.read().source == "host"


def test_c23_a_controller_that_is_switched_on_late_is_seen_within_a_second(tree: Tree) -> None:
    tree.memberships("0::/a")
    (tree.cgroup_root / "a").mkdir()
    probe = tree.probe()
    assert probe.read().source == "host"
    tree.v2("a", 4 * GB, GB)
    tree.tick(1.0)
    assert numbers(probe.read()) == (4 * GB, GB, "cgroup v2 /a")


@pytest.mark.parametrize("version", [1, 2])
def test_c25_swap_is_no_headroom_and_what_is_swapped_out_meanwhile_stays_used(
    tree: Tree, version: int
) -> None:
    def group(usage: int, swap: int, swap_cached: int = 0) -> None:
        if version == 1:
            tree.v1("job", 2 * GB, usage, swap=swap, swap_cached=swap_cached)
        else:
            tree.v2("job", 2 * GB, usage, swap=swap, swap_cached=swap_cached)
        tree.tick()

    tree.memberships("4:memory:/job" if version == 1 else "0::/job")
    probe = tree.probe()

    def used() -> int:
        reading = probe.read()
        assert (reading.limit, reading.source) == (2 * GB, f"cgroup v{version} /job")
        return reading.used

    group(1000 * MB, swap=500 * MB)
    assert used() == 1000 * MB, "what was swapped out before the loader came"
    group(1700 * MB, swap=500 * MB)
    assert used() == 1700 * MB
    group(1200 * MB, swap=1000 * MB)
    assert used() == 1700 * MB, "use that was swapped out is still use"
    group(1700 * MB, swap=8000 * MB)
    assert used() == 2 * GB
    group(1600 * MB, swap=200 * MB)
    assert used() == 1600 * MB, "what came back counts once"
    group(1200 * MB, swap=600 * MB)
    assert used() == 1600 * MB
    group(1600 * MB, swap=600 * MB, swap_cached=400 * MB)
    assert used() == 1600 * MB, "what is in both places counts once"


def test_c25_a_kernel_without_accounts_of_swap_is_read_all_the_same(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 2 * GB, GB)
    (tree.cgroup_root / "job/memory.swap.current").unlink()
    tree.write(tree.cgroup_root / "job/memory.stat", "anon 1\n")
    assert numbers(tree.probe().read()) == (2 * GB, GB, "cgroup v2 /job")
    assert caplog.records == []


def test_c25_what_the_machine_swaps_out_meanwhile_stays_used(tree: Tree) -> None:
    tree.host(24 * GB, 20 * GB, swap=16 * GB, swap_free=15 * GB)
    probe = tree.probe()
    assert numbers(probe.read()) == (24 * GB, 4 * GB, "host")
    tree.host(24 * GB, 20 * GB, swap=16 * GB, swap_free=12 * GB, swap_cached=GB)
    tree.tick()
    assert numbers(probe.read()) == (24 * GB, 6 * GB, "host")
    tree.host(24 * GB, 20 * GB)
    tree.tick()
    assert numbers(probe.read()) == (24 * GB, 4 * GB, "host")


def test_the_lower_one_of_memory_high_and_memory_max_binds(tree: Tree) -> None:
    tree.memberships("0::/a")
    tree.v2("a", 4 * GB, GB, high=3 * GB)
    probe = tree.probe()
    assert numbers(probe.read()) == (3 * GB, GB, "cgroup v2 /a memory.high")
    tree.v2("a", 2 * GB, GB, high=3 * GB)
    tree.tick()
    assert numbers(probe.read()) == (2 * GB, GB, "cgroup v2 /a")


def test_both_versions_side_by_side_are_read(tree: Tree) -> None:
    tree.memberships("4:memory:/job", "0::/job")
    tree.v1("job", 4 * GB, GB)
    tree.v2("unified/job", 3 * GB, GB)
    assert numbers(tree.probe().read()) == (3 * GB, GB, "cgroup v2 /job")


def test_siblings_and_children_of_the_own_group_do_not_count(tree: Tree) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a/b", 8 * GB, GB)
    tree.v2("a/sibling", 2 * GB, 2 * GB)
    tree.v2("a/b/child", 2 * GB, 2 * GB)
    assert numbers(tree.probe().read()) == (8 * GB, GB, "cgroup v2 /a/b")


def test_a_group_outside_of_the_namespace_leaves_what_the_mount_shows(tree: Tree) -> None:
    tree.memberships("0::/../other")
    tree.v2(".", 8 * GB, GB)
    tree.v2("../other", 2 * GB, GB)
    assert numbers(tree.probe().read()) == (8 * GB, GB, "cgroup v2 /")


@pytest.mark.parametrize(
    ("name", "used"),
    [("RLIMIT_AS", 1000 * PAGE), ("RLIMIT_DATA", 300 * PAGE)],
    ids=["RLIMIT_AS", "RLIMIT_DATA"],
)
def test_resource_limits_are_compared_with_what_the_kernel_compares_them_with(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, name: str, used: int
) -> None:
    import resource

    which = getattr(resource, name)
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda asked: (5000 * PAGE if asked == which else resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    )
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    assert numbers(tree.probe().read()) == (5000 * PAGE, used, name)


def test_the_users_limit_is_compared_with_the_anonymous_memory_of_the_process(tree: Tree) -> None:
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    assert numbers(tree.probe(limit=1000 * PAGE).read()) == (1000 * PAGE, 300 * PAGE, "user limit")


@pytest.mark.parametrize(
    ("limit", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError)]
)
def test_a_users_limit_that_is_no_number_of_bytes_is_refused(limit: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"limit="):
        MemoryProbe(limit=limit)  # type: ignore[arg-type]


def test_a_reading_is_kept_for_half_a_millisecond(tree: Tree) -> None:
    probe = tree.probe()
    first = probe.read()
    tree.host(24 * GB, GB)
    tree.tick(0.0004)
    assert probe.read() is first
    tree.tick(0.0002)
    assert probe.read().headroom == GB


def test_where_nothing_can_be_read_the_reading_is_unknown(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import psutil

    (tree.proc_root / "meminfo").unlink()
    monkeypatch.delattr(psutil, "virtual_memory")
    reading = tree.probe().read()
    assert reading == UNKNOWN
    assert not reading.is_known
    assert reading.headroom > 1 << 60
    assert str(reading) == "memory limit and use are not known"
    assert not pickle.loads(pickle.dumps(reading)).is_known
    assert len(caplog.records) == 1


def test_a_reading_says_its_numbers_and_where_they_come_from() -> None:
    text = str(MemoryReading.of(4_000_000_000, 3_500_000_000, "cgroup v2 /job"))
    assert text == "3.50 GB used of 4.00 GB, 0.50 GB left (cgroup v2 /job)"


def test_kinds_tell_who_sets_the_limit(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    assert tree.probe().read().kind == "host"
    tree.memberships("0::/job")
    tree.v2("job", 2 * GB, GB)
    assert tree.probe().read().kind == "cgroup"
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    assert tree.probe(limit=400 * PAGE).read().kind == "user"
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1200 * PAGE, resource.RLIM_INFINITY))
    assert tree.probe().read().kind == "rlimit"
    assert MemoryReading.of(1, 1, "mine").kind == "other"


def test_a_survey_tells_of_every_level_also_of_those_without_a_limit(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (-1 if which == resource.RLIMIT_AS else 5000 * PAGE, -1)
    )
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    tree.memberships("4:memory:/pod/job", "0::/pod")
    tree.v1("pod/job", "garbage", GB)
    tree.v1("pod", 4 * GB, GB)
    tree.v1(".", 9223372036854771712, 9 * GB)
    tree.v2("unified/pod", "max", 3 * GB, high=8 * GB)
    probe = tree.probe(limit=GB)
    before = probe.read()
    assert [(each.source, each.kind, each.reading, each.failure[:10]) for each in probe.survey()] == [
        ("host", "host", MemoryReading.of(24 * GB, 4 * GB, "host"), ""),
        ("cgroup v1 /pod/job", "cgroup", None, "ValueError"),
        ("cgroup v1 /pod", "cgroup", MemoryReading.of(4 * GB, GB, "cgroup v1 /pod"), ""),
        ("cgroup v1 /", "cgroup", None, ""),
        ("cgroup v2 /pod", "cgroup", None, ""),
        (
            "cgroup v2 /pod memory.high",
            "cgroup",
            MemoryReading.of(8 * GB, 3 * GB, "cgroup v2 /pod memory.high"),
            "",
        ),
        ("RLIMIT_AS", "rlimit", None, ""),
        ("RLIMIT_DATA", "rlimit", MemoryReading.of(5000 * PAGE, 300 * PAGE, "RLIMIT_DATA"), ""),
        ("user limit", "user", MemoryReading.of(GB, 300 * PAGE, "user limit"), ""),
    ]
    assert probe.read() is before, "a survey changes nothing"
