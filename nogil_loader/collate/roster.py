"""Which samples are in a batch, and how a misfit among them is told."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from nogil_loader.errors import CollateError, describe

_RAGGED_ADVICE = (
    "bring all samples to one shape (crop, resize), or, if the first axis is ragged, batch them with "
    "collate_fn=nogil_loader.pad_collate(...) or pack_collate(...)"
)


class Roster:
    """The slots of one batch: how many there are and, where known, whose they are.

    Args:
        size: The number of slots.
        indices: The dataset index for each slot, or None outside a loader, where only positions are known.
        begin: Where in the batch the first of these slots is.
    """

    __slots__ = ("_begin", "_indices", "size")

    def __init__(self, size: int, indices: Sequence[Hashable] | None, begin: int = 0) -> None:
        self.size = size
        self._indices = indices
        self._begin = begin

    def alone(self, position: int) -> Roster:
        """Return the roster of one slot."""
        return Roster(1, self._indices, self._begin + position)

    def name(self, position: int) -> str:
        """Return how a message calls the sample at ``position``."""
        position += self._begin
        if self._indices is None:
            return f"the sample at position {position} in the batch"
        return f"sample {describe(self._indices[position], 80)} (position {position} in the batch)"

    def involved(self, *positions: int) -> tuple[Hashable, ...]:
        """Return the dataset indices at ``positions``, nothing where they are not known."""
        indices = self._indices
        return () if indices is None else tuple(indices[self._begin + position] for position in positions)

    def wrong_shape(
        self,
        path: str,
        position: int,
        shape: Sequence[int],
        first: Sequence[int],
        advice: str = _RAGGED_ADVICE,
    ) -> CollateError:
        """Return the error for a sample whose shape is not the first one's."""
        shape, first = tuple(map(int, shape)), tuple(map(int, first))
        return CollateError(
            f"shapes differ {place(path)}: {self.name(position)} has {shape}, {self.name(0)} has {first}; "
            f"{advice}",
            path=path,
            indices=self.involved(0, position),
            shapes=(first, shape),
        )

    def wrong_dtype(self, path: str, position: int, dtype: Any, first: Any) -> CollateError:
        """Return the error for a sample whose dtype is not the first one's."""
        advice = "convert them to one dtype in the dataset; a silent promotion could round or wrap values"
        if getattr(dtype, "kind", "") in ("S", "U") and getattr(first, "kind", "") in ("S", "U"):
            advice = (
                "give all string arrays one width, or return Python strings, which are collected in a list"
            )
        return CollateError(
            f"dtypes differ {place(path)}: {self.name(position)} has {dtype}, {self.name(0)} has {first}; "
            f"{advice}",
            path=path,
            indices=self.involved(0, position),
            dtypes=(first, dtype),
        )

    def wrong_kind(self, path: str, position: int, value: Any, expected: str) -> CollateError:
        """Return the error for a sample that has something else than the first one where ``path`` leads."""
        if value is None:
            return self.unexpected_none(path, position)
        return CollateError(
            f"samples differ {place(path)}: {self.name(position)} has {_kind(value)}, "
            f"{self.name(0)} has {expected}",
            path=path,
            indices=self.involved(0, position),
        )

    def wrong_length(self, path: str, position: int, length: int, first: int) -> CollateError:
        """Return the error for a list or tuple that is longer or shorter than the first one."""
        return CollateError(
            f"lengths differ {place(path)}: {self.name(position)} has {length} items, {self.name(0)} has "
            f"{first}; lists and tuples are collated item by item: return a ragged list as an array and pad "
            f"or pack it (nogil_loader.pad_collate, pack_collate)",
            path=path,
            indices=self.involved(0, position),
        )

    def wrong_keys(self, path: str, position: int, keys: Sequence[Any], first: Sequence[Any]) -> CollateError:
        """Return the error for a mapping whose keys are not the first one's."""
        missing = [key for key in first if key not in keys]
        extra = [key for key in keys if key not in first]
        told = []
        if missing:
            told.append(f"lacks {', '.join(describe(key, 80) for key in missing)}")
        if extra:
            told.append(f"has {', '.join(describe(key, 80) for key in extra)} in addition")
        return CollateError(
            f"keys differ {place(path)}: compared with {self.name(0)}, {self.name(position)} "
            f"{' and '.join(told)}",
            path=path,
            indices=self.involved(0, position),
        )

    def unexpected_none(self, path: str, position: int) -> CollateError:
        """Return the error for a None where the options say that there is none."""
        return self.refused(
            path,
            position,
            "is None",
            'return a value, or keep None in a list with collate_fn=DefaultCollate(none="list")',
        )

    def refused(self, path: str, position: int, what: str, advice: str) -> CollateError:
        """Return the error for a value that cannot be collated whatever the others are."""
        return CollateError(
            f"{self.name(position)} {what} {place(path)}; {advice}",
            path=path,
            indices=self.involved(position),
        )


def child_path(path: str, key: Any) -> str:
    """Return the path of ``key`` below ``path``: ``a.b`` for names, ``a[0]`` for anything else."""
    if isinstance(key, str):
        return f"{path}.{key}" if path else key
    return f"{path}[{describe(key, 80)}]"


def place(path: str) -> str:
    """Return how a message calls the place that ``path`` leads to."""
    return f"at '{path}'" if path else "at the root of the sample"


def _kind(value: Any) -> str:
    name = type(value).__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return f"a {name}" if isinstance(value, (dict, list, tuple)) else f"a {name} ({describe(value, 80)})"
    return f"a {name} {describe(tuple(shape), 80)} of {dtype}"
