"""The steps of a chain in numpy, on one array: what kernels are tested against, and what runs without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.philox import uniforms
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.numbers import walk
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node, Step

Array = npt.NDArray[Any]


def run_reference(
    fit: Fit, array: Array, *, epoch_key: np.uint64, word: int, first_position: int = 0
) -> Array:
    """Return what the steps make of one array.

    Args:
        fit: The steps, worked out for the array's spec.
        array: Of the shape and dtype of ``fit.source``.
        epoch_key: Stands for seed and epoch.
        word: Stands for the sample.
        first_position: Is added to the steps' positions where random numbers are drawn.
    """
    with np.errstate(all="ignore"):
        result = _run(fit.nodes, array, _Draws(epoch_key, word, first_position))
    return np.ascontiguousarray(result, fit.target.dtype)


def draw_parameters(
    fit: Fit, *, epoch_key: np.uint64, word: int, first_position: int = 0
) -> Iterator[tuple[Node, npt.NDArray[np.float64]]]:
    """Iterate over all steps and choices with what is drawn for a sample, -1 for an alternative not taken."""
    draws = _Draws(epoch_key, word, first_position)
    return ((node, draws.of(node)) for node in walk(fit.nodes))


class _Draws:
    def __init__(self, epoch_key: np.uint64, word: int, first_position: int) -> None:
        self._key = epoch_key
        self._words = np.array([word], np.uint64)
        self._first = first_position

    def of(self, node: Node) -> npt.NDArray[np.float64]:
        spec = node.spec if isinstance(node, Choice) else node.source
        drawn = np.zeros(node.turns if isinstance(node, Choice) else len(node.parameters))
        if node.draw is not None:
            numbers = uniforms(self._key, self._words, self._first + node.position, node.uniforms)[0]
            node.draw(
                numbers, np.asarray(node.numbers, np.float64), np.asarray(spec.lengths, np.int64), drawn
            )
        return drawn

    def rng(self, step: Step) -> npt.NDArray[np.uint64]:
        return np.array([self._key, self._words[0], self._first + step.position, 0], np.uint64)


def _run(nodes: Sequence[Node], array: Array, draws: _Draws) -> Array:
    for node in nodes:
        if isinstance(node, Choice):
            for branch in draws.of(node).astype(int):
                if branch >= 0:
                    array = _run(node.branches[branch], array, draws)
        else:
            array = _apply(node, array, draws)
    return array


def _apply(step: Step, array: Array, draws: _Draws) -> Array:
    numbers, drawn = np.asarray(step.numbers, np.float64), draws.of(step)
    if step.kind == "sample":
        assert step.reference is not None
        result: Array = step.reference(array, numbers, drawn, draws.rng(step))
        return np.ascontiguousarray(result)
    image = channels_last(array, step.source)
    if step.kind != "layout":
        assert step.reference is not None
        if step.kind == "point":
            image = step.reference(image.astype(step.source.work), numbers, drawn, draws.rng(step))
        else:
            image = step.reference(image, numbers, drawn, (step.target.height, step.target.width))
        image = _settle(image, step)
    return np.ascontiguousarray(_in_layout(image, step.target))


def _settle(image: Array, step: Step) -> Array:
    """Bring values to the dtype of the step's target: integers are rounded and clipped, NaN becomes 0."""
    limits = step.target.limits()
    if limits is None or image.dtype == step.target.dtype:
        return image.astype(step.target.dtype)
    rounded = np.rint(image)
    return np.clip(np.where(np.isnan(rounded), 0, rounded), *limits).astype(step.target.dtype)


def channels_last(array: Array, spec: Spec) -> Array:
    """Return an image as ``(H, W, C)``, a view of it."""
    if spec.layout == "HW":
        return array[..., None]
    return np.moveaxis(array, 0, 2) if spec.layout == "CHW" else array


def _in_layout(image: Array, spec: Spec) -> Array:
    if spec.layout == "HW":
        return image[..., 0]
    return np.moveaxis(image, 2, 0) if spec.layout == "CHW" else image
