"""The GIL meter: how exact it is, and what it costs.

A thread holds the GIL for a share of the time and leaves it free for the rest, in turns of 2 and of 20 ms. It
holds it by running Python, or asleep in a call that does not give it away; it leaves it free in a compiled
kernel that computes, or asleep. Which share that is, is known from the clocks around each turn; the error is
the difference of what the meter says. A row sums up shares of 0.1, 0.5 and 0.9 in all these ways, 2 s each at
1,000 samples per second. It is compared with what the reports themselves say that they may be wrong by; the
note counts those that were wrong by more, of which 1 in 20 would be as stated.

The meter's thread asks to be woken on time. For that it needs a privilege (CAP_SYS_NICE) that containers
often do not give, so everything is measured without it as well; and with processors that are free, as far as
the machine is left alone, and with two other processes for each. How long threads wait is measured with
threads that run nothing but Python. For how long they did not run is known from their processor time; where
processors are short, that is more than they waited for the GIL, and the meter tells less, since it counts
only those that sleep.

The cost is that of a hand-off of tiny batches, which suffers most: each stage is told to the meter, and each
batch is timed. A load whose batches take milliseconds pays for little more than the meter's own thread.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.bench_handoff import Integers
from benchmarks.harness import Row, compare, missing, run_fresh, take_turns, within
from benchmarks.report import render_rows

_GROUP = "gil"
_ROOT = Path(__file__).resolve().parent.parent
_CAP_SYS_NICE = 23
_SHARES = (0.1, 0.5, 0.9)
_LENGTHS = (0.002, 0.02)
_UNIT = "% of the time"
# Differences of less are a few samples.
_FLOOR = 0.1

Do = Callable[[float], object]


def _ways() -> tuple[list[Do], list[Do]]:
    """Return how to hold the GIL, and how to leave it free."""
    import numba

    with_gil, without_gil = ctypes.PyDLL(None), ctypes.CDLL(None)

    @numba.njit("int64(int64)", nogil=True)
    def compute(count: int) -> int:
        value = 1
        for _ in range(count):
            value ^= value << 13
            value ^= value >> 7
            value ^= value << 17
        return value

    def rate() -> float:
        began = time.perf_counter()
        compute(10**7)
        return 1e7 / (time.perf_counter() - began)

    per_second = max(rate() for _ in range(5))

    def run_python(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    return (
        [run_python, lambda seconds: with_gil.usleep(round(seconds * 1e6))],
        [
            lambda seconds: compute(round(seconds * per_second)),
            lambda seconds: without_gil.usleep(round(seconds * 1e6)),
        ],
    )


def measure_accuracy(seconds: float, privileged: bool = True) -> list[tuple[float, float]]:
    """Return the error for each load, and what the report says that it may be, in hundredths of the time."""
    if not privileged:
        _give_up(_CAP_SYS_NICE)
    holds, leaves = _ways()
    loads = itertools.product(holds, leaves, _SHARES, _LENGTHS)
    return [_error(hold, leave, share, length, seconds) for hold, leave, share, length in loads]


def _error(hold: Do, leave: Do, share: float, length: float, seconds: float) -> tuple[float, float]:
    from nogil_loader.observe.gil import gil_meter

    free = 0.0
    with gil_meter() as meter:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            hold(share * length)
            began = time.perf_counter()
            leave((1 - share) * length)
            free += time.perf_counter() - began
    report = meter.report()
    if not report.available:
        raise RuntimeError(report.reason)
    known = 1 - free / report.seconds
    return 100 * (report.held - known), 100 * report.accuracy


def measure_waiting(seconds: float, threads: int) -> dict[str, float]:
    """Return what the meter says of threads that run only Python, and for how much they did not run."""
    from nogil_loader.observe.gil import gil_meter

    over, ready = threading.Event(), threading.Barrier(threads + 1)
    ran: list[float] = []

    def run_python(number: int) -> None:
        meter.watch(f"worker {number}")
        ready.wait()
        began, cpu = time.perf_counter(), time.thread_time()
        while not over.is_set():
            pass
        ran.append((time.thread_time() - cpu) / (time.perf_counter() - began))

    with gil_meter() as meter:
        workers = [threading.Thread(target=run_python, args=[number]) for number in range(threads)]
        for worker in workers:
            worker.start()
        ready.wait()
        time.sleep(seconds)
        over.set()
        for worker in workers:
            worker.join()
    waiting = meter.report().workers_waiting
    if waiting is None:
        raise RuntimeError(meter.report().reason or "no worker was seen")
    return {"waiting": 100 * waiting, "not running": 100 * (1 - statistics.mean(ran))}


def measure_handoff(batches: int, metered: bool) -> float:
    """Return µs per batch over one epoch, after a short one that warms up."""
    import nogil_loader
    from nogil_loader.observe.gil import gil_meter

    elapsed = 0.0
    for length in (200, batches):
        loader = nogil_loader.DataLoader(Integers(64 * length), batch_size=64, num_workers=2)
        with gil_meter() if metered else contextlib.nullcontext():
            iterator = iter(loader)
            next(iterator)
            start = time.perf_counter()
            rest = sum(1 for _ in iterator)
            elapsed = time.perf_counter() - start
    return elapsed / rest * 1e6


def measure_thread(seconds: float) -> float:
    """Return the processor time that a second of the meter takes, in ms, while nothing else happens."""
    from nogil_loader.observe.gil import gil_meter

    with gil_meter():
        cpu, began = time.process_time(), time.perf_counter()
        time.sleep(seconds)
        return 1e3 * (time.process_time() - cpu) / (time.perf_counter() - began)


def _give_up(capability: int) -> None:
    """Take a capability from the calling thread and those that it starts, as for a user who is not root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3; this thread
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0] &= ~(1 << capability)  # effective
    sets[1] &= ~(1 << capability)  # permitted
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


