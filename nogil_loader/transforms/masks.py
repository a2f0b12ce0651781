"""Masks as kernels see them: arrays of pixels that are moved, never computed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.accept import check_fit
from nogil_loader.transforms.spec import Layout, Spec

Array = npt.NDArray[Any]

# Dtypes that kernels do not compute with pass through them as others of the same bits, two to a label if need be.
_BITS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float16): np.dtype(np.uint16),
    np.dtype(np.int64): np.dtype(np.uint32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}
_KINDS = "biuf"


@dataclass(frozen=True)
class MaskForm:
    """How masks of one shape and dtype become pixels.

    Attributes:
        dtype: Of the mask, in native byte order.
        layout: Its axes.
        spec: The pixels.
        fill: Their value outside of the mask.
    """

    dtype: np.dtype[Any]
    layout: Layout
    spec: Spec
    fill: tuple[float, ...]

    @classmethod
    def of(cls, who: object, mask: Spec, fill: float, *, planar: bool) -> MaskForm:
        """Return the form of masks of this spec.

        Args:
            who: The transform, for the message.
            mask: Shape and dtype.
            fill: Value outside of the mask.
            planar: Whether a third axis comes first.

        Raises:
            ValueError: The array cannot be a mask, or the fill does not fit its dtype.
        """
        if mask.dtype.kind not in _KINDS or mask.dtype.itemsize > 8:
            raise ValueError(
                f"{who}: a mask of {mask.dtype} is not supported; expected labels, bool or floats"
            )
        if len(mask.shape) not in (2, 3):
            axes = "(C, H, W)" if planar else "(H, W, C)"
            raise ValueError(f"{who}: expected a mask (H, W) or {axes}, not an array of shape {mask.shape}")
        check_fit(who, "mask_fill", [fill], mask.dtype)
        layout: Layout = "HW" if len(mask.shape) == 2 else "CHW" if planar else "HWC"
        spec = Spec(mask.shape, mask.dtype, layout)
        bits = _BITS.get(mask.dtype)
        if bits is None:
            return cls(mask.dtype, layout, spec, (float(fill),))
        words = np.array([int(fill) if mask.dtype.kind != "f" else fill], mask.dtype).view(bits)
        wide = Spec((spec.height, spec.width, spec.channels * len(words)), bits, "HWC")
        return cls(mask.dtype, layout, wide, tuple(map(float, words)) * spec.channels)

    def pixels(self, mask: Array) -> Array:
        """Return a mask as pixels, C-contiguous; without a copy where it is possible."""
        if self.spec.layout != self.layout:
            mask = mask[..., None] if self.layout == "HW" else mask
            mask = np.moveaxis(mask, 0, 2) if self.layout == "CHW" else mask
        return np.ascontiguousarray(mask, self.dtype).view(self.spec.dtype)

    def mask(self, pixels: Array) -> Array:
        """Return pixels as a mask, C-contiguous."""
        mask = pixels.view(self.dtype)
        if self.spec.layout == self.layout:
            return mask
        if self.layout == "HW":
            return mask[..., 0]
        return np.ascontiguousarray(np.moveaxis(mask, 2, 0)) if self.layout == "CHW" else mask
