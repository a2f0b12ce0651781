"""Whatever the system answers, reading never fails, and what was last known stays known."""

from __future__ import annotations

import errno
import gc
import logging
import math
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.memory import probe as probe_module
from nogil_loader.memory import reading as reading_module
from nogil_loader.memory.reading import BUSY, UNKNOWN, MemoryReading, read_memory
from tests.memory.trees import GB, Tree

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="reads system files of Unix")

FAILURES = [
    psutil.AccessDenied(1),
    psutil.NoSuchProcess(1),
    FileNotFoundError(errno.ENOENT, "gone"),
    PermissionError(errno.EACCES, "no"),
    ValueError("not a number"),
    MemoryError(),
]


class FailingFrom:
    """A function that answers until it is called the ``nth`` time, and raises from then on."""

    def __init__(self, nth: int, answer: object, failure: Exception) -> None:
        self.calls, self.nth, self.answer, self.failure = 0, nth, answer, failure

    def __call__(self) -> object:
        self.calls += 1
        if self.calls >= self.nth:
            raise self.failure
        return self.answer


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("nth", [1, 5])
def test_c13_errors_of_psutil_leave_the_last_good_reading_and_one_warning(
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    nth: int,
    failure: Exception,
) -> None:
    (tree.proc_root / "meminfo").unlink()  # as on a system without /proc
    host = FailingFrom(nth, SimpleNamespace(total=16 * GB, available=10 * GB), failure)
    own = FailingFrom(nth, SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=GB)), failure)
    monkeypatch.setattr(psutil, "virtual_memory", host)
    monkeypatch.setattr(psutil, "Process", own)
    probe = tree.probe(limit=4 * GB)
    for call in range(1, 100):
        expected = MemoryReading.of(4 * GB, GB, "user limit") if nth > 1 else UNKNOWN
        assert probe.read() == expected, f"reading {call}"
        tree.tick()
    assert host.calls == own.calls == 99, "a later reading may succeed, so every one tries"
    assert len(caplog.records) == 2, "one for the host, one for the process"
    assert all(type(failure).__name__ in record.getMessage() for record in caplog.records)


