"""The tests' own guards catch what they are for: hangs, threads left behind, scripts that do not end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import scripts
from tests.scripts import RunScript

# What the planted test files begin with.
_HEADER = """
import ctypes, threading
import pytest
"""


def run_pytest(folder: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a planted test file under the repository's own configuration and conftest."""
    test = folder / "test_planted.py"
    test.write_text(_HEADER + body)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-c", "pyproject.toml", *options, str(test)],
        cwd=scripts.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_hanging_test_fails_with_the_stack_of_every_thread(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        """
def innermost_call_of_the_thread(event):
    event.wait()

def test_hang():
    event = threading.Event()
    threading.Thread(target=innermost_call_of_the_thread, args=[event], daemon=True, name="planted").start()
    event.wait()

def test_after():
    pass
""",
        "--timeout=1",
        "-p",
        "no:randomly",
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "1 failed, 1 passed" in run.stdout
    assert "innermost_call_of_the_thread" in run.stdout + run.stderr
    assert ">       event.wait()" in run.stdout  # where test_hang itself stood
    assert "Timeout (>1.0s)" in run.stdout


def test_a_hang_that_holds_the_gil_ends_the_run_with_the_stack(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        """
@pytest.mark.timeout(0)
def test_hang():
    ctypes.PyDLL(None).pause()  # PyDLL keeps the GIL during the call
""",
        "--override-ini=faulthandler_timeout=1",
    )
    assert run.returncode != 0
    assert "in test_hang" in run.stderr


def test_a_loader_thread_that_stays_behind_fails_its_test(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        """
from tests import conftest
conftest._GRACE_SECONDS = 0.01
event = threading.Event()

def where_it_waits():
    event.wait()

def test_leak():
    threading.Thread(target=where_it_waits, daemon=True, name="nogil_loader-planted").start()

def test_innocent():
    event.set()
""",
        "-p",
        "no:randomly",
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "2 passed, 1 error" in run.stdout
    assert "nogil_loader-planted (daemon=True)" in run.stdout
    assert "in where_it_waits" in run.stdout


def test_a_loader_thread_that_ends_in_the_grace_time_is_no_failure(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        """
class SlowToEnd(threading.Thread):
    joined = threading.Event()

    def run(self):
        self.joined.wait()

    def join(self, timeout=None):
        self.joined.set()
        super().join(timeout)

def test_closing():
    SlowToEnd(daemon=True, name="nogil_loader-closing").start()
""",
    )
    assert run.returncode == pytest.ExitCode.OK, run.stdout


def test_a_failed_run_says_how_to_repeat_its_order(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "def test_failure():\n    assert False\n", "--randomly-seed=1234")
    assert "--randomly-seed=1234" in run.stdout


def test_a_script_that_does_not_end_is_killed_and_its_stacks_are_shown(run_script: RunScript) -> None:
    with pytest.raises(scripts.ScriptHang) as caught:
        run_script(
            """
            import threading
            print("started", flush=True)
            def the_function_that_hangs():
                threading.Event().wait()
            the_function_that_hangs()
            """,
            timeout=2,
        )
    assert "started" in str(caught.value)
    assert "the_function_that_hangs" in str(caught.value)


def test_a_script_that_hangs_in_a_forked_child_is_killed_too(run_script: RunScript) -> None:
    with pytest.raises(scripts.ScriptHang, match="the_function_that_hangs"):
        run_script(
            """
            import os, signal
            def the_function_that_hangs():
                signal.pause()
            if os.fork() == 0:
                the_function_that_hangs()
            """,
            timeout=2,
        )


def test_a_script_returns_its_exit_code_output_and_arguments(run_script: RunScript) -> None:
    result = run_script(
        """
        import os, sys
        print(sys.argv[1], os.environ["PLANTED"])
        print("to stderr", file=sys.stderr)
        sys.exit(7)
        """,
        arguments=["an argument"],
        environment={"PLANTED": "a variable"},
    )
    assert result == scripts.ScriptResult(7, "an argument a variable\n", "to stderr\n")
