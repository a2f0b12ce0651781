"""Where batch arrays live: 64-byte aligned memory that nothing else refers to.

Large arrays get a private anonymous mapping of their own from the pool. Three reasons: the C allocator keeps freed
blocks of this size in the heaps of many threads (so memory that a batch gave up still counts against the limit),
a mapping that starts at a huge page takes one page fault for each 2 MB instead of one for each 4 KB, and one that
is used again takes none. Other arrays end with their last reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.memory.pool import CAN_MAP, pool

#: One cache line and one AVX-512 register; jax and TensorFlow take over numpy memory only when so aligned.
ALIGNMENT = 64

# From here on a fresh mapping is at least as fast as the allocator as soon as several batches are alive at once
# (0.3 of its time at 4 MiB, 0.5 at 8 MiB, 0.7 at 16 MiB); below, recycled heap memory wins.
_MAPPED_FROM = 4 << 20


def aligned_empty(shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a new uninitialised array: C-contiguous, writable, its first byte 64-byte aligned.

    Args:
        shape: Lengths of the axes. numpy integers are widened first, so that 32-bit lengths whose product
            needs 64 bits are all right.
        dtype: Any dtype. One that holds references (object, structures with object fields, variable-width
            strings) gets plain ``np.empty`` memory, initialised as numpy does.

    Raises:
        TypeError: A length is not an integer.
        ValueError: A length is negative.
        MemoryError: The system refuses the memory.
    """
    dtype = np.dtype(dtype)
    lengths = tuple(
        as_count("shape", n, least=0) for n in (shape if isinstance(shape, Sequence) else (shape,))
    )
    return allocate(lengths, dtype)


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], *, zeroed: bool = False) -> npt.NDArray[Any]:
    """Do what `aligned_empty` does, for a shape of plain ints and a dtype object that need no checking.

    With ``zeroed`` all bytes are zero, which costs nothing where the system gives fresh pages.
    """
    if dtype.hasobject:
        return np.empty(shape, dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes >= _MAPPED_FROM and CAN_MAP:
        try:
            return np.ndarray(shape, dtype, pool.take(nbytes, zeroed=zeroed))
        except (OSError, OverflowError) as failure:
            raise MemoryError(
                f"the system refuses {nbytes} bytes for an array {shape} of {dtype}: {failure}"
            ) from failure
    block: Any = (np.zeros if zeroed else np.empty)(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, block, -addressof(c_char.from_buffer(block)) % ALIGNMENT)
