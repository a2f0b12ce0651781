"""Gathering rows of an array into a batch array, without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def gather_rows(source: npt.NDArray[Any], indices: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Copy ``source[indices]`` into ``out`` in one go, the GIL released.

    numpy's ``take`` does it: a compiled loop over memcpy is equally fast for rows of 64 bytes and more, and
    slower for items of 1, 2, 4, 8 or 16 bytes. What makes the difference is how it is called: with another
    ``mode`` than ``"clip"`` it copies into a buffer first, and it copies all of a source that is not
    C-contiguous.

    Args:
        source: ``(N, …)``, C-contiguous, of any dtype and byte order.
        indices: ``(B,)`` int64, each from 0 to N - 1.
        out: ``(B, …)``, C-contiguous and writable, of the source's dtype in native byte order.

    Raises:
        IndexError: An index is out of range; nothing has been written.
        ValueError: Shapes, dtypes or layouts are not as above.
    """
    if source.ndim == 0 or not source.flags.c_contiguous:
        raise ValueError(
            f"source: expected a C-contiguous array of at least 1 dimension, not {_told(source)}"
        )
    if indices.ndim != 1 or indices.dtype != np.int64:
        raise ValueError(f"indices: expected 1 dimension of int64, not {_told(indices)}")
    shape = (len(indices), *source.shape[1:])
    dtype = source.dtype if source.dtype.isnative else source.dtype.newbyteorder("=")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out: expected {shape} of {dtype}, not {_told(out)}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out: expected C-contiguous, writable memory")
    if not len(indices):
        return
    # One pass for both ends: as unsigned numbers, negative ones are larger than any length.
    if indices.view(np.uint64).max() >= len(source):
        position = int((indices.view(np.uint64) >= len(source)).argmax())
        raise IndexError(
            f"indices[{position}]={int(indices[position])}: expected 0 to {len(source) - 1}, "
            f"the source has {len(source)} rows"
        )
    if dtype is source.dtype:
        np.take(source, indices, axis=0, out=out, mode="clip")
    else:
        # Take never converts while it copies; the bytes are turned round where they have been put.
        np.take(source, indices, axis=0, out=out.view(source.dtype), mode="clip")
        out[...] = out.view(source.dtype)


def _told(array: npt.NDArray[Any]) -> str:
    return f"{array.shape} of {array.dtype}, strides {array.strides}"
