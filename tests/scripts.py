"""Runs a script in a fresh interpreter: for exits, signals, forks and what an import pulls in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

REPOSITORY = Path(__file__).resolve().parent.parent

# A hanging script is asked for its stacks before it is killed; writing them takes milliseconds.
_STACK_DUMP_SECONDS = 5.0


@dataclass(frozen=True)
class ScriptResult:
    """What a script left behind. A negative ``returncode`` is the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class RunScript(Protocol):
    """The type of the ``run_script`` fixture; see :func:`run`."""

    def __call__(
        self,
        code: str,
        timeout: float = 30.0,
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> ScriptResult: ...


class ScriptHang(AssertionError):
    """A script was still running at the end of its time; carries every thread's stack."""


def run(
    folder: Path,
    code: str,
    timeout: float = 30.0,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> ScriptResult:
    """Run ``code`` as a file in ``folder`` with warnings as errors, and return how it ended.

    Args:
        folder: The script's working directory, where it may leave files.
        code: The script; common indentation is removed.
        timeout: Seconds until the script counts as hanging. This bounds a broken run; no test measures it.
        arguments: What the script finds in ``sys.argv[1:]``.
        environment: Variables set beside the inherited ones.

    Raises:
        ScriptHang: The script did not end in time. It is killed, with its children.
    """
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "error", str(script), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stdout, stderr = _dump_and_kill(process)
        raise ScriptHang(
            f"the script did not end within {timeout:g} s\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        ) from None
    except BaseException:
        _signal_group(process, signal.SIGKILL)
        process.communicate()
        raise
    return ScriptResult(process.returncode, stdout, stderr)


def _dump_and_kill(process: subprocess.Popen[str]) -> tuple[str, str]:
    # faulthandler answers with the stacks of all threads, in forked children too: they inherit it.
    _signal_group(process, signal.SIGABRT)
    try:
        return process.communicate(timeout=_STACK_DUMP_SECONDS)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        return process.communicate()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
