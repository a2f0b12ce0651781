"""Judges samples that raise, hang, change, or are not there, with nobody else reading. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import SHOWN, Finding, plural, some
from nogil_loader.check.item import Kind
from nogil_loader.check.outcome import Hung, Raised, Value
from nogil_loader.check.randomness import GLOBAL

_RAISED_LINES = 10
_NOUNS: dict[Kind, str] = {"sample": "sample", "size": "size hint"}


def judge_raised(evidence: Evidence) -> Iterator[Finding]:
    """Yield samples and hints that raise."""
    end = evidence.ends.readable if evidence.ends is not None and evidence.ends.is_too_long else None
    for kind, noun in _NOUNS.items():
        found: dict[int, Raised] = {}
        for position in evidence.positions(kind):
            outcome = evidence.reading(position).outcome
            key = evidence.key(position)
            if isinstance(outcome, Raised) and not (end is not None and isinstance(key, int) and key >= end):
                found[position] = outcome
        if not found:
            continue
        lines = [
            f"{evidence.items[position]}: {raised.text}" + (f" ({raised.where})" if raised.where else "")
            for position, raised in found.items()
        ]
        is_hint = kind == "size"
        yield Finding(
            "hint" if is_hint else "raises",
            "warning" if is_hint else "error",
            f"{plural(len(found), noun)} of {len(evidence.positions(kind)):,} raised, with nobody else reading",
            some(lines, most=_RAISED_LINES),
            ("a loader does without hints then",)
            if is_hint
            else (
                'mend or remove them; or let the loader leave them out, by name: on_failure="skip"',
                *_advice_on_ends(found.values()),
            ),
            tuple(evidence.key(position) for position in found),
        )


def _advice_on_ends(raised: Iterable[Raised]) -> tuple[str, ...]:
    bases = frozenset().union(*(each.bases for each in raised))
    if bases & {"StopIteration", "StopAsyncIteration", "GeneratorExit"}:
        return (
            "it may come from a next() on something that is used up; other loaders end the epoch there, silently",
        )
    if bases & {"SystemExit", "KeyboardInterrupt"}:
        return ("SystemExit ends a thread without a word in other loaders; raise an ordinary exception",)
    return ()


def judge_hung(evidence: Evidence) -> Iterator[Finding]:
    """Yield calls that did not return."""
    hung: dict[int, Hung] = {}
    for readings in (evidence.serial.second, evidence.serial.first):
        for position, seen in readings.items():
            if isinstance(seen.outcome, Hung):
                hung[position] = seen.outcome
    if not hung:
        return
    details: list[str] = []
    for position, outcome in sorted(hung.items()):
        details.append(f"{evidence.items[position]} was at")
        details += [f"  {line}" for line in outcome.stack[-SHOWN:]]
    if evidence.serial.unread:
        details.append(f"{evidence.serial.unread:,} more were not tried after that")
    seconds = next(iter(hung.values())).seconds
    yield Finding(
        "hangs",
        "error",
        f"{plural(len(hung), 'call')} did not return within {seconds:g} s, with nobody else reading",
        tuple(details),
        (
            "find out what it waits for; give waits in it a limit of time",
            'a loader gives up on such a sample with timeout=, and goes on with on_failure="skip"',
        ),
        tuple(evidence.key(position) for position in sorted(hung)),
    )


def judge_ends(evidence: Evidence) -> Iterator[Finding]:
    """Yield a length that is not where samples end."""
    ends = evidence.ends
    if ends is None or ends.readable is None:
        return
    if ends.is_too_long:
        yield Finding(
            "length",
            "error",
            f"len() is {ends.length:,}, but only {ends.readable:,} samples can be read",
            (f"sample {ends.readable}: {ends.error}",),
            (f"return {ends.readable} from __len__, or find out why the others are missing",),
            (ends.readable,),
        )
    elif ends.is_too_short:
        yield Finding(
            "length",
            "error",
            f"len() is {ends.length:,}, but {ends.readable:,} samples can be read: the last "
            f"{ends.readable - ends.length:,} would never be loaded",
            (f"sample {ends.length} can be read", f"sample {ends.readable}: {ends.error}"),
            (f"return {ends.readable} from __len__, or let samples beyond it raise IndexError",),
            (ends.length,),
        )


def judge_overwritten(evidence: Evidence) -> Iterator[Finding]:
    """Yield samples that changed after they were returned."""
    wrong = evidence.serial.overwritten
    if wrong:
        yield Finding(
            "overwritten",
            "error",
            f"returned memory is written again: {plural(len(wrong), 'result')} changed in later calls",
            some([str(evidence.items[position]) for position in wrong]),
            (
                "return a copy, array.copy(), or make a new array in each call",
                "harmless only where each thread has memory of its own and the default collate copies at once",
            ),
            tuple(evidence.key(position) for position in wrong),
        )


def judge_randomness(evidence: Evidence) -> Iterator[Finding]:
    """Yield the use of random states that threads share."""
    drawn: dict[str, list[int]] = {}
    for readings in (evidence.serial.first, evidence.serial.second):
        for position, seen in readings.items():
            for name, _ in seen.drew:
                drawn.setdefault(name, []).append(position)
    is_global = {name: positions for name, positions in drawn.items() if name in GLOBAL}
    own = {name: positions for name, positions in drawn.items() if name not in GLOBAL}
    advice = (
        "use nogil_loader.sample_rng(): a numpy Generator keyed by seed, epoch and index",
        "for torch: torch.Generator().manual_seed(int(nogil_loader.sample_rng().integers(2**63)))",
    )
    for kind, found, whose in (
        ("random-global", is_global, "global"),
        ("random-own", own, "the dataset's own"),
    ):
        if not found:
            continue
        positions = sorted(set().union(*found.values()))
        yield Finding(
            kind,
            "warning",
            f"{whose} random state is used: {', '.join(sorted(found))}, by {plural(len(positions), 'call')} of "
            f"{len(evidence.serial.first):,}",
            ("which thread draws first is a matter of chance, so no seed makes it reproducible",),
            advice,
            tuple(evidence.key(position) for position in positions),
        )


def judge_restless(evidence: Evidence) -> Iterator[Finding]:
    """Yield samples that differ from call to call, or raise when asked again."""
    second = evidence.serial.second
    restless = sorted(position for position, habit in evidence.serial.habits.items() if habit == "restless")
    raised = {
        at: outcome
        for at in restless
        if at in second and isinstance(outcome := second[at].outcome, Raised)
        if isinstance(evidence.serial.first[at].outcome, Value)
    }
    if raised:
        yield Finding(
            "raises-again",
            "error",
            f"{plural(len(raised), 'call')} raised when asked again, with nobody else reading",
            some([f"{evidence.items[at]}: {outcome.text}" for at, outcome in raised.items()]),
            ("a sample is asked for in each epoch; what it takes from must not be used up",),
            tuple(evidence.key(at) for at in raised),
        )
    restless = [at for at in restless if at not in raised]
    if restless:
        lines = []
        for position in restless:
            seen = second.get(position)
            if seen is not None and isinstance(seen.outcome, Value) and seen.outcome.difference is not None:
                lines.append(f"{evidence.items[position]}: {seen.outcome.difference.text}")
        shared = [
            f"takes from what all threads share, {what}: {path}" for path, what in evidence.handles[:SHOWN]
        ]
        yield Finding(
            "changes",
            "error" if shared else "warning",
            f"{plural(len(restless), 'call')} of {len(evidence.serial.first):,} gave something else when asked "
            "again",
            (*some(lines), *shared),
            (
                "a sample should depend on its index alone; for random numbers use nogil_loader.sample_rng()",
                "values of these could not be compared between threads, only their shapes and dtypes",
            ),
            tuple(evidence.key(position) for position in restless),
        )
