"""The second act: the epoch once more, in a process with too little memory for it."""

from __future__ import annotations

import contextlib
import functools
import json
import pickle
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from nogil_loader.data.photographs import Photographs
from nogil_loader.demo.group import MemoryGroup, why_no_group
from nogil_loader.demo.script import Demo
from nogil_loader.demo.training import BEYOND_LIMIT, Training
from nogil_loader.plan import Permutation
from nogil_loader.policies import MemoryPolicy

# 128 photographs of 256 by 256 pixels as float32: large against all that a process takes beside its batches.
_BATCH_BYTES = 96 << 20
# Fewer batches would be over before anything has happened.
_FEWEST_BATCHES = 12
# Batches for which there is memory below the soft mark: less than two workers would have in flight.
_ROOM = 5
# Batches that the training takes the place of, so that two are left: one that it holds and one that comes next.
_EXTRA = 3
_MB = 10**6


@dataclass
class Account:
    """What became of one run.

    Attributes:
        training: What was to be read.
        limit: Bytes.
        indices: What arrived, in order.
        parts: How many samples each batch had.
        peak: The most bytes in use.
        is_killed: Whether it went beyond the limit.
        error: What the loader raised.
        memory: The fields of its `MemoryStatistics`; empty for a run that did not get to its end.
    """

    training: Training
    limit: int
    indices: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    peak: int = 0
    is_killed: bool = False
    error: str = ""
    memory: dict[str, Any] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """What is not as it should be, by the samples' own indices."""
        task, counts = self.training, Counter(self.indices)
        planned = Permutation(task.samples, task.seed, epoch=0).indices(0, task.samples).tolist()
        missing = len(set(planned) - counts.keys())
        repeated = sum(count > 1 for count in counts.values())
        faults = []
        if self.is_killed:
            faults.append("the process was killed")
        if self.error:
            faults.append("the loader raised an error")
        if missing or repeated:
            faults.append(f"{missing} samples are missing, {repeated} came twice")
        elif self.indices != planned:
            faults.append("the samples came in another order")
        if self.peak > self.limit:
            faults.append("more was in use than the limit allows")
        if not any(self.memory.get(what) for what in ("waits", "splits", "cuts", "revoked")):
            faults.append("nothing had to give way, so nothing was shown")
        return faults


