"""Readings of the machine that the tests run on: real limits, real groups, real forks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nogil_loader.memory.cgroups import control_groups, read_memberships
from nogil_loader.memory.probe import MemoryProbe
from nogil_loader.memory.reading import read_memory
from tests.memory.trees import MB
from tests.scripts import RunScript

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")


def test_this_machine_is_read() -> None:
    reading = read_memory()
    assert reading is not None
    assert 0 <= reading.used <= reading.limit <= psutil.virtual_memory().total
    assert MemoryProbe().read().source == reading.source


@linux_only
def test_a_limit_on_data_is_read_and_allocations_count_against_it(run_script: RunScript) -> None:
    result = run_script("""
        import mmap, resource
        from nogil_loader.memory.probe import MemoryProbe

        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, resource.RLIM_INFINITY))
        before = MemoryProbe().read()
        block = mmap.mmap(-1, 200 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        after = MemoryProbe().read()
        assert before.source == after.source == "RLIMIT_DATA", (before, after)
        assert before.limit == after.limit == 1 << 30, (before, after)
        assert 200 << 20 <= after.used - before.used < 210 << 20, (before, after)
    """)
    assert result.returncode == 0, result.stderr


@linux_only
def test_a_limit_on_the_address_space_is_read_as_the_kernel_counts_it(run_script: RunScript) -> None:
    result = run_script("""
        import mmap, resource
        from nogil_loader.memory.probe import MemoryProbe

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
        reading = MemoryProbe().read()
        assert (reading.source, reading.limit) == ("RLIMIT_AS", 4 << 30), reading
        try:
            mmap.mmap(-1, reading.headroom + (16 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            pass
        else:
            raise AssertionError(f"more than the headroom was given: {reading}")
        mmap.mmap(-1, reading.headroom - (64 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    """)
    assert result.returncode == 0, result.stderr


@linux_only
def test_a_forked_child_reads_its_own_memory_not_its_parents(run_script: RunScript) -> None:
    result = run_script("""
        import os
        from nogil_loader.memory.probe import MemoryProbe

        probe = MemoryProbe(limit=256 << 20)
        before = probe.read()
        assert before.source == "user limit", before
        pid = os.fork()
        if pid == 0:
            touched = b"x" * (100 << 20)
            after = probe.read()
            os._exit(0 if after.used - before.used > 90 << 20 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """)
    assert result.returncode == 0, result.stderr


@linux_only
def test_a_child_that_is_forked_while_another_thread_reads_can_read(run_script: RunScript) -> None:
    result = run_script("""
        import os, threading, warnings
        from nogil_loader.memory.probe import MemoryProbe

        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        probe = MemoryProbe()
        pread, entered, go_on = os.pread, threading.Event(), threading.Event()

        def stuck(*arguments):
            entered.set()
            go_on.wait()
            return pread(*arguments)

        os.pread = stuck
        thread = threading.Thread(target=probe.read)
        thread.start()
        entered.wait()
        pid = os.fork()
        if pid == 0:
            os.pread = pread
            os._exit(0 if probe.read().is_known else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        go_on.set()
        thread.join()
    """)
    assert result.returncode == 0, result.stderr


def test_a_probe_that_lives_until_the_interpreter_exits_goes_quietly(run_script: RunScript) -> None:
    result = run_script("""
        from nogil_loader.memory.probe import MemoryProbe
        from nogil_loader.memory.reading import read_memory

        probe = MemoryProbe()
        probe.myself = probe
        assert probe.read().is_known
        assert read_memory() is not None
    """)
    assert (result.returncode, result.stderr) == (0, "")


class MemoryGroup:
    """A control group made for one test, below the group of this process."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self.version = folder, version

    @property
    def limit_file(self) -> Path:
        return self.folder / ("memory.limit_in_bytes" if self.version == 1 else "memory.max")

    def set_limit(self, limit: int) -> None:
        self.limit_file.write_text(f"{limit}\n")


@pytest.fixture
def memory_groups() -> Iterator[tuple[MemoryGroup, MemoryGroup]]:
    """Two sibling groups in which memory can be limited; skips where that is not allowed."""
    memberships = read_memberships(Path("/proc"))
    groups = control_groups("memory", memberships, Path("/sys/fs/cgroup"))
    # Where version 1 has the memory controller, version 2 has no such file.
    usages = {1: "memory.usage_in_bytes", 2: "memory.current"}
    own = next((group for group in groups if (group.folder / usages[group.version]).exists()), None)
    if own is None:
        pytest.skip("no memory control group of this process can be seen")
    made = []
    try:
        for name in ("a", "b"):
            group = MemoryGroup(own.folder / f"nogil_loader_test_{os.getpid()}_{name}", own.version)
            try:
                group.folder.mkdir()
            except OSError as failure:
                pytest.skip(f"no control group can be made: {failure}")
            made.append(group)
            if not group.limit_file.exists():
                pytest.skip(f"{own} does not hand the memory controller on to child groups")
        yield made[0], made[1]
    finally:
        for group in made:
            with contextlib.suppress(FileNotFoundError):
                group.folder.rmdir()


# Says what it reads, whenever it is told to, after having done something that uses memory.
_MEMBER = """
    import dataclasses, json, mmap, os, sys
    from nogil_loader.memory.probe import MemoryProbe

    probe, now, kept = MemoryProbe(clock=lambda: now), 0.0, []
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "join":
            with open(os.path.join(argument, "cgroup.procs"), "w") as procs:
                procs.write(str(os.getpid()))
        elif command == "touch":
            block = mmap.mmap(-1, int(argument), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for page in range(0, int(argument), mmap.PAGESIZE):
                block[page] = 1
            kept.append(block)
        elif command == "cache":
            with open("cached", "wb") as file:
                for _ in range(int(argument) >> 20):
                    file.write(bytes(1 << 20))
                file.flush()
                os.fsync(file.fileno())
        now += 0.001
        print(json.dumps(dataclasses.asdict(probe.read())), flush=True)
"""


class Member:
    """A process that joins groups, uses memory and says what it reads."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, command: str) -> dict[str, int | str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{command} ended the process: {self._process.wait(30)}"
        reading: dict[str, int | str] = json.loads(answer)
        return reading


@pytest.fixture
def member(tmp_path: Path, memory_groups: tuple[MemoryGroup, MemoryGroup]) -> Iterator[Member]:
    """A member that has ended before the groups are removed."""
    repository = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(_MEMBER)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Member(process)
        finally:
            process.kill()
            process.wait()


def is_in_memory(path: Path) -> bool:
    """Whether files in ``path`` have no disk behind them."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == number:
            return kind.split()[0] in ("tmpfs", "ramfs")
    return False


@linux_only
def test_a_real_control_group_is_read_as_the_kernel_counts_it(
    memory_groups: tuple[MemoryGroup, MemoryGroup], member: Member, tmp_path: Path
) -> None:
    group, other = memory_groups
    group.set_limit(512 * MB)
    other.set_limit(384 * MB)

    def used(reading: dict[str, int | str], limit: int) -> int:
        assert reading["limit"] == limit, reading
        assert str(reading["source"]).startswith(f"cgroup v{group.version} /"), reading
        return int(reading["used"])

    # The kernel books in batches of 256 KiB for each CPU, in both directions.
    before = used(member.do(f"join {group.folder}"), 512 * MB)
    assert before < 32 * MB
    touched = used(member.do(f"touch {100 * MB}"), 512 * MB)
    assert abs(touched - before - 100 * MB) < 32 * MB
    cached = used(member.do(f"cache {100 * MB}"), 512 * MB)
    if is_in_memory(tmp_path):
        assert abs(cached - touched - 100 * MB) < 32 * MB, "files without a disk cannot be given up"
    else:
        assert abs(cached - touched) < 32 * MB, "page cache can"

    group.set_limit(448 * MB)
    used(member.do("read"), 448 * MB)

    reading = member.do(f"join {other.folder}")
    used(reading, 384 * MB)
    assert str(reading["source"]).endswith(other.folder.name)
    group.folder.rmdir()  # all files in it that were kept open are dead now
    used(member.do("read"), 384 * MB)
