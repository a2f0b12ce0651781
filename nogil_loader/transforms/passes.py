"""Groups steps into passes: as many as possible in one sweep over the rows of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node, Step

#: What changes a row of pixels in place: a point step, or a choice between such.
Point = Step | Choice


@dataclass(frozen=True)
class Pass:
    """One sweep over the rows of an image: pixels are fetched, changed and stored, without an array in between.

    Attributes:
        source: The image that is read.
        target: The image that is written.
        geometry: Index steps, or a resize with index steps behind it, or one affine step; () to copy pixels.
        points: What happens to each row after that.
        fill: Pixel value outside the source; None if no pixel is outside.
    """

    source: Spec
    target: Spec
    geometry: tuple[Step, ...] = ()
    points: tuple[Point, ...] = ()
    fill: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Whole:
    """A step on whole arrays."""

    step: Step

    @property
    def source(self) -> Spec:
        """The array that is read."""
        return self.step.source

    @property
    def target(self) -> Spec:
        """The array that is written."""
        return self.step.target


@dataclass(frozen=True)
class Fork:
    """A choice whose alternatives need sweeps of their own.

    Attributes:
        choice: The choice.
        branches: The parts of each alternative.
    """

    choice: Choice
    branches: tuple[tuple[Part, ...], ...]

    @property
    def source(self) -> Spec:
        """The array that comes in and goes out."""
        return self.choice.spec

    target = source


Part = Pass | Whole | Fork


def plan_parts(nodes: Sequence[Node]) -> tuple[Part, ...]:
    """Return the parts that do what ``nodes`` say, with as few sweeps as the order allows."""
    parts: list[Part] = []
    current: Pass | None = None
    for node in nodes:
        joined = None if current is None else _join(current, node)
        if joined is not None:
            current = joined
            continue
        if current is not None:
            parts.append(current)
        current = _begin(node)
        if current is None:
            parts.append(Whole(node) if isinstance(node, Step) else _fork(node))
    if current is not None:
        parts.append(current)
    return tuple(parts)


def plan_buffers(parts: Sequence[Part]) -> tuple[Spec, ...]:
    """Return the arrays that lie between the parts, in the order in which they are first written."""
    buffers: list[Spec] = []
    paired = False
    for at, part in enumerate(parts):
        if isinstance(part, Fork):
            if not paired:
                buffers += [part.source, part.source]
            paired = True
        elif at < len(parts) - 1:
            paired = isinstance(parts[at + 1], Fork)
            buffers += [part.target] * (2 if paired else 1)
    return tuple(buffers)


def _fork(choice: Choice) -> Fork:
    return Fork(choice, tuple(map(plan_parts, choice.branches)))


def _begin(node: Node) -> Pass | None:
    """Return the pass that a node begins, None if it is not done row by row."""
    if is_pointwise(node):
        spec = node.spec if isinstance(node, Choice) else node.source
        return _join(Pass(spec, spec), node)
    if isinstance(node, Choice) or node.kind == "sample":
        return None
    if node.kind == "layout":
        return Pass(node.source, node.target)
    return Pass(node.source, node.target, (node,), fill=node.fill)


def _join(current: Pass, node: Node) -> Pass | None:
    """Return the pass with the node added to it, None if it needs another one."""
    if isinstance(node, Choice):
        if not is_pointwise(node) or node.spec.work != current.source.work:
            return None
        return _with(current, node.spec, points=(*current.points, node))
    match node.kind:
        case "layout":
            return _with(current, node.target)
        case "point" if node.source.work == current.source.work:
            return _with(current, node.target, points=(*current.points, node))
        case "index" if _can_move(current, node):
            moved = _with(current, node.target, geometry=(*current.geometry, node))
            return moved if node.fill is None else replace(moved, fill=node.fill)
    return None


def _can_move(current: Pass, step: Step) -> bool:
    """Whether an index step can be looked up through the geometry of the pass."""
    return (
        bool(current.geometry)
        and not current.points
        and current.geometry[0].kind != "affine"
        and (step.fill is None or current.fill is None or step.fill == current.fill)
        and step.source.work == current.source.work
    )


def _with(
    current: Pass,
    target: Spec,
    *,
    geometry: tuple[Step, ...] | None = None,
    points: tuple[Point, ...] | None = None,
) -> Pass:
    return Pass(
        current.source,
        target,
        current.geometry if geometry is None else geometry,
        current.points if points is None else points,
        current.fill,
    )


def is_pointwise(node: Node) -> bool:
    """Whether a node changes pixels one by one, so that it can work on a row."""
    if isinstance(node, Step):
        return node.kind == "point"
    works = {node.spec.work}
    for branch in node.branches:
        for each in branch:
            if not is_pointwise(each):
                return False
            works.add((each.spec if isinstance(each, Choice) else each.source).work)
    return len(works) == 1
