"""One chain of transforms for an image and for all that has to stay in step with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.memory.buffers import allocate
from nogil_loader.transforms.arguments import as_choice, as_number, settle
from nogil_loader.transforms.chain import Chain, Misfit, Prepare, as_array
from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.drawn import Drawn
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.follow import Follow, layout_of
from nogil_loader.transforms.masks import MaskForm
from nogil_loader.transforms.points import BOX_FORMATS, Course, CourseProgram, boxes_of, edges_of
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.several import JointTransform
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]

KINDS: Final = ("image", "mask", "boxes", "keypoints")
# As many as a program keeps fits.
_MOST_PLANS: Final = 4096
_FIRST: Final = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Joint(JointTransform):
    """Transforms of an image, of which the geometry is done to its mask, boxes and keypoints as well.

    Every part sees the same random numbers, so a mask is cropped, turned and resized as its image is, and mirrored
    if and only if its image is, also within `RandomApply` and `OneOf`. All else, such as colours, blur, erasing,
    normalisation, the order of axes and functions of your own, is done to images only. ::

        DataLoader(dataset, transform={("image", "mask"): Joint([RandomCrop(224), HorizontalFlip(), ToCHW()])})

    Images (``"image"``)
        As the transforms say. If there are several they have the same height and width.
    Masks (``"mask"``)
        ``(H, W)``, or with channels where the image has them when it comes in: ``(H, W, C)``, or ``(C, H, W)`` if
        the transforms begin with `ToHWC`. Labels of any integer dtype, bool or floats. Axes and dtype stay as
        they are. Each value is that of the nearest pixel.
    Boxes (``"boxes"``)
        ``(N, 4)`` in pixels, in the form ``box_format``; N may be 0 and differ between samples. A box becomes the
        upright box around its four corners, as far as it can be seen: it ends where the picture ends, and where a
        crop has cut the image off. Boxes keep their places in the array, so labels stay in step; one of which
        nothing can be seen has no area. To drop these::

            left, top, right, bottom = boxes.T
            kept = (right > left) & (bottom > top)
            boxes, labels = boxes[kept], labels[kept]

    Keypoints (``"keypoints"``)
        ``(N, 2)`` or more columns, of which the first two are x and y in pixels, with any number of axes before.
        A point that has left the picture has coordinates outside of it, or in a margin that came behind the crop
        that cut it off. Names of points, such as left and right eye, are not exchanged when an image is mirrored.

    Coordinates are those of pixel edges: an image spans 0 to W and 0 to H, the centre of its first pixel is
    (0.5, 0.5). Boxes and keypoints become float32. What a margin shows mirrored or repeated (``"reflect"``) is
    mirrored in a mask but has no boxes and points of its own.

    Args:
        transforms: A list of transforms, as of `Compose`, but without plain functions.
        kinds: What the parts are, in the order of the loader's keys: ``"image"`` (at least one), ``"mask"``,
            ``"boxes"`` or ``"keypoints"``. By default an image and a mask.
        box_format: ``"xyxy"`` (left, top, right, bottom), ``"xywh"`` (left, top, width, height) or ``"cxcywh"``
            (centre, width, height).
        mask_fill: Value of a mask outside of it, where a margin or a turn shows such.
    """

    transforms: Transform | Sequence[Transform]
    kinds: Sequence[str] = ("image", "mask")
    box_format: str = "xyxy"
    mask_fill: float = 0.0

    def __post_init__(self) -> None:
        chain = Compose(cast(Sequence[Transform], self.transforms))
        if functions := Chain(chain).functions:
            raise TypeError(
                f"Joint.transforms: {describe(functions[0], 200)} is a plain function, which nothing but the "
                f"image could follow; decorate it with nogil_loader.kernel or nogil_loader.pixelwise, or call it "
                f"in the dataset"
            )
        if isinstance(self.kinds, str) or not isinstance(self.kinds, Sequence):
            raise TypeError(
                f"Joint.kinds={describe(self.kinds, 200)}: expected a list such as ['image', 'mask']"
            )
        kinds = tuple(as_choice("Joint.kinds", kind, KINDS) for kind in self.kinds)
        if "image" not in kinds:
            raise ValueError(
                f"Joint.kinds={list(kinds)}: expected an image among them, which the others follow"
            )
        settle(
            self,
            transforms=chain.transforms,
            kinds=kinds,
            box_format=as_choice("Joint.box_format", self.box_format, BOX_FORMATS),
            mask_fill=as_number("Joint.mask_fill", self.mask_fill),
        )

    def check_keys(self, count: int) -> None:
        """Refuse another number of keys than there are kinds.

        Raises:
            ValueError: As above.
        """
        if count != len(self.kinds):
            raise ValueError(
                f"Joint: {count} keys, but kinds={list(self.kinds)} are {len(self.kinds)}; say what each key is"
            )

    def transform_parts(
        self, values: Sequence[Any], draw: Draw, compile_first: Prepare | None = None
    ) -> tuple[Array, ...]:
        """Return the parts of one sample, transformed; see `JointTransform`.

        Raises:
            TypeError: A part is no array.
            Misfit: They do not fit.
        """
        return self._as_team().transform(values, draw, compile_first)

    def fits(self, specs: Sequence[Spec]) -> Iterator[tuple[Program, Fit]]:
        """Iterate over the kernels for samples whose parts have these specs.

        Raises:
            Misfit: They do not fit; the message names the transform.
        """
        known = [
            spec if kind in ("image", "mask") else None for kind, spec in zip(self.kinds, specs, strict=True)
        ]
        yield from self._as_team().plan(known).kernels

    def parameters(
        self, seed: int = 0, epoch: int = 0, index: Hashable = 0, *, like: Any = None
    ) -> tuple[Drawn, ...]:
        """Return what is drawn for a sample, as `Transform.parameters` does for its image.

        Args:
            seed: Of the loader.
            epoch: The epoch.
            index: The sample's key in the dataset.
            like: The image, or one of its shape and dtype, or a `Spec`.
        """
        return Compose(cast(Sequence[Transform], self.transforms)).parameters(seed, epoch, index, like=like)

    def _as_team(self) -> _Team:
        # Kept, since it keeps the kernels; not a field, so that it counts neither for equality nor for repr.
        team: _Team | None = self.__dict__.get("_team")
        if team is None:
            team = _Team(self)
            object.__setattr__(self, "_team", team)
        return team

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_team"}


@dataclass(frozen=True)
class _Plan:
    """What is done to samples whose images and masks have certain specs.

    Attributes:
        kernels: All that is needed.
        size: Height and width of the images that come in.
        masks: For each part its form and its fit if it is a mask.
        course: For boxes and keypoints.
    """

    kernels: tuple[tuple[Program, Fit], ...]
    size: tuple[int, int]
    masks: tuple[tuple[MaskForm, Fit] | None, ...]
    course: Fit


class _Team:
    """The kernels of a joint transform. Any number of threads may use it at once."""

    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        self._transform = Compose(cast(Sequence[Transform], joint.transforms))
        self._chain = Chain(self._transform)
        self._masks = Program(self._transform)
        self._courses = CourseProgram(self._transform)
        self._plans: dict[tuple[Spec | None, ...], _Plan] = {}

    def transform(
        self, values: Sequence[Any], draw: Draw, compile_first: Prepare | None
    ) -> tuple[Array, ...]:
        """Return the parts of one sample, transformed."""
        kinds = self._joint.kinds
        arrays = [_as_part(kind, value) for kind, value in zip(kinds, values, strict=True)]
        plan = self.plan([_spec_of(kind, array) for kind, array in zip(kinds, arrays, strict=True)])
        if compile_first is not None:
            for program, fit in plan.kernels:
                if not program.is_ready(fit):
                    compile_first(program, fit)
        return tuple(self._moved(at, array, plan, draw) for at, array in enumerate(arrays))

    def _moved(self, at: int, array: Array, plan: _Plan, draw: Draw) -> Array:
        match self._joint.kinds[at]:
            case "image":
                return self._chain.transform_one(array, draw)
            case "mask":
                form, fit = cast(tuple[MaskForm, Fit], plan.masks[at])
                moved = allocate(fit.target.shape, fit.target.dtype)
                self._masks.run(fit, form.pixels(array)[None], _FIRST, draw, moved[None])
                return form.mask(moved)
            case "boxes":
                edges = edges_of(array, self._joint.box_format)
                return boxes_of(self._course(plan, draw).move_boxes(edges), self._joint.box_format)
        keypoints = array.astype(np.float32)
        keypoints[..., :2] = self._course(plan, draw).move(array)
        return keypoints

    def _course(self, plan: _Plan, draw: Draw) -> Course:
        return self._courses.course(plan.course, plan.size, draw)

    def plan(self, specs: Sequence[Spec | None]) -> _Plan:
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
        first = specs[self._joint.kinds.index("image")]
        assert first is not None
        layout = self._layout(first)
        size = _size(first, layout)
        kernels: list[tuple[Program, Fit]] = []
        masks: list[tuple[MaskForm, Fit] | None] = []
        for at, (kind, spec) in enumerate(zip(self._joint.kinds, specs, strict=True)):
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
            form = MaskForm.of("Joint", spec, self._joint.mask_fill, planar=layout == "CHW")
            fit = Fit.of(Follow(self._transform, first, form.fill), form.spec)
            kernels.append((self._masks, fit))
            masks[at] = form, fit
        plain = Fit.of(Follow(self._transform, first), Spec(size, np.dtype(np.uint8), "HW"))
        course = self._courses.fit_course(plain)
        if {"boxes", "keypoints"} & set(self._joint.kinds):
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
