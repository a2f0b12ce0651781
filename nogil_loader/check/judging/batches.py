"""Judges what a dataset offers beside single samples: batches and size hints. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nogil_loader.check.difference import tell_difference
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding, plural, some
from nogil_loader.check.outcome import Hung, Raised, Value, is_same
from nogil_loader.errors import describe_bytes

# A hint may be so many times too large or too small.
_HINT_FACTOR = 2


def judge_batches(evidence: Evidence) -> Iterator[Finding]:
    """Yield batches that are not made of the samples that they should be made of."""
    singles = {evidence.key(position): position for position in evidence.positions("sample")}
    lines: list[str] = []
    repeats: list[str] = []
    for position in evidence.positions("batch"):
        keys = evidence.items[position].keys
        told = _tell_batch(evidence, position, [singles[key] for key in keys])
        if told:
            (repeats if len(set(keys)) < len(keys) else lines).append(f"{evidence.items[position]}: {told}")
    if lines or repeats:
        yield Finding(
            "batches",
            "error",
            "__getitems__ does not give what __getitem__ gives",
            some(lines + repeats) if lines else some(["only where an index is asked for twice:", *repeats]),
            ("return a list with one sample for each index, in the order of the indices, repeats included",),
        )


def _tell_batch(evidence: Evidence, position: int, singles: Sequence[int]) -> str:
    """Return what is wrong with a batch, nothing if it agrees with its samples."""
    outcome = evidence.serial.first[position].outcome
    alone = [evidence.serial.first[single].outcome for single in singles]
    if not all(isinstance(each, Value) for each in alone) or isinstance(outcome, Hung):
        return ""
    if isinstance(outcome, Raised):
        return outcome.text.removeprefix("DatasetError: ")
    expected = tuple(each.prints[0] for each in alone if isinstance(each, Value))
    if outcome.prints == expected:
        return ""
    habits = {evidence.serial.habits.get(each, "restless") for each in [position, *singles]}
    if habits != {"steady"}:
        same = outcome.structure == tuple(each.structure for each in expected)
        steady = all(
            is_same(evidence.serial.first[each].outcome, evidence.serial.second[each].outcome)
            or _keeps(evidence, each)
            for each in [position, *singles]
            if each in evidence.serial.second
        )
        if same or not steady:
            return ""
    elif Counter(outcome.prints) == Counter(expected):
        return "the right samples in a wrong order"
    difference = tell_difference(expected, outcome.prints)
    return difference.text if difference is not None else ""


def _keeps(evidence: Evidence, position: int) -> bool:
    """Whether an item that changes keeps its structure."""
    one, other = evidence.serial.first[position].outcome, evidence.serial.second[position].outcome
    return isinstance(one, Value) and isinstance(other, Value) and one.structure == other.structure


def judge_hints(evidence: Evidence) -> Iterator[Finding]:
    """Yield size hints that are far off."""
    sizes = {evidence.key(at): evidence.reading(at).nbytes for at in evidence.positions("sample")}
    lines, keys = [], []
    for position in evidence.positions("size"):
        seen, key = evidence.serial.first[position], evidence.key(position)
        if not isinstance(seen.outcome, Value) or not sizes.get(key):
            continue
        real, told = sizes[key], seen.nbytes
        if told < 0:
            lines.append(f"{evidence.items[position]} is not a number of bytes")
        elif not real <= _HINT_FACTOR * told <= _HINT_FACTOR**2 * real:
            lines.append(
                f"{evidence.items[position]} says {describe_bytes(told)}; it is {describe_bytes(real)}"
            )
        else:
            continue
        keys.append(key)
    if lines:
        yield Finding(
            "hint",
            "warning",
            f"{plural(len(lines), 'size hint')} of {len(evidence.positions('size')):,} are wrong",
            some(lines),
            ("let nbytes(index) return the bytes of the sample as it is returned, decoded",),
            tuple(keys),
        )
