"""A meter that runs is in nobody's way when the process forks or ends."""

from __future__ import annotations

import sys

import pytest

from tests.scripts import RunScript

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")

_PREAMBLE = """
import os, sys, threading, time, warnings
from nogil_loader.observe.gil import gil_meter

warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)

def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("raise KeyboardInterrupt", -2)])
def test_a_process_ends_as_it_would_without_the_meter(end: str, code: int, run_script: RunScript) -> None:
    result = run_script(
        _PREAMBLE
        + f"""
def work():
    meter.watch("worker 0")
    while True:
        pass

meter = gil_meter()
meter.__enter__()
other = gil_meter(rate=10)
other.__enter__()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
spin(0.1)
assert meter.report().samples, meter.report()
print("to the end", flush=True)
{end}
"""
    )
    assert result.stdout == "to the end\n"
    assert result.returncode == code, result.stderr
    assert ("Traceback" in result.stderr) == bool(code)


def test_a_child_of_a_fork_knows_that_the_meter_is_not_its_own(run_script: RunScript) -> None:
    result = run_script(
        _PREAMBLE
        + """
from nogil_loader.engine import listening

def enter(stage):
    for listener in listening.listeners:
        listener.enter(0, stage, 0.0)

def child():
    assert not meter.report().available
    assert "forked" in meter.report().reason
    enter("fetch")
    thread = threading.Thread(target=lambda: (enter("collate"), meter.watch("child")))
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    with gil_meter() as own:
        own.watch("me")
        spin(0.1)
    assert own.report().by_thread["me"] > 0.3, own.report()
    meter.close()
    meter.close()
    assert not any("syscall" in os.readlink(f"/proc/self/fd/{name}")
                   for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))

with gil_meter() as meter:
    enter("fetch")
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child()
                code = 0
            finally:
                sys.stdout.flush()
                if code:
                    import traceback
                    traceback.print_exc()
                os._exit(code)
        ended = (0, 0)
        while ended == (0, 0):
            spin(0.001)
            ended = os.waitpid(pid, os.WNOHANG)
        assert ended[1] == 0, ended
    spin(0.1)
report = meter.report()
assert report.by_stage["fetch"] > 0.3, report
print("parent goes on")
""",
        timeout=50,
    )
    assert result.stdout == "parent goes on\n", result.stderr
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("environment", "code", "reason"),
    [
        ({"NUMBA_DISABLE_JIT": "1"}, "", "NUMBA_DISABLE_JIT is set"),
        ({}, "sys.modules['numba'] = None", "numba cannot be imported"),
    ],
)
def test_without_compiled_code_nothing_is_watched(
    environment: dict[str, str], code: str, reason: str, run_script: RunScript
) -> None:
    result = run_script(
        _PREAMBLE
        + f"""
{code}
with gil_meter() as meter:
    spin(0.01)
print(meter.report())
assert len(threading.enumerate()) == 1
""",
        environment=environment,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("The GIL was not watched: ")
    assert reason in result.stdout
