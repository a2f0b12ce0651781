"""The collation that needs no telling: trees of arrays, numbers and strings become trees of batch arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nogil_loader.collate.kinds import PYTHON_NUMBERS
from nogil_loader.collate.roster import Roster, child_path
from nogil_loader.collate.slots import Slots
from nogil_loader.collate.tree import Leaf, NonePolicy, Rule, TreeBuilder
from nogil_loader.errors import CollateError, describe
from nogil_loader.memory.buffers import allocate


@dataclass(frozen=True)
class DefaultCollate:
    """Collates samples as torch's ``default_collate`` does, into numpy arrays.

    ========================================  ==========================================================
    in the samples                            in the batch of B
    ========================================  ==========================================================
    array ``(…)``, also read-only, strided    array ``(B, …)`` of the same dtype in native byte order
    numpy scalar, 0-d array                   array ``(B,)`` of the same dtype
    ``bool, int, float, complex``             array ``(B,)`` of bool, int64, float64, complex128
    torch tensor                              torch tensor ``(B, …)`` of the same dtype
    ``str``, ``bytes``, any other object      list of length B
    dict, list, tuple, named tuple,           the same type with its items collated; an unknown kind of
    dataclass, mapping                        mapping becomes a dict
    ========================================  ==========================================================

    Arrays in a batch are C-contiguous, writable, 64-byte aligned, and share no memory with any sample. All
    samples must have the first one's keys, lengths, shapes and dtypes. There is no promotion between dtypes,
    not even where it would be exact: the dtype of a batch would then depend on which samples happen to be in
    it. Only byte order does not count, and a Python number goes with a numpy one of the same dtype.

    Args:
        none: What becomes of None in a sample: ``"raise"`` refuses it, ``"list"`` keeps the values of that
            place, None or not, in a list for every batch in which a None occurs.
        per_key: Collate functions for parts of the sample, such as ``{"tokens": pad_collate(value=0)}``. A key
            is a key of the sample (an int for an item of a tuple) or a path such as ``"inputs.tokens"``.

    Raises:
        ValueError: ``none`` is something else.
        TypeError: ``per_key`` has something else than the collate functions of this package.
    """

    none: NonePolicy = "raise"
    per_key: Mapping[Hashable, DefaultCollate] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.none not in ("raise", "list"):
            raise ValueError(f"{name}.none={self.none!r}: expected 'raise' or 'list'")
        if not isinstance(self.per_key, Mapping):
            raise TypeError(
                f"{name}.per_key={describe(self.per_key, 200)}: expected a mapping from keys to collations, such "
                f"as {{'tokens': pad_collate()}}"
            )
        for key, collate in self.per_key.items():
            if not isinstance(collate, DefaultCollate):
                raise TypeError(
                    f"{name}.per_key[{key!r}]={describe(collate, 200)}: expected a DefaultCollate, "
                    f"pad_collate(...) or pack_collate(...)"
                )

    def __call__(self, samples: Sequence[Any]) -> Any:
        """Return the batch of ``samples``.

        Raises:
            CollateError: There are no samples, or they do not fit together; the message names path and
                positions.
        """
        return self._collate(samples, None)

    def begin(self, first: Any, keys: Sequence[Hashable], leaves: Mapping[str, Leaf] | None = None) -> Slots:
        """Allocate a batch in which all samples are like ``first``, and return its slots, still empty.

        ``put(sample, position)`` copies a sample into its slot and does not keep it; a misfit is refused, and
        its slot can be written again. ``finish(count)`` returns the batch of the first ``count`` slots, and
        the slots must not be used again. They belong to one thread at a time.

        Args:
            first: A sample that tells structure, shapes and dtypes, usually the one that is put first.
            keys: The dataset's index for each slot, by which errors name the samples.
            leaves: Path → what makes the slots there.

        Raises:
            CollateError: There are no keys, or ``first`` has something that cannot be collated.
        """
        if not len(keys):
            raise _empty_batch()
        roster = Roster(len(keys), keys)
        if not leaves:
            return self._build(first, roster)
        rules = dict(self._rules)
        for path, leaf in leaves.items():
            rules[path] = replace(rules.get(path, rules[""]), leaf=leaf)
        return TreeBuilder(rules).tree(first, roster)

    def collate(self, samples: Sequence[Any], indices: Sequence[Hashable]) -> Any:
        """Return the batch of ``samples``, whose errors also name the dataset's ``indices``.

        Raises:
            CollateError: There are no samples, or they do not fit together.
        """
        return self._collate(samples, indices)

    def warm_up(self) -> None:
        """Compile the kernels that this collation needs in the calling thread, or load them from the cache.

        To be called before workers start. Without padding there are none, and numba is not even imported.
        """
        for collate in self.per_key.values():
            collate.warm_up()

    def _build(self, first: Any, roster: Roster) -> Slots:
        return TreeBuilder(self._rules).tree(first, roster)

    @cached_property
    def _rules(self) -> dict[str, Rule]:
        return self._rules_below("")

    def _rules_below(self, path: str) -> dict[str, Rule]:
        rules = {path: Rule(self.none)}
        for key, collate in self.per_key.items():
            rules |= collate._rules_below(child_path(path, key))
        return rules

    def _collate(self, samples: Sequence[Any], indices: Sequence[Hashable] | None) -> Any:
        if not len(samples):
            raise _empty_batch()
        first = samples[0]
        if (dtype := PYTHON_NUMBERS.get(first.__class__)) is not None and len(set(map(type, samples))) == 1:
            numbers = allocate((len(samples),), dtype)
            try:
                numbers[:] = samples
            except OverflowError:
                pass  # the ordinary way finds out which one it is
            else:
                return numbers
        slots = self._build(first, Roster(len(samples), indices))
        slots.put_all(samples)
        return slots.finish(len(samples))


def _empty_batch() -> CollateError:
    return CollateError("empty batch: there is no sample to collate")


default_collate = DefaultCollate()
