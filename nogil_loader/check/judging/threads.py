"""Judges values and exceptions that came only while other threads read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nogil_loader.check.advice import LOCK, PER_THREAD, Known, recognise
from nogil_loader.check.crossing import Crossing
from nogil_loader.check.difference import Difference
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding, plural, some
from nogil_loader.check.item import Kind
from nogil_loader.check.judging.bound import find_bound
from nogil_loader.check.judging.clashes import Clash, find_clashes
from nogil_loader.check.outcome import Raised, Value

_NOUNS: dict[Kind, tuple[str, str]] = {
    "sample": ("sample", "samples"),
    "batch": ("batch", "batches"),
    "size": ("size hint", "size hints"),
}


def judge_threads(evidence: Evidence) -> Iterator[Finding]:
    """Yield what came only because other threads read."""
    clashes = find_clashes(evidence)
    yield from _judge_different(evidence, [clash for clash in clashes if clash.difference is not None])
    yield from _judge_raised(evidence, [clash for clash in clashes if clash.difference is None])
    yield from _judge_rounding(evidence)


def _judge_different(evidence: Evidence, clashes: Sequence[Clash]) -> Iterator[Finding]:
    for kind, (noun, nouns) in _NOUNS.items():
        found = [clash for clash in clashes if evidence.items[clash.crossing.position].kind == kind]
        if not found:
            continue
        wrong = sorted({clash.crossing.position for clash in found})
        told = sum(clash.crossing.count for clash in found)
        calls = sum(each.count for each in evidence.crossings if evidence.items[each.position].kind == kind)
        owned = [clash for clash in found if clash.owner is not None]
        details = list(some([_tell(evidence, clash) for clash in _telling(found)]))
        if owned:
            details.append(
                f"looks like a shared file position or a shared buffer: {plural(len(owned), 'result')} of "
                f"{len(found)} are what belongs to another {noun}"
            )
        details += _hints_at_cause(evidence, wrong)
        yield Finding(
            "differs",
            "error",
            f"not thread-safe: {told} of {calls:,} {nouns} came out differently while other threads read",
            tuple(details),
            _advice_for(evidence, bool(owned)),
            tuple(evidence.key(position) for position in wrong),
        )


def _telling(clashes: Sequence[Clash]) -> list[Clash]:
    """Return one clash for each item, the ones whose values are another's first."""
    ranked = sorted(
        clashes, key=lambda clash: (clash.owner is None, not clash.crossing.place, clash.crossing.position)
    )
    chosen: dict[int, Clash] = {}
    for clash in ranked:
        chosen.setdefault(clash.crossing.position, clash)
    return list(chosen.values())


def _tell(evidence: Evidence, clash: Clash) -> str:
    crossing, item = clash.crossing, evidence.items[clash.crossing.position]
    assert clash.difference is not None
    told = f"{item}: {clash.difference.text}"
    if clash.owner is not None:
        whole = (
            clash.difference.how == "values"
            and crossing.outcome == evidence.serial.first[clash.owner].outcome
        )
        told += f"; {'it is' if whole else 'that part is'} what {evidence.items[clash.owner]} holds"
    return told + _where(crossing)


def _where(crossing: Crossing) -> str:
    return f" (a thread was interrupted at {crossing.place})" if crossing.place else ""


def _hints_at_cause(evidence: Evidence, positions: Iterable[int]) -> list[str]:
    told = [f"the dataset holds {what}: {path}" for path, what in evidence.handles[:3]]
    drawn = sorted({name for position in positions for name, _ in evidence.serial.first[position].drew})
    if drawn:
        told.append(f"it sets and draws from {', '.join(drawn)}, whose state all threads share")
    return told


def _advice_for(evidence: Evidence, is_owned: bool) -> tuple[str, ...]:
    if evidence.handles:
        return (
            f"read a file with os.pread(fd, size, offset), which needs no position; or {PER_THREAD}",
            LOCK,
        )
    keep = "keep what belongs to one sample in local variables, not on the dataset or in the module"
    return (keep, f"or {PER_THREAD}" if is_owned else "or clone_dataset=True: a copy for each worker", LOCK)


def _judge_raised(evidence: Evidence, clashes: Sequence[Clash]) -> Iterator[Finding]:
    groups: dict[str, tuple[Known, list[Crossing]]] = {}
    for clash in clashes:
        assert isinstance(clash.crossing.outcome, Raised)
        known = recognise(clash.crossing.outcome)
        if not (known.is_bound and find_bound(evidence)):
            groups.setdefault(known.name, (known, []))[1].append(clash.crossing)
    for known, crossings in groups.values():
        wrong = sorted({crossing.position for crossing in crossings})
        yield Finding(
            "thread-bound" if known.is_bound else "raises-in-threads",
            "error",
            f"not thread-safe: {plural(len(wrong), 'call')} raised that did not raise alone",
            (
                *_tell_raised(evidence, crossings),
                f"looks like {known.name}",
                *_hints_at_cause(evidence, wrong),
            ),
            known.advice,
            tuple(evidence.key(position) for position in wrong),
        )


def _tell_raised(evidence: Evidence, crossings: Sequence[Crossing]) -> tuple[str, ...]:
    lines: dict[str, str] = {}
    for crossing in sorted(crossings, key=lambda each: (not each.place, each.position)):
        outcome = crossing.outcome
        assert isinstance(outcome, Raised)
        at = f" ({outcome.where})" if outcome.where else ""
        told = f"{evidence.items[crossing.position]}: {outcome.text}{at}{_where(crossing)}"
        lines.setdefault(f"{outcome.kind} {crossing.position}", told)
    return some(list(lines.values()))


def _judge_rounding(evidence: Evidence) -> Iterator[Finding]:
    rounded: Mapping[int, Difference] = {
        crossing.position: crossing.outcome.difference
        for crossing in evidence.crossings
        if isinstance(crossing.outcome, Value)
        and crossing.outcome.difference is not None
        and crossing.outcome.difference.is_rounding
        and evidence.serial.habits.get(crossing.position) == "steady"
    }
    if rounded:
        yield Finding(
            "rounding",
            "warning",
            f"{plural(len(rounded), 'sample')} differ in the last digits of floats from one reading to another",
            some([f"{evidence.items[position]}: {each.text}" for position, each in rounded.items()]),
            (
                "a library adds in another order when it has fewer threads; give it one: torch.set_num_threads(1)",
            ),
            tuple(evidence.key(position) for position in rounded),
        )
