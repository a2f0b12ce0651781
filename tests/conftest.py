"""What holds for every test: hangs are reported and ended, no loader thread stays, failures can be repeated.

Three guards stand against hangs, each for what the one before cannot catch:

1. pytest-timeout raises in the main thread after ``timeout`` seconds and prints the other threads' stacks.
2. faulthandler, a C thread that needs no GIL, prints every stack and ends the run when the main thread does
   not come back from native code to run the signal handler of the first guard.
3. ``run_script`` gives scripts in other processes a time limit of their own, and collects their stacks.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import scripts
from tests.scripts import RunScript

_THREAD_PREFIX = "nogil_loader-"
# How long a closed loader's threads may take to end on a machine that is busy with something else. A healthy
# one ends in milliseconds; the whole of it is only ever spent on a test that then fails.
_GRACE_SECONDS = 10.0

# No deadline, because a machine shared with other work makes any single example slow now and then. At a desk
# examples are drawn anew in each run, since a fixed set finds nothing new after its first pass; the blob that a
# failure prints repeats it. A gate (CI=true) judges all changes by the same examples, and by half as many, since
# it has to answer while its author still waits.
hypothesis.settings.register_profile(
    "desk",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "gate", hypothesis.settings.get_profile("desk"), derandomize=True, max_examples=50
)
hypothesis.settings.register_profile("soak", hypothesis.settings.get_profile("desk"), max_examples=5_000)
hypothesis.settings.load_profile("gate" if os.environ.get("CI") else "desk")

_FAILED = pytest.StashKey[bool]()
_LAST_PATH = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep what other tests left behind out of the garbage collector's way, where memory is short on purpose.

    A loader that waits for memory collects garbage again and again. A compiler leaves millions of objects, over
    which each collection takes seconds, longer than these tests are patient.
    """
    path = item.path.as_posix()
    if path != item.config.stash.get(_LAST_PATH, None):
        item.config.stash[_LAST_PATH] = path
        if "/faults/" in path or "memory" in path:
            gc.collect()
            gc.freeze()


def loader_threads() -> set[threading.Thread]:
    """The threads that loaders have started and that are still alive."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(_THREAD_PREFIX)}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def no_loader_thread_stays_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which a thread of a loader is still alive (G8)."""
    before = loader_threads()
    yield
    if request.node.stash.get(_FAILED, False):
        return  # the failure's traceback keeps the loader alive, and is the news
    if loader_threads() - before:
        gc.collect()  # a loader in a reference cycle of the test's own making
    stuck = _threads_left(before, time.monotonic() + _GRACE_SECONDS)
    if stuck:
        pytest.fail("threads stayed behind:\n" + "\n".join(map(_describe_thread, stuck)), pytrace=False)


def _threads_left(before: set[threading.Thread], deadline: float) -> set[threading.Thread]:
    """Wait for all other loader threads to end and return those that have not by the deadline."""
    while left := loader_threads() - before:
        if time.monotonic() >= deadline:
            break
        for thread in left:
            # One that is just being started cannot be joined; who starts it is another one of these.
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
    return left


def _describe_thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else "  (just ended)\n"
    return f"{thread.name} (daemon={thread.daemon})\n{stack}"


@pytest.fixture
def run_script(tmp_path: Path) -> RunScript:
    """Run code in a fresh interpreter: ``run_script(code, timeout=30)`` → returncode, stdout, stderr."""
    return functools.partial(scripts.run, tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how to repeat the order of a failed run, also under ``-q``, where the header is not shown."""
    seed = config.getoption("randomly_seed", default=None)
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    if failed and isinstance(seed, int):
        terminalreporter.write_line(f"To repeat this order: ./dev test --randomly-seed={seed}")
