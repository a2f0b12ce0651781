"""Judges what several threads did to the dataset: locked each other out, lost counts, left it damaged. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nogil_loader.check.crossing import Loss, Stall, Twice
from nogil_loader.check.difference import tell_difference
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import SHOWN, Finding, plural, some
from nogil_loader.check.outcome import Raised, Value

_STACK_LINES = 4


def judge_stalls(evidence: Evidence) -> Iterator[Finding]:
    """Yield calls that did not return while several threads read."""
    yield from (_stall_of(evidence, stall) for stall in evidence.stalls)


def _stall_of(evidence: Evidence, stall: Stall) -> Finding:
    count = len(stall.positions)
    where: dict[tuple[str, ...], list[int]] = {}
    for position, stack in zip(stall.positions, stall.stacks, strict=False):
        where.setdefault(stack[-_STACK_LINES:], []).append(position)
    details = []
    for stack, positions in list(where.items())[:SHOWN]:
        more = f" and {len(positions) - 1} more" if len(positions) > 1 else ""
        details += [f"{evidence.items[positions[0]]}{more} at", *(f"  {line}" for line in stack)]
    told = f"deadlock: {plural(count, 'call')} did" if count > 1 else "a call did"
    return Finding(
        "deadlock" if count > 1 else "hangs-in-threads",
        "error",
        f"{told} not return within {stall.seconds:.3g} s, only while several threads read",
        tuple(details),
        (
            "take several locks always in the same order, or use one lock instead",
            "do not hold a lock while waiting for another thread",
        ),
        tuple(evidence.key(position) for position in dict.fromkeys(stall.positions)),
    )


def judge_losses(losses: Sequence[Loss]) -> Iterator[Finding]:
    """Yield counts that came out too low."""
    if losses:
        yield Finding(
            "lost-update",
            "error",
            "not thread-safe: what one call wrote on the dataset, another one overwrote",
            some(
                [
                    f"dataset{loss.path} was {loss.reached:g} after two calls that overlapped, "
                    f"{loss.expected:g} after two in turn (a thread was interrupted at {loss.place})"
                    for loss in losses
                ]
            ),
            (
                "count and collect outside of __getitem__",
                "or hold one threading.Lock while reading and writing it",
            ),
        )


def judge_twice(twice: Sequence[Twice]) -> Iterator[Finding]:
    """Yield handles that were opened once too often."""
    if twice:
        yield Finding(
            "opened-twice",
            "warning",
            "two first calls open twice what should be opened once; one of the two stays open for nothing",
            some([f"{each.path}, {each.what} (a thread was interrupted at {each.place})" for each in twice]),
            ("open it in __init__, in a threading.local(), or under a lock that looks again",),
        )


def judge_damage(evidence: Evidence) -> Iterator[Finding]:
    """Yield what came out differently after several threads had read."""
    wrong: dict[int, str] = {}
    for position, seen in evidence.again.items():
        first = evidence.serial.first[position].outcome
        if evidence.serial.habits.get(position) != "steady" or first == seen.outcome:
            continue
        if isinstance(seen.outcome, Raised):
            wrong[position] = f"{evidence.items[position]}: {seen.outcome.text}"
        elif isinstance(seen.outcome, Value) and isinstance(first, Value):
            difference = seen.outcome.difference or tell_difference(first.prints, seen.outcome.prints)
            if difference is not None and not difference.is_rounding:
                wrong[position] = f"{evidence.items[position]}: {difference.text}"
    if wrong:
        yield Finding(
            "damaged",
            "error",
            f"the dataset stays damaged: {plural(len(wrong), 'call')} came out differently afterwards, with "
            "nobody else reading",
            some(list(wrong.values())),
            (
                "what is cached or counted on the dataset was written by several threads; guard it with a lock",
            ),
            tuple(evidence.key(position) for position in wrong),
        )
