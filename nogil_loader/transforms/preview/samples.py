"""The samples that a contact sheet shows."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from nogil_loader.transforms.chain import Misfit, as_array
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]

#: Rows of a sheet; more make a picture that viewers refuse to open.
MOST_SAMPLES = 50


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
        is_known = bool(list(transform._as_chain().fits(Spec.of(array))))
    except Misfit:
        return array.ndim == 0
    return is_known or array.ndim <= 3
