"""Rows of the results that count how many runs ended as they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.harness import Row
from benchmarks.pressure.runs import Outcome

_UNIT = "runs"
# Bytes of the limit that the kernel may have counted at most: it kills at 1, and what was not foreseen has to fit
# in what is left.
_MOST_FILL = 0.95


def tally(
    group: str,
    name: str,
    outcomes: Sequence[Outcome],
    right: Callable[[Outcome], bool],
    *,
    target: float = 1.0,
    note: str = "",
) -> Row:
    """Make the row that says how many runs ended right; what the others did is in its note.

    Args:
        group, name: As in a row.
        outcomes: At least one.
        right: Whether a run ended as it should.
        target: The share that has to.
        note: What else is to be said.
    """
    good = sum(map(right, outcomes))
    wrong = Counter(outcome.verdict for outcome in outcomes if not right(outcome))
    said = [note] if note else []
    if fills := [outcome.fill for outcome in outcomes if outcome.fill]:
        said.append(f"peak {min(fills):.2f} to {max(fills):.2f} of the limit")
    said.extend(f"{verdict}: {times}" for verdict, times in wrong.most_common())
    row = Row(
        group=group,
        name=name,
        unit=_UNIT,
        value=float(good),
        baseline=float(len(outcomes)),
        ratio=good / len(outcomes),
        target=target,
        against="of",
    )
    if said:
        row["note"] = "; ".join(said)
    return row


def survey(group: str, name: str, outcomes: Sequence[Outcome], against: str) -> Row:
    """Make the row that says how a peer fares, with nothing of ours beside it."""
    ended = Counter(outcome.verdict for outcome in outcomes)
    return Row(
        group=group,
        name=name,
        unit=_UNIT,
        value=None,
        baseline=float(ended["exact"]),
        ratio=None,
        target=None,
        against=f"{against}, complete epochs of {len(outcomes)}",
        note=", ".join(f"{verdict}: {times}" for verdict, times in ended.most_common()),
    )


def fullest(group: str, name: str, outcomes: Sequence[Outcome]) -> Row:
    """Make the row that sets the highest peak of all runs against what it may be."""
    fills = [outcome.fill for outcome in outcomes]
    return Row(
        group=group,
        name=name,
        unit="of the limit",
        value=max(fills),
        baseline=_MOST_FILL,
        ratio=_MOST_FILL / max(fills),
        target=1.0,
        against="limit",
        spread=(min(fills), max(fills)),
    )


def exact(outcome: Outcome) -> bool:
    """Whether every sample arrived once, whole and in order."""
    return outcome.verdict == "exact"


def refused(outcome: Outcome) -> bool:
    """Whether it ended with a MemoryBudgetError."""
    return outcome.verdict == "refused"


def exact_or_refused(outcome: Outcome) -> bool:
    """Whether it ended in one of the two ways that are allowed where memory may not suffice."""
    return exact(outcome) or refused(outcome)
