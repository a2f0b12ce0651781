"""A transform worked out for arrays of one shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.images.resample import line_length
from nogil_loader.kernels.images.taps import taps_needed
from nogil_loader.kernels.images.warp import CORNERS
from nogil_loader.transforms.numbers import Offsets, passes, steps, walk
from nogil_loader.transforms.passes import Part, Pass, plan_buffers, plan_parts
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node, Step
from nogil_loader.transforms.transform import Transform


@dataclass(frozen=True)
class Fit:
    """What a kernel is told about arrays of one spec.

    Attributes:
        source: What comes in.
        target: What comes out.
        nodes: The steps.
        parts: The same, grouped into sweeps.
        offsets: The constants, and where each step's are.
        sizes: int64 ``(steps, 6)``: the first two lengths of what comes into each step and of what goes out, and
            the most taps that a resize has for rows and columns.
        buffers: The arrays between the parts.
        scratch: Lengths of the kernel's scratch arrays.
        form: What the kernel's source depends on: equal for arrays that can share a kernel.
    """

    source: Spec
    target: Spec
    nodes: tuple[Node, ...]
    parts: tuple[Part, ...]
    offsets: Offsets
    numbers: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    buffers: tuple[Spec, ...]
    scratch: Scratch
    form: tuple[Any, ...]

    @classmethod
    def of(cls, transform: Transform, spec: Spec) -> Fit:
        """Work a transform out.

        Raises:
            ValueError: It does not fit the spec; the message names it.
        """
        lowered = transform.lower(spec, count())
        parts = plan_parts(lowered.nodes)
        offsets = Offsets.of(lowered.nodes, parts)
        sizes = [_sizes(node) for node in sorted(walk(lowered.nodes), key=lambda node: node.position)]
        return cls(
            source=spec,
            target=lowered.spec,
            nodes=lowered.nodes,
            parts=parts,
            offsets=offsets,
            numbers=np.asarray(offsets.values, np.float64),
            sizes=np.asarray(sizes, np.int64).reshape(-1, 6),
            buffers=plan_buffers(parts),
            scratch=Scratch.of(lowered.nodes, parts),
            form=(_form_of_spec(spec), *map(_form_of_node, lowered.nodes)),
        )


@dataclass(frozen=True)
class Scratch:
    """Lengths of the scratch arrays that a kernel is given, in elements.

    Attributes:
        uniforms: float64, random numbers of one step.
        steps: Rows of the parameters.
        parameters: float64 columns of the parameters.
        side: int64, the longest side of any image.
        row: float32, one row of pixels.
        wide_row: float64, the same.
        work: float32, what a step or a sweep asks for.
        wide_work: float64, what a sweep asks for.
        marks: int64, what a step asks for.
    """

    uniforms: int
    steps: int
    parameters: int
    side: int
    row: int
    wide_row: int
    work: int
    wide_work: int
    marks: int

    @classmethod
    def of(cls, nodes: Sequence[Node], parts: Sequence[Part]) -> Scratch:
        """Return what is enough for these steps."""
        every = list(walk(nodes))
        side, rows, works = 1, {4: 0, 8: 0}, {4: 0, 8: 0}
        for part in passes(parts):
            specs = [part.source, part.target, *(step.target for step in part.geometry)]
            side = max(side, *(max(spec.height, spec.width) for spec in specs))
            points = [step.target for step in steps([*part.points])]
            channels = max(spec.channels for spec in [*specs, *points])
            size = part.source.work.itemsize
            rows[size] = max(rows[size], channels * max(spec.width for spec in specs))
            works[size] = max(works[size], _weights(part))
        asked = [step.scratch(step.source) for step in steps(nodes)]
        return cls(
            uniforms=max((node.uniforms for node in every), default=0),
            steps=len(every),
            parameters=max((_parameters(node) for node in every), default=0),
            side=side,
            row=rows[4],
            wide_row=rows[8],
            work=max(works[4], *(work for work, _ in asked), 0),
            wide_work=works[8],
            marks=max((marks for _, marks in asked), default=0),
        )


def _sizes(node: Node) -> tuple[int, ...]:
    if isinstance(node, Choice):
        return (*node.spec.lengths, *node.spec.lengths, 1, 1)
    return (*node.source.lengths, *node.target.lengths, *_most_taps(node))


def _most_taps(step: Step) -> tuple[int, int]:
    if step.kind != "resize":
        return 1, 1
    return (
        taps_needed(step.taps, step.source.height, step.target.height),
        taps_needed(step.taps, step.source.width, step.target.width),
    )


def _weights(part: Pass) -> int:
    """Return how many weights and blended pixels a sweep keeps."""
    if not part.geometry or part.geometry[0].taps == "nearest":
        return 0
    step = part.geometry[0]
    if step.kind == "affine":
        return CORNERS * step.target.width
    rows, columns = _most_taps(step)
    return (
        rows * step.target.height
        + columns * (step.target.width + part.target.width)
        + line_length(step.source.width, step.source.channels)
    )


def _parameters(node: Node) -> int:
    return node.turns if isinstance(node, Choice) else len(node.parameters)


def _form_of_spec(spec: Spec) -> tuple[Any, ...]:
    return len(spec.shape), spec.dtype, spec.layout, spec.channels if spec.layout else 0


def _form_of_node(node: Node) -> tuple[Any, ...]:
    if isinstance(node, Step):
        return (
            node.name.partition("(")[0],
            node.kind,
            node.function,
            node.draw,
            node.uniforms,
            len(node.numbers),
            node.fill,
            node.taps,
            node.exact,
            node.arguments,
            _form_of_spec(node.source),
            _form_of_spec(node.target),
        )
    branches = (tuple(map(_form_of_node, branch)) for branch in node.branches)
    return (
        node.name.partition("(")[0],
        node.draw,
        node.turns,
        len(node.numbers),
        _form_of_spec(node.spec),
        *branches,
    )
