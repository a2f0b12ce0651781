"""What an array looks like before and after a transform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

#: The axes of an image in order, or "" for an array whose axes have no names.
Layout = Literal["", "HW", "HWC", "CHW"]

# Pixels of these are exact in float32, in which rows are computed; wider ones are computed in float64.
_NARROW = {np.dtype(t) for t in ("bool", "uint8", "int8", "uint16", "int16", "float32")}
_WIDE = {np.dtype(t) for t in ("uint32", "int32", "float64")}
# What has so few rows and pixels of so many channels is an image with its channels first.
_LEAST_SIDE = 8


@dataclass(frozen=True)
class Spec:
    """Shape, dtype and layout of an array.

    Args:
        shape: Lengths of the axes.
        dtype: In native byte order.
        layout: Names of an image's axes, ``""`` where nobody has said that it is an image.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout = ""

    def __post_init__(self) -> None:
        # np.uint8 is what many write, and is no dtype yet.
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Spec:
        """Return the spec of an array in memory; float16, which no kernel computes with, counts as float32."""
        dtype = array.dtype.newbyteorder("=") if not array.dtype.isnative else array.dtype
        return cls(tuple(array.shape), np.dtype(np.float32) if dtype == np.float16 else dtype)

    @classmethod
    def image_of(cls, height: int, width: int, channels: int = 3, dtype: npt.DTypeLike = np.uint8) -> Spec:
        """Return the spec of an image with its channels last."""
        return cls((height, width, channels), np.dtype(dtype), "HWC")

    def __str__(self) -> str:
        axes = f" {self.layout}" if self.layout else ""
        return f"{self.dtype}{list(self.shape)}{axes}"

    # Of images

    def image(self, who: object) -> Spec:
        """Return this spec with a layout: two axes are HW, three are HWC unless they have names already.

        Raises:
            ValueError: This cannot be an image; the message names the transform ``who``.
        """
        if self.dtype not in _NARROW and self.dtype not in _WIDE:
            raise ValueError(
                f"{who}: images of {self.dtype} are not supported; expected bool, integers of 8 to "
                f"32 bits, or floats"
            )
        if self.layout:
            return self
        if len(self.shape) == 2:
            return replace(self, layout="HW")
        if len(self.shape) != 3:
            raise ValueError(
                f"{who}: expected an image (H, W) or (H, W, C), not an array of shape {self.shape}"
            )
        depth, height, width = self.shape
        if depth in (1, 3, 4) and height >= _LEAST_SIDE <= width:
            raise ValueError(
                f"{who}: an image of shape {self.shape} seems to have its channels first; begin with ToHWC(), "
                f"which reads (C, H, W), or with ToHWC(reads='HWC') if it really has {width} channels"
            )
        return replace(self, layout="HWC")

    @property
    def height(self) -> int:
        """Rows of an image."""
        return self.shape[self.layout.index("H")]

    @property
    def width(self) -> int:
        """Columns of an image."""
        return self.shape[self.layout.index("W")]

    @property
    def channels(self) -> int:
        """Channels of an image, 1 where it has no axis for them."""
        return self.shape[self.layout.index("C")] if "C" in self.layout else 1

    @property
    def lengths(self) -> tuple[int, int]:
        """Height and width of an image, else the first two lengths, 1 where there is none."""
        if "H" in self.layout:
            return self.height, self.width
        first, second, *_ = (*self.shape, 1, 1)
        return first, second

    @property
    def white(self) -> float:
        """The pixel value that is full intensity: the largest integer of the dtype, or 1.0 for floats."""
        if self.dtype.kind in "fb":
            return 1.0
        return float(np.iinfo(self.dtype).max)

    @property
    def work(self) -> np.dtype[Any]:
        """The dtype in which rows of pixels are computed."""
        return np.dtype(np.float64 if self.dtype in _WIDE else np.float32)

    def resized(self, height: int, width: int) -> Spec:
        """Return the spec of the same kind of image in another size."""
        lengths = {"H": height, "W": width, "C": self.channels}
        return replace(self, shape=tuple(lengths[axis] for axis in self.layout))

    def with_channels(self, channels: int) -> Spec:
        """Return the spec of an image with so many channels; one without an axis for them gets one, behind."""
        layout: Layout = "HWC" if self.layout == "HW" and channels != 1 else self.layout
        lengths = {"H": self.height, "W": self.width, "C": channels}
        return replace(self, shape=tuple(lengths[axis] for axis in layout), layout=layout)

    def with_layout(self, layout: Layout) -> Spec:
        """Return the spec of the same image with its axes in another order."""
        lengths = {"H": self.height, "W": self.width, "C": self.channels}
        return replace(self, shape=tuple(lengths[axis] for axis in layout), layout=layout)

    def with_dtype(self, dtype: npt.DTypeLike) -> Spec:
        """Return the spec of an array of another dtype."""
        return replace(self, dtype=np.dtype(dtype))

    def limits(self) -> tuple[float, float] | None:
        """Return the smallest and the largest value of an integer or bool dtype, None for floats."""
        if self.dtype.kind == "b":
            return 0.0, 1.0
        if self.dtype.kind == "f":
            return None
        info = np.iinfo(self.dtype)
        return float(info.min), float(info.max)
