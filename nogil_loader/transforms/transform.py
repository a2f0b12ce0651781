"""What every transform can do, however it is made."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Node, Step

if TYPE_CHECKING:
    from PIL.Image import Image

    from nogil_loader.transforms.chain import Chain
    from nogil_loader.transforms.drawn import Drawn


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
    """A declared augmentation. Its classes are frozen dataclasses: values that can be printed and compared.

    What a transform makes of a sample is a function of the sample and of (seed, epoch, index), index being the
    sample's key in the dataset. So whatever a loader does to a sample can be done again by hand.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Transform.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Show the arguments that differ from their defaults."""
        parts = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.default is MISSING or value != _settled(self, field):
                parts.append(f"{field.name}={list(value) if _is_list(value) else value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

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

    # By hand

    def apply(
        self, array: Any, *, seed: int = 0, epoch: int = 0, index: Hashable = 0, part: int = 0
    ) -> npt.NDArray[Any]:
        """Transform one array exactly as a loader does.

        Args:
            array: The sample; it is not changed.
            seed: Of the loader.
            epoch: The epoch.
            index: The sample's key in the dataset.
            part: Where the loader's ``transform`` is a mapping, the place of this transform in it, 0 for the
                first.

        Returns:
            A new array.

        Raises:
            TypeError: It is no array.
            ValueError: It does not fit; the message names the transform.
        """
        from nogil_loader.transforms.chain import check_moment

        check_moment(seed, epoch, part)
        chain = self._as_chain()
        chain.refresh()
        return chain.transform_one(array, chain.draw(seed, epoch, (index,), part))

    def parameters(
        self, seed: int = 0, epoch: int = 0, index: Hashable = 0, *, like: Any = None, part: int = 0
    ) -> tuple[Drawn, ...]:
        """Return what is drawn for a sample.

        Args:
            seed: Of the loader.
            epoch: The epoch.
            index: The sample's key in the dataset.
            part: As of `apply`.
            like: The array, or one of its shape and dtype, or a `Spec`: what can be drawn depends on it, such
                as where a crop has room. By default an image of 256 x 256 pixels, uint8 with three channels.

        Returns:
            One record for each step that draws something, in order; those of alternatives that were not taken are
            left out.

        Raises:
            ValueError: ``like`` does not fit; or the transform has a plain function in it, behind which nobody
                knows what comes.
        """
        from nogil_loader.transforms.drawn import parameters_of

        return parameters_of(self._as_chain(), seed, epoch, index, _as_spec(like), part)

    def source(self, like: Any = None) -> str:
        """Return the source of the kernel for arrays like this one.

        Args:
            like: An array or a `Spec`; by default an image of 256 x 256 pixels, uint8 with three channels.

        Raises:
            ValueError: As for `parameters`.
        """
        from nogil_loader.transforms.drawn import only_program

        program = only_program(self._as_chain())
        return program.source(program.fit(_as_spec(like))).text

    def explain(self, like: Any = None) -> str:
        """Return in words what is done to arrays like this one, and in how many sweeps.

        Args:
            like: An array or a `Spec`; by default an image of 256 x 256 pixels, uint8 with three channels.

        Raises:
            ValueError: As for `parameters`.
        """
        from nogil_loader.transforms.drawn import only_program
        from nogil_loader.transforms.explain import explain

        return explain(only_program(self._as_chain()).fit(_as_spec(like)))

    def preview(
        self,
        images: Any,
        *,
        seed: int = 0,
        epoch: int = 0,
        count: int = 5,
        path: str | os.PathLike[str] | None = None,
    ) -> Image:
        """Draw a contact sheet: samples beside what is made of them in one epoch after another, as a loader would.

        Under each picture stands what was drawn for it. Values are shown as intensities: integers on the scale of
        their dtype, floats from 0 to 1, what ``Normalize`` has made on the scale from before it. Values on another
        scale are stretched from black to white, which the caption says. Arrays of one axis are drawn as curves.

        Args:
            images: Samples, up to 50: a list of arrays; or one array, whose first axis counts the samples unless
                the transform takes it as a whole; or a mapping from the samples' keys in the dataset to arrays.
            seed: Of the loader.
            epoch: The first epoch.
            count: How many epochs, up to 20.
            path: Where to save the sheet, a name that ends in ``.png``; it is written whole or not at all.

        Returns:
            A ``PIL.Image.Image``.

        Raises:
            ImportError: Pillow is not installed; it comes with ``nogil_loader[preview]``.
            TypeError: A sample is no array.
            ValueError: A sample does not fit; the message names it and the transform.
            OSError: ``path`` cannot be written.
        """
        from nogil_loader.transforms.preview import draw_preview
        from nogil_loader.transforms.preview.samples import samples_of

        return draw_preview(self, samples_of(self, images), seed=seed, epoch=epoch, count=count, path=path)

    def _as_chain(self) -> Chain:
        # Kept, since a chain keeps its kernels; not a field, so that it counts neither for equality nor for repr.
        chain: Chain | None = self.__dict__.get("_chain")
        if chain is None:
            from nogil_loader.transforms.chain import Chain

            chain = Chain(self)
            object.__setattr__(self, "_chain", chain)
        return chain

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_chain"}


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


def _settled(transform: Any, field: Any) -> Any:
    """Return the default of a field as it is stored, which may be another form of it."""
    required = {
        each.name: getattr(transform, each.name)
        for each in fields(transform)
        if each.default is MISSING and each.default_factory is MISSING
    }
    try:
        return getattr(type(transform)(**required), field.name)
    except (TypeError, ValueError):
        return field.default


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, Transform) for each in value)


def _as_spec(like: Any) -> Spec:
    if like is None:
        return Spec.image_of(256, 256)
    if isinstance(like, Spec):
        return like
    from nogil_loader.transforms.chain import as_array

    return Spec.of(as_array(like))
