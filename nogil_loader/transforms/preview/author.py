"""Makes the rows of a contact sheet."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy.typing as npt

from nogil_loader.errors import describe_index
from nogil_loader.transforms.chain import Misfit, as_array
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.preview.captions import Line, tell_drawn
from nogil_loader.transforms.preview.display import Curves, Picture, Scale, show, with_common_span
from nogil_loader.transforms.preview.samples import Sample
from nogil_loader.transforms.preview.sheet import Cell
from nogil_loader.transforms.spec import Layout, Spec
from nogil_loader.transforms.step import Choice
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]


class Author:
    """Makes the rows of a sheet.

    Args:
        transform: What is applied.
        seed: Of the loader.
        epochs: One for each column.
    """

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
        original = [(name, ""), ("", str(Spec.of(array)))]
        if Spec.of(made[0]) != Spec.of(array):
            original.append(("", f"becomes {Spec.of(made[0])}"))
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
