"""What was drawn for a sample, for people to look at."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.chain import Chain, check_moment, draw_for
from nogil_loader.transforms.program import Program
from nogil_loader.transforms.reference import draw_parameters
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node


@dataclass(frozen=True)
class Drawn:
    """The parameters of one step for one sample.

    Attributes:
        transform: The step's transform, as it prints.
        values: Name of a parameter → what was drawn.
    """

    transform: str
    values: Mapping[str, float]

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value:.4g}" for name, value in self.values.items())
        return f"{self.transform.partition('(')[0]}({values})"


def parameters_of(
    chain: Chain, seed: int, epoch: int, index: Hashable, spec: Spec, part: int = 0
) -> tuple[Drawn, ...]:
    """Return what is drawn for a sample of this spec.

    Raises:
        ValueError: The spec does not fit, or there is a plain function in the chain.
    """
    program = only_program(chain)
    fit = program.fit(spec)
    check_moment(seed, epoch, part)
    draw = draw_for(seed, epoch, (index,), part)
    drawn = {
        node.position: values
        for node, values in draw_parameters(
            fit, epoch_key=draw.epoch_key, word=int(draw.words[0]), first_position=program.first_position
        )
    }
    return tuple(_records(fit.nodes, drawn))


def only_program(chain: Chain) -> Program:
    """Return the one kernel of a chain.

    Raises:
        ValueError: There is a plain function in it.
    """
    if chain.program is None:
        raise ValueError(
            f"{chain.transform!r} has a plain function in it, behind which it is not known what comes; ask "
            f"the parts before and behind it"
        )
    return chain.program


def _told(choice: Choice, taken: Sequence[int]) -> dict[str, float]:
    if choice.turns > 1:
        return {f"turn {at}": float(branch) for at, branch in enumerate(taken)}
    if len(choice.branches) == 1:
        return {"applied": float(taken[0] == 0)}
    return {"taken": float(taken[0])}


def _records(nodes: Sequence[Node], drawn: Mapping[int, npt.NDArray[np.float64]]) -> Iterator[Drawn]:
    for node in nodes:
        values = drawn[node.position]
        if isinstance(node, Choice):
            taken = values.astype(int).tolist()
            yield Drawn(node.name, _told(node, taken))
            for branch in taken:
                if branch >= 0:
                    yield from _records(node.branches[branch], drawn)
        elif node.parameters:
            yield Drawn(node.name, dict(zip(node.parameters, values.tolist(), strict=True)))