def test_c13_each_kind_of_error_gets_a_warning_of_its_own(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tree.proc_root / "meminfo").unlink()
    probe = tree.probe()
    for failure in [*FAILURES, *FAILURES]:
        monkeypatch.setattr(psutil, "virtual_memory", FailingFrom(1, None, failure))
        assert probe.read() == UNKNOWN
        tree.tick()
    assert len(caplog.records) == len(FAILURES)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (SimpleNamespace(total=16 * GB), "AttributeError"),
        (SimpleNamespace(total=None, available=1), "TypeError"),
        (SimpleNamespace(total=16 * GB, available=math.nan), "ValueError"),
        (SimpleNamespace(total=16 * GB, available=-1), "ValueError"),
        (SimpleNamespace(total=0, available=0), "ValueError"),
        (SimpleNamespace(total=math.inf, available=0), "OverflowError"),
        (None, "AttributeError"),
    ],
    ids=str,
)
def test_c13_what_psutil_leaves_out_or_mistakes_is_an_error_like_any_other(
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    host: object,
    words: str,
) -> None:
    (tree.proc_root / "meminfo").unlink()
    good = SimpleNamespace(total=16 * GB, available=2 * GB)
    own = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=GB))
    monkeypatch.setattr(psutil, "Process", lambda: own)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: good)
    probe = tree.probe(limit=8 * GB)
    assert probe.read() == MemoryReading.of(16 * GB, 14 * GB, "host")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: host)
    for _ in range(3):
        tree.tick()
        assert probe.read() == MemoryReading.of(16 * GB, 14 * GB, "host")
        assert probe.read_current() is None
    assert len(caplog.records) == 1
    assert words in caplog.text
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=16 * GB, available=8 * GB))
    tree.tick()
    assert probe.read_current() == MemoryReading.of(8 * GB, GB, "user limit")


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_c13_where_the_process_cannot_be_measured_the_host_still_is(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    # No /proc/self/statm in the tree: psutil is asked for the process, as on other systems.
    process = SimpleNamespace(memory_info=FailingFrom(1, None, failure))
    monkeypatch.setattr(psutil, "Process", lambda: process)
    probe = tree.probe(limit=GB)
    for _ in range(3):
        assert probe.read_current() == MemoryReading.of(24 * GB, 4 * GB, "host")
        tree.tick()
    assert len(caplog.records) == 1
    assert "user limit" in caplog.text


def test_c13_a_reading_recovers_when_the_system_does(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree.proc_root / "meminfo").unlink()
    monkeypatch.setattr(psutil, "virtual_memory", FailingFrom(1, None, psutil.AccessDenied(1)))
    probe = tree.probe()
    assert probe.read() == UNKNOWN
    tree.host(24 * GB, 3 * GB)
    tree.tick()
    assert probe.read() == MemoryReading.of(24 * GB, 21 * GB, "host")


def test_c13_without_psutil_the_groups_are_still_read(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tree.proc_root / "meminfo").unlink()
    tree.memberships("4:memory:/a")
    tree.v1("a", 9223372036854771712, GB)
    monkeypatch.setitem(sys.modules, "psutil", None)
    probe = tree.probe()
    assert probe.read() == UNKNOWN, "where the machine's size is not known, a huge limit is none either"
    tree.v1("a", 4 * GB, GB)
    tree.tick()
    assert probe.read() == MemoryReading.of(4 * GB, GB, "cgroup v1 /a")
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "text",
    ["", "MemTotal: 1 kB\n", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n"],
)
def test_meminfo_that_does_not_tell_is_made_up_for_by_psutil(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    host = SimpleNamespace(total=16 * GB, available=10 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: host)
    tree.write(tree.proc_root / "meminfo", text)
    assert tree.probe().read() == MemoryReading.of(16 * GB, 6 * GB, "host")


def test_the_process_is_measured_by_psutil_where_there_is_no_proc(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = SimpleNamespace(rss=3 * GB)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: info))
    assert tree.probe(limit=4 * GB).read().used == 3 * GB
    info.private = GB  # Windows
    assert tree.probe(limit=4 * GB).read().used == GB


@pytest.mark.parametrize("name", ["memory.current", "memory.stat", "memory.max"])
def test_c13_numbers_that_make_no_sense_leave_the_last_good_reading(
    tree: Tree, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    tree.memberships("0::/a")
    tree.v2("a", 4 * GB, GB)
    probe = tree.probe()
    good = probe.read()
    for text in ("garbage", "active_file -5\n", "active_file x\n", "active_file\n"):
        tree.write(tree.cgroup_root / "a" / name, text)
        tree.tick(2.0)  # also when the groups have been looked for again
        assert probe.read() == good
    tree.v2("a", 2 * GB, GB)
    tree.tick()
    assert probe.read() == MemoryReading.of(2 * GB, GB, "cgroup v2 /a")
    assert len(caplog.records) == 1


def test_c23_a_file_that_goes_away_is_no_failure(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tree.memberships("0::/a/b")
    tree.v2("a", 8 * GB, 2 * GB)
    tree.v2("a/b", 4 * GB, GB)
    probe = tree.probe()
    good = probe.read()
    pread = os.pread
    gone = (tree.cgroup_root / "a/b/memory.current").stat().st_ino

    def pread_of_a_dead_group(descriptor: int, size: int, offset: int) -> bytes:
        # What the kernel answers on descriptors of a group that has been removed.
        if os.fstat(descriptor).st_ino == gone:
            raise OSError(errno.ENODEV, "No such device")
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", pread_of_a_dead_group)
    (tree.cgroup_root / "a/b/memory.current").unlink()
    tree.tick()
    assert probe.read() == good, "this once, what was last known"
    tree.tick()
    assert probe.read() == MemoryReading.of(8 * GB, 2 * GB, "cgroup v2 /a")
    assert caplog.records == []


def test_c23_memberships_that_cannot_be_read_leave_the_groups_as_they_were(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.memberships("0::/a")
    tree.v2("a", 4 * GB, GB)
    probe = tree.probe()
    probe.read()
    memberships = tree.proc_root / "self" / "cgroup"
    os.rename(memberships, memberships.with_name("away"))
    memberships.mkdir()
    probe._memberships.close()
    tree.v2("a", 4 * GB, 2 * GB)
    for _ in range(3):
        tree.tick(2.0)
        assert probe.read() == MemoryReading.of(4 * GB, 2 * GB, "cgroup v2 /a")
    assert len(caplog.records) == 1


def test_a_logging_filter_that_raises_does_not_make_reading_fail(tree: Tree) -> None:
    def refuse(_record: logging.LogRecord) -> bool:
        raise RuntimeError("no logging here")

    tree.memberships("0::/a")
    tree.v2("a", "garbage", GB)
    logger = logging.getLogger("nogil_loader")
    logger.addFilter(refuse)
    try:
        assert tree.probe().read().source == "host"
    finally:
        logger.removeFilter(refuse)


def test_a_signal_handler_that_reads_while_its_thread_is_reading_gets_the_last_reading(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = tree.probe()
    first = probe.read()
    tree.tick()
    tree.host(24 * GB, GB)
    nested: list[MemoryReading] = []
    pread = os.pread

    def interrupted(descriptor: int, size: int, offset: int) -> bytes:
        nested.append(probe.read())
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", interrupted)
    assert probe.read().headroom == GB
    assert nested
    assert all(one is first for one in nested)


def test_c16_while_a_measurement_blocks_other_threads_get_the_latest_reading_at_once(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = tree.probe()
    before = probe.read()
    tree.tick()
    tree.host(24 * GB, GB)
    entered, go_on = threading.Event(), threading.Event()
    pread = os.pread

    def blocked(descriptor: int, size: int, offset: int) -> bytes:
        assert not entered.is_set(), "two threads are measuring"
        entered.set()
        assert go_on.wait(30)
        monkeypatch.setattr(os, "pread", pread)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", blocked)
    thread = threading.Thread(target=probe.read)
    thread.start()
    try:
        assert entered.wait(30)
        assert probe.read() is before
        assert probe.read_current() is BUSY
    finally:
        go_on.set()
        thread.join(30)
    assert probe.read_current() == probe.read() == MemoryReading.of(24 * GB, 23 * GB, "host")


@pytest.mark.parametrize("step", ["_measure", "_tell_news"])
def test_an_interrupt_while_reading_leaves_the_probe_usable(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_arguments: object) -> object:
        raise KeyboardInterrupt

    probe = tree.probe()
    with monkeypatch.context() as patch:
        patch.setattr(probe, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            probe.read()
    tree.tick()
    assert probe.read_current() == MemoryReading.of(24 * GB, 4 * GB, "host")


def test_c13_a_value_that_was_only_remembered_is_not_current(tree: Tree) -> None:
    tree.memberships("0::/a")
    tree.v2("a", 4 * GB, GB)
    probe = tree.probe()
    good = probe.read_current()
    assert good == MemoryReading.of(4 * GB, GB, "cgroup v2 /a")
    tree.write(tree.cgroup_root / "a/memory.current", "garbage")
    tree.tick()
    assert probe.read() == good
    assert probe.read_current() is None
    tree.host(24 * GB, 2 * GB)
    tree.tick()
    assert probe.read_current() == MemoryReading.of(24 * GB, 22 * GB, "host"), "what binds can be read"
    tree.host(24 * GB, 20 * GB)
    tree.v2("a", 4 * GB, 2 * GB)
    tree.tick()
    assert probe.read_current() == MemoryReading.of(4 * GB, 2 * GB, "cgroup v2 /a")


def test_a_probe_that_is_let_go_of_closes_its_files(tree: Tree) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("no /proc/self/fd to count open files in")
    tree.memberships("0::/a")
    tree.v2("a", 4 * GB, GB)
    probe = tree.probe()
    probe.read()
    assert _open_below(tree) == {
        "meminfo",
        "cgroup",
        "memory.max",
        "memory.high",
        "memory.current",
        "memory.stat",
        "memory.swap.current",
    }
    del probe
    gc.collect()
    assert _open_below(tree) == set()


def _open_below(tree: Tree) -> set[str]:
    names = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = Path(os.readlink(link))
        except FileNotFoundError:
            continue  # the descriptor of this very listing
        if tree.proc_root.parent in target.parents:
            names.add(target.name)
    return names


@pytest.fixture
def no_process_probe() -> Iterator[None]:
    reading_module.process_probe.cache_clear()
    yield
    reading_module.process_probe.cache_clear()


@pytest.mark.usefixtures("no_process_probe")
def test_read_memory_says_none_where_the_system_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> object:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert read_memory() is None
    monkeypatch.undo()
    reading_module.process_probe.cache_clear()
    assert read_memory() is not None


@pytest.mark.usefixtures("no_process_probe")
def test_read_memory_says_none_where_the_probe_itself_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "nogil_loader.memory.probe", None)
    assert read_memory() is None


def test_running_out_of_memory_while_reading_leaves_the_last_reading(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> object:
        raise MemoryError

    probe = tree.probe()
    good = probe.read()
    monkeypatch.setattr(probe_module, "control_groups", fail)
    for _ in range(3):
        tree.tick(2.0)
        assert probe.read() == good
        assert probe.read_current() is None
    assert len(caplog.records) == 1


CONTENTS = st.one_of(
    st.binary(max_size=60),
    st.integers(-(2**70), 2**70).map(lambda number: b"%d\n" % number),
    st.sampled_from([b"max\n", b"", b"\n", b"-1", b"9" * 5000, b"\xff", b"9223372036854771712\n"]),
)
LINES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(b"active_file", b"inactive_file", b"slab_reclaimable"),
                *(b"total_active_file", b"total_inactive_file", b"MemTotal:", b"MemAvailable:"),
                *(b"total_swap", b"total_swapcached", b"swapcached", b"SwapTotal:", b"SwapFree:"),
            ]
        ),
        CONTENTS,
    ).map(b" ".join),
    max_size=6,
).map(b"\n".join)
NAMES = [
    "proc/meminfo",
    "proc/self/statm",
    *(
        f"cgroup/memory/a/{name}"
        for name in ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
    ),
    *(f"cgroup/unified/memory.{name}" for name in ("max", "high", "current", "stat", "swap.current")),
]


@given(
    files=st.fixed_dictionaries({name: st.one_of(st.none(), CONTENTS, LINES) for name in NAMES}),
    later=st.dictionaries(st.sampled_from(NAMES), st.one_of(CONTENTS, LINES)),
    memberships=st.one_of(st.binary(max_size=40), st.just(b"4:memory:/a\n0::/\n")),
)
def test_whatever_the_files_say_reading_does_not_fail_and_its_numbers_fit_together(
    files: dict[str, bytes | None], later: dict[str, bytes], memberships: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for name, content in files.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(content)
        (tree.proc_root / "self" / "cgroup").write_bytes(memberships)
        probe = tree.probe(limit=GB)
        for _ in range(2):
            reading = probe.read()
            assert 0 <= reading.used <= reading.limit
            assert reading.headroom == reading.limit - reading.used
            assert reading.source
            for name, text in later.items():
                Path(folder, name).write_bytes(text)
            tree.tick()
