"""The sweep: warm up, and measure round after round.

The first child warms up: kernels are compiled into the cache on disk, and what is read of the dataset comes into
the system's cache. It has the most workers, and its time counts for nothing. Then every round measures each
setting once, in an order that turns. In the first round each child goes on after it has measured, and looks on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from nogil_loader.bench.cgroup import MemoryGroup, why_not
from nogil_loader.bench.children import run_task
from nogil_loader.bench.conclusion import conclude
from nogil_loader.bench.merging import merge
from nogil_loader.bench.order import Bench
from nogil_loader.bench.peers import PEERS, choose_peers
from nogil_loader.bench.result import OURS, Result, Setting
from nogil_loader.bench.rounds import Case, cases_of, rounds_of
from nogil_loader.bench.task import About, Answer, Task
from nogil_loader.errors import describe_bytes
from nogil_loader.targets import TargetError

_UNKNOWN = About("unknown", None, is_loader=False, no_peers="", gil=True)


@dataclass(frozen=True)
class Step:
    """How far a sweep is.

    Attributes:
        done: Measurements that are done, the one that warms up included.
        total: Of all of them.
        case: What is measured next; None at the end.
        last: What the last measurement found; None before it.
    """

    done: int
    total: int
    case: Case | None
    last: Setting | None


@dataclass
class _Findings:
    """What is known so far."""

    about: About
    settings: dict[Case, list[Setting]]
    epochs: int = 0
    last: Setting | None = None

    def add(self, case: Case, answer: Answer) -> None:
        assert answer.setting is not None, "refusals do not come so far"
        self.settings[case].append(answer.setting)
        self.about = answer.about or self.about
        self.epochs = max(self.epochs, answer.epochs)
        self.last = answer.setting

    def has_failed(self, case: Case) -> bool:
        return any(setting.failure is not None for setting in self.settings[case])


def run_bench(bench: Bench, progress: Callable[[Step], object] = lambda step: None) -> Result:
    """Measure all settings, in child processes.

    Args:
        bench: What to measure.
        progress: Called before each measurement, and at the end.

    Raises:
        TargetError: There is no such target, the user's code fails before a dataset is there, peers are missing
            or have no such setting, or no control group can be made. Has the user's traceback where their code is
            to blame.
        KeyboardInterrupt: Ctrl-C; the child that ran is ended.
    """
    peers, missing = _choose(bench)
    if bench.memory_limit is not None:
        _check_group(bench.memory_limit)
    least = {name: PEERS[name].least_workers for name in peers}
    cases = cases_of((OURS, *peers), bench.workers or (), bench.prefetch, bench.batch_sizes, least)
    for name in peers:
        if not any(case.loader == name for case in cases):
            raise TargetError(f"{name} loads with workers only; give it some, such as --workers 0,1")
    rounds = rounds_of(cases, bench.repeats)
    total = 1 + sum(map(len, rounds))

    warm = max((case for case in cases if case.loader == OURS), key=lambda case: case.num_workers)
    progress(Step(0, total, warm, None))
    first = _run(bench, warm, observe=False)
    if peers and first.about is not None and first.about.no_peers:
        raise TargetError(f"there is nothing to compare: {first.about.no_peers}")
    found = _Findings(first.about or _UNKNOWN, {case: [] for case in cases}, last=first.setting)
    done = 1
    for number, each_round in enumerate(rounds):
        for case in each_round:
            if found.has_failed(case):
                total -= 1
                continue
            progress(Step(done, total, case, found.last))
            found.add(case, _run(bench, case, observe=number == 0))
            done += 1
    progress(Step(done, total, None, found.last))
    settings = {case: merge(measured) for case, measured in found.settings.items()}
    return conclude(bench, list(settings.values()), found.about, found.epochs, missing)


def _run(bench: Bench, case: Case, *, observe: bool) -> Answer:
    task = Task(
        target=bench.target,
        loader=case.loader,
        num_workers=case.num_workers,
        prefetch_factor=case.prefetch_factor,
        batch_size=case.batch_size,
        seconds=bench.seconds,
        observe=observe,
        seed=bench.seed,
        parent=os.getpid(),
        memory_limit=bench.memory_limit,
    )
    try:
        answer = run_task(task, bench.timeout)
    except OSError as error:
        raise TargetError(f"no process could be started: {error}") from error
    if answer.refusal is not None:
        raise TargetError(answer.refusal.message, answer.refusal.trace)
    return answer


def _choose(bench: Bench) -> tuple[list[str], list[str]]:
    found, missing = choose_peers(bench.compare)
    if missing and (not found or "all" not in bench.compare):
        packages = " ".join(PEERS[name].package for name in missing)
        raise TargetError(
            f"not installed: {', '.join(missing)}; to compare with them: pip install {packages}"
        )
    return found, missing


def _check_group(limit: int) -> None:
    reason = why_not()
    if reason is None:
        try:
            with MemoryGroup(limit):
                return
        except OSError as failure:
            reason = str(failure)
    raise TargetError(
        f"no control group with {describe_bytes(limit)} can be made: {reason}. What to do: run it as root, or put "
        f"the whole command under a limit, with systemd-run --user --scope -p MemoryMax={limit}, or docker run "
        f"--memory {limit}"
    )
