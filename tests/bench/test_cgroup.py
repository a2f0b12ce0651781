"""A control group of one's own, where one can be made."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

import pytest

from nogil_loader.bench import cgroup

MB = 10**6
_REASON = cgroup.why_not()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=f"no memory group: {_REASON}")


def test_a_process_above_the_limit_is_killed_and_counted() -> None:
    with cgroup.MemoryGroup(100 * MB) as group:
        process = group.start([sys.executable, "-c", "bytearray(200_000_000)"])
        assert process.wait(60) == -signal.SIGKILL
        assert group.kills() == 1
        assert group.peak() is None or 90 * MB < group.peak() <= 100 * MB  # type: ignore[operator]


def test_a_process_is_in_the_group_from_its_start() -> None:
    with cgroup.MemoryGroup(100 * MB) as group:
        told = group.start(
            [sys.executable, "-c", "print(open('/proc/self/cgroup').read())"], stdout=subprocess.PIPE
        )
        assert group.folder.name in told.communicate(timeout=60)[0]
        assert group.kills() == 0


def test_a_group_is_removed_with_all_that_runs_in_it() -> None:
    with contextlib.ExitStack() as stack:
        with cgroup.MemoryGroup(100 * MB) as group:
            code = "import time; print('here', flush=True); time.sleep(60)"
            process = stack.enter_context(group.start([sys.executable, "-c", code], stdout=subprocess.PIPE))
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        assert process.wait(60) == -signal.SIGKILL
    assert not group.folder.exists()


def test_an_empty_group_whose_maker_is_gone_is_removed_with_the_next() -> None:
    maker = subprocess.Popen([sys.executable, "-c", ""])
    maker.wait(60)
    with cgroup.MemoryGroup() as group:
        left = group.folder.with_name(f"nogil_loader-{maker.pid}-0")
        left.mkdir()
        with cgroup.MemoryGroup():
            assert not left.exists()
            assert group.folder.exists()
