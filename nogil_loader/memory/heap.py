"""The C library's heap, where it is glibc's. On every other system these functions do nothing and return False."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# glibc's own start value is 128 KiB. Up to 1 MiB the heap is two to four times as fast for who frees and allocates
# without pause, and samples of that size do not keep much; 1 MiB and more live in mappings that end when freed.
_THRESHOLD = 1 << 20


def trim() -> bool:
    """Give free memory of all heaps back to the system; True if there was any. Takes 10 to 50 ms.

    Returns nearly all that small arrays have left behind. Arrays of megabytes leave behind what it cannot return,
    unless the thresholds were fixed before.
    """
    libc = _glibc()
    return libc is not None and libc.malloc_trim(0) == 1


@functools.cache
def fix_thresholds() -> bool:
    """Keep glibc from ever putting blocks of 1 MiB or more into its heaps; True if that was possible.

    For the whole process and until its end, so this is not for a library to do unasked. The reason: glibc raises
    its threshold to as much as 32 MiB when the first large block is freed. From then on large arrays live in the
    heaps of the threads, where one small block above them keeps all of it from going back. 16 threads with arrays
    of 1 to 80 MB kept 353 to 390 MB after everything was freed, and trimming did not help; with a fixed
    threshold, 0.2 MB. That decides whether loading succeeds under a low limit. The price is fresh pages for each
    such array; no difference was seen where samples are loaded into them.

    Calling it again changes nothing.
    """
    libc = _glibc()
    if libc is None:
        return False
    # Either of them alone already ends the automatic growth of both.
    fixed = [libc.mallopt(name, _THRESHOLD) == 1 for name in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)]
    return all(fixed)


@functools.cache
def _glibc() -> Any:
    """Return the C library if it is glibc and offers what is needed, else None."""
    try:
        libc = ctypes.CDLL(None)
        needed = libc.gnu_get_libc_version, libc.malloc_trim, libc.mallopt
    except (OSError, TypeError, AttributeError):  # no library, Windows, another library
        return None
    _, malloc_trim, mallopt = needed
    malloc_trim.argtypes = [ctypes.c_size_t]
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    return libc
