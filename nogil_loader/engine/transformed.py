"""Slots into which samples are transformed one by one, as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.roster import Roster, child_path, place
from nogil_loader.collate.slots import ArraySlots, Slots
from nogil_loader.collate.tree import Leaf
from nogil_loader.engine.compiling import compile_off_the_clock
from nogil_loader.engine.scope import TRANSFORM, SampleScope
from nogil_loader.errors import CollateError, describe
from nogil_loader.transforms.chain import Chain, Misfit, draw_for


class TicketLeaves(dict[str, Leaf]):
    """What makes the slots of one batch: path → leaf.

    Attributes:
        extra: How many bytes more the slots of a sample have than the sample.
    """

    def __init__(self, chains: Mapping[str, Chain], parts: Mapping[str, int], scope: SampleScope) -> None:
        super().__init__(
            (path, TransformLeaf(chain, parts[path], scope, self)) for path, chain in chains.items()
        )
        self.extra = 0


class TransformLeaf(Leaf):
    """Makes slots into which a chain writes."""

    def __init__(self, chain: Chain, part: int, scope: SampleScope, leaves: TicketLeaves) -> None:
        self.chain = chain
        self.part = part
        self.scope = scope
        self.leaves = leaves

    def slots(self, first: Any, path: str, roster: Roster, gather: Callable[[Any], Slots]) -> Slots:
        """Return slots for what the chain makes of values like ``first``."""
        return TransformedSlots(self, first, path, roster, gather)


class TransformedSlots(Slots):
    """Slots into which samples are transformed; the methods are those of `Slots`."""

    __slots__ = ("_first", "_inner", "_leaf", "_made", "_path", "_plain", "_roster")

    def __init__(
        self, leaf: TransformLeaf, first: Any, path: str, roster: Roster, gather: Callable[[Any], Slots]
    ) -> None:
        self._leaf = leaf
        self._path = path
        self._roster = roster
        # The first sample tells what comes out; it is put next, and need not be transformed twice.
        self._first = first
        self._made: Any = like(first, self._transformed(first, None))
        self._inner = gather(self._made)
        self._plain = self._inner if type(self._inner) is ArraySlots else None
        leaf.leaves.extra += max(0, int(self._made.nbytes) - int(getattr(first, "nbytes", 0)))

    def put(self, value: Any, position: int) -> None:
        made, self._made = self._made, None
        if made is not None and value is self._first:
            self._first = None
            self._inner.put(made, position)
            return
        if value is None:
            raise self._roster.unexpected_none(self._path, position)
        if self._plain is None:
            self._inner.put(like(value, self._transformed(value, None)), position)
            return
        slot = self._plain.slot(position)
        made = self._transformed(value, slot)
        if made is slot:
            return
        if made.shape != slot.shape or made.dtype != slot.dtype:
            raise self._misfit(made, slot, position)
        slot[...] = made  # a plain function at the end of a chain makes arrays of its own

    def _misfit(self, made: Any, slot: Any, position: int) -> CollateError:
        if made.shape == slot.shape:
            return self._roster.wrong_dtype(self._path, position, made.dtype, slot.dtype)
        chain = self._leaf.chain.transform
        advice = f"end the transform with one size for all, by Resize or a crop; it is {chain}"
        return self._roster.wrong_shape(self._path, position, made.shape, slot.shape, advice)

    def _transformed(self, value: Any, out: Any) -> Any:
        scope, chain = self._leaf.scope, self._leaf.chain
        stage, scope.stage = scope.stage, TRANSFORM
        check_value(value, self._path, scope.key)
        try:
            draw = draw_for(scope.seed, scope.epoch, (scope.key,), self._leaf.part)
            return chain.transform_one(value, draw, out, compile_off_the_clock(scope))
        except Misfit as misfit:
            raise refusal(misfit, self._path, scope.key) from misfit
        finally:
            scope.stage = stage

    def finish(self, count: int) -> Any:
        return self._inner.finish(count)

    def row(self, position: int) -> Any:
        return self._inner.row(position)


def like(value: Any, array: Any) -> Any:
    """Return an array as what the sample's value was: a tensor of the same memory, or an array."""
    return sys.modules["torch"].from_numpy(array) if kind_of(value) == "tensor" else array


def check_value(value: Any, path: str, key: Hashable) -> None:
    """Refuse a part of a sample that is no array.

    Raises:
        CollateError: It is none; the message says how to name the part that is one.
    """
    match kind_of(value):
        case "array" | "number" | "tensor":
            return
        case "sequence":
            advice = f"; say which item is meant: transform={{{_example(path, 0)}: …}}"
        case "mapping":
            advice = (
                f"; say which value is meant: transform={{{_example(path, next(iter(value), 'image'))}: …}}"
            )
        case "record":
            advice = f"; say which field is meant: transform={{{_example(path, 'image')}: …}}"
        case _:
            if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
                return
            advice = ""
    told = f"transforms take arrays, not {type(value).__name__} ({describe(value, 80)}){advice}"
    raise refusal(Misfit(told), path, key)


def _example(path: str, key: Hashable) -> str:
    return repr(child_path(path, key) if path else key)


def refusal(misfit: Misfit, path: str, key: Hashable) -> CollateError:
    """Return the error that says at which sample and where in it a transform does not fit."""
    return CollateError(
        f"transform {place(path)}, sample {describe(key, 80)}: {misfit}", path=path, indices=(key,)
    )
