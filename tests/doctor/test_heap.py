"""What the doctor tells of the C library's heap and of huge pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nogil_loader.doctor.heap import Heap
from nogil_loader.memory.pool import pool

GLIBC = Heap("glibc 2.36", False, "", 0, None, "")


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
    file = tmp_path / "kernel" / "mm" / "transparent_hugepage" / "enabled"
    if text is not None:
        file.parent.mkdir(parents=True)
        file.write_text(text)
    heap = Heap.of({}, sys_root=tmp_path)
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
    heap = Heap.of({"MALLOC_ARENA_MAX": "1"})
    assert heap.library == ""
    assert heap.findings(is_limited=True) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_the_advice_on_glibc_is_given_under_a_limit_unless_it_is_followed() -> None:
    heap = Heap.of({})
    if not heap.library:
        pytest.skip("another C library")
    (finding,) = heap.findings(is_limited=True)
    assert "MALLOC_MMAP_THRESHOLD_=1048576" in finding.advice
    assert heap.findings(is_limited=False) == []
    (followed,) = Heap.of({"MALLOC_MMAP_THRESHOLD_": "1048576"}).findings(is_limited=True)
    assert (followed.severity, followed.advice) == ("ok", "")


def test_one_heap_for_all_threads_is_warned_of() -> None:
    assert Heap.of({"MALLOC_ARENA_MAX": "1"}).arenas == 1
    assert Heap.of({"MALLOC_ARENA_MAX": "many"}).arenas is None
    one = Heap("glibc 2.36", True, "", 0, 1, "")
    assert [each.advice for each in one.findings(False) if each.severity == "warning"] == [
        "unset MALLOC_ARENA_MAX, or set it to the number of workers"
    ]
    assert all(each.severity == "ok" for each in Heap("glibc 2.36", True, "", 0, 4, "").findings(False))


def test_another_allocator_needs_none_of_the_advice() -> None:
    heap = Heap.of({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2", "MALLOC_ARENA_MAX": "1"})
    (finding,) = heap.findings(is_limited=True)
    assert (finding.severity, finding.found) == ("ok", "jemalloc allocates instead of the C library")
