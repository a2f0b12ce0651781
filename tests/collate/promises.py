"""What every delivered array has to be, whatever it was collated from (G9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def assert_owned(batch: np.ndarray[Any, Any], samples: Iterable[Any]) -> None:
    """Assert that ``batch`` is contiguous, native, writable, aligned, and shares no memory with a sample."""
    assert type(batch) is np.ndarray
    assert batch.flags.c_contiguous
    assert batch.flags.writeable
    assert batch.dtype.isnative
    assert all(stride >= 0 for stride in batch.strides)
    if not batch.dtype.hasobject:
        assert batch.__array_interface__["data"][0] % 64 == 0
    assert not any(np.shares_memory(batch, sample) for sample in samples if isinstance(sample, np.ndarray))