@contextlib.contextmanager
def _busy(processes: int) -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _accuracy_row(rounds: int, seconds: float, name: str, *, privileged: bool, busy: int) -> Row:
    results: list[list[float]] = []
    with _busy(busy):
        for _ in range(rounds):
            results += run_fresh(measure_accuracy, seconds=seconds, privileged=privileged)
    errors = [abs(error) for error, _ in results]
    beyond = sum(abs(error) > stated for error, stated in results)
    return within(
        *(_GROUP, f"error of the share held{name}", _UNIT, errors),
        statistics.median(stated for _, stated in results),
        floor=_FLOOR,
        note=f"beyond it {beyond} of {len(results)}",
    )


def run_here(rounds: int, seconds: float, suffix: str = "") -> list[Row]:
    """Measure how exact the meter is, with this interpreter."""
    processes = 2 * (os.cpu_count() or 1)
    rows = [
        _accuracy_row(
            rounds,
            seconds,
            ", unprivileged" * (not privileged) + ", busy machine" * bool(busy) + suffix,
            privileged=privileged,
            busy=busy,
        )
        for privileged, busy in itertools.product((True, False), (0, processes))
    ]
    for threads in (2, 4):
        taken = [run_fresh(measure_waiting, seconds=seconds, threads=threads) for _ in range(rounds)]
        rows.append(
            compare(
                *(_GROUP, f"{threads} threads of Python{suffix}", "% of their time waiting"),
                *([each[key] for each in taken] for key in ("waiting", "not running")),
                against="not running",
                less_is_better=False,
            )
        )
    return rows


def _run_elsewhere(python: Path, rounds: int, seconds: float) -> list[Row]:
    command = [str(python), "-m", "benchmarks.bench_gil", "--json"]
    options = ["--rounds", str(rounds), "--seconds", str(seconds)]
    done = subprocess.run(
        [*command, *options], cwd=_ROOT, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{python} exited {done.returncode}:\n{done.stderr[-3000:]}")
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def run(quick: bool) -> list[Row]:
    if sys.platform != "linux":
        return [missing(_GROUP, "error", _UNIT, "the meter works on Linux only")]
    rounds, seconds = (1, 0.1) if quick else (1, 2.0)
    rows = run_here(rounds, seconds)
    newest = _ROOT / os.environ.get("NOGIL_LOADER_VENV", ".venv") / "newest/bin/python"
    if newest.exists() and not quick:
        rows += _run_elsewhere(newest, 1, seconds)
    batches, turns = (300, 1) if quick else (3000, 5)
    taken = take_turns(
        {
            name: partial(run_fresh, measure_handoff, batches=batches, metered=name == "on")
            for name in ("on", "off")
        },
        turns,
    )
    rows.append(
        compare(
            *(_GROUP, "trivial batch of 64, 2 workers", "µs/batch", taken["on"], taken["off"]),
            against="without the meter",
        )
    )
    cpu = [run_fresh(measure_thread, seconds=seconds) for _ in range(rounds)]
    rows.append(
        within(_GROUP, "processor time of the meter's thread", "ms per second", cpu, 30.0, floor=_FLOOR)
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="How exact the GIL meter is with this interpreter.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    from benchmarks import bench_gil  # what a new interpreter is to call needs a module that can be imported

    suffix = f", Python {sys.version_info[0]}.{sys.version_info[1]}"
    rows = bench_gil.run_here(options.rounds, options.seconds, suffix)
    print(json.dumps(rows) if options.json else render_rows(rows))


if __name__ == "__main__":
    main()
