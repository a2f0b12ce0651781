"""Runs a step on whole arrays in three ways: by its numpy reference, as plain Python, and compiled."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from nogil_loader.transforms.chain import draw_for
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.reference import draw_parameters, run_reference
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation
from tests.transforms import fused


def step_of(transform: Operation, array: np.ndarray) -> Step:
    return transform.step(Spec.of(array))


def drawn_for(transform: Operation, array: np.ndarray, *, seed: int = 0, index: int = 0) -> dict[str, float]:
    """The parameters of a sample by name."""
    step, drawn, _ = _work_out(transform, array, seed, index)
    return dict(zip(step.parameters, drawn.tolist(), strict=True))


def run(
    transform: Operation,
    array: np.ndarray,
    *,
    seed: int = 0,
    index: int = 0,
    kernel: bool = True,
    python: bool = True,
) -> np.ndarray:
    """What the transform makes of an array, after all ways have been found to give the same bits.

    Args:
        transform: Of one step on whole arrays.
        array: Left unchanged, which is checked.
        seed: Of the loader.
        index: Of the sample.
        kernel: Whether to compile it too, which takes up to a second for each dtype and number of axes.
        python: Whether to run it as plain Python, which takes microseconds for each element.
    """
    before = array.copy()
    step, drawn, rng = _work_out(transform, array, seed, index)
    expected = run_reference(
        Fit.of(transform, step.source), array, epoch_key=np.uint64(rng[0]), word=int(rng[1])
    )
    assert (expected.shape, expected.dtype) == (step.target.shape, step.target.dtype)
    assert not np.shares_memory(expected, array)
    if python:
        assert_same(run_python(step, array, drawn, rng), expected)
    if kernel:
        assert_same(fused.assert_same(transform, array, seed=seed, index=index), expected)
    np.testing.assert_array_equal(array, before)
    return expected


def _work_out(
    transform: Operation, array: np.ndarray, seed: int, index: int
) -> tuple[Step, np.ndarray, np.ndarray]:
    """The step, what is drawn for it, and what its noise depends on."""
    fit = Fit.of(transform, Spec.of(array))
    draw = draw_for(seed, 0, (index,))
    ((step, drawn),) = draw_parameters(fit, epoch_key=draw.epoch_key, word=int(draw.words[0]))
    assert isinstance(step, Step)
    return step, drawn, np.array([draw.epoch_key, draw.words[0], step.position, 0], np.uint64)


def run_python(step: Step, array: np.ndarray, drawn: Any, rng: np.ndarray) -> np.ndarray:
    """What the step's function makes of an array when it runs as plain Python."""
    assert step.function is not None
    # What scratch and target held before must not matter.
    target = np.full(step.target.shape, 77, step.target.dtype)
    floats, integers = step.scratch(step.source)
    work, table = np.full(floats, np.nan, np.float32), np.full(integers, -7, np.int64)
    with np.errstate(all="ignore"):
        step.function(array, target, np.array(step.numbers, np.float64), np.asarray(drawn), rng, work, table)
    return target


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal in every bit, except that any NaN equals any other."""
    np.testing.assert_array_equal(found, expected, strict=True)
    if found.dtype.kind == "f":
        signs = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found)[signs], np.signbit(expected)[signs])


def refusal(transform: Operation, shape: tuple[int, ...], dtype: Any) -> str:
    """The message with which the transform refuses an array; it has to begin with the transform."""
    with pytest.raises(ValueError) as caught:
        transform.lower(Spec(shape, np.dtype(dtype)), count())
    message = str(caught.value)
    assert message.startswith(f"{transform}: ")
    return message
