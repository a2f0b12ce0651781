"""What the loader is told about memory: under its policy, at once, and never an exception."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest

from nogil_loader.memory.reading import BUSY, UNKNOWN, MemoryReading, read_memory
from nogil_loader.memory.source import ReadingSource
from nogil_loader.policies import MemoryPolicy
from tests.faults.interrupts import Interruption, ctrl_c, interrupted, try_every_place
from tests.memory.trees import GB, MB, Tree

reads_files = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")

DENIED: Exception = psutil.AccessDenied(1)
READING = MemoryReading.of(4 * GB, GB, "cgroup v2 /job", "cgroup")


def source_of(tree: Tree, limit: int | float | str = "auto") -> ReadingSource:
    system = tree.probe(limit=limit if isinstance(limit, int) else None)
    return ReadingSource(MemoryPolicy(limit=limit), system=system, clock=lambda: tree.now)


def read(source: ReadingSource) -> MemoryReading:
    reading = source.read()
    assert isinstance(reading, MemoryReading)
    return reading


# The policy's limit


@reads_files
def test_auto_is_what_the_operating_system_says(tree: Tree) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 4 * GB, GB)
    source = source_of(tree)
    assert (source.is_shared, source.is_host) == (False, False)
    assert read(source) == READING
    assert (source.is_shared, source.is_host) == (True, False)
    tree.v2("job", "max", GB)
    tree.tick()
    assert read(source) == MemoryReading.of(24 * GB, 4 * GB, "host")
    assert (source.is_shared, source.is_host) == (True, True)


def test_auto_is_the_probe_of_the_whole_process() -> None:
    first, second = ReadingSource(MemoryPolicy()), ReadingSource(MemoryPolicy(limit=0.5))
    assert first._system is second._system
    assert read(first).source in read(second).source
    shown = read_memory()
    assert shown is not None
    assert shown.source == read(first).source


@reads_files
def test_a_limit_in_bytes_binds_beside_those_of_the_system(tree: Tree) -> None:
    page = mmap.PAGESIZE
    tree.statm(1000, 500, 200, 10, 0, 300, 0)
    tree.memberships("0::/job")
    tree.v2("job", 4 * GB, GB)
    source = source_of(tree, limit=2 * GB)
    assert read(source) == MemoryReading.of(2 * GB, 300 * page, "user limit")
    assert not source.is_shared
    tree.v2("job", 4 * GB, 3 * GB)
    tree.tick()
    assert read(source) == MemoryReading.of(4 * GB, 3 * GB, "cgroup v2 /job")
    assert source.is_shared


def test_a_limit_in_bytes_is_a_real_one() -> None:
    assert read(ReadingSource(MemoryPolicy(limit="1MiB"))).limit == MB


@reads_files
def test_a_share_scales_the_limit_that_binds_and_leaves_its_use(tree: Tree) -> None:
    tree.memberships("4:memory:/job")
    tree.v1("job", 4 * GB, GB)
    source = source_of(tree, limit=0.5)
    assert read(source) == MemoryReading(2 * GB, GB, GB, "0.5 of cgroup v1 /job")
    assert source.is_shared
    tree.v1("job", 4 * GB, 3 * GB)
    tree.tick()
    assert read(source) == MemoryReading(2 * GB, 3 * GB, 0, "0.5 of cgroup v1 /job")


def test_a_share_or_a_limit_holds_for_a_probe_of_the_users_too() -> None:
    share = ReadingSource(MemoryPolicy(limit=0.5, probe=lambda: READING))
    assert read(share) == MemoryReading(2 * GB, GB, GB, "0.5 of cgroup v2 /job")
    below = ReadingSource(MemoryPolicy(limit=2 * GB, probe=lambda: READING))
    assert read(below) == MemoryReading(2 * GB, GB, GB, "user limit on cgroup v2 /job")
    assert not below.is_shared
    above = ReadingSource(MemoryPolicy(limit=8 * GB, probe=lambda: READING))
    assert read(above) == READING
    assert above.is_shared


# A probe of the user's


def test_a_probe_of_the_users_is_asked_each_time_and_nothing_else_is() -> None:
    answers = [READING, MemoryReading.of(2 * GB, GB, "mine")]
    source = ReadingSource(MemoryPolicy(probe=iter(answers).__next__))
    assert [source.read(), source.read()] == answers
    assert not source.is_shared, "who sets the limit is not known"


@pytest.mark.parametrize(
    "reading",
    [
        MemoryReading(np.int64(4 * GB), np.int32(GB), np.int64(3 * GB), "cgroup v2 /job"),  # type: ignore[arg-type]
        MemoryReading(4.0 * GB, 1.0 * GB, 3.0 * GB, "cgroup v2 /job"),  # type: ignore[arg-type]
    ],
    ids=["numpy", "floats"],
)
def test_numbers_of_a_probe_become_plain_ints(reading: MemoryReading) -> None:
    result = read(ReadingSource(MemoryPolicy(probe=lambda: reading)))
    assert result == READING
    assert {type(number) for number in (result.limit, result.used, result.headroom)} == {int}


def raising(error: BaseException) -> Callable[[], Any]:
    def probe() -> Any:
        raise error

    return probe


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def saying(limit: Any, used: Any, headroom: Any, source: Any = "mine") -> Callable[[], Any]:
    return lambda: MemoryReading(limit, used, headroom, source)


WRONG: list[tuple[str, Callable[[], Any], str]] = [
    ("AccessDenied", raising(DENIED), "AccessDenied"),
    ("FileNotFoundError", raising(FileNotFoundError("gone")), "FileNotFoundError: gone"),
    ("MemoryError", raising(MemoryError()), "MemoryError"),
    ("StopIteration", raising(StopIteration()), "StopIteration"),
    ("unprintable", raising(Unprintable()), "Unprintable"),
    ("None", lambda: None, "it did not return a MemoryReading, None"),
    ("a number", lambda: 4 * GB, f"it did not return a MemoryReading, {4 * GB}"),
    ("busy", lambda: BUSY, "it did not return a MemoryReading"),
    ("unknown", lambda: UNKNOWN, "it returned a reading that is not known"),
    ("negative", saying(-1, 0, 0), "it returned numbers without 0 <= used <= limit"),
    ("negative use", saying(10, -1, 11), "it returned numbers without 0 <= used <= limit"),
    ("more than all", saying(10, 11, -1), "it returned numbers without 0 <= used <= limit"),
    ("NaN", saying(math.nan, 1, 1), "it returned numbers without 0 <= used <= limit"),
    ("NaN used", saying(10, math.nan, 1), "it returned numbers without 0 <= used <= limit"),
    ("infinity", saying(math.inf, 1, math.inf), "it returned numbers without 0 <= used <= limit"),
    ("headroom", saying(10, 1, 5), "it returned numbers without headroom == limit - used"),
    ("NaN headroom", saying(10, 1, math.nan), "it returned numbers without headroom == limit - used"),
    ("text", saying("10", 1, 9), "it returned something else than numbers"),
    ("bools", saying(True, False, True), "it returned something else than numbers"),
    ("arguments", lambda: READING("one too many"), "TypeError"),  # type: ignore[operator]
]


@pytest.mark.parametrize(("probe", "words"), [pytest.param(*case[1:], id=case[0]) for case in WRONG])
def test_c13_whatever_a_probe_does_is_unknown_with_one_warning(
    probe: Callable[[], Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = ReadingSource(MemoryPolicy(probe=probe))
    assert [source.read() for _ in range(20)] == [None] * 20
    assert [(record.name, record.levelname) for record in caplog.records] == [("nogil_loader", "WARNING")]
    assert words in caplog.records[0].getMessage()
    assert "MemoryPolicy.probe" in caplog.records[0].getMessage()


def test_c13_a_probe_that_fails_from_the_fifth_call_on_and_recovers() -> None:
    state = {"calls": 0}

    def probe() -> MemoryReading:
        state["calls"] += 1
        if 5 <= state["calls"] < 9:
            raise DENIED
        return READING

    source = ReadingSource(MemoryPolicy(probe=probe))
    assert [source.read() for _ in range(12)] == [READING] * 4 + [None] * 4 + [READING] * 4


def test_c13_each_kind_of_fault_gets_a_warning_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    faults = [
        raising(ValueError("1")),
        lambda: None,
        saying(10, 11, -1),
        raising(OSError("2")),
        lambda: UNKNOWN,
    ]
    answers: Iterator[Callable[[], Any]] = iter([*faults, *faults])
    source = ReadingSource(MemoryPolicy(probe=lambda: next(answers)()))
    for _ in range(2 * len(faults)):
        assert source.read() is None
    assert len(caplog.records) == len(faults)


def test_what_a_probe_raised_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Kept:
        pass

    ended: list[weakref.ref[Kept]] = []

    def probe() -> MemoryReading:
        kept = Kept()
        ended.append(weakref.ref(kept))
        raise ValueError("no")

    source = ReadingSource(MemoryPolicy(probe=probe))
    assert source.read() is None
    gc.collect()
    assert len(caplog.records) == 1
    assert ended[0]() is None


def test_a_log_filter_that_raises_does_not_reach_the_loader() -> None:
    def refuse(_record: logging.LogRecord) -> bool:
        raise RuntimeError("no logging here")

    logger = logging.getLogger("nogil_loader")
    logger.addFilter(refuse)
    try:
        assert ReadingSource(MemoryPolicy(probe=raising(ValueError("no")))).read() is None
    finally:
        logger.removeFilter(refuse)


def test_an_interrupt_in_a_probe_passes_and_the_next_reading_comes() -> None:
    answers: Iterator[Callable[[], Any]] = iter([raising(KeyboardInterrupt()), lambda: READING])
    source = ReadingSource(MemoryPolicy(probe=lambda: next(answers)()))
    with pytest.raises(KeyboardInterrupt):
        source.read()
    assert source.read() == READING


@reads_files
@pytest.mark.parametrize("users", [False, True], ids=["system", "user's probe"])
def test_an_interrupt_at_any_place_does_not_end_reading(tree: Tree, users: bool) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 4 * GB, GB)

    def attempt(number: int) -> tuple[Interruption, object]:
        source = ReadingSource(MemoryPolicy(probe=lambda: READING)) if users else source_of(tree)
        with contextlib.suppress(KeyboardInterrupt), interrupted(number, ctrl_c) as interruption:
            source.read()
        tree.tick()
        return interruption, source.read()

    try_every_place(attempt, [READING])


# Not now


def test_c16_while_a_probe_blocks_other_threads_are_told_so_at_once() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def probe() -> MemoryReading:
        entered.set()
        assert go_on.wait(30)
        return READING

    source = ReadingSource(MemoryPolicy(probe=probe))
    readings: list[object] = []
    thread = threading.Thread(target=lambda: readings.append(source.read()))
    thread.start()
    try:
        assert entered.wait(30)
        assert source.read() is BUSY
        assert source.read() is BUSY
    finally:
        go_on.set()
        thread.join(30)
    assert readings == [READING]


def test_a_probe_that_asks_its_own_source_is_told_that_it_is_busy() -> None:
    answers: list[object] = []

    def probe() -> MemoryReading:
        answers.append(source.read())
        return READING

    source = ReadingSource(MemoryPolicy(probe=probe))
    assert source.read() == READING
    assert answers == [BUSY]


@reads_files
def test_c16_a_measurement_for_someone_else_is_not_waited_for(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(tree)
    answers: list[object] = []
    pread = os.pread

    def meanwhile(descriptor: int, size: int, offset: int) -> bytes:
        answers.append(source.read())
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", meanwhile)
    source._system.read()
    assert answers
    assert set(answers) == {BUSY}


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0004, 0.0), (0.001, 0.009), (0.004, 0.036), (2.0, 0.05)], ids=str
)
def test_what_takes_long_is_done_a_tenth_of_the_time(took: float, rest: float) -> None:
    now = [1000.0]

    def probe() -> MemoryReading:
        now[0] += took
        return READING

    source = ReadingSource(MemoryPolicy(probe=probe, interval=0.05), clock=lambda: now[0])
    assert source.read() == READING
    assert source.read() == READING, "once is no rule"
    if rest:
        assert source.read() is BUSY
        now[0] += rest * 0.99
        assert source.read() is BUSY
        now[0] += rest * 0.02
    assert source.read() == READING


@reads_files
def test_c13_what_the_system_only_said_before_is_unknown(tree: Tree) -> None:
    tree.memberships("0::/job")
    tree.v2("job", 4 * GB, GB)
    source = source_of(tree)
    assert read(source) == READING
    tree.write(tree.cgroup_root / "job/memory.current", "garbage")
    tree.tick()
    assert source.read() is None
    assert source.is_shared, "as it was at the latest reading"
    tree.v2("job", 4 * GB, 2 * GB)
    tree.tick()
    assert read(source).used == 2 * GB


@reads_files
def test_where_the_system_never_said_anything_it_is_unknown(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.proc_root / "meminfo").unlink()
    monkeypatch.delattr(psutil, "virtual_memory")
    source = source_of(tree)
    assert source.read() is None
    assert not source.is_shared
    assert not source.is_host


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_child_of_a_fork_reads_although_a_thread_of_its_parent_was_reading(run_script: Any) -> None:
    result = run_script("""
        import os, threading, warnings
        from nogil_loader.memory.reading import BUSY, MemoryReading
        from nogil_loader.memory.source import ReadingSource
        from nogil_loader.policies import MemoryPolicy

        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        entered, go_on, parent = threading.Event(), threading.Event(), os.getpid()

        def probe():
            if os.getpid() == parent:
                entered.set()
                go_on.wait()
            return MemoryReading.of(10, 1, "mine")

        source = ReadingSource(MemoryPolicy(probe=probe))
        thread = threading.Thread(target=source.read)
        thread.start()
        entered.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if source.read() == MemoryReading.of(10, 1, "mine") else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert source.read() is BUSY
        go_on.set()
        thread.join()
    """)
    assert result.returncode == 0, result.stderr
