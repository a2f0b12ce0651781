"""The geometry of an image's transforms, for what has to stay in step with the image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.images.resized import resize_image, warp_image
from nogil_loader.transforms.numbers import walk
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.step import Choice, Function, Node, Step
from nogil_loader.transforms.transform import Lowered, Transform

_GEOMETRY = ("index", "resize", "affine")


@dataclass(frozen=True)
class Follow(Transform):
    """The geometry of what a transform does to an image, for an array that lies over the image.

    Steps keep their positions, so that they draw the same numbers for both. Pixels come from the nearest one.

    Args:
        transform: What is done to the image.
        image: The image.
        fill: Value outside of the array, one for each channel or one for all.
    """

    transform: Transform
    image: Spec
    fill: tuple[float, ...] = (0.0,)

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart for the image, and keep the geometry for an array of this spec.

        Raises:
            ValueError: The transform does not fit the image, or changes its size by other means than geometry.
        """
        lowered = self.transform.lower(self.image, positions)
        nodes, spec = self._follow(lowered.nodes, spec)
        kept = {node.position for node in walk(nodes)}
        left_out = (node.position for node in walk(lowered.nodes) if node.position not in kept)
        # The positions of a chain have no gaps. What does nothing takes no time either at the end of it.
        nothing = (Step("nothing", "layout", None, None, spec, spec, position=at) for at in left_out)
        return Lowered((*nodes, *nothing), spec)

    def _follow(self, nodes: Sequence[Node], spec: Spec) -> tuple[tuple[Node, ...], Spec]:
        followed: list[Node] = []
        for node in nodes:
            if isinstance(node, Choice):
                branches = tuple(self._follow(branch, spec)[0] for branch in node.branches)
                if any(branches):
                    followed.append(replace(node, spec=spec, branches=branches))
            elif node.kind in _GEOMETRY:
                target = spec.resized(node.target.height, node.target.width)
                followed.append(self._step(node, spec, target))
                spec = target
            elif _size(node.source) != _size(node.target):
                raise ValueError(
                    f"{node.name}: it makes {node.target} of {node.source}, and it is not known how; what lies "
                    f"over an image can follow crops, flips, turns, margins, resizing and affine maps only"
                )
        return tuple(followed), spec

    def _step(self, step: Step, spec: Spec, target: Spec) -> Step:
        assert step.function is not None
        return replace(
            step,
            source=spec,
            target=target,
            reference=_REFERENCES[step.kind](step.function, self.fill),
            taps="nearest",
            fill=None if step.fill is None else self.fill,
        )


def layout_of(nodes: Sequence[Node]) -> Layout:
    """Return the order of the axes that the first step takes for granted, ``""`` if none does."""
    for node in walk(nodes):
        spec = node.spec if isinstance(node, Choice) else node.source
        if spec.layout:
            return spec.layout
    return ""


def _size(spec: Spec) -> tuple[int, ...] | None:
    """Return height and width of an image; None if it is not one."""
    if "H" in spec.layout:
        return spec.height, spec.width
    return spec.shape[:2] if len(spec.shape) in (2, 3) else None


def _by_tables(function: Function, fill: tuple[float, ...]) -> Function:
    """Return the reference of an index step."""

    def reference(
        image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]
    ) -> npt.NDArray[Any]:
        rows, cols = np.empty(size[0], np.int64), np.empty(size[1], np.int64)
        turned = function(numbers, drawn, np.array(image.shape[:2]), rows, cols)
        if turned:
            image = np.swapaxes(image, 0, 1)
        result = np.empty((*size, image.shape[2]), image.dtype)
        result[...] = np.asarray(fill).astype(image.dtype)
        y, x = np.flatnonzero(rows >= 0), np.flatnonzero(cols >= 0)
        result[np.ix_(y, x)] = image[np.ix_(rows[y], cols[x])]
        return result

    return reference


def _by_box(function: Function, fill: tuple[float, ...]) -> Function:
    """Return the reference of a resize step."""

    def reference(
        image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]
    ) -> npt.NDArray[Any]:
        box = np.zeros(4)
        function(numbers, drawn, np.array(image.shape[:2]), box)
        top, left, height, width = box.tolist()
        return resize_image(image, (top, left, height, width), size, "nearest", Spec.of(image).work)

    return reference


def _by_matrix(function: Function, fill: tuple[float, ...]) -> Function:
    """Return the reference of an affine step."""

    def reference(
        image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]
    ) -> npt.NDArray[Any]:
        matrix = np.zeros(6)
        function(numbers, drawn, np.array(image.shape[:2]), np.array(size), matrix)
        return warp_image(image, matrix, size, "nearest", np.asarray(fill), Spec.of(image).work)

    return reference


_REFERENCES: dict[str, Callable[[Function, tuple[float, ...]], Function]] = {
    "index": _by_tables,
    "resize": _by_box,
    "affine": _by_matrix,
}
