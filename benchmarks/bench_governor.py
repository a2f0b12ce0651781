"""Memory limits: what happens when there is more to load than memory holds.

Samples take 1 to 80 MB, 13 MB on average; a batch of 32 takes 336 to 520 MB, an epoch of 320 samples 4.2 GB. Each
run is a process of its own in a control group of its own, whose limit the kernel enforces by killing; so these
rows are there only where such a group can be made (as root, on Linux). A run counts if every sample arrived once,
whole and in order. Peaks are the kernel's own count, page cache included. The consumer keeps each batch while it
asks for the next one, as `for batch in loader` does, and works on a whole batch for the time named; on a smaller
one for less, in proportion.

A neighbour is another process in the same group: it takes half of the limit once the loader is full, and gives it
back a second later. A limit is lowered while every worker can still finish a sample; one that is set onto what is
in use kills whoever touches the next page. Undeclared scratch is memory that the dataset's own code takes beside
the sample while it is made. What the governor costs is taken without any limit, against the same loader with
`memory="off"`.

`./dev bench governor` makes 20 runs of everything, in about half an hour; as part of a run of all groups there
are 3. `python -m benchmarks.bench_governor --runs N NAMES` makes as many as it is told to, of the cases named.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable
from functools import partial

from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns, within
from benchmarks.pressure import costs, troubles
from benchmarks.pressure.reader import Task
from benchmarks.pressure.runs import Outcome
from benchmarks.pressure.runs import run as run_task
from benchmarks.pressure.tally import exact, exact_or_refused, fullest, refused, survey, tally
from benchmarks.report import render_rows
from nogil_loader.bench import cgroup

_GROUP = "governor"
_MB = 10**6
# 1.5 GiB: what is in flight with 2 workers and 2 batches ahead of each takes more.
_CONTAINER = 3 * 2**29
_FULL_RUNS, _RUNS = 20, 3
_SLOW = 0.3
# Where nothing will get better there is no use in waiting for half a minute, which is the default.
_SHORT_STALL = {"stall": 3.0}
_RATES = {"300 MB/s": 3e8, "1 GB/s": 1e9, "the speed of memory": 0.0}
# Eight calm seconds, and one until the last step is seen.
_RECOVERY_SECONDS = 9.0
_HELD = re.compile(r"([\d,.]+) MB are in batches that the consumer holds")


def _several(
    runs: int, task: Task, limit: int | None, trouble: Callable[..., None] | None = None
) -> list[Outcome]:
    return [run_task(task, limit, during=trouble) for _ in range(runs)]


def _peers(runs: int) -> list[Row]:
    rows = []
    name = "1.61 GB, 0.3 s per batch"
    for prefetch in (2, 4):
        task = Task(loader="torch", prefetch=prefetch, step=_SLOW)
        against = f"torch, 2 processes, prefetch {prefetch}"
        rows.append(
            survey(_GROUP, name, _several(runs, task, _CONTAINER), against)
            if installed("torch")
            else missing(_GROUP, name, "runs", against)
        )
    for prefetch in (2, 4):
        task = Task(loader="threads", prefetch=prefetch, step=_SLOW)
        against = f"2 threads, {prefetch} batches ahead of each"
        rows.append(survey(_GROUP, name, _several(runs, task, _CONTAINER), against))
    return rows


def _container(runs: int) -> list[Row]:
    slow, fast = (_several(runs, Task(step=step), _CONTAINER) for step in (_SLOW, 0.02))
    floor = f"{statistics.median(outcome.floor for outcome in slow) / _MB:.0f} MB in use before loading"
    return [
        tally(_GROUP, "1.61 GB, 0.3 s per batch", slow, exact, note=floor),
        tally(_GROUP, "1.61 GB, 0.02 s per batch", fast, exact),
        fullest(_GROUP, "1.61 GB, the highest peak of all these runs", slow + fast),
    ]


def _small(runs: int) -> list[Row]:
    rows = []
    for limit, workers in ((220, 2), (220, 8), (220, 16), (180, 2)):
        outcomes = _several(runs, Task(workers=workers), limit * _MB)
        rows.append(tally(_GROUP, f"{limit} MB, workers: {workers}", outcomes, exact))
    outcomes = _several(runs, Task(memory=_SHORT_STALL), 90 * _MB)
    name = "90 MB, too little for the largest sample: MemoryBudgetError"
    return [*rows, tally(_GROUP, name, outcomes, refused)]


def _hoarding(runs: int) -> list[Row]:
    outcomes = _several(runs, Task(keep=True, memory=_SHORT_STALL), 1000 * _MB)
    name = "list(loader) under 1 GB: MemoryBudgetError that says what the consumer holds"
    return [tally(_GROUP, name, outcomes, _names_what_is_held)]


def _names_what_is_held(outcome: Outcome) -> bool:
    if not refused(outcome) or outcome.report is None:
        return False
    held = _HELD.search(outcome.report["error"]["text"])
    # Half of the limit at least, or it would not have been in the way.
    return held is not None and float(held[1].replace(",", "")) > 500


def _cost(runs: int) -> list[Row]:
    rows = []
    rounds = min(runs, 9)
    for load, name, batches, target in (
        ("handoff", "trivial batches", 2000, 0.95),
        ("augmentation", "augmentation, 64 images per batch", 150, 0.99),
    ):
        measure = partial(run_fresh, costs.measure, load=load, batches=batches, epochs=9 if runs > 1 else 1)
        taken = take_turns({memory: partial(measure, memory=memory) for memory in ("auto", "off")}, rounds)
        against = 'memory="off"'
        rows.append(
            compare(_GROUP, name, "µs/batch", taken["auto"], taken["off"], against=against, target=target)
        )
    return rows


def _speed(runs: int) -> list[Row]:
    rows = []
    for name, task, target in (
        ("an epoch under 600 MB", Task(step=0.0), 0.85),
        ("an epoch under 600 MB, sizes not known beforehand", Task(step=0.0, hints=False), 0.65),
        ("an epoch under 600 MB, 0.3 s per batch", Task(step=_SLOW), 0.95),
    ):
        taken = take_turns(
            {"limited": partial(_wall, task, 600 * _MB), "unlimited": partial(_wall, task, None)},
            min(runs, 9),
        )
        rows.append(
            compare(
                _GROUP, name, "s", taken["limited"], taken["unlimited"], against="no limit", target=target
            )
        )
    return rows


def _wall(task: Task, limit: int | None) -> float:
    outcome = run_task(task, limit)
    if not exact(outcome) or outcome.report is None:
        raise RuntimeError(f"{task} under {limit}: {outcome}")
    return float(outcome.report["wall"])


def _neighbour(runs: int) -> list[Row]:
    rows = []
    recoveries = []
    # Longer than it takes: the reader is told when to leave.
    task = Task(samples=20_000, step=0.1, until_told=True)
    for rate, target in zip(_RATES, (1.0, 1.0, 0.9), strict=True):
        outcomes = _several(runs, task, 1000 * _MB, troubles.neighbour(0.5, _RATES[rate]))
        shrunk = f"gave way in {sum(map(troubles.shrank, outcomes))}"
        name = f"1 GB, a neighbour takes 500 MB at {rate}"
        rows.append(tally(_GROUP, name, outcomes, exact, target=target, note=shrunk))
        recoveries += [seconds for seconds in map(troubles.recovery_seconds, outcomes) if seconds is not None]
    name = "until everything is allowed again after a neighbour"
    if recoveries:
        note = f"{len(recoveries)} of {len(_RATES) * runs} recovered"
        return [*rows, within(_GROUP, name, "s", recoveries, _RECOVERY_SECONDS, floor=0.1, note=note)]
    return [*rows, _failed(name, "never")]


def _lowered(runs: int) -> list[Row]:
    outcomes = _several(runs, Task(samples=640), 1600 * _MB, troubles.lowered_limit(700 * _MB))
    waits = [seconds for seconds in map(troubles.lowering_seconds, outcomes) if seconds is not None]
    note = f"lowered in {len(waits)}"
    if waits:
        note += f", after {min(waits):.2f} to {max(waits):.2f} s"
    return [tally(_GROUP, "1.6 GB, lowered to 700 MB meanwhile", outcomes, exact, note=note)]


def _scratch(runs: int) -> list[Row]:
    rows = []
    for hints in (True, False):
        name = f"700 MB, undeclared scratch of three samples{'' if hints else ', sizes not known beforehand'}"
        outcomes = _several(runs, Task(scratch=3, hints=hints), 700 * _MB)
        note = f"exact in {sum(map(exact, outcomes))}"
        rows.append(
            tally(_GROUP, f"{name}: complete or MemoryBudgetError", outcomes, exact_or_refused, note=note)
        )
    return rows


def _rlimits(runs: int) -> list[Row]:
    # Threads reserve address space for their stacks and heaps that they never use.
    tasks = {"DATA": Task(rlimit="DATA", room=700 * _MB), "AS": Task(rlimit="AS", room=1200 * _MB)}
    return [
        tally(_GROUP, f"RLIMIT_{kind}, {task.room // _MB} MB left", _several(runs, task, None), exact)
        for kind, task in tasks.items()
    ]


_CASES: dict[str, Callable[[int], list[Row]]] = {
    "peers": _peers,
    "container": _container,
    "small": _small,
    "hoarding": _hoarding,
    "cost": _cost,
    "speed": _speed,
    "neighbour": _neighbour,
    "lowered": _lowered,
    "scratch": _scratch,
    "rlimits": _rlimits,
}


def _failed(name: str, why: str) -> Row:
    return Row(
        group=_GROUP,
        name=name,
        unit="",
        value=None,
        baseline=None,
        ratio=None,
        target=1.0,
        against="",
        note=why,
    )


def run_cases(names: list[str], runs: int) -> list[Row]:
    """Return the rows of some cases; one that fails altogether does not cost the others theirs."""
    rows: list[Row] = []
    for name in names:
        try:
            rows += _CASES[name](runs)
        except RuntimeError as error:
            rows.append(_failed(name, f"failed: {error}"))
    return rows


def run(quick: bool) -> list[Row]:
    if reason := cgroup.why_not():
        return [*run_cases(["cost"], 1 if quick else _RUNS), _failed("everything under a limit", reason)]
    named = "governor" in sys.argv
    return run_cases(list(_CASES), 1 if quick else _FULL_RUNS if named else _RUNS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_governor", description="Load under limits."
    )
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"any of: {', '.join(_CASES)}; default all")
    parser.add_argument("--runs", type=int, default=_RUNS, help="of each row (default: %(default)s)")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(_CASES)):
        parser.error(f"no such case: {', '.join(unknown)}; there are: {', '.join(_CASES)}")
    if reason := cgroup.why_not():
        parser.error(reason)
    for name in options.names or _CASES:
        print(render_rows(run_cases([name], options.runs)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
