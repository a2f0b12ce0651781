"""What samples look like: which parts they have, of which types, dtypes and shapes, how large they are. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.fingerprint import Fingerprint, Leaf
from nogil_loader.collate.kinds import PYTHON_NUMBERS

# Containers of more parts than this are told by their length alone.
_SHOWN_SPECS = 4
_ARRAYS = ("array", "tensor", "row", "image")


@dataclass(frozen=True)
class Part:
    """One place in the samples.

    Attributes:
        path: Where; empty for the sample itself.
        specs: What was there in how many samples, the most frequent first.
        kinds: What it was to collation in how many samples.
        dtypes: Of arrays, tensors and numbers.
        shapes: Of arrays and tensors, and lengths of lists.
        missing: In how many samples there was no such place.
        examples: For each spec the position of the first sample that had it.
    """

    path: str
    specs: Mapping[str, int]
    kinds: Mapping[str, int]
    dtypes: Mapping[str, int]
    shapes: Mapping[tuple[int, ...], int]
    missing: int
    examples: Mapping[str, int]

    @property
    def is_ragged(self) -> bool:
        """Whether arrays, or lists, have different shapes."""
        return len(self.shapes) > 1

    @property
    def has_none(self) -> bool:
        """Whether it is None in some samples."""
        return "none" in self.kinds

    @property
    def has_mixed_kinds(self) -> bool:
        """Whether it is different things in different samples; None aside."""
        return len({_GROUPS.get(kind, kind) for kind in self.kinds} - {"none"}) > 1

    @property
    def ragged_axes(self) -> tuple[int, ...]:
        """Axes along which shapes differ; empty if they differ in their number."""
        shapes = list(self.shapes)
        if len({len(shape) for shape in shapes}) > 1:
            return ()
        return tuple(axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1)

    def describe(self) -> str:
        """Return what was there, in words."""
        if self.is_ragged and not self.has_mixed_kinds and len(self.dtypes) <= 1 and self.ragged_axes:
            sizes = zip(*self.shapes, strict=True)
            span = ", ".join(
                f"{min(each)}" if len(set(each)) == 1 else f"{min(each)} to {max(each)}" for each in sizes
            )
            told = f"{next(iter(self.specs)).rsplit(' (', 1)[0]} ({span})" if "row" not in self.kinds else ""
            told = told or f"list of {span} {next(iter(self.dtypes), 'values')}"
            return told + (f", None in {self.kinds['none']}" if self.has_none else "")
        shown = list(self.specs.items())[:_SHOWN_SPECS]
        if len(self.specs) == 1 and not self.missing:
            return shown[0][0]
        told = ", ".join(f"{spec} in {count}" for spec, count in shown)
        more = len(self.specs) - len(shown)
        return (
            told
            + (f", {more} more" if more else "")
            + (f", missing in {self.missing}" if self.missing else "")
        )


# To collation a number is an array without dimensions, and a list of numbers a list.
_GROUPS = {"number": "array", "row": "sequence"}
# Python's own numbers are collated in these.
_DTYPES = {kind.__name__: dtype.name for kind, dtype in PYTHON_NUMBERS.items()}


@dataclass(frozen=True)
class Spread:
    """How numbers are distributed.

    Attributes:
        count: How many.
        least: The smallest.
        p50: The median.
        p90: Nine tenths are not above this.
        p99: Nor 99 hundredths above this.
        most: The largest.
        total: Their sum.
    """

    count: int
    least: float
    p50: float
    p90: float
    p99: float
    most: float
    total: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Spread | None:
        """Return the distribution, None of nothing. Percentiles are the nearest numbers not below."""
        ranked = sorted(numbers)
        if not ranked:
            return None

        def at(share: float) -> float:
            return ranked[math.ceil(share * len(ranked)) - 1]

        return cls(len(ranked), ranked[0], at(0.5), at(0.9), at(0.99), ranked[-1], sum(ranked))


def take_census(samples: Sequence[tuple[int, Fingerprint]]) -> tuple[Part, ...]:
    """Return the places in some samples, those of containers before what is in them.

    What is below a container whose length differs is left out: it is not in every sample, and that says nothing.

    Args:
        samples: Positions and fingerprints.
    """
    leaves: dict[str, list[tuple[int, Leaf]]] = {}
    for position, fingerprint in samples:
        for leaf in fingerprint.leaves:
            leaves.setdefault(leaf.path, []).append((position, leaf))
    parts: list[Part] = []
    ragged: list[str] = []
    for path, found in leaves.items():
        if any(path.startswith(f"{above}[") for above in ragged):
            continue
        part = _part_of(path, found, len(samples))
        if part.kinds.keys() == {"sequence"} and part.is_ragged:
            ragged.append(path)
        parts.append(part)
    return tuple(parts)


def _part_of(path: str, found: list[tuple[int, Leaf]], samples: int) -> Part:
    examples: dict[str, int] = {}
    for position, leaf in found:
        examples.setdefault(leaf.spec, position)
    shaped = (*_ARRAYS, "number", "sequence")
    return Part(
        path,
        _ranked(leaf.spec for _, leaf in found),
        _ranked(leaf.kind for _, leaf in found),
        _ranked(
            _dtype_of(leaf) for _, leaf in found if leaf.kind in (*_ARRAYS, "number") and _has_values(leaf)
        ),
        _ranked(leaf.shape or () for _, leaf in found if leaf.kind in shaped),
        samples - len({position for position, _ in found}),
        examples,
    )


def _dtype_of(leaf: Leaf) -> str:
    name = leaf.dtype or leaf.type
    return _DTYPES.get(name, name)


def _has_values(leaf: Leaf) -> bool:
    return leaf.kind != "row" or leaf.shape != (0,)


def _ranked(values: Iterable[Any]) -> dict[Any, int]:
    return dict(Counter(values).most_common())
