"""Collation of sequences: ragged samples are padded to one length, or packed without any gaps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.collate.default import DefaultCollate
from nogil_loader.collate.fill import filler
from nogil_loader.collate.ragged import PackedSlots
from nogil_loader.collate.roster import Roster, child_path, place
from nogil_loader.collate.slots import HELD_COPY_LIMIT, Slots
from nogil_loader.collate.tree import Rule
from nogil_loader.errors import CollateError, describe
from nogil_loader.kernels import pad_rows, warm_up
from nogil_loader.memory.buffers import allocate


class Padded(NamedTuple):
    """A padded batch and how long its samples are.

    Attributes:
        values: ``(B, T, …)``, the samples filled up to one length T.
        lengths: ``(B,)`` int64.
    """

    values: Any
    lengths: Any


class Masked(NamedTuple):
    """A padded batch and where its samples are.

    Attributes:
        values: ``(B, T, …)``, the samples filled up to one length T.
        mask: ``(B, T)`` bool, True where there is a sample and False where there is fill.
    """

    values: Any
    mask: Any


@dataclass(frozen=True, kw_only=True)
class _RaggedCollate(DefaultCollate):
    keys: Sequence[Hashable] | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.keys is not None:
            if isinstance(self.keys, (str, bytes)) or not isinstance(self.keys, Sequence):
                raise TypeError(
                    f"{name}.keys={self.keys!r}: expected a list of keys, such as [{self.keys!r}]"
                )
            for key in self.keys:
                if not isinstance(key, str | int):
                    raise TypeError(
                        f"{name}.keys={describe(self.keys, 200)}: expected strings (keys or paths) and ints "
                        f"(items of a tuple), not {type(key).__name__}"
                    )
            object.__setattr__(self, "keys", tuple(self.keys))
        if self.max_length is not None:
            checked = as_count(f"{name}.max_length", self.max_length, least=1)
            object.__setattr__(self, "max_length", checked)

    def slots(self, path: str, roster: Roster, tensor_dtype: Any = None) -> Slots:
        raise NotImplementedError

    def _rules_below(self, path: str) -> dict[str, Rule]:
        ragged = Rule(self.none, self)
        places = [path] if self.keys is None else [child_path(path, key) for key in self.keys]
        return {path: Rule(self.none), **dict.fromkeys(places, ragged)} | {
            place: rule for place, rule in super()._rules_below(path).items() if place != path
        }


@dataclass(frozen=True, kw_only=True)
class PadCollate(_RaggedCollate):
    """Collates like `DefaultCollate`, but fills arrays up along their first axis to the longest of the batch.

    Every array or tensor with at least one dimension is padded, or those at ``keys`` alone; everything else is
    collated as by default. Which ones are padded never depends on the lengths that happen to be in a batch. A
    list of numbers is a row to be padded where ``keys`` or ``per_key`` names it, or where it is the whole
    sample; elsewhere lists are containers, as by default.

    Args:
        value: What to fill with. It must fit the dtype of every array that is padded: NaN or -1 does not fit
            into uint8.
        side: Where the fill goes, ``"right"`` or ``"left"`` of the values.
        multiple_of: The padded length is rounded up to a multiple of this.
        max_length: Longer samples are cut to their first ``max_length`` items. Must be a multiple of
            ``multiple_of``; equal to it, all batches have one shape (except one of empty samples only).
        returns: ``"lengths"``: each padded leaf becomes ``Padded(values, lengths)``; ``"mask"``:
            ``Masked(values, mask)``; ``"values"``: the padded array alone.
        keys: Which parts of the sample are padded: keys (an int for an item of a tuple) or paths such as
            ``"inputs.tokens"``; None means all of it.
        none: As for `DefaultCollate`.
        per_key: As for `DefaultCollate`; what is named here is not padded by this function.

    Raises:
        ValueError: An argument is out of range.
        TypeError: An argument is of the wrong type.
    """

    value: Any = 0
    side: Literal["right", "left"] = "right"
    multiple_of: int = 1
    returns: Literal["lengths", "mask", "values"] = "lengths"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "value", _as_scalar(self.value))
        if self.side not in ("right", "left"):
            raise ValueError(f"PadCollate.side={self.side!r}: expected 'right' or 'left'")
        if self.returns not in ("lengths", "mask", "values"):
            raise ValueError(f"PadCollate.returns={self.returns!r}: expected 'lengths', 'mask' or 'values'")
        multiple = as_count("PadCollate.multiple_of", self.multiple_of, least=1)
        object.__setattr__(self, "multiple_of", multiple)
        if self.max_length is not None and self.max_length % multiple:
            raise ValueError(
                f"PadCollate.max_length={self.max_length}: expected a multiple of multiple_of={multiple}, "
                f"or samples cut to it would be padded beyond it"
            )

    def slots(self, path: str, roster: Roster, tensor_dtype: Any = None) -> Slots:
        """Return slots whose arrays are padded in the end."""
        return _PaddedSlots(self, path, roster, tensor_dtype)

    def warm_up(self) -> None:
        """Compile the padding kernel in the calling thread, or load it from the cache on disk."""
        super().warm_up()
        warm_up([pad_rows])


@dataclass(frozen=True, kw_only=True)
class PackCollate(_RaggedCollate):
    """Collates like `DefaultCollate`, but writes arrays one after the other along their first axis, gapless.

    Each packed leaf becomes ``Packed(values, offsets)``: sample ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    Which leaves are packed is decided as by `PadCollate`.

    Args:
        max_length: Longer samples are cut to their first ``max_length`` items.
        keys: As for `PadCollate`.
        none: As for `DefaultCollate`.
        per_key: As for `DefaultCollate`; what is named here is not packed by this function.

    Raises:
        ValueError: An argument is out of range.
        TypeError: An argument is of the wrong type.
    """

    def slots(self, path: str, roster: Roster, tensor_dtype: Any = None) -> Slots:
        """Return slots whose arrays stay packed."""
        return PackedSlots(path, roster, self.max_length)


def _as_scalar(value: Any) -> Any:
    """A pad value as one item, of a 0-d array or tensor the item that it holds."""
    if getattr(value, "shape", None) == () and hasattr(value, "item") and not isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, Hashable) or getattr(value, "shape", ()) != ():
        raise TypeError(
            f"PadCollate.value={describe(value, 100)}: expected one value, not {type(value).__name__}"
        )
    return value


# Functions in their use, ``collate_fn=pad_collate(value=0)``, so named like default_collate beside them.
pad_collate = PadCollate
pack_collate = PackCollate


class _PaddedSlots(PackedSlots):
    """Ragged arrays that are laid out as rows of one length when all of them are there."""

    __slots__ = ("_collate", "_filler", "_laid", "_lengths", "_tensor_dtype")

    def __init__(self, collate: PadCollate, path: str, roster: Roster, tensor_dtype: Any) -> None:
        super().__init__(path, roster, collate.max_length)
        self._collate = collate
        self._tensor_dtype = tensor_dtype
        self._laid: npt.NDArray[Any] | None = None

    def put_all(self, values: Sequence[Any]) -> None:
        if values[0].__class__ is np.ndarray and set(map(type, values)) == {np.ndarray}:
            # The rows are all there, so short ones need not be gathered before they are laid out.
            lengths = self._lay_out_short_rows(values)
            if lengths is not None:
                self._lengths = lengths
                return
        super().put_all(values)

    def _lay_out_short_rows(self, rows: Sequence[npt.NDArray[Any]]) -> list[int] | None:
        """Lay out rows that are a quick copy each; None, with nothing done, if they are anything else."""
        first = rows[0]
        dtype = first.dtype
        if first.ndim != 1 or dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:
            return None
        try:
            lengths = list(map(len, rows))
        except TypeError:  # one has no dimensions
            return None
        most, limit = max(lengths), self._max_length
        if most * dtype.itemsize > HELD_COPY_LIMIT:
            return None
        if limit is not None and most > limit:
            rows = [row[:limit] for row in rows]
            lengths = [min(length, limit) for length in lengths]
            most = limit
        width = self._width(most)
        fill = self._filler_of(dtype)[0]
        blank = fill.tobytes() == bytes(dtype.itemsize)  # by its bits: -0.0 is a zero that is not blank
        out = allocate((len(rows), width), dtype, zeroed=blank)
        if not blank:
            out[...] = fill
        # memoryview takes a third of the time that numpy needs for a slice, and refuses rows of another dtype
        # or number of dimensions, whose errors the ordinary way words.
        places: Any = memoryview(out.reshape(-1)) if out.size else out  # type: ignore[arg-type]
        left = self._collate.side == "left"
        start = 0
        try:
            for row, length in zip(rows, lengths, strict=True):
                begin = start + width - length if left else start
                places[begin : begin + length] = row
                start += width
        except (ValueError, TypeError):
            return None
        self._laid = out
        return lengths

    def _width(self, longest: int) -> int:
        multiple = self._collate.multiple_of
        return -(-longest // multiple) * multiple

    def _start(self, first: npt.NDArray[Any], total: int | None = None) -> None:
        super()._start(first, total)
        self._filler = self._filler_of(self._dtype)

    def _filler_of(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        try:
            return filler(self._collate.value, dtype, self._tensor_dtype)
        except ValueError as failure:
            shown = self._tensor_dtype or dtype
            raise CollateError(f"{failure} {place(self._path)}", path=self._path, dtypes=(shown,)) from None

    def finish(self, count: int) -> Any:
        lengths = allocate((count,), np.dtype(np.int64))
        if self._laid is None:
            values, offsets = self.packed(count)
            np.subtract(offsets[1:], offsets[:-1], out=lengths)
            padded = self._laid_out(values, offsets, lengths, self._width(int(lengths.max())))
        else:
            lengths[:] = self._lengths
            padded = self._laid
        width = padded.shape[1]
        if self._collate.returns == "values":
            return padded
        if self._collate.returns == "lengths":
            return Padded(padded, lengths)
        mask = allocate((count, width), np.dtype(np.bool_))
        steps = np.arange(width)
        if self._collate.side == "right":
            np.less(steps, lengths[:, None], out=mask)
        else:
            np.greater_equal(steps, width - lengths[:, None], out=mask)
        return Masked(padded, mask)

    def _laid_out(
        self,
        values: npt.NDArray[Any],
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        width: int,
    ) -> npt.NDArray[Any]:
        left = self._collate.side == "left"
        out = allocate((len(lengths), width, *self._item_shape), self._dtype)
        if self._dtype.hasobject:  # references have to be counted, which copies of bytes do not
            out[...] = self._collate.value
            for row, length in enumerate(lengths):
                begin = width - length if left else 0
                out[row, begin : begin + length] = values[offsets[row] : offsets[row + 1]]
        elif out.nbytes:
            item_bytes = out.nbytes // (len(out) * width)
            pad_rows(
                _bytes_of(values),
                offsets * item_bytes,
                _bytes_of(self._filler),
                _bytes_of(out),
                width * item_bytes,
                left,
            )
        return out


def _bytes_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
