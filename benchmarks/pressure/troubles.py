"""What is done to a reader while it reads, and what its answer was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.pressure.runs import Neighbour, Outcome, Run
from benchmarks.pressure.samples import LARGEST

# So many batches that everything the loader may have in flight is there.
_BATCHES_BEFORE = 10
# How long the neighbour keeps what it took.
_HOLD_SECONDS = 1.0
# Beyond it nobody waits for the loader to recover.
_RECOVERY_SECONDS = 20.0
# An eighth is one step in which the allowance grows.
_FULL_ROOM = 7 / 8


def neighbour(share: float, rate: float) -> Callable[[Run], None]:
    """Let a neighbour take a share of the limit once the loader is full, keep it for a while and give it back.

    Args:
        share: Of the limit.
        rate: Bytes per second; 0 for as fast as memory is.
    """

    def trouble(run: Run) -> None:
        assert run.limit is not None
        with Neighbour(run.group) as other:
            if not run.wait_for_batches(_BATCHES_BEFORE):
                return
            before = latest_memory(run)
            taken = other.take(int(share * run.limit), rate)
            if taken is None:
                return
            run.marks |= {"takes": taken["began"], "taken": taken["done"]}
            for _ in run.hear(_HOLD_SECONDS):
                pass
            given = other.give()
            if given is None:
                return
            run.marks["given"] = given["done"]
            for event in run.hear(_RECOVERY_SECONDS):
                if event["at"] > given["done"] and is_full(event.get("memory"), before):
                    run.marks["recovered"] = event["at"]
                    break
            run.tell()

    return trouble


def lowered_limit(limit: int) -> Callable[[Run], None]:
    """Lower the limit once the loader is full, while every worker can still finish its largest sample.

    A limit that is set onto what is in use kills whoever touches the next page, and no loader can help that.
    """

    def trouble(run: Run) -> None:
        if run.wait_for_batches(_BATCHES_BEFORE):
            run.lower_limit(limit, run.task.workers * LARGEST)

    return trouble


def latest_memory(run: Run) -> Mapping[str, Any] | None:
    """Return what the loader last said about its memory."""
    known = (event["memory"] for event in reversed(run.events) if event.get("memory"))
    return next(known, None)


def is_full(memory: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> bool:
    """Whether a loader may again have in flight what it had before."""
    if memory is None or before is None:
        return False
    allowed = memory["in_flight_allowed"] >= before["in_flight_allowed"]
    return bool(allowed and memory["room"] >= _FULL_ROOM * before["room"])


def shrank(outcome: Outcome) -> bool:
    """Whether the loader took less while the neighbour had its share."""
    marks = outcome.marks
    if "given" not in marks:
        return False
    said = [(event["at"], event["memory"]) for event in outcome.events if event.get("memory")]
    before = [memory for at, memory in said if at < marks["takes"]]
    under = [memory for at, memory in said if marks["takes"] <= at <= marks["given"]]
    return bool(before) and any(not is_full(memory, before[-1]) for memory in under)


def recovery_seconds(outcome: Outcome) -> float | None:
    """Return how long after the neighbour had given its share back the loader was full again, None if never."""
    marks = outcome.marks
    return marks["recovered"] - marks["given"] if "recovered" in marks else None


def lowering_seconds(outcome: Outcome) -> float | None:
    """Return how long it took until the limit was lowered, None if it never did."""
    marks = outcome.marks
    return marks["lowered"] - marks["asked"] if "lowered" in marks else None
