"""What was drawn for a sample, in words that fit under a picture."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.chain import draw_for
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.preview.text import UNBROKEN
from nogil_loader.transforms.program import Program
from nogil_loader.transforms.reference import draw_parameters
from nogil_loader.transforms.step import Choice, Node

#: A name, and what belongs to it.
Line = tuple[str, str]


def tell_drawn(program: Program, fit: Fit, seed: int, epoch: int, index: Hashable) -> list[Line]:
    """Return a line for each step that draws something for a sample, in order.

    A choice names the alternatives that it has taken, whose own lines follow.
    """
    draw = draw_for(seed, epoch, (index,))
    drawn = {
        node.position: values
        for node, values in draw_parameters(
            fit, epoch_key=draw.epoch_key, word=int(draw.words[0]), first_position=program.first_position
        )
    }
    return list(_tell(fit.nodes, drawn))


def _tell(nodes: Sequence[Node], drawn: Mapping[int, npt.NDArray[np.float64]]) -> Iterator[Line]:
    for node in nodes:
        values = drawn[node.position].tolist()
        if isinstance(node, Choice):
            branches = [node.branches[int(branch)] for branch in values if branch >= 0]
            names = [_name(each) for branch in branches for each in branch]
            yield _name(node), ", ".join(names) or "none"
            for branch in branches:
                yield from _tell(branch, drawn)
        elif node.parameters:
            told = [f"{name}={_number(v)}" for name, v in zip(node.parameters, values, strict=True)]
            yield _name(node), ", ".join(each.replace(" ", UNBROKEN) for each in told)


def _name(node: Any) -> str:
    return str(node.name).partition("(")[0]


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"
