"""What the transforms of tables have in common: columns are the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.transforms.accept import expect
from nogil_loader.transforms.arguments import is_sequence
from nogil_loader.transforms.spec import Spec

# More columns than these are a mistake: a row of pixels, or of bytes.
_MOST_COLUMNS = 1 << 20


def expect_rows(who: object, spec: Spec, kinds: str) -> int:
    """Check that an array is a row of a table, or several of them, and return how many columns there are.

    Raises:
        ValueError: The array has another kind of dtype, or no columns.
    """
    expect(who, spec, kinds, what="a row (F,) or rows (…, F)")
    if not spec.shape[-1]:
        raise ValueError(f"{who}: rows of no columns: {spec}")
    return spec.shape[-1]


def per_column(who: object, name: str, values: Sequence[float], columns: int) -> tuple[float, ...]:
    """Return one value for each column, given one for each or one for all.

    Raises:
        ValueError: There are neither; the message names the transform ``who``.
    """
    if len(values) not in (1, columns):
        raise ValueError(
            f"{who}: {name} has {len(values)} values, but the rows have {columns} columns; give one value for "
            f"each column, or one for all"
        )
    return tuple(values) * (columns if len(values) == 1 else 1)


def as_columns(name: str, value: Any) -> tuple[int, ...]:
    """Return positions of columns, negative ones counted from the end, as a tuple of ints.

    Raises:
        TypeError: It is neither an integer nor a sequence of integers.
        ValueError: There are none.
    """
    given = list(value) if is_sequence(value) else [value]
    if not given:
        raise ValueError(f"{name}={describe(value, 200)}: expected at least one column")
    return tuple(as_count(name, each, least=-_MOST_COLUMNS, most=_MOST_COLUMNS) for each in given)


def resolve(who: object, positions: Sequence[int], columns: int) -> list[int]:
    """Return positions of columns counted from the front.

    Raises:
        ValueError: The rows have no such column; the message names the transform ``who``.
    """
    for at in positions:
        if not -columns <= at < columns:
            raise ValueError(f"{who}: there is no column {at}, the rows have {columns} columns")
    return [at % columns for at in positions]
