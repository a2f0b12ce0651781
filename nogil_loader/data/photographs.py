"""JPEG-encoded photographs to try a loader on, made on this machine without downloading anything."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nogil_loader.checks import as_count
from nogil_loader.data.dead_leaves import paint_dead_leaves
from nogil_loader.data.positions import PositionalDataset, as_position

Image = NDArray[np.uint8]

# The colour photographs that lie inside scikit-image's wheel; its other ones would be downloaded.
_SHIPPED = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
)
# Cameras and web collections save at about this quality, with the colours at half resolution.
_QUALITY = 90
_SUBSAMPLING = "420"
# A crop shows at most this many pixels of the photograph, each way, to one of its own.
_LARGEST_SCALE = 2.0
# As many different pictures as there are photographs, of about their size.
_PAINTINGS = len(_SHIPPED)
_PAINTING_SIZE = (512, 640)


class Photographs(PositionalDataset):
    """Crops of photographs with the photograph they come from as label: samples ``(image, label)``.

    Crops are kept as JPEG and decoded when they are read, as files would be. The decoder releases the GIL and
    refuses damaged data.

    Use `Photographs.load` for real photographs or `Photographs.generated` where the extra is not installed.

    Args:
        images: For each sample its JPEG data, or its pixels, uint8, shape ``(height, width, 3)``.
        labels: For each sample a number that says which of ``classes`` it is.
        classes: The names of the labels.
        source: Where the images come from, for people.

    Attributes:
        images, labels, classes, source: As above.

    Raises:
        ImportError: There is JPEG data, and no decoder is installed.
        ValueError: ``images`` and ``labels`` differ in length, or a label has no class.
    """

    def __init__(
        self,
        images: Sequence[bytes | Image],
        labels: Sequence[int],
        classes: Sequence[str],
        source: str,
    ) -> None:
        self.images = list(images)
        self.labels = [as_count("label", label, least=0, most=len(classes) - 1) for label in labels]
        self.classes = tuple(classes)
        self.source = source
        if len(self.images) != len(self.labels):
            raise ValueError(
                f"{len(self.images)} images and {len(self.labels)} labels: expected equally many"
            )
        if any(isinstance(image, bytes) for image in self.images):
            _import_extra("simplejpeg")

    @classmethod
    def load(cls, count: int = 2000, size: tuple[int, int] = (256, 256), seed: int = 0) -> Photographs:
        """Cut crops from the photographs that scikit-image ships.

        Each crop is a random part of a random photograph, large or small, scaled to ``size`` and in half of
        the cases mirrored. The default takes a few seconds.

        Args:
            count: How many crops, 0 or more.
            size: Height and width of each, in pixels.
            seed: The crops are a function of the arguments and the installed photographs.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
            ImportError: The extra ``photos`` is not installed.
            FileNotFoundError: The installed scikit-image comes without the photographs.
        """
        from concurrent.futures import ThreadPoolExecutor  # brings the logging package with it

        size, seed = _as_size(size), as_count("seed", seed, least=0)
        pillow = _import_extra("PIL.Image")
        folder = Path(_import_extra("skimage.data").data_dir)
        photographs = [pillow.open(folder / name).convert("RGB") for name in _SHIPPED]
        boxes = list(_choose_boxes([(image.height, image.width) for image in photographs], count, size, seed))
        height, width = size

        def cut(box: _Box) -> bytes:
            area = (box.left, box.top, box.left + width * box.scale, box.top + height * box.scale)
            crop = photographs[box.label].resize((width, height), pillow.Resampling.BILINEAR, area)
            pixels = np.asarray(crop)
            return _encode(pixels[:, ::-1] if box.is_mirrored else pixels)

        # Scaling and encoding release the GIL.
        with ThreadPoolExecutor() as threads:
            images = list(threads.map(cut, boxes))
        return cls(
            images,
            [box.label for box in boxes],
            [Path(name).stem for name in _SHIPPED],
            f"photographs of scikit-image, JPEG quality {_QUALITY}",
        )

    @classmethod
    def generated(cls, count: int = 2000, size: tuple[int, int] = (256, 256), seed: int = 0) -> Photographs:
        """Cut crops from "dead leaves" images, which cost about what photographs cost to decode.

        They are kept as JPEG where the codec is installed, else as pixels; ``source`` says which.

        Args:
            count: How many crops, 0 or more.
            size: Height and width of each, in pixels.
            seed: The pixels of the crops are a function of the arguments.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
        """
        size, seed = _as_size(size), as_count("seed", seed, least=0)
        height, width = size
        canvas = (max(_PAINTING_SIZE[0], height), max(_PAINTING_SIZE[1], width))
        paintings = [paint_dead_leaves(*canvas, seed=(seed, label)) for label in range(_PAINTINGS)]
        has_codec = importlib.util.find_spec("simplejpeg") is not None
        boxes = list(_choose_boxes([canvas] * _PAINTINGS, count, size, seed))

        def cut(box: _Box) -> bytes | Image:
            # Leaves look the same at every scale, so nothing is gained by scaling.
            top, left = int(box.top), int(box.left)
            crop = paintings[box.label][top : top + height, left : left + width]
            crop = crop[:, ::-1] if box.is_mirrored else crop
            return _encode(crop) if has_codec else crop

        labels = [box.label for box in boxes]
        kept = f"JPEG quality {_QUALITY}" if has_codec else "uncompressed"
        classes = [f"leaves {label}" for label in range(_PAINTINGS)]
        return cls([cut(box) for box in boxes], labels, classes, f"dead leaves, {kept}")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> tuple[Image, int]:
        """Return the pixels, uint8, shape ``(height, width, 3)``, and the label.

        Raises:
            IndexError: ``index`` is out of range.
            ValueError: The JPEG data is damaged.
        """
        position = as_position(index, len(self), self)
        image = self.images[position]
        pixels = _decode(image, position) if isinstance(image, bytes) else np.array(image)
        return pixels, self.labels[position]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images: {self.source})"


class _Box(NamedTuple):
    """Where a crop is cut.

    Attributes:
        label: From which canvas.
        top: In pixels of the canvas, as is ``left``.
        scale: Pixels of the canvas to one of the crop.
        is_mirrored: Whether left and right are swapped.
    """

    label: int
    top: float
    left: float
    scale: float
    is_mirrored: bool


def _choose_boxes(
    canvases: Sequence[tuple[int, int]], count: int, size: tuple[int, int], seed: int
) -> Iterator[_Box]:
    """Draw where to cut. A part of a canvas is magnified only if the canvas is smaller than the crop."""
    count = as_count("count", count, least=0)
    height, width = size
    rng = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        label = int(rng.integers(len(canvases)))
        room_down, room_across = canvases[label]
        fitting = min(room_down / height, room_across / width)
        scale = rng.uniform(min(1.0, fitting), min(_LARGEST_SCALE, fitting))
        top = rng.uniform(0.0, room_down - height * scale)
        left = rng.uniform(0.0, room_across - width * scale)
        yield _Box(label, top, left, scale, bool(rng.integers(2)))


def _as_size(size: Any) -> tuple[int, int]:
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise TypeError(f"size={size!r}: expected (height, width) in pixels")
    return as_count("size[0]", size[0], least=1), as_count("size[1]", size[1], least=1)


def _encode(pixels: Image) -> bytes:
    codec = _import_extra("simplejpeg")
    data: bytes = codec.encode_jpeg(
        np.ascontiguousarray(pixels), quality=_QUALITY, colorsubsampling=_SUBSAMPLING
    )
    return data


def _decode(data: bytes, position: int) -> Image:
    codec = _import_extra("simplejpeg")
    try:
        pixels: Image = codec.decode_jpeg(data)
    except ValueError as error:
        raise ValueError(f"photograph {position} cannot be decoded: {error}") from error
    return pixels


def _import_extra(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{module} is not installed; photographs need it: pip install "nogil_loader[photos]"',
            name=module,
        ) from error
