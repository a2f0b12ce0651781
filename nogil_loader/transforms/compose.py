"""Transforms made of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import as_chance, as_numbers, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node
from nogil_loader.transforms.transform import Lowered, Transform


@dataclass(frozen=True)
class Compose(Transform):
    """Transforms one after the other, compiled into one kernel.

    Args:
        transforms: A list of transforms. A plain function from array to array is allowed too: it ends the kernel
            before it and begins another one behind it, and holds the GIL while it runs.
    """

    transforms: Sequence[Transform | Callable[[Any], Any]]

    def __post_init__(self) -> None:
        settle(self, transforms=_as_transforms("Compose", self.transforms, functions=True))

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take all transforms apart, in order."""
        return lower_all(self.transforms, spec, positions)


@dataclass(frozen=True)
class RandomApply(Transform):
    """Transforms that are applied, all of them, with probability ``p``, else none.

    Args:
        transforms: A transform or a list of them, which keep shape and dtype.
        p: Probability.
    """

    transforms: Transform | Sequence[Transform]
    p: float = 0.5

    def __post_init__(self) -> None:
        settle(
            self,
            transforms=_as_transforms("RandomApply", self.transforms),
            p=as_chance("RandomApply.p", self.p),
        )

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transforms apart: a choice between them and nothing."""
        position = next(positions)
        transforms = self.transforms
        assert isinstance(transforms, Sequence)
        branch, spec = lower_branch(self, transforms, spec, positions)
        choice = Choice(
            repr(self), spec, (branch,), draw_chance, uniforms=1, numbers=(self.p,), position=position
        )
        return Lowered((choice,), spec)


@dataclass(frozen=True)
class OneOf(Transform):
    """One of several transforms, drawn for each sample.

    Args:
        transforms: Transforms, or lists of transforms, which keep shape and dtype.
        weights: How likely each is, relative to the others; None for equally likely.
    """

    transforms: Sequence[Transform | Sequence[Transform]]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.transforms, Transform) or not isinstance(self.transforms, Sequence):
            raise TypeError(
                f"OneOf.transforms={describe(self.transforms, 200)}: expected a list of transforms"
            )
        if not self.transforms:
            raise ValueError("OneOf.transforms=[]: expected at least one transform")
        settle(self, transforms=tuple(_as_transforms("OneOf", each) for each in self.transforms))
        if self.weights is not None:
            weights = as_numbers("OneOf.weights", self.weights, least=0.0)
            if len(weights) != len(self.transforms) or sum(weights) <= 0:
                raise ValueError(
                    f"OneOf.weights={self.weights!r}: expected {len(self.transforms)} numbers, not all of them 0"
                )
            settle(self, weights=weights)

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transforms apart: a choice between them."""
        position = next(positions)
        branches = []
        result = spec
        for transforms in self.transforms:
            assert isinstance(transforms, Sequence)
            branch, result = lower_branch(self, transforms, spec, positions)
            branches.append(branch)
        weights = self.weights or (1.0,) * len(branches)
        total = sum(weights)
        bounds = tuple(sum(weights[: at + 1]) / total for at in range(len(weights)))
        choice = Choice(
            repr(self), result, tuple(branches), draw_one_of, uniforms=1, numbers=bounds, position=position
        )
        return Lowered((choice,), result)


def lower_all(transforms: Sequence[Any], spec: Spec, positions: Iterator[int]) -> Lowered:
    """Take transforms apart, each for what the one before it gives."""
    nodes: list[Node] = []
    for transform in transforms:
        lowered = transform.lower(spec, positions)
        nodes += lowered.nodes
        spec = lowered.spec
    return Lowered(tuple(nodes), spec)


def lower_branch(
    who: Transform, transforms: Sequence[Transform], spec: Spec, positions: Iterator[int]
) -> tuple[tuple[Node, ...], Spec]:
    """Take the transforms of an alternative apart.

    Returns:
        The nodes, and the spec with the layout that they have found.

    Raises:
        ValueError: They change shape or dtype.
    """
    lowered = lower_all(transforms, spec, positions)
    if (lowered.spec.shape, lowered.spec.dtype) != (spec.shape, spec.dtype):
        raise ValueError(
            f"{who}: an alternative makes {lowered.spec} of {spec}; what is applied to some samples only has "
            f"to keep shape and dtype"
        )
    return lowered.nodes, lowered.spec


def _as_transforms(who: str, value: Any, *, functions: bool = False) -> tuple[Any, ...]:
    if isinstance(value, Transform):
        return (value,)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{who}.transforms={describe(value, 200)}: expected a list of transforms")
    for each in value:
        if isinstance(each, type):
            raise TypeError(f"{who}.transforms: {each.__name__} is a class; call it first, with its options")
        if isinstance(each, Transform):
            if not functions and (inner := _function_in(each)) is not None:
                raise TypeError(f"{who}.transforms: {describe(inner, 200)} {_OUTERMOST}")
            continue
        if not callable(each):
            several = type(each).__name__ in ("Joint", "MixUp", "CutMix")
            advice = (
                ", but one of several parts; it goes into DataLoader(transform={(key, key): …})"
                if several
                else ""
            )
            raise TypeError(
                f"{who}.transforms: {describe(each, 200)} is not a transform of one array{advice}"
            )
        if not functions:
            raise TypeError(f"{who}.transforms: {describe(each, 200)} {_OUTERMOST}")
    return tuple(value)


_OUTERMOST = (
    "is a plain function, which can stand in the outermost Compose only; decorate it with nogil_loader.kernel or "
    "nogil_loader.pixelwise"
)


def _function_in(transform: Transform) -> Any:
    """Return a plain function in a transform, None if there is none."""
    if isinstance(transform, Compose):
        for each in transform.transforms:
            found = _function_in(each) if isinstance(each, Transform) else each
            if found is not None:
                return found
    return None


@jitable
def draw_chance(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw branch 0 with probability ``numbers[0]``, else none."""
    drawn[0] = 0.0 if uniforms[0] < numbers[0] else -1.0


@jitable
def draw_one_of(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw a branch; ``numbers`` are the upper bounds of their shares, in rising order."""
    branch = 0
    while branch < len(numbers) - 1 and uniforms[0] >= numbers[branch]:
        branch += 1
    drawn[0] = branch
