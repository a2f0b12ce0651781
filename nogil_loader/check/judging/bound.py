"""Judges what depends on which thread reads, even with nobody else reading. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nogil_loader.check.advice import PER_THREAD, recognise
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding, plural, some
from nogil_loader.check.outcome import Outcome, Raised, Value


def judge_bound(evidence: Evidence) -> Iterator[Finding]:
    """Yield what one thread gets and another one does not."""
    bound = find_bound(evidence)
    if bound:
        known = recognise(next(iter(bound.values())))
        advice = known.advice if known.is_bound else (PER_THREAD,)
        lines = [
            f"{evidence.items[position]}: {raised.text}" + (f" ({raised.where})" if raised.where else "")
            for position, raised in bound.items()
        ]
        yield Finding(
            "thread-bound",
            "error",
            f"belongs to one thread: {plural(len(bound), 'call')} raised in others, with nobody else reading",
            some(lines),
            advice,
            tuple(evidence.key(position) for position in bound),
        )
    by_thread = [
        position
        for position, habit in evidence.serial.habits.items()
        if habit == "thread" and position not in bound
    ]
    for position, here in evidence.serial.caller.items():
        difference = here.outcome.difference if isinstance(here.outcome, Value) else None
        if evidence.serial.habits.get(position) == "steady" and difference and not difference.is_rounding:
            by_thread.append(position)
    if by_thread:
        wrong = sorted(set(by_thread))
        yield Finding(
            "depends-on-thread",
            "error",
            f"not thread-safe: what comes depends on which thread reads, for {len(wrong):,} of "
            f"{len(evidence.serial.first):,} calls, with nobody else reading",
            some([_tell_by_thread(evidence, position) for position in wrong]),
            (
                "compute a sample from its index alone; for random numbers use nogil_loader.sample_rng()",
                "a threading.local() must not hold anything that a value depends on",
            ),
            tuple(evidence.key(position) for position in wrong),
        )


def _tell_by_thread(evidence: Evidence, position: int) -> str:
    for readings in (evidence.serial.second, evidence.serial.caller):
        seen = readings.get(position)
        if seen is not None and isinstance(seen.outcome, Value) and seen.outcome.difference is not None:
            return f"{evidence.items[position]}: {seen.outcome.difference.text}"
    return str(evidence.items[position])


def find_bound(evidence: Evidence) -> dict[int, Raised]:
    """Return what raised in one thread and came in another, with nobody else reading."""
    serial = evidence.serial
    found: dict[int, Raised] = {}
    for position in serial.first:
        each = [readings.get(position) for readings in (serial.first, serial.second, serial.caller)]
        outcomes: list[Outcome] = [seen.outcome for seen in each if seen is not None]
        raised = [outcome for outcome in outcomes if isinstance(outcome, Raised)]
        if (
            raised
            and any(isinstance(outcome, Value) for outcome in outcomes)
            and _by_thread(evidence, position)
        ):
            found[position] = raised[0]
    return found


def _by_thread(evidence: Evidence, position: int) -> bool:
    habit = evidence.serial.habits.get(position)
    return habit == "thread" or (habit == "steady" and position in evidence.serial.caller)
