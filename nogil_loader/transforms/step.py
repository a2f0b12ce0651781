"""What a transform becomes before it is compiled: a sequence of steps, some of them alternatives.

A step names plain ``@jitable`` functions. What they are given:

``uniforms``
    float64, the step's own random numbers in [0, 1).
``numbers``
    float64, the constants of the transform. They are arguments of the kernel, so that another probability or
    another mean does not need another kernel.
``size``
    int64 ``(2,)``: height and width of an image that comes into the step, else the first two lengths.
``drawn``
    float64, the parameters that ``draw`` has chosen for this sample.
``rng``
    uint64 ``(4,)``: epoch key, index, position, and how many numbers were taken (see `kernels.philox`).

==========  ==========================================================================================
kind        ``function``
==========  ==========================================================================================
``index``   ``(numbers, drawn, size, rows, cols) -> turned``: for each row and column of the output the
            source row and column, -1 for the fill. With ``turned`` 1, rows of the output are source columns.
``resize``  ``(numbers, drawn, size, box)``: writes top, left, height, width of the source's part, float64.
``affine``  ``(numbers, drawn, size, out_size, matrix)``: writes the six coefficients that lead from
            an output pixel (x, y) to the source: ``x' = m0 x + m1 y + m2``, ``y' = m3 x + m4 y + m5``, in
            coordinates in which the centre of the first pixel is (0, 0).
``point``   ``(row, y, numbers, drawn, rng)``: changes a row of pixels ``(C, W)`` of float32 (float64 for
            dtypes of 32 bits and more) in place. Afterwards integer pixels are rounded and clipped.
``sample``  ``(source, target, numbers, drawn, rng, work, table)``: writes one array from another, both in the
            dtype and layout of the specs; ``work`` (float32) and ``table`` (int64) are scratch.
``layout``  No function: the same values with axes in another order.
==========  ==========================================================================================

``reference`` is the same in numpy, for arrays with their channels last, ``(H, W, C)``:

==========  ==========================================================================================
``index``, ``resize``, ``affine``  ``(image, numbers, drawn, (height, width)) -> image`` of the output's size
                                   (for resize and affine in the work dtype, not rounded yet)
``point``   ``(values, numbers, drawn, rng) -> values``, in the work dtype, not rounded yet
``sample``  ``(array, numbers, drawn, rng) -> array``, in the layout and dtype of the output spec
==========  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from nogil_loader.transforms.spec import Spec

Kind = Literal["index", "resize", "affine", "point", "sample", "layout"]
#: How pixels between pixels are made: of the nearest, of four, of all under a triangle, of all in the box.
Taps = Literal["nearest", "bilinear", "triangle", "area"]
Function = Callable[..., Any]


def no_scratch(spec: Spec) -> tuple[int, int]:
    """Return the scratch of a step that needs none."""
    return 0, 0


@dataclass(frozen=True)
class Step:
    """One operation on one kind of array.

    Args:
        name: The transform, as messages call it.
        kind: See above.
        function: What it does, for the kernel; None for ``layout``.
        reference: What it does, in numpy; None for ``layout``.
        source: The array that comes in.
        target: The array that goes out.
        numbers: Constants.
        draw: ``(uniforms, numbers, size, drawn)``: chooses the parameters of a sample; None if there are none.
        uniforms: How many random numbers ``draw`` takes.
        parameters: Names of what ``draw`` writes, in order.
        exact: The result needs no rounding when pixels are integers.
        fill: Pixel value outside the source, one per channel or one for all; None if no pixel is ever outside.
        taps: For ``resize`` and ``affine``.
        scratch: From the source's spec to the lengths of ``work`` and ``table``.
        position: The step's number in its chain, which keys its random numbers.
        arguments: What a user's function takes instead of the above: of a ``sample`` step some of those names,
            of a ``point`` step one ``value``, or one for each channel; it returns as many.
    """

    name: str
    kind: Kind
    function: Function | None
    reference: Function | None
    source: Spec
    target: Spec
    numbers: tuple[float, ...] = ()
    draw: Function | None = None
    uniforms: int = 0
    parameters: tuple[str, ...] = ()
    exact: bool = False
    fill: tuple[float, ...] | None = None
    taps: Taps = "nearest"
    scratch: Callable[[Spec], tuple[int, int]] = no_scratch
    position: int = -1
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Alternatives of which each sample takes one, several in turn, or none; all keep shape and dtype.

    Args:
        name: The transform, as messages call it.
        spec: The array that comes in and goes out.
        branches: The alternatives.
        draw: ``(uniforms, numbers, size, drawn)``: writes for each turn the branch to take, -1 for none.
        uniforms: How many random numbers ``draw`` takes.
        numbers: Constants.
        turns: How often a branch is chosen.
        position: As of a step.
    """

    name: str
    spec: Spec
    branches: tuple[tuple[Node, ...], ...]
    draw: Function
    uniforms: int
    numbers: tuple[float, ...] = ()
    turns: int = 1
    position: int = -1


Node = Step | Choice
