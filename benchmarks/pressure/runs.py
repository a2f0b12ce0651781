"""Runs readers under a limit that the kernel enforces, with neighbours, and says how each run ended."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from benchmarks.pressure.reader import Task
from nogil_loader.bench.cgroup import MemoryGroup

_ROOT = Path(__file__).resolve().parents[2]
# What a reader has beyond its own limit, for starting up, and for the stacks of one that hangs.
_MORE_SECONDS = 60.0
_STEP_SECONDS = 0.001
_SHARED = Path("/dev/shm")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        task: What was to be done.
        limit: Bytes of the highest limit that its group had, None for no limit.
        returncode: Of the reader; negative for the signal that ended it.
        report: What the reader said at its end, None if it did not get there.
        stderr: The end of what it wrote there.
        peak: The group's most bytes, as the kernel counted, None where it does not.
        kills: Processes that the kernel killed in the group.
        floor: Bytes in use before the loader started.
        seconds: From start to end.
        events: All that the reader said.
        marks: When something was done to it, by name, on the same clock.
    """

    task: Task
    limit: int | None
    returncode: int
    report: dict[str, Any] | None
    stderr: str
    peak: int | None
    kills: int
    floor: int
    seconds: float
    events: list[dict[str, Any]] = dataclasses.field(repr=False)
    marks: dict[str, float]

    @property
    def verdict(self) -> str:
        """``exact``, ``refused`` (a MemoryBudgetError), or what went wrong."""
        if self.kills or self.returncode == -9:
            return "killed"
        if "Timeout (" in self.stderr:
            return "hung"
        if self.report is None or self.returncode:
            return f"ended with {self.returncode}"
        if self.report["wrong"]:
            return "inexact"
        if self.report["error"] is None:
            return "exact"
        kinds: list[str] = self.report["error"]["kinds"]
        return "refused" if kinds[0] == "MemoryBudgetError" else f"raised {kinds[0]}"

    @property
    def fill(self) -> float:
        """The peak as a share of the limit."""
        return self.peak / self.limit if self.peak and self.limit else 0.0

    def __str__(self) -> str:
        words = (
            ""
            if self.report is None
            else self.report["wrong"] or (self.report["error"] or {}).get("text", "")
        )
        return f"{self.verdict} in {self.seconds:.1f} s, peak {self.fill:.2f} of the limit\n{words}\n{self.stderr}"


class Run:
    """One reader under way.

    Attributes:
        group: Where it runs.
        task: What the reader does.
        limit: Of the group, in bytes; None for no limit.
        events: What it has said so far; the last one is its report.
        marks: For whoever does something to it: when that was, by name.
    """

    def __init__(self, group: MemoryGroup, task: Task, limit: int | None, stderr: IO[str]) -> None:
        self.group = group
        self.limit = limit
        self.events: list[dict[str, Any]] = []
        self.marks: dict[str, float] = {}
        self.task = task
        self._highest = limit
        self._stderr = stderr
        self._began = time.monotonic()
        self._floor = 0
        self._news: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process = group.start(
            [sys.executable, "-m", "benchmarks.pressure.reader", json.dumps(dataclasses.asdict(task))],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(
                json.JSONDecodeError
            ):  # the start of a line, by a reader that was killed
                self._news.put(json.loads(line))
        self._news.put(None)

    def hear(self, timeout: float) -> Iterator[dict[str, Any]]:
        """Give what the reader says, until it ends or the time is up."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self._news.get(timeout=left)
            except queue.Empty:
                return
            if event is None:
                self._news.put(None)  # for whoever asks next
                return
            if event["event"] == "ready":
                self._floor = self.group.used()
            self.events.append(event)
            yield event

    @property
    def ended(self) -> bool:
        """Whether the reader is gone."""
        return self._process.poll() is not None

    def wait_for_batches(self, count: int) -> bool:
        """Wait until some more batches were delivered; False when the reader ended before."""
        batches = (event for event in self.hear(self.task.hang) if event["event"] == "batch")
        return sum(1 for _ in zip(range(count), batches, strict=False)) == count

    def set_limit(self, limit: int) -> None:
        """Change the limit of the group.

        Raises:
            OSError: With ``errno.EBUSY``, as the group's own ``set_limit``.
        """
        self.group.set_limit(limit)
        self.limit = limit
        self._highest = max(limit, self._highest or 0)

    def lower_limit(self, limit: int, margin: int) -> bool:
        """Set a limit as soon as use is so many bytes below it; False when the reader ended before."""
        self.marks["asked"] = time.monotonic()
        while not self.ended:
            try:
                if self.group.used() <= limit - margin:
                    self.set_limit(limit)
                    self.marks["lowered"] = time.monotonic()
                    return True
            except OSError as failure:
                if failure.errno != errno.EBUSY:
                    raise
            list(self.hear(_STEP_SECONDS))
        return False

    def tell(self) -> None:
        """Let the reader leave its epoch after the present batch."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def end(self) -> Outcome:
        """Wait for the reader to end."""
        list(self.hear(max(self.task.hang, self.task.seconds) + _MORE_SECONDS))
        try:
            returncode = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            returncode = self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._stderr.seek(0)
        last = self.events[-1] if self.events else {"event": "nothing"}
        return Outcome(
            task=self.task,
            limit=self._highest,
            returncode=returncode,
            report=last if last["event"] == "report" else None,
            stderr=self._stderr.read()[-4000:],
            peak=self.group.peak(),
            kills=self.group.kills(),
            floor=self._floor,
            seconds=time.monotonic() - self._began,
            events=self.events,
            marks=self.marks,
        )


class Neighbour:
    """Another process in the same group; a context manager that ends it."""

    def __init__(self, group: MemoryGroup) -> None:
        self._process = group.start(
            [sys.executable, "-m", "benchmarks.pressure.neighbour"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def take(self, nbytes: int, rate: float) -> dict[str, float] | None:
        """Let it take memory at a rate in bytes per second, 0 for any; None when it was killed over that."""
        return self._ask(f"take {nbytes} {rate}")

    def give(self) -> dict[str, float] | None:
        """Let it give everything back."""
        return self._ask("give")

    def _ask(self, line: str) -> dict[str, float] | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self._process.stdout.readline()
        return json.loads(answer) if answer else None

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def run(task: Task, limit: int | None = None, *, during: Callable[[Run], None] | None = None) -> Outcome:
    """Run a reader to its end.

    Args:
        task: What it reads.
        limit: Bytes for its group.
        during: Called once the reader was started, with the run.

    Raises:
        OSError: No memory group can be made here.
    """
    before = _shared_names()
    try:
        with MemoryGroup(limit) as group, tempfile.TemporaryFile("w+", errors="replace") as stderr:
            under_way = Run(group, task, limit, stderr)
            if during is not None:
                during(under_way)
            return under_way.end()
    finally:
        _remove_leftovers(before)


def _shared_names() -> set[str]:
    return set(os.listdir(_SHARED)) if _SHARED.is_dir() else set()


def _remove_leftovers(before: set[str]) -> None:
    """Remove the shared memory that killed workers of torch leave behind; the name says whose it was."""
    for name in _shared_names() - before:
        owner = re.match(r"torch_(\d+)_", name)
        if owner and not Path("/proc", owner[1]).exists():
            (_SHARED / name).unlink(missing_ok=True)
