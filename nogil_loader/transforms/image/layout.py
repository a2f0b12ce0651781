"""The order of an image's axes."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.transforms.arguments import as_choice, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class ToCHW(Operation):
    """Channels first: ``(H, W, C)`` or ``(H, W)`` becomes ``(C, H, W)``."""

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(repr(self), "layout", None, None, spec, spec.with_layout("CHW"))


@dataclass(frozen=True)
class ToHWC(Operation):
    """Channels last: ``(C, H, W)`` or ``(H, W)`` becomes ``(H, W, C)``.

    Args:
        reads: At the beginning of a chain, how the arrays of the dataset are to be read: ``"CHW"``, or ``"HWC"``
            for images that look as if their channels were first, and are not.
    """

    reads: str = "CHW"

    def __post_init__(self) -> None:
        settle(self, reads=as_choice("ToHWC.reads", self.reads, ("CHW", "HWC")))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The array has neither two nor three axes.
        """
        if not spec.layout and len(spec.shape) == 3:
            spec = Spec(spec.shape, spec.dtype, "CHW" if self.reads == "CHW" else "HWC")
        spec = spec.image(self)
        return Step(repr(self), "layout", None, None, spec, spec.with_layout("HWC"))
