"""Turns the first sample of a batch into the tree of slots that all of its samples are written into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nogil_loader.collate.containers import MappingSlots, RecordSlots, SequenceSlots
from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.ragged import Ragged, is_row
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import ArraySlots, NumberSlots, ObjectSlots, Slots, plain_array
from nogil_loader.collate.tensors import tensor_slots
from nogil_loader.errors import CollateError

#: What becomes of None: an error, or an item of a list.
NonePolicy = Literal["raise", "list"]


class Leaf(Protocol):
    """Makes the slots at one place of the tree, whatever is there."""

    def slots(self, first: Any, path: str, roster: Roster, gather: Callable[[Any], Slots]) -> Slots:
        """Return slots for values like ``first``.

        Args:
            first: The value in the first sample.
            path: Where in the sample it is.
            roster: Whose slots they are.
            gather: From a value to the slots that would be made for values like it.
        """


@dataclass(frozen=True)
class Rule:
    """How values are collated, from one place of the tree downwards.

    Args:
        none: What becomes of None.
        ragged: How arrays with at least one dimension are gathered; None: they have one shape.
        leaf: Makes the slots for this place, for itself only.
    """

    none: NonePolicy = "raise"
    ragged: Ragged | None = None
    leaf: Leaf | None = None


class TreeBuilder:
    """Builds the slots for the first sample of a batch.

    Args:
        rules: Path → the rule from there downwards; ``""`` is the root's.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._seen: set[str] = set()

    def tree(self, sample: Any, roster: Roster) -> Slots:
        """Return the slots for samples like ``sample``.

        Raises:
            CollateError: Something in it cannot be collated, or a path of the rules is not in it.
        """
        slots = self._build(sample, "", self._rules[""], roster)
        missing = self._rules.keys() - self._seen
        # Where None is a value, what is below it comes with a later sample.
        if missing and all(rule.none == "raise" for rule in self._rules.values()):
            known = ", ".join(repr(path) for path in sorted(self._seen) if path)
            raise CollateError(
                f"no {', '.join(map(repr, sorted(missing)))} in {roster.name(0)}, though the loader's arguments "
                f"name it; there are: {known or 'no keys at all'}",
                path=min(missing),
                indices=roster.involved(0),
            )
        return slots

    def _build(self, value: Any, path: str, inherited: Rule, roster: Roster) -> Slots:
        self._seen.add(path)
        rule = self._rules.get(path, inherited)
        if rule.leaf is not None and path in self._rules:
            if value is None:
                raise roster.unexpected_none(path, 0)
            return rule.leaf.slots(value, path, roster, lambda made: self._present(made, path, rule, roster))
        if rule.none == "list":
            return NullableSlots(path, roster, lambda value, roster: self._present(value, path, rule, roster))
        return self._present(value, path, rule, roster)

    def _present(self, value: Any, path: str, rule: Rule, roster: Roster) -> Slots:
        def child(value: Any, path: str) -> Slots:
            return self._build(value, path, rule, roster)

        match kind_of(value):
            case "none":
                raise roster.unexpected_none(path, 0)
            case "array":
                array = plain_array(value, path, 0, roster)
                if rule.ragged is not None and array.ndim:
                    return rule.ragged.slots(path, roster)
                return ArraySlots(array, path, roster)
            case "number":
                return NumberSlots(value, path, roster)
            case "tensor":
                return tensor_slots(value, path, roster, rule.ragged)
            case "mapping":
                return MappingSlots(value, path, roster, child)
            case "sequence":
                # A list of numbers is one row where the rule is for this very place, else a container.
                if rule.ragged is not None and path in self._rules and is_row(value):
                    return rule.ragged.slots(path, roster)
                return SequenceSlots(value, path, roster, child)
            case "record":
                return RecordSlots(value, path, roster, child)
            case _:
                return ObjectSlots(value, path, roster)


class NullableSlots(Slots):
    """Slots in which None is a value: as soon as one sample has it, the values of all are kept in a list."""

    __slots__ = ("_build", "_inner", "_path", "_roster", "_values")

    def __init__(self, path: str, roster: Roster, build: Callable[[Any, Roster], Slots]) -> None:
        self._inner: Slots | None = None
        self._values: list[Any] | None = None
        self._path = path
        self._roster = roster
        self._build = build

    def put(self, value: Any, position: int) -> None:
        if self._values is None and value is not None:
            if self._inner is None:
                self._inner = self._build(value, self._roster)
            self._inner.put(value, position)
            return
        if self._values is None:
            self._values = [None if self._inner is None else self._inner.row(at) for at in range(position)]
            self._values += [None] * (self._roster.size - position)
            self._inner = None
        self._values[position] = None if value is None else self._alone(value, position)

    def _alone(self, value: Any, position: int) -> Any:
        """Return ``value`` in memory of its own, like everything that a batch delivers."""
        slots = self._build(value, self._roster.alone(position))
        slots.put(value, 0)
        return slots.row(0)

    def finish(self, count: int) -> Any:
        if self._values is not None:
            return self._values[:count]
        return [] if self._inner is None else self._inner.finish(count)

    def row(self, position: int) -> Any:
        if self._values is not None:
            return self._values[position]
        return None if self._inner is None else self._inner.row(position)
