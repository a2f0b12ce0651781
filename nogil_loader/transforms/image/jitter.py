"""Colours and tones changed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import as_choice, as_range, settle
from nogil_loader.transforms.compose import lower_all, lower_branch
from nogil_loader.transforms.image.colour import Hue, Saturation, colour_image
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.tone import Brightness
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice
from nogil_loader.transforms.transform import Lowered, Operation, Transform

Range = float | tuple[float, float] | None


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by random amounts, in random order, as in torchvision.

    See `Brightness`, `Contrast`, `Saturation` and `Hue`. Contrast needs the mean of the whole image; without it
    all changes take place in the same sweep over the pixels.

    Args:
        brightness: Range of the factor, or one number v for the range ``(1 - v, 1 + v)``, not below 0; None for no
            change.
        contrast: The same.
        saturation: The same.
        hue: Range of the turn, or one number v for ``(-v, v)``, within -0.5 to 0.5.
        order: ``"random"``, drawn for each sample, or ``"fixed"``: as the arguments stand here.
    """

    brightness: Range = None
    contrast: Range = None
    saturation: Range = None
    hue: Range = None
    order: str = "random"

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            settle(self, **{name: _as_amount(f"ColorJitter.{name}", getattr(self, name), 1.0, 0.0, None)})
        settle(
            self,
            hue=_as_amount("ColorJitter.hue", self.hue, 0.0, -0.5, 0.5),
            order=as_choice("ColorJitter.order", self.order, ("random", "fixed")),
        )

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart: an operation for each change, and a choice of their order.

        Raises:
            ValueError: The image has another number of channels than the changes need.
        """
        changes = list(self._changes())
        if self.saturation is not None or self.hue is not None:
            colour_image(self, spec)
        if self.order == "fixed" or len(changes) < 2:
            return lower_all(changes, spec, positions)
        position = next(positions)
        branches = []
        for change in changes:
            nodes, spec = lower_branch(self, [change], spec, positions)
            branches.append(nodes)
        choice = Choice(
            name=repr(self),
            spec=spec,
            branches=tuple(branches),
            draw=draw_order,
            uniforms=len(branches) - 1,
            numbers=(len(branches),),
            turns=len(branches),
            position=position,
        )
        return Lowered((choice,), spec)

    def _changes(self) -> Iterator[Operation]:
        if self.brightness is not None:
            yield Brightness(self.brightness)
        if self.contrast is not None:
            yield Contrast(self.contrast)
        if self.saturation is not None:
            yield Saturation(self.saturation)
        if self.hue is not None:
            yield Hue(self.hue)


def _as_amount(name: str, value: Range, neutral: float, least: float, most: float | None) -> Range:
    """Return a range of amounts, or None if nothing is to be changed."""
    if value is None:
        return None
    bounds = {"least": least} if most is None else {"least": least, "most": most}
    amount = as_range(name, value, around=neutral, **bounds)
    return None if amount == (neutral, neutral) else amount


@jitable
def draw_order(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw an order of ``numbers[0]`` branches, every order equally likely (Fisher and Yates)."""
    count = int(numbers[0])
    for turn in range(count):
        drawn[turn] = turn
    for last in range(count - 1, 0, -1):
        other = int(uniforms[last - 1] * (last + 1))
        kept = drawn[last]
        drawn[last] = drawn[other]
        drawn[other] = kept
