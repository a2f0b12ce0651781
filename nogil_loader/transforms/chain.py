"""A transform ready for a loader: kernels, and between them the plain functions that the user put there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.philox import epoch_key
from nogil_loader.memory.buffers import allocate
from nogil_loader.plan.words import word_of
from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform

Array = npt.NDArray[Any]

#: Compiles the kernel of a program for a fit.
Prepare = Callable[[Program, Fit], None]


class Misfit(ValueError):
    """An array is not what a transform takes."""


# 2**64 divided by the golden ratio: the words of different parts differ in about half of their bits.
_GOLDEN = 0x9E3779B97F4A7C15

# A kernel behind a plain function draws other numbers than the one before it. No chain has so many steps.
_POSITIONS = 1 << 16


class Chain:
    """A transform, compiled as far as it can be. Any number of threads may use it at once.

    Args:
        transform: What to do.

    Attributes:
        transform: The same.
        functions: The plain functions in it, which hold the GIL.
        program: The one kernel that does everything; None where there are plain functions.
    """

    def __init__(self, transform: Transform) -> None:
        self.transform = transform
        stages = _stages(transform)
        self._stages: tuple[Program | Callable[[Any], Any], ...] = tuple(
            Program(stage, at * _POSITIONS) if isinstance(stage, Transform) else stage
            for at, stage in enumerate(stages)
        )
        self.functions = tuple(stage for stage in self._stages if not isinstance(stage, Program))
        first = self._stages[0] if len(self._stages) == 1 else None
        self.program = first if isinstance(first, Program) else None

    def draw(self, seed: int, epoch: int, keys: Sequence[Hashable], part: int = 0) -> Draw:
        """Return what the random numbers of samples depend on."""
        return draw_for(seed, epoch, keys, part)

    def transform_one(
        self, value: Any, draw: Draw, out: Array | None = None, compile_first: Prepare | None = None
    ) -> Array:
        """Return the transformed array of one sample.

        Args:
            value: An array in any layout and byte order; it is not changed.
            draw: Of one sample.
            out: Where to write the result, if it has the right shape and dtype; else a new array is made.
            compile_first: Called when a kernel has to be compiled, which takes seconds; it does that.

        Raises:
            TypeError: A function returned something that is no array.
            Misfit: The array does not fit; the message names the transform.
        """
        array = as_array(value)
        last = len(self._stages) - 1
        for at, stage in enumerate(self._stages):
            if isinstance(stage, Program):
                array = _run(stage, array, draw, out if at == last else None, compile_first)
            else:
                # The first one gets an array of its own: it may work in place, and the dataset's is not to change.
                array = as_array(stage(array if at else array.copy()), stage)
        return array

    def refresh(self) -> None:
        """Look again at users' functions and at what they refer to."""
        for stage in self._stages:
            if isinstance(stage, Program):
                stage.refresh()

    def fits(self, spec: Spec) -> Iterator[tuple[Program, Fit]]:
        """Iterate over the kernels as far as specs are known, which is up to the first plain function.

        Raises:
            Misfit: Arrays of this spec do not fit; the message names the transform.
        """
        if self._stages and isinstance(self._stages[0], Program):
            yield self._stages[0], _fit(self._stages[0], spec)


@lru_cache(maxsize=8)
def _epoch_key(seed: int, epoch: int) -> np.uint64:
    return epoch_key(seed, epoch)


def draw_for(seed: int, epoch: int, keys: Sequence[Hashable], part: int = 0) -> Draw:
    """Return what the random numbers of samples depend on.

    Args:
        seed: Of the loader.
        epoch: The epoch.
        keys: The samples' dataset keys.
        part: Which of several parts of a sample, each of which draws numbers of its own.
    """
    try:
        # Plain ints in one go: their words are their bits.
        words = np.array(keys, np.int64).view(np.uint64) if set(map(type, keys)) <= {int} else None
    except OverflowError:
        words = None
    if words is None:
        words = np.fromiter(map(word_of, keys), np.uint64, len(keys))
    if part:
        words = words ^ np.uint64(part * _GOLDEN & (2**64 - 1))
    return Draw(_epoch_key(seed, epoch), words)


def check_moment(seed: int, epoch: int, part: int = 0) -> None:
    """Refuse a seed, an epoch or a part that no loader has.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of range.
    """
    as_count("seed", seed, least=0, most=2**64 - 1)
    as_count("epoch", epoch, least=0)
    as_count("part", part, least=0)


def _fit(program: Program, spec: Spec) -> Fit:
    try:
        return program.fit(spec)
    except ValueError as failure:
        raise Misfit(str(failure)) from failure


def _run(
    program: Program, array: Array, draw: Draw, out: Array | None, compile_first: Prepare | None
) -> Array:
    fit = _fit(program, Spec.of(array))
    if compile_first is not None and not program.is_ready(fit):
        compile_first(program, fit)
    if out is None or out.shape != fit.target.shape or out.dtype != fit.target.dtype:
        out = allocate(fit.target.shape, fit.target.dtype)
    program.run(fit, array[None], _FIRST, draw, out[None])
    return out


_FIRST = np.zeros(1, np.int64)


def as_array(value: Any, function: Callable[[Any], Any] | None = None) -> Array:
    """Return a sample's value as an array without copying it.

    Raises:
        TypeError: It is no array.
    """
    if isinstance(value, np.ma.MaskedArray) or not (
        hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    ):
        made = "" if function is None else f" (returned by {describe(function, 100)})"
        raise TypeError(f"transforms take arrays, not {type(value).__name__}{made}: {describe(value, 100)}")
    return np.asarray(value)


def _stages(transform: Transform) -> list[Transform | Callable[[Any], Any]]:
    """Split a transform at the plain functions in it."""
    stages: list[Transform | Callable[[Any], Any]] = []
    run: list[Transform] = []
    for each in _flat(transform):
        if isinstance(each, Transform):
            run.append(each)
            continue
        if run:
            stages.append(Compose(run))
            run = []
        stages.append(each)
    if run or not stages:
        stages.append(Compose(run))
    return stages


def _flat(transform: Any) -> Iterator[Any]:
    if isinstance(transform, Compose):
        for each in transform.transforms:
            yield from _flat(each)
    else:
        yield transform
