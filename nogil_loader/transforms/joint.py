"""One chain of transforms for an image and for all that has to stay in step with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nogil_loader.errors import describe
from nogil_loader.transforms.arguments import as_choice, as_number, settle
from nogil_loader.transforms.chain import Chain, Prepare
from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.drawn import Drawn
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.points import BOX_FORMATS
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.several import JointTransform
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.team import Team
from nogil_loader.transforms.transform import Transform

KINDS: Final = ("image", "mask", "boxes", "keypoints")


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
        chain = self._as_compose()
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
    ) -> tuple[Any, ...]:
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
        yield from self._as_team().fits(specs)

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
        return self._as_compose().parameters(seed, epoch, index, like=like)

    def _as_compose(self) -> Compose:
        return Compose(cast(Sequence[Transform], self.transforms))

    def _as_team(self) -> Team:
        # Kept, since it keeps the kernels; not a field, so that it counts neither for equality nor for repr.
        team: Team | None = self.__dict__.get("_team")
        if team is None:
            team = Team(
                self._as_compose(), tuple(self.kinds), box_format=self.box_format, mask_fill=self.mask_fill
            )
            object.__setattr__(self, "_team", team)
        return team

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_team"}
