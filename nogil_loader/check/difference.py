"""How a sample differs from the one that was expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nogil_loader.check.fingerprint import Fingerprint, Leaf
from nogil_loader.collate.roster import child_path

How = Literal["number", "structure", "type", "dtype", "shape", "values"]

# Sums of floats depend on how many threads a library adds them with. What differs by less than this, relative to
# the largest value, is such rounding: 80 times the spacing of float32's numbers, 4 times those of the short ones.
_ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-5}
_ROUNDING |= {"float64": 1e-12, "complex128": 1e-12}
# Longer sequences are not searched for the parts that differ.
_SHORT = 64
_SHOWN_PATHS = 3


@dataclass(frozen=True)
class Difference:
    """What is different.

    Attributes:
        how: The gravest of the differences: their number, the structure, a type, a dtype, a shape, or values.
        paths: Where they are.
        text: The same in words.
        is_rounding: Whether floats differ by no more than the order of additions explains.
    """

    how: How
    paths: tuple[str, ...]
    text: str
    is_rounding: bool = False


def tell_difference(
    expected: tuple[Fingerprint, ...],
    came: tuple[Fingerprint, ...],
    expected_samples: list[Any] | None = None,
    samples: list[Any] | None = None,
) -> Difference | None:
    """Return how what came differs from what was expected, None if it does not.

    Args:
        expected: Fingerprints of one sample, or of those of a batch.
        came: The same of what came.
        expected_samples: The samples themselves, if they are still there, to count the values that differ.
        samples: Those that came.
    """
    if len(expected) != len(came):
        return Difference("number", ("",), f"{len(came)} samples instead of {len(expected)}")
    for at, (one, other) in enumerate(zip(expected, came, strict=True)):
        if one == other:
            continue
        pair = None
        if expected_samples is not None and samples is not None:
            pair = (expected_samples[at], samples[at])
        found = _compare(one, other, pair)
        if len(expected) == 1:
            return found
        text = f"sample {at} of the batch: {found.text}"
        return Difference(
            found.how, found.paths, text, found.is_rounding and _others_agree(expected, came, at)
        )
    return None


def _others_agree(expected: tuple[Fingerprint, ...], came: tuple[Fingerprint, ...], at: int) -> bool:
    return expected[at + 1 :] == came[at + 1 :]


def _compare(expected: Fingerprint, came: Fingerprint, samples: tuple[Any, Any] | None) -> Difference:
    before, after = (_by_place(each) for each in (expected, came))
    if before.keys() != after.keys():
        places = sorted(before.keys() ^ after.keys())
        paths = tuple(path for path, _ in places)
        names = ", ".join(map(repr, paths[:_SHOWN_PATHS]))
        missing = places[0] in before
        return Difference("structure", paths, f"{names} {'is missing' if missing else 'should not be there'}")
    differing = [(before[place], after[place]) for place in before if before[place] != after[place]]
    grades: tuple[tuple[How, Any], ...] = (
        ("type", lambda leaf: (leaf.kind, leaf.type)),
        ("dtype", lambda leaf: leaf.dtype),
        ("shape", lambda leaf: leaf.shape),
    )
    for how, part in grades:
        wrong = [(one, other) for one, other in differing if part(one) != part(other)]
        if wrong:
            one, other = wrong[0]
            paths = tuple(leaf.path for leaf, _ in wrong)
            return Difference(how, paths, f"{how}{_at(paths)}: {other.spec} instead of {one.spec}")
    paths = tuple(leaf.path for leaf, _ in differing)
    count, is_rounding = _count(differing, samples)
    return Difference("values", paths, f"values{_at(paths)}{count}", is_rounding)


def _by_place(print_of: Fingerprint) -> dict[tuple[str, int], Leaf]:
    """Return leaves by path; those of one path, as below the key ``""``, by their number too."""
    seen: Counter[str] = Counter()
    leaves = {}
    for leaf in print_of.leaves:
        seen[leaf.path] += 1
        leaves[leaf.path, seen[leaf.path]] = leaf
    return leaves


def _count(differing: list[tuple[Leaf, Leaf]], samples: tuple[Any, Any] | None) -> tuple[str, bool]:
    """Return how many values differ, in words, and whether all of it is rounding."""
    if samples is None:
        return "", False
    wrong, total, rounding = 0, 0, True
    before, after = (dict(_parts_of(sample, "")) for sample in samples)
    for leaf, _ in differing:
        one, other = before.get(leaf.path), after.get(leaf.path)
        if leaf.kind not in ("array", "tensor", "number", "row") or one is None or other is None:
            return "", False
        try:
            wrong_here, total_here, near = _compare_arrays(_as_array(one), _as_array(other))
        except Exception:  # noqa: BLE001 - dtypes of others, which numpy cannot compare
            return "", False
        wrong, total, rounding = wrong + wrong_here, total + total_here, rounding and near
    if total <= 1:
        return "", rounding
    return f", {wrong:,} of {total:,}", rounding


def _compare_arrays(one: Any, other: Any) -> tuple[int, int, bool]:
    is_equal = (one == other) | ((one != one) & (other != other))
    wrong, total = int(np.size(is_equal) - np.count_nonzero(is_equal)), int(np.size(is_equal))
    tolerance = _ROUNDING.get(one.dtype.name)
    if tolerance is None:
        return wrong, total, False
    finite = np.isfinite(one)
    if not (np.array_equal(finite, np.isfinite(other)) and np.all(is_equal[~finite])):
        return wrong, total, False
    one, other = one[finite], other[finite]
    if not (np.any(one % 1) or np.any(other % 1)):
        return wrong, total, False  # whole numbers have no roundings
    return wrong, total, bool(np.all(np.abs(one - other) <= tolerance * np.max(np.abs(one), initial=0.0)))


def _as_array(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
    return np.atleast_1d(np.asarray(value))


def _parts_of(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts_of(item, child_path(path, key))
    elif isinstance(value, list | tuple) and len(value) <= _SHORT:
        for at, item in enumerate(value):
            yield from _parts_of(item, child_path(path, at))
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _parts_of(getattr(value, name, None), child_path(path, name))


def _at(paths: tuple[str, ...]) -> str:
    named = [repr(path) for path in paths if path]
    if not named:
        return ""
    more = f" and {len(named) - _SHOWN_PATHS} more" if len(named) > _SHOWN_PATHS else ""
    return f" at {', '.join(named[:_SHOWN_PATHS])}{more}"
