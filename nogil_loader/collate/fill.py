"""What padding is filled with: a value of the array's own dtype, or a clear refusal."""

from __future__ import annotations

import sys
from functools import lru_cache
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe

# A few hundred items: long enough that a row is filled in few steps, short enough to stay in the first cache.
_FILLER_BYTES = 4096


@lru_cache(maxsize=64, typed=True)
def filler(value: Any, dtype: np.dtype[Any], tensor_dtype: Any = None) -> npt.NDArray[Any]:
    """Return repetitions of ``value`` in ``dtype``, at least one; read-only, as it is kept for the next batch.

    Args:
        value: The pad value.
        dtype: The arrays' dtype.
        tensor_dtype: The torch dtype whose bits the arrays carry as integers, if numpy has no such dtype.

    Raises:
        ValueError: ``dtype`` cannot hold ``value``.
    """
    fits = _fits(value, dtype) if tensor_dtype is None else isinstance(value, Complex)
    if not fits:
        raise ValueError(f"the pad value {describe(value, 80)} does not fit dtype {tensor_dtype or dtype}")
    if tensor_dtype is not None:
        item = _tensor_item(value, tensor_dtype, dtype)
    else:
        item = np.zeros((), dtype) if dtype.kind == "V" else np.array(value, dtype)
    items = np.full(max(1, _FILLER_BYTES // max(1, dtype.itemsize)), item, dtype)
    items.flags.writeable = False
    return items


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    match dtype.kind:
        case "b":
            return isinstance(value, (bool, np.bool_)) or (isinstance(value, Integral) and value in (0, 1))
        case "i" | "u":
            limits = np.iinfo(dtype)
            whole = isinstance(value, (Integral, np.bool_)) or (
                isinstance(value, Real) and float(value).is_integer()
            )
            return whole and limits.min <= int(value) <= limits.max
        case "f":
            return isinstance(value, (Real, np.bool_)) and _stays_finite(value, dtype)
        case "c":
            return isinstance(value, (Complex, np.bool_)) and _stays_finite(value, dtype)
        case "m" | "M":
            return isinstance(value, (np.timedelta64, np.datetime64)) and value.dtype.kind == dtype.kind
        case "S" | "U":
            return isinstance(value, (str, bytes)) and np.array(value, dtype).item() == value
        case "V":  # structures and opaque bytes: zero alone has a meaning for all of them
            return isinstance(value, Integral) and value == 0
        case _:
            return True


def _stays_finite(value: Any, dtype: np.dtype[Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array(value, dtype))) or not np.isfinite(value)


def _tensor_item(value: Any, tensor_dtype: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    torch = sys.modules["torch"]
    item = torch.tensor(value, dtype=tensor_dtype)
    bits = getattr(torch, dtype.name)
    array: npt.NDArray[Any] = item.view(bits).numpy()
    return array
