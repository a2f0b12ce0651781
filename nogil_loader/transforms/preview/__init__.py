"""Contact sheets: originals beside what a transform makes of them in one epoch after another."""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe_index
from nogil_loader.transforms.chain import Misfit, as_array
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.preview.captions import Line, tell_drawn
from nogil_loader.transforms.preview.display import Curves, Picture, Scale, show, with_common_span
from nogil_loader.transforms.preview.file import as_png_path, save
from nogil_loader.transforms.preview.sheet import Cell, Sheet
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.step import Choice
from nogil_loader.transforms.transform import Transform

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MOST_SAMPLES", "Sample", "draw_preview", "fits_whole", "samples_of"]

Array = npt.NDArray[Any]

#: Rows of a sheet; more make a picture that viewers refuse to open.
MOST_SAMPLES = 50
_MOST_COLUMNS = 20
_MOST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Sample:
    """One row of a sheet.

    Attributes:
        index: The sample's key in the dataset, on which its random numbers depend.
        array: The sample.
        name: What the sheet calls it, by default "sample" and the index.
    """

    index: Hashable
    array: Any
    name: str = ""


def samples_of(transform: Transform, images: Any) -> list[Sample]:
    """Return the rows for what a user wants to see.

    Args:
        transform: What tells one array from several.
        images: An array, or a tensor or an image that can be read as one: one sample if the transform takes it as
            a whole, else its first axis counts the samples. Or several of these, keyed by their place. Or a
            mapping from dataset keys to them.

    Raises:
        TypeError: It is something else.
        ValueError: There are none, or too many.
    """
    if isinstance(images, Mapping):
        pairs: Iterable[tuple[Hashable, Any]] = images.items()
    elif hasattr(images, "__array__") or hasattr(images, "__array_interface__"):
        pairs = enumerate([images] if fits_whole(transform, as_array(images)) else images)
    elif isinstance(images, Iterable) and not isinstance(images, str | bytes):
        pairs = enumerate(images)
    else:
        raise TypeError(f"images: expected an array or several, not {type(images).__name__}")
    samples = [Sample(index, array) for index, array in itertools.islice(pairs, MOST_SAMPLES + 1)]
    if not 1 <= len(samples) <= MOST_SAMPLES:
        many = f"more than {MOST_SAMPLES}" if samples else "none"
        raise ValueError(f"images: expected 1 to {MOST_SAMPLES} samples, one for each row, not {many}")
    return samples


def fits_whole(transform: Transform, array: Array) -> bool:
    """Whether a transform takes an array as one sample, as far as that can be known without running it."""
    try:
        list(transform._as_chain().fits(Spec.of(array)))
    except Misfit:
        return array.ndim == 0
    return True


def draw_preview(
    transform: Transform,
    samples: Iterable[Sample],
    *,
    seed: int = 0,
    epoch: int = 0,
    count: int = 5,
    path: str | os.PathLike[str] | None = None,
) -> Image:
    """Draw a contact sheet; see `Transform.preview`."""
    seed = as_count("seed", seed, least=0, most=_MOST_SEED)
    epoch = as_count("epoch", epoch, least=0)
    count = as_count("count", count, least=1, most=_MOST_COLUMNS)
    _require_pillow()
    target: Path | None = None if path is None else as_png_path(path)
    author = _Author(transform, seed, range(epoch, epoch + count))
    columns = ("original", *(f"epoch {each}" for each in author.epochs))
    rows = [author.row(sample) for sample in samples]
    image = Sheet(repr(transform), author.subtitle(), columns, rows).draw()
    if target is not None:
        save(image, target)
    return image


class _Author:
    """Makes the rows of a sheet."""

    def __init__(self, transform: Transform, seed: int, epochs: range) -> None:
        self._chain = transform._as_chain()
        self._seed = seed
        self.epochs = epochs

    def subtitle(self) -> str:
        """Return what holds for all of the sheet."""
        hidden = "" if self._chain.program else " · what is drawn is not known behind a plain function"
        return f"seed {self._seed}{hidden}"

    def row(self, sample: Sample) -> list[Cell]:
        """Return the cells of one sample.

        Raises:
            TypeError: It is no array.
            ValueError: It does not fit; or it, or what becomes of it, cannot be shown.
        """
        name = sample.name or f"sample {describe_index(sample.index, 40)}"
        try:
            array = as_array(sample.array)
        except TypeError as failure:
            raise TypeError(f"{name}: {failure}") from failure
        try:
            fit = next((fit for _, fit in self._chain.fits(Spec.of(array))), None)
            made = [self._transformed(array, sample.index, epoch) for epoch in self.epochs]
        except Misfit as misfit:
            raise ValueError(f"{name}: {misfit}") from misfit
        scale = None if fit is None or self._chain.program is None else Scale.of(fit.nodes)
        original = [(name, ""), ("", str(Spec.of(array))), ("", f"becomes {Spec.of(made[0])}")]
        if scale is not None:
            original.append(("", "shown without Normalize"))
        captions = [original, *(self._drawn(fit, epoch, sample.index) for epoch in self.epochs)]
        try:
            shown = self._show(array, made, fit, scale)
        except ValueError as failure:
            raise ValueError(f"{name}: {failure}") from failure
        return [Cell(*each) for each in zip(shown, captions, strict=True)]

    def _transformed(self, array: Array, index: Hashable, epoch: int) -> Array:
        return self._chain.transform_one(array, self._chain.draw(self._seed, epoch, (index,)))

    def _drawn(self, fit: Fit | None, epoch: int, index: Hashable) -> list[Line]:
        program = self._chain.program
        return [] if fit is None or program is None else tell_drawn(program, fit, self._seed, epoch, index)

    def _show(
        self, array: Array, made: list[Array], fit: Fit | None, scale: Scale | None
    ) -> list[Picture | Curves]:
        target: Layout = fit.target.layout if fit is not None and self._chain.program else ""
        original = show(array, _first_layout(fit))
        results = [show(each, target, scale) for each in made]
        if array.dtype == made[0].dtype:
            return with_common_span([original, *results])
        return [original, *with_common_span(results)]


def _first_layout(fit: Fit | None) -> Layout:
    """Return the layout in which the first step reads what comes in."""
    if fit is None or not fit.nodes:
        return ""
    first = fit.nodes[0]
    return first.spec.layout if isinstance(first, Choice) else first.source.layout


def _require_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError as missing:
        raise ImportError(
            'Pillow is not installed; previews need it: pip install "nogil_loader[preview]"', name="PIL"
        ) from missing
