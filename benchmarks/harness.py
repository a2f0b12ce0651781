"""How a number is taken here, and what a row of the results says.

Absolute times say more about the machine than about the code, so everything is measured as a comparison: the
sides take turns within one run, round after round, and what is judged is the median of the rounds' own ratios.
A drift of the machine (other load, clock frequency) then hits both sides of a ratio alike.

Each measurement of a loader runs in an interpreter of its own. A peer's leftover threads, its allocator's
state or its imports cannot help or hurt the next one, and forking workers meet no foreign threads.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

_ROOT = Path(__file__).resolve().parent.parent
# Several times what the slowest measurement takes; past it a loader hangs.
_PATIENCE = 120.0

_IN_CHILD = """
import importlib, json, sys
module, name, arguments = sys.argv[1:]
json.dump(getattr(importlib.import_module(module), name)(**json.loads(arguments)), sys.stdout)
"""


class Row(TypedDict):
    """One line of the results.

    ``ratio`` is how many times better than ``baseline`` the ``value`` is, so that more is better for every
    row, and ``target`` is the ratio that this project promises; None where it promises nothing.
    ``against`` says what the baseline is. The spreads are the lowest and the highest of the rounds.
    """

    group: str
    name: str
    unit: str
    value: float | None
    baseline: float | None
    ratio: float | None
    target: float | None
    against: NotRequired[str]
    spread: NotRequired[tuple[float, float]]
    baseline_spread: NotRequired[tuple[float, float]]
    note: NotRequired[str]


def installed(package: str) -> bool:
    """Whether a peer can be imported here, without importing it."""
    return importlib.util.find_spec(package) is not None


def run_fresh(measure: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a module-level function in a new interpreter and return what it returns, by way of JSON.

    Raises:
        RuntimeError: The interpreter failed; the message ends with what it printed last.
        subprocess.TimeoutExpired: It did not end in time.
    """
    command = [
        sys.executable,
        "-c",
        _IN_CHILD,
        measure.__module__,
        measure.__qualname__,
        json.dumps(arguments),
    ]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{measure.__qualname__}({arguments}) exited {done.returncode}:\n{done.stderr[-3000:]}"
        )
    # Only the last line is ours; loaders and frameworks print as well.
    return json.loads(done.stdout.splitlines()[-1])


def take_turns(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure every side once per round; the order turns, so that none always follows the same one."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            taken[name].append(sides[name]())
    return taken


def compare(
    group: str,
    name: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    against: str,
    target: float | None = None,
    less_is_better: bool = True,
    note: str = "",
) -> Row:
    """Make the row that sets rounds of ours against the same rounds of a peer."""
    pairs = zip(ours, theirs, strict=True)
    row = Row(
        group=group,
        name=name,
        unit=unit,
        value=statistics.median(ours),
        baseline=statistics.median(theirs),
        ratio=statistics.median(b / a if less_is_better else a / b for a, b in pairs),
        target=target,
        against=against,
        spread=(min(ours), max(ours)),
        baseline_spread=(min(theirs), max(theirs)),
    )
    if note:
        row["note"] = note
    return row


def within(
    group: str, name: str, unit: str, values: Sequence[float], limit: float, *, floor: float, note: str = ""
) -> Row:
    """Make the row that sets a median against a limit it may not exceed.

    Args:
        group, name, unit, note: As in a row.
        values: What the rounds gave.
        limit: The promise.
        floor: What this measurement cannot tell from nothing; the ratio is that of at least this value.
    """
    value = statistics.median(values)
    row = Row(
        group=group,
        name=name,
        unit=unit,
        value=value,
        baseline=limit,
        ratio=limit / max(value, floor),
        target=1.0,
        against="limit",
        spread=(min(values), max(values)),
    )
    if note:
        row["note"] = note
    return row


def missing(group: str, name: str, unit: str, peer: str, target: float | None = None) -> Row:
    """Make the row of a peer that is not there to be measured."""
    return Row(
        group=group,
        name=name,
        unit=unit,
        value=None,
        baseline=None,
        ratio=None,
        target=target,
        against=peer,
        note="not installed",
    )
