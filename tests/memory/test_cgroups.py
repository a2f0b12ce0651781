"""Which control groups a process is in, and where they can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.memory.cgroups import control_groups, parse_memberships, read_memberships, visible_levels


def found(root: Path, memberships: str) -> list[tuple[str, str]]:
    """What is found, as its words and its folder relative to ``root``."""
    return [
        (str(group), group.folder.relative_to(root).as_posix())
        for group in control_groups("memory", memberships, root)
    ]


def test_the_own_group_stands_before_its_ancestors(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    assert found(tmp_path, "0::/a/b/c\n") == [
        ("cgroup v2 /a/b/c", "a/b/c"),
        ("cgroup v2 /a/b", "a/b"),
        ("cgroup v2 /a", "a"),
        ("cgroup v2 /", "."),
    ]


def test_a_mount_that_shows_a_subtree_is_named_as_the_host_names_it(tmp_path: Path) -> None:
    (tmp_path / "memory/job").mkdir(parents=True)
    assert found(tmp_path, "4:memory:/docker/abc\n") == [("cgroup v1 /docker/abc", "memory")]
    assert found(tmp_path, "4:memory:/docker/abc/job\n") == [
        ("cgroup v1 /docker/abc/job", "memory/job"),
        ("cgroup v1 /docker/abc", "memory"),
    ]


@pytest.mark.parametrize("path", ["/..", "/../other", "/../../a/b", "/a/../../b"])
def test_a_group_outside_of_the_namespace_is_not_looked_for(tmp_path: Path, path: str) -> None:
    (tmp_path / "memory/other").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    assert found(tmp_path, f"4:memory:{path}\n") == [("cgroup v1 /", "memory")]


def test_controllers_that_share_a_mount_are_found_by_either_name(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    assert found(tmp_path, "4:hugetlb,memory:/\n") == [("cgroup v1 /", "memory")]
    (tmp_path / "hugetlb,memory").mkdir()
    assert found(tmp_path, "4:hugetlb,memory:/\n") == [("cgroup v1 /", "hugetlb,memory")]


def test_both_versions_side_by_side_are_found(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "unified").mkdir()
    assert found(tmp_path, "4:memory:/\n1:name=systemd:/x\n0::/\n") == [
        ("cgroup v1 /", "memory"),
        ("cgroup v2 /", "unified"),
    ]


def test_names_that_are_no_ascii_are_found(tmp_path: Path) -> None:
    (tmp_path / "grüße").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_bytes("0::/grüße\n".encode())
    assert found(tmp_path, read_memberships(tmp_path))[0] == ("cgroup v2 /grüße", "grüße")


def test_other_controllers_and_missing_mounts_are_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, "4:cpu:/a\n") == []
    assert found(tmp_path / "nowhere", "4:memory:/a\n0::/a\n") == []
    assert read_memberships(tmp_path / "nowhere") == ""


@given(st.text())
def test_any_text_gives_memberships_of_two_fields(text: str) -> None:
    assert all(":" not in controllers for controllers, _path in parse_memberships(text))


@given(path=st.text())
def test_levels_never_leave_the_mount(path: str) -> None:
    root = Path("/sys/fs/cgroup/nowhere")
    assert all(folder == root or root in folder.parents for _name, folder in visible_levels(root, path))
