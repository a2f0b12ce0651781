"""Datasets over a path: a folder of images, or arrays in a ``.npy`` or ``.npz`` file."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nogil_loader.data import ArrayDataset

Image = NDArray[np.uint8]

_JPEG = (".jpg", ".jpeg")
_IMAGES = (*_JPEG, ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".jp2", ".ppm", ".pgm")
_ARRAYS = (".npy", ".npz")


class ImageFolder:
    """The images below a folder, decoded when they are read: samples ``(image, label)``.

    The label is the number of the folder that an image lies in, in the order of their names. Images come as uint8
    of shape ``(height, width, 3)``. So that they fit into a batch, all have the size of the first one: others are
    scaled to it.

    Args:
        root: The folder; the folders in it are searched as well.

    Raises:
        ValueError: There are no images.
        ImportError: There is nothing to decode them with.
    """

    def __init__(self, root: Path) -> None:
        self.files = sorted(
            os.path.join(where, name)
            for where, _, names in os.walk(root)
            for name in names
            if os.path.splitext(name)[1].lower() in _IMAGES
        )
        if not self.files:
            raise ValueError(f"{root}: no images in this folder, that is {', '.join(_IMAGES)}")
        self.root = root
        folders = sorted({os.path.dirname(file) for file in self.files})
        numbers = {folder: number for number, folder in enumerate(folders)}
        self.labels = [numbers[os.path.dirname(file)] for file in self.files]
        self._has_codec = importlib.util.find_spec("simplejpeg") is not None
        self._size = self._decode(self.files[0]).shape[:2]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Image, int]:
        image = self._decode(self.files[index])
        if image.shape[:2] != self._size:
            image = self._scale(image)
        return image, self.labels[index]

    def _decode(self, file: str) -> Image:
        if self._has_codec and file.lower().endswith(_JPEG):
            import simplejpeg

            with open(file, "rb") as stream:
                pixels: Image = simplejpeg.decode_jpeg(stream.read())
            return pixels
        with _pillow().open(file) as image:
            return np.array(image.convert("RGB"))

    def _scale(self, image: Image) -> Image:
        height, width = self._size
        pillow = _pillow()
        return np.array(pillow.fromarray(image).resize((width, height), pillow.Resampling.BILINEAR))

    def __repr__(self) -> str:
        height, width = self._size
        return f"ImageFolder({str(self.root)!r}, images of {height} x {width})"


def check_path(path: Path) -> None:
    """Refuse a path that no dataset is made of, without reading it.

    Raises:
        ValueError: As said.
    """
    if not path.is_dir() and path.suffix.lower() not in _ARRAYS:
        raise ValueError(f"{path}: expected a folder of images, or a file {' or '.join(_ARRAYS)}")


def open_path(path: Path) -> Any:
    """Return a dataset over a path.

    Raises:
        ValueError: There is something else in it than was expected.
        OSError: It cannot be read.
        ImportError: There is nothing to decode images with.
    """
    if path.is_dir():
        return ImageFolder(path)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        # An archive cannot be mapped: its arrays are read.
        return ArrayDataset(found) if isinstance(found, np.ndarray) else ArrayDataset(dict(found))
    except (ValueError, TypeError, EOFError) as failure:
        raise ValueError(f"{path}: {failure}") from failure


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError(
            'Pillow is not installed; images need it: pip install "nogil_loader[photos]"', name="PIL"
        ) from error
