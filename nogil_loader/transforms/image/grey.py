"""Images without colours. Red, green and blue are the channels 0, 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import BLUE, GREEN, RED, repeat_first, to_luma
from nogil_loader.transforms.arguments import as_chance, settle
from nogil_loader.transforms.image.flip import draw_flag
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


def grey_or_colour_image(who: object, spec: Spec) -> Spec:
    """Return the spec of an image with its layout, if it has one or three channels.

    Raises:
        ValueError: It has not; the message names the transform ``who``.
    """
    spec = spec.image(who)
    if spec.channels not in (1, 3):
        raise ValueError(f"{who}: expected an image of 1 or 3 channels, not {spec.channels} ({spec})")
    return spec


def luma(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the luma of an image ``(H, W, 3)`` as ``(H, W, 1)``, in its dtype (ITU-R BT.601)."""
    red, green, blue = (values.dtype.type(each) for each in (RED, GREEN, BLUE))
    result: npt.NDArray[Any] = values[..., :1] * red + values[..., 1:2] * green + values[..., 2:] * blue
    return result


@dataclass(frozen=True)
class Grayscale(Operation):
    """The luma of a colour image (ITU-R BT.601: 0.2989 red, 0.587 green, 0.114 blue), in one channel or in three.

    An image of one channel keeps its values. Integers are rounded; torchvision rounds down.

    Args:
        num_output_channels: 1 or 3.
    """

    num_output_channels: int = 1

    def __post_init__(self) -> None:
        channels = self.num_output_channels
        if isinstance(channels, bool) or channels not in (1, 3):
            raise ValueError(f"Grayscale.num_output_channels={describe(channels, 200)}: expected 1 or 3")
        settle(self, num_output_channels=int(channels))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: It has neither one channel nor three.
        """
        spec = grey_or_colour_image(self, spec)
        target = spec.with_channels(self.num_output_channels)
        if spec.channels == target.channels == 1:
            return Step(repr(self), "layout", None, None, spec, target)
        return Step(
            name=repr(self),
            kind="point",
            function=_MAKE_GREY[spec.channels, target.channels],
            reference=_make_grey if spec.channels == 3 else _repeat,
            source=spec,
            target=target,
            numbers=(target.channels,),
            exact=spec.channels == 1,
        )


@jitable
def make_luma(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Set the first channel to the luma."""
    to_luma(row)


@jitable
def make_grey(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Set all channels to the luma."""
    to_luma(row)
    repeat_first(row)


@jitable
def repeat_grey(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Set all channels to the first one."""
    repeat_first(row)


_MAKE_GREY = {(3, 1): make_luma, (3, 3): make_grey, (1, 3): repeat_grey}


def _make_grey(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return np.repeat(luma(values), int(numbers[0]), -1)


def _repeat(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return np.repeat(values, int(numbers[0]), -1)


@dataclass(frozen=True)
class RandomGrayscale(Operation):
    """A colour image made grey, with probability ``p``; the number of channels stays.

    Args:
        p: Probability.
    """

    p: float = 0.1

    def __post_init__(self) -> None:
        settle(self, p=as_chance("RandomGrayscale.p", self.p))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: It has neither one channel nor three.
        """
        spec = grey_or_colour_image(self, spec)
        if spec.channels == 1:
            return Step(repr(self), "layout", None, None, spec, spec)
        return Step(
            name=repr(self),
            kind="point",
            function=make_grey_if,
            reference=_make_grey_if,
            source=spec,
            target=spec,
            numbers=(self.p,),
            draw=draw_flag,
            uniforms=1,
            parameters=("grey",),
        )


@jitable
def make_grey_if(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Set all channels to the luma when drawn."""
    if drawn[0] != 0.0:
        to_luma(row)
        repeat_first(row)


def _make_grey_if(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return np.repeat(luma(values), 3, -1) if drawn[0] else values
