"""The kernels that transform an image, and those that move what has to stay in step with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from nogil_loader.memory.buffers import allocate
from nogil_loader.transforms.chain import Chain, Misfit, Prepare, as_array
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.follow import Follow, layout_of
from nogil_loader.transforms.masks import MaskForm
from nogil_loader.transforms.points import Course, CourseProgram, boxes_of, edges_of
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]

# A plan takes about 25 kB, and 2 ms to make again for a shape that has been forgotten.
_MOST_PLANS: Final = 2048
_FIRST: Final = np.zeros(1, np.int64)


@dataclass(frozen=True)
class _Plan:
    """What is done to samples whose images and masks have certain specs.

    Attributes:
        kernels: All that is needed.
        size: Height and width of the images that come in.
        masks: For each part its form and its fit if it is a mask.
        course: For boxes and keypoints; None if there are none.
    """

    kernels: tuple[tuple[Program, Fit], ...]
    size: tuple[int, int]
    masks: tuple[tuple[MaskForm, Fit] | None, ...]
    course: Fit | None


class Team:
    """The kernels of a joint transform. Any number of threads may use it at once.

    Args:
        transform: What is done to images.
        kinds: What the parts of a sample are.
        box_format: How boxes are written.
        mask_fill: Value of masks outside of them.
    """

    def __init__(
        self, transform: Transform, kinds: tuple[str, ...], *, box_format: str, mask_fill: float
    ) -> None:
        self._kinds = kinds
        self._box_format = box_format
        self._mask_fill = mask_fill
        self._transform = transform
        self._chain = Chain(transform)
        self._masks = Program(transform)
        self._courses = CourseProgram(transform)
        self._plans: dict[tuple[Spec | None, ...], _Plan] = {}

    def transform(
        self, values: Sequence[Any], draw: Draw, compile_first: Prepare | None
    ) -> tuple[Array, ...]:
        """Return the parts of one sample, transformed; see `JointTransform`."""
        kinds = self._kinds
        arrays = [_as_part(kind, value) for kind, value in zip(kinds, values, strict=True)]
        plan = self._plan([_spec_of(kind, array) for kind, array in zip(kinds, arrays, strict=True)])
        if compile_first is not None:
            for program, fit in plan.kernels:
                if not program.is_ready(fit):
                    compile_first(program, fit)
        return tuple(self._moved(at, array, plan, draw) for at, array in enumerate(arrays))

    def _moved(self, at: int, array: Array, plan: _Plan, draw: Draw) -> Array:
        match self._kinds[at]:
            case "image":
                return self._chain.transform_one(array, draw)
            case "mask":
                form, fit = cast(tuple[MaskForm, Fit], plan.masks[at])
                moved = allocate(fit.target.shape, fit.target.dtype)
                self._masks.run(fit, form.pixels(array)[None], _FIRST, draw, moved[None])
                return form.mask(moved)
            case "boxes":
                edges = edges_of(array, self._box_format)
                return boxes_of(self._course(plan, draw).move_boxes(edges), self._box_format)
        keypoints = array.astype(np.float32)
        keypoints[..., :2] = self._course(plan, draw).move(array)
        return keypoints

    def _course(self, plan: _Plan, draw: Draw) -> Course:
        assert plan.course is not None
        return self._courses.course(plan.course, plan.size, draw)

    def fits(self, specs: Sequence[Spec]) -> tuple[tuple[Program, Fit], ...]:
        """Return the kernels for samples whose parts have these specs.

        Raises:
            Misfit: They do not fit.
        """
        seen = (kind in ("image", "mask") for kind in self._kinds)
        return self._plan([spec if each else None for spec, each in zip(specs, seen, strict=True)]).kernels

    def _plan(self, specs: Sequence[Spec | None]) -> _Plan:
        """Return what is done, given the specs of images and masks; None for other parts."""
        key = tuple(specs)
        plan = self._plans.get(key)
        if plan is None:
            try:
                plan = self._make(key)
            except ValueError as failure:
                raise Misfit(str(failure)) from failure
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _make(self, specs: tuple[Spec | None, ...]) -> _Plan:
        first = specs[self._kinds.index("image")]
        assert first is not None
        layout = self._layout(first)
        size = _size(first, layout)
        kernels: list[tuple[Program, Fit]] = []
        masks: list[tuple[MaskForm, Fit] | None] = []
        for at, (kind, spec) in enumerate(zip(self._kinds, specs, strict=True)):
            masks.append(None)
            if spec is None:
                continue
            other = _size(spec, layout)
            if other != size:
                raise ValueError(
                    f"Joint: the image has {size[0]} x {size[1]} pixels (shape {first.shape}), but part {at}, "
                    f"{kind}, has {other[0]} x {other[1]} (shape {spec.shape}); they have to lie over each other"
                )
            if kind == "image":
                kernels += self._chain.fits(spec)
                continue
            form = MaskForm.of("Joint", spec, self._mask_fill, planar=layout == "CHW")
            fit = Fit.of(Follow(self._transform, first, form.fill), form.spec)
            kernels.append((self._masks, fit))
            masks[at] = form, fit
        course: Fit | None = None
        if {"boxes", "keypoints"} & set(self._kinds):
            plain = Fit.of(Follow(self._transform, first), Spec(size, np.dtype(np.uint8), "HW"))
            course = self._courses.fit_course(plain)
            kernels.append((self._courses, course))
        return _Plan(tuple(kernels), size, tuple(masks), course)

    def _layout(self, image: Spec) -> Layout:
        ((_, fit),) = self._chain.fits(image)
        return layout_of(fit.nodes) or "HWC"


def _size(spec: Spec, layout: Layout) -> tuple[int, int]:
    """Return height and width of an image or a mask; the layout is that of three axes."""
    if len(spec.shape) not in (2, 3):
        raise ValueError(f"Joint: expected an image or a mask, not an array of shape {spec.shape}")
    planar = len(spec.shape) == 3 and layout == "CHW"
    height, width = spec.shape[1:] if planar else spec.shape[:2]
    return height, width


def _as_part(kind: str, value: Any) -> Array:
    if kind in ("image", "mask"):
        return as_array(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise Misfit(f"Joint: {kind} of {array.dtype} are not supported; expected numbers")
    if kind == "boxes" and (array.ndim != 2 or array.shape[1] != 4):
        raise Misfit(
            f"Joint: expected boxes (N, 4), not an array of shape {array.shape}; no boxes are (0, 4)"
        )
    if kind == "keypoints" and (array.ndim < 2 or array.shape[-1] < 2):
        raise Misfit(
            f"Joint: expected keypoints (N, 2) or with more columns, not an array of shape {array.shape}; "
            f"no keypoints are (0, 2)"
        )
    return array


def _spec_of(kind: str, array: Array) -> Spec | None:
    if kind == "image":
        return Spec.of(array)
    # The dtype as it is: a mask of float16 stays one.
    return Spec(array.shape, array.dtype.newbyteorder("=")) if kind == "mask" else None
