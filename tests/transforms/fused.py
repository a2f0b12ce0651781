"""A transform done by its kernel and by its numpy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.chain import draw_for
from nogil_loader.transforms.drawn import only_program
from nogil_loader.transforms.reference import run_reference
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]


def both(
    transform: Transform, array: Array, *, seed: int = 0, epoch: int = 0, index: int = 0
) -> tuple[Array, Array]:
    """Return what the kernel and what the reference makes of an array, which neither may change."""
    before = array.copy()
    fused = transform.apply(array, seed=seed, epoch=epoch, index=index)
    program = only_program(transform._as_chain())
    draw = draw_for(seed, epoch, (index,))
    plain = np.ascontiguousarray(array, Spec.of(array).dtype)
    reference = run_reference(
        program.fit(Spec.of(array)), plain, epoch_key=draw.epoch_key, word=int(draw.words[0])
    )
    np.testing.assert_array_equal(array, before)
    return fused, reference


def assert_same(
    transform: Transform, array: Array, *, seed: int = 0, epoch: int = 0, index: int = 0
) -> Array:
    """Check that kernel and reference agree bit by bit, NaN included, and return the result."""
    fused, reference = both(transform, array, seed=seed, epoch=epoch, index=index)
    assert (fused.shape, fused.dtype) == (reference.shape, reference.dtype)
    np.testing.assert_array_equal(fused, reference)
    assert not np.shares_memory(fused, array)
    return fused