def play_memory_act(demo: Demo, photographs: Photographs, output: TextIO) -> int:
    """Run the epoch without and with the memory governor, report, and return 0 if the latter lost nothing."""
    say = functools.partial(print, file=output, flush=True)
    reason = why_no_group()
    image, _ = photographs[0]
    sample_bytes = 4 * image.size
    batch_size = max(1, _BATCH_BYTES // sample_bytes)
    batch_bytes = batch_size * sample_bytes
    training = Training(
        samples=max(len(photographs), _FEWEST_BATCHES * batch_size),
        batch_size=batch_size,
        workers=demo.workers,
        seed=demo.seed,
        memory="off",
        extra=_EXTRA * batch_bytes,
        is_watched=not reason,
    )
    say(
        f"now as float32: {training.samples} samples in batches of {batch_size} ({_mb(batch_bytes)} each); "
        f"on the way the training itself takes {_mb(training.extra)}"
    )
    unwatched = f"the process ends itself beyond its limit, as there is no control group for it ({reason})"
    say(unwatched if reason else "in a control group of its own: the kernel kills what goes beyond the limit")
    limits: list[int] = []

    def choose_limit(used: int) -> int:
        """Return the limit for a process that takes ``used`` bytes before it loads anything."""
        if not limits:
            limits.append(-(-int((used + _ROOM * batch_bytes) / MemoryPolicy().soft) // _MB) * _MB)
        return limits[0]

    without = _run(training, photographs, choose_limit, lambda event: None)
    say(f'limit {_mb(without.limit)}, memory="off":  {_fate(without)}')
    say(f'limit {_mb(without.limit)}, memory="auto":')
    account = _run(replace(training, memory="auto"), photographs, choose_limit, Table(say, training).show)
    return _audit(account, say)


class Table:
    """A line for each change of what is loaded, as it happens.

    Args:
        say: Prints.
        training: What is read.
    """

    def __init__(self, say: Callable[[str], None], training: Training) -> None:
        self._say = say
        # The last batch may have fewer samples for want of more.
        self._until = training.samples - training.samples % training.batch_size
        self._seen = 0
        self._last: tuple[int, int] | None = None
        say(f"  {'from sample':>12} {'in a batch':>11} {'batches on their way':>22} {'in use':>9}")

    def show(self, event: dict[str, Any]) -> None:
        """Show an event if it is news."""
        if event["event"] in ("takes", "gives"):
            back = " back" if event["event"] == "gives" else ""
            self._say(f"  the training {event['event']} {_mb(event['nbytes'])}{back}")
            return
        start, count = self._seen, len(event["indices"])
        self._seen += count
        if (count, event["at_once"]) != self._last and start < self._until:
            self._last = count, event["at_once"]
            on_their_way = f"up to {event['at_once']}"
            self._say(f"  {start:>12} {count:>11} {on_their_way:>22} {_mb(event['used']):>9}")


def _run(
    training: Training,
    photographs: Photographs,
    choose_limit: Callable[[int], int],
    show: Callable[[dict[str, Any]], None],
) -> Account:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(MemoryGroup()) if training.is_watched else None
        start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen if group is None else group.start
        process = stack.enter_context(
            start(
                training.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for this process, which ends the other one
            )
        )
        stack.callback(process.kill)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(photographs, process.stdin)
            process.stdin.flush()
        account = Account(training, 0)
        for event in _events_of(process):
            if event["event"] == "ready":
                account.limit = choose_limit(event["used"])
                if group is not None:
                    group.limit(account.limit)
                process.stdin.write(b"%d\n" % account.limit)
                process.stdin.flush()
            elif event["event"] == "end":
                account.error = event["error"]
                account.memory = event["memory"] or {}
                account.peak = event["peak"]
            else:
                if event["event"] == "batch":
                    account.indices += event["indices"]
                    account.parts.append(len(event["indices"]))
                show(event)
        with contextlib.suppress(BrokenPipeError):  # what a process did not take that ended early
            process.stdin.close()
        code = process.wait()
        account.is_killed = code == BEYOND_LIMIT if group is None else group.kills() > 0
        if code and not account.is_killed:
            raise RuntimeError(f"the training's process ended with exit code {code}")
        if group is not None:
            account.peak = group.peak() or account.peak
        return account


def _events_of(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        with contextlib.suppress(json.JSONDecodeError):  # the start of a line, by a process that was killed
            yield json.loads(line)


def _fate(account: Account) -> str:
    after = f"after {len(account.indices)} samples"
    if not account.is_killed:
        return f"not killed {after}"
    return f"killed by the kernel {after}" if account.training.is_watched else f"beyond its limit {after}"


def _audit(account: Account, say: Callable[[str], None]) -> int:
    if account.error:
        say(f"\n{account.error}\n")
    did = account.memory
    faults = account.faults()
    say(
        f"planned {account.training.samples}, delivered {len(account.indices)}, in {len(account.parts)} batches "
        f"of {min(account.parts, default=0)} to {max(account.parts, default=0)} samples; "
        f"peak {_mb(account.peak)} of {_mb(account.limit)}"
    )
    if did:
        say(
            f"the governor let {did['waits']} requests wait, made {did['splits'] + did['cuts']} batches smaller "
            f"and gave up {did['revoked']} to load them again"
        )
    for fault in faults:
        say(fault)
    say(
        "NOT every sample is accounted for within the limit"
        if faults
        else "every sample is accounted for, in the planned order and within the limit"
    )
    return 1 if faults else 0


def _mb(nbytes: int) -> str:
    return f"{nbytes / _MB:.0f} MB"
