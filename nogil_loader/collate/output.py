"""Handing a finished batch over to the framework that will use it, without copying arrays."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Kinds of numpy dtypes that torch has as well: bool, signed, unsigned, float, complex. longdouble is a float
# that it has not.
_TORCH_KINDS = frozenset("biufc")


def map_leaves(tree: Any, convert: Callable[[Any], Any]) -> Any:
    """Return ``tree`` with every leaf replaced by ``convert(leaf)``; containers keep their types."""
    clone: Any
    if isinstance(tree, Mapping):
        values = {key: map_leaves(value, convert) for key, value in tree.items()}
        if not isinstance(tree, dict) or type(tree) is dict:
            return values
        clone = copy.copy(tree)
        for key, value in values.items():  # not update(), which adds in a Counter
            clone[key] = value
        return clone
    if isinstance(tree, tuple):
        return tuple.__new__(type(tree), [map_leaves(value, convert) for value in tree])
    if isinstance(tree, list):
        clone = copy.copy(tree)
        clone[:] = [map_leaves(value, convert) for value in tree]
        return clone
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        clone = copy.copy(tree)
        for field in dataclasses.fields(tree):
            if hasattr(tree, field.name):
                object.__setattr__(clone, field.name, map_leaves(getattr(tree, field.name), convert))
        return clone
    return convert(tree)


def to_torch(batch: Any) -> Any:
    """Turn the numpy arrays of a batch into tensors that share their memory.

    Arrays of dtypes that torch does not have (strings, dates, structured, object, longdouble) and whatever is
    no array stay as they are.

    Raises:
        ImportError: torch is not installed.
    """
    torch = require_torch()

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray | np.generic) or leaf.dtype.kind not in _TORCH_KINDS:
            return leaf
        if leaf.dtype.itemsize > (16 if leaf.dtype.kind == "c" else 8):
            return leaf
        leaf = np.asarray(leaf)
        if not (leaf.flags.writeable and leaf.dtype.isnative and all(step >= 0 for step in leaf.strides)):
            # Only samples that are handed through uncollated can be like this; torch cannot take such memory.
            leaf = np.array(leaf, dtype=leaf.dtype.newbyteorder("="), order="C")
        return torch.from_numpy(leaf)

    return map_leaves(batch, convert)


def to_numpy(batch: Any) -> Any:
    """Turn the torch tensors of a batch into numpy arrays that share their memory.

    Raises:
        TypeError: A tensor has a dtype that numpy has not, or lives on another device.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return batch

    def convert(leaf: Any) -> Any:
        return leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else leaf

    return map_leaves(batch, convert)


def pin(batch: Any) -> Any:
    """Copy the tensors of a batch into page-locked memory, from which copies to a GPU are faster."""
    torch = require_torch()

    def convert(leaf: Any) -> Any:
        return leaf.pin_memory() if isinstance(leaf, torch.Tensor) else leaf

    return map_leaves(batch, convert)


def require_torch(argument: str = 'output="torch"') -> Any:
    """Import torch.

    Args:
        argument: What it is needed for.

    Raises:
        ImportError: torch is not installed; the message names the extra.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f'{argument} needs PyTorch, which is not installed: pip install "nogil_loader[torch]"'
        ) from error
    return torch
