"""Kernels: plain functions compiled by numba that run without the GIL, and what numpy does as well.

Importing this package does not import numba.
"""

from nogil_loader.kernels.compile import Argument, Kernel, kernel, warm_up
from nogil_loader.kernels.gather import gather_rows
from nogil_loader.kernels.rows import pad_rows

__all__ = ["Argument", "Kernel", "gather_rows", "kernel", "pad_rows", "warm_up"]
