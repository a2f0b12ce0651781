"""Where the constants of a chain are, and which they are for arrays of one shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nogil_loader.transforms.passes import Fork, Part, Pass
from nogil_loader.transforms.step import Choice, Node, Step


@dataclass
class Offsets:
    """The constants of all steps in one row.

    Attributes:
        values: The constants.
        starts: Position of a step → where its constants begin and end.
        fills: ``id`` of a pass → where its fill values begin and end, one for each channel.
    """

    values: list[float] = field(default_factory=list)
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)
    fills: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[Node], parts: Sequence[Part]) -> Offsets:
        """Collect the constants of ``nodes`` and of the passes among ``parts``."""
        offsets = cls()
        for node in walk(nodes):
            offsets.starts[node.position] = offsets._append(node.numbers)
        for part in passes(parts):
            fill = part.fill or (0.0,)
            if len(fill) == 1:
                fill *= part.source.channels
            offsets.fills[id(part)] = offsets._append(fill)
        return offsets

    def _append(self, values: Sequence[float]) -> tuple[int, int]:
        start = len(self.values)
        self.values += values
        return start, len(self.values)


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Iterate over all steps and choices, an alternative's after its choice."""
    for node in nodes:
        yield node
        if isinstance(node, Choice):
            for branch in node.branches:
                yield from walk(branch)


def steps(nodes: Sequence[Node]) -> Iterator[Step]:
    """Iterate over all steps, those of alternatives included."""
    return (node for node in walk(nodes) if isinstance(node, Step))


def passes(parts: Sequence[Part]) -> Iterator[Pass]:
    """Iterate over all passes, those of alternatives included."""
    for part in parts:
        if isinstance(part, Pass):
            yield part
        elif isinstance(part, Fork):
            for branch in part.branches:
                yield from passes(branch)
