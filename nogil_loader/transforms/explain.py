"""Tells in words what a chain does and in how many sweeps over memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.passes import Fork, Part, Pass, Whole
from nogil_loader.transforms.step import Choice, Node


def explain(fit: Fit) -> str:
    """Return some lines: what comes in, each part of the chain, what comes out."""
    lines = [f"takes {fit.source}"]
    for number, part in enumerate(fit.parts, 1):
        lines += [f"{number}. {line}" if at == 0 else f"   {line}" for at, line in enumerate(_tell(part))]
    if not fit.parts:
        lines.append("copies it")
    lines.append(f"gives {fit.target}")
    between = [str(spec) for spec in fit.buffers]
    lines.append(f"arrays in between: {', '.join(between) or 'none'}")
    return "\n".join(lines)


def _tell(part: Part) -> Iterator[str]:
    match part:
        case Pass():
            yield f"one sweep over the rows: {part.source} to {part.target}"
            if part.geometry:
                yield f"  fetches pixels through {_names(part.geometry)}"
            if part.points:
                yield f"  changes them in place by {_names(part.points)}, in {part.source.work}"
        case Whole():
            yield f"whole arrays: {part.source} to {part.target}"
            yield f"  {part.step.name}"
        case Fork():
            turns = "" if part.choice.turns == 1 else f", {part.choice.turns} times"
            yield f"one of several for each sample{turns}: {part.choice.name}"
            for branch in part.branches:
                for at, each in enumerate(branch):
                    for line_number, line in enumerate(_tell(each)):
                        yield ("  - " if at == 0 and line_number == 0 else "    ") + line


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(
        f"one of ({_branches(node)})" if isinstance(node, Choice) else node.name for node in nodes
    )


def _branches(choice: Choice) -> str:
    return " | ".join(_names(branch) for branch in choice.branches)
