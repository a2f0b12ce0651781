"""Contact sheets: originals beside what a transform makes of them in one epoch after another."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nogil_loader.checks import as_count
from nogil_loader.transforms.preview.author import Author
from nogil_loader.transforms.preview.file import as_png_path, save
from nogil_loader.transforms.preview.samples import Sample
from nogil_loader.transforms.preview.sheet import Sheet
from nogil_loader.transforms.transform import Transform

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_COLUMNS = 20
_MOST_SEED = 2**64 - 1


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
    require_pillow()
    target = None if path is None else as_png_path(path)
    author = Author(transform, seed, range(epoch, epoch + count))
    columns = ("original", *(f"epoch {each}" for each in author.epochs))
    rows = [author.row(sample) for sample in samples]
    image = Sheet(repr(transform), author.subtitle(), columns, rows).draw()
    if target is not None:
        save(image, target)
    return image


def require_pillow() -> None:
    """Refuse to go on without Pillow.

    Raises:
        ImportError: It is missing; the message says how to get it.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as missing:
        raise ImportError(
            'Pillow is not installed; previews need it: pip install "nogil_loader[preview]"', name="PIL"
        ) from missing
