"""What a value in a sample is to collation: the one place where types are told apart."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

Kind = Literal["none", "text", "array", "number", "tensor", "mapping", "sequence", "record", "object"]

#: The dtype in which Python's own numbers are collated. bool stands before int, its base class.
PYTHON_NUMBERS: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


def kind_of(value: Any) -> Kind:
    """Return how ``value`` is collated.

    ``"array"`` also means subclasses, ``"number"`` Python's numbers and numpy's scalars, ``"record"``
    instances of dataclasses, ``"sequence"`` lists and tuples with their subclasses (named tuples too),
    ``"object"`` whatever else there is.
    """
    if value is None:
        return "none"
    if isinstance(value, (str, bytes)):  # before numpy's scalars: np.str_ and np.bytes_ are both
        return "text"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, (np.generic, *PYTHON_NUMBERS)):
        return "number"
    torch = sys.modules.get("torch")  # a sample can hold a tensor only when someone has imported torch
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return "tensor"
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, (list, tuple)):
        return "sequence"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "record"
    return "object"
