"""Runs a transform in every way there is and checks that they agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nogil_loader.kernels.philox import epoch_key
from nogil_loader.transforms.codegen import KERNEL
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.reference import draw_parameters, run_reference
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Transform
from nogil_loader.transforms.workspace import Workspace


def run(
    transform: Transform,
    array: np.ndarray,
    *,
    seed: int = 0,
    index: int = 0,
    python: bool = False,
    compiled: bool = False,
) -> np.ndarray:
    """What the numpy reference makes of an array, after the kernel has been found to give the same bits.

    Args:
        transform: Anything without plain functions.
        array: Left unchanged, which is checked.
        seed: Of the loader.
        index: Of the sample.
        python: Whether to run the kernel's source as plain Python; for small arrays.
        compiled: Whether to run the compiled kernel, which takes up to a few seconds for each new form of one.
    """
    program = Program(transform)
    fit = program.fit(Spec.of(array))
    draw = Draw(epoch_key(seed, 0), np.array([index], np.uint64))
    before = array.copy()
    expected = run_reference(fit, array, epoch_key=draw.epoch_key, word=index)
    assert (expected.shape, expected.dtype) == (fit.target.shape, fit.target.dtype)
    if python:
        _same(_run_python(program, fit, array, draw), expected)
    if compiled:
        out = np.full((1, *fit.target.shape), 77, fit.target.dtype)
        program.run(fit, array[None], np.zeros(1, np.int64), draw, out)
        _same(out[0], expected)
    np.testing.assert_array_equal(array, before)
    return expected


def parameters(transform: Transform, array: np.ndarray, *, seed: int = 0, index: int = 0) -> dict[str, float]:
    """What the only step of a transform has drawn for a sample."""
    return drawn(transform, array, [index], seed=seed)[0]


def drawn(
    transform: Transform, array: np.ndarray, indices: Iterable[int], *, seed: int = 0
) -> list[dict[str, float]]:
    """What the only step of a transform has drawn for each of many samples."""
    fit = Fit.of(transform, Spec.of(array))
    key = epoch_key(seed, 0)
    result = []
    for index in indices:
        ((node, values),) = draw_parameters(fit, epoch_key=key, word=index)
        assert isinstance(node, Step)
        assert len(node.parameters) == len(values)
        result.append(dict(zip(node.parameters, values.tolist(), strict=True)))
    return result


def _run_python(program: Program, fit: Fit, array: np.ndarray, draw: Draw) -> np.ndarray:
    """Run the fused kernel's source as it is, without a compiler."""
    writer = program.source(fit)
    names: dict[str, Any] = dict(writer.names)
    exec(writer.text, names)
    out = np.full((1, *fit.target.shape), 77, fit.target.dtype)
    scratch = Workspace().arrays(fit)
    for each in scratch:
        each.fill(-7 if each.dtype.kind == "i" else 77)  # what scratch held before must not matter
    with np.errstate(all="ignore"):
        names[KERNEL](
            array[None].view(_stored(array)),
            np.zeros(1, np.int64),
            draw.words,
            draw.epoch_key,
            fit.numbers,
            fit.sizes,
            *scratch,
            out.view(_stored(out)),
        )
    return np.asarray(out[0])


def _stored(array: np.ndarray) -> np.dtype:
    return np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype


def _same(result: np.ndarray, expected: np.ndarray) -> None:
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    if result.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))
