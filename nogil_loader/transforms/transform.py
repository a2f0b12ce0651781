"""What every transform can do, however it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Node, Step


@dataclass(frozen=True)
class Lowered:
    """A transform for one kind of array, taken apart into steps.

    Attributes:
        nodes: Steps and choices in order.
        spec: What comes out.
    """

    nodes: tuple[Node, ...]
    spec: Spec


class Transform(ABC):
    """A declared augmentation. Its classes are frozen dataclasses: values that can be printed and compared."""

    @abstractmethod
    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart for arrays of this spec.

        Args:
            spec: What comes in.
            positions: Numbers for the steps. Each step and each choice takes one, whatever the spec, so that
                the same transform draws the same random numbers for an image and for its mask.

        Raises:
            ValueError: The transform does not fit the spec; the message names it.
        """

    def output_spec(self, spec: Spec) -> Spec:
        """Return what comes out of the transform when ``spec`` comes in.

        Raises:
            ValueError: The transform does not fit; the message names it.
        """
        return self.lower(spec, iter(range(1 << 30))).spec


class Operation(Transform):
    """A transform of one step."""

    @abstractmethod
    def step(self, spec: Spec) -> Step:
        """Return what the transform does to arrays of this spec.

        Raises:
            ValueError: It does not fit; the message names the transform.
        """

    def lower(self, spec: Spec, positions: Iterator[int]) -> Lowered:
        """Take the transform apart: one step."""
        step = replace(self.step(spec), position=next(positions))
        return Lowered((step,), step.target)
