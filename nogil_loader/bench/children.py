"""Runs a measurement in a process of its own, and ends that with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from nogil_loader.bench.cgroup import MemoryGroup
from nogil_loader.bench.decode import DecodeError, decode, encode
from nogil_loader.bench.failures import ended_by
from nogil_loader.bench.result import Failure, Setting
from nogil_loader.bench.task import ANSWER, TASK, Answer, Task

# What is kept of a child's output.
_TAIL_BYTES = 20_000
# A process that was killed is gone in milliseconds, unless the machine is very busy.
_GONE_SECONDS = 20.0


def run_task(task: Task, timeout: float) -> Answer:
    """Let a child do a task, and return its answer; whatever becomes of the child, there is one.

    Args:
        task: What to measure.
        timeout: Seconds after which the child is given up on.

    Raises:
        OSError: No process could be started, or no control group made.
        KeyboardInterrupt: Ctrl-C; the child is ended first.
    """
    with tempfile.TemporaryDirectory(prefix="nogil_loader-bench-") as name:
        folder = Path(name)
        (folder / TASK).write_text(json.dumps(encode(task)), encoding="utf-8")
        with open(folder / "output", "w+b") as output, contextlib.ExitStack() as stack:
            group = None if task.memory_limit is None else stack.enter_context(MemoryGroup(task.memory_limit))
            process = _start(folder, output, group)
            try:
                code: int | None = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(process)
            kills = 0 if group is None else group.kills()
            answer = _read(folder / ANSWER)
            if answer is not None:
                return answer
            output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
            said = output.read().decode("utf-8", "replace")
        return _unanswered(task, code, said, timeout, kills)


def _start(folder: Path, output: IO[bytes], group: MemoryGroup | None) -> subprocess.Popen[Any]:
    command = [sys.executable, *_interpreter_options(), "-m", "nogil_loader.bench.child", str(folder)]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
    if os.name == "posix":
        # Of its own, so that all of it can be ended, and Ctrl-C reaches it only by way of this process.
        options["start_new_session"] = True
    return subprocess.Popen(command, **options) if group is None else group.start(command, **options)


def _interpreter_options() -> Sequence[str]:
    """Options of this interpreter that the child's has to have."""
    options = [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    options += [f"-W{warning}" for warning in sys.warnoptions]
    # Without -P, modules in the present folder would stand before those of the standard library.
    if Path(__file__).resolve().parents[2] != Path.cwd():
        options.append("-P")
    return options


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process and all that it started, and wait for it."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    # One that the kernel does not let go of must not keep the sweep from going on.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GONE_SECONDS)


def _read(path: Path) -> Answer | None:
    try:
        return decode(Answer, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, json.JSONDecodeError, DecodeError):
        return None


def _unanswered(task: Task, code: int | None, said: str, timeout: float, kills: int) -> Answer:
    if code is None:
        failure = Failure(f"it was not done after {timeout:g} s, and was ended")
    else:
        failure = ended_by(code, said)
        if kills and task.memory_limit is not None:
            failure = replace(
                failure, error=f"killed for want of memory: more than {task.memory_limit:,} bytes"
            )
    setting = Setting(task.loader, task.num_workers, task.prefetch_factor, task.batch_size, failure=failure)
    return Answer(setting=setting)
