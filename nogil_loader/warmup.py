"""Compiles what a program will need, as when a container image is built: ``nogil-loader warmup``."""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.kernels.compiler.cache import cache_folder
from nogil_loader.kernels.compiler.generated import GeneratedKernel, loaded_kernels
from nogil_loader.kernels.compiler.loaded import can_compile, load_own_kernels
from nogil_loader.loader import DataLoader
from nogil_loader.targets import Target, TargetError, check_file, enter_folder, resolve, run_users_code
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform

#: What a transform is warmed up for if nothing is said: photographs. Their size does not matter.
_PHOTOGRAPH = (256, 256, 3)
_DIGITS = 8
_TOLD = {"compiled": "compiled", "disk": "found", "python": "not compiled"}


@dataclass(frozen=True)
class Warmup:
    """What to compile.

    Attributes:
        target: A loader, a transform, a list of these, a function that returns such, or a script.
        shapes: Of the arrays that a transform will be given; none for photographs.
        dtype: Of these arrays.
        arguments: Of a script.

    Raises:
        ValueError: There are arguments for something that is not a script.
    """

    target: Target
    shapes: Sequence[tuple[int, ...]] = ()
    dtype: npt.DTypeLike = np.uint8
    arguments: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.arguments and self.target.name is not None:
            raise ValueError(f"arguments {' '.join(self.arguments)!r}: {self.target} is not a script")


def run_warmup(warmup: Warmup, output: TextIO) -> int:
    """Compile, tell about each kernel, and return the exit code: 0 if all of them are on disk now.

    Raises:
        TargetError: There is no such target, it fails, or it loads nothing.
    """
    if not can_compile():
        raise TargetError("nothing can be compiled: numba is missing, or NUMBA_DISABLE_JIT is set")
    began = time.perf_counter()
    kernels = load_own_kernels()
    if warmup.target.name is None:
        _run_script(Path(warmup.target.module), warmup.arguments)
    else:
        expected = "a DataLoader, a transform, or a list of these"
        for each in resolve(warmup.target, (DataLoader, Transform), expected):
            if isinstance(each, Transform):
                _apply(each, warmup)
            else:
                _load_first_batch(each, warmup)
    kernels += loaded_kernels()
    return _report(kernels, time.perf_counter() - began, output)


def _report(kernels: Sequence[GeneratedKernel], seconds: float, output: TextIO) -> int:
    for kernel in kernels:
        print(f"{_TOLD[kernel.origin]:>12} {kernel.seconds:6.2f} s  {_name(kernel)}", file=output)
    compiled = sum(kernel.origin == "compiled" for kernel in kernels)
    print(
        f"{len(kernels)} kernels, {compiled} of them compiled, in {seconds:.1f} s; cache: {cache_folder()}",
        file=output,
    )
    missing = [kernel for kernel in kernels if kernel.code is None]
    if missing:
        names = ", ".join(map(_name, missing))
        print(f"not in the cache: {names} ({missing[0].reason})", file=output)
    return 1 if missing else 0


def _name(kernel: GeneratedKernel) -> str:
    """Return the kernel's name with the beginning of its hash, which tells kernels of one name apart."""
    return kernel.name if kernel.code is None else kernel.code.stem[: len(kernel.name) + 1 + _DIGITS]


def _apply(transform: Transform, warmup: Warmup) -> None:
    for shape in warmup.shapes or (_PHOTOGRAPH,):
        array = np.zeros(shape, warmup.dtype)
        run_users_code(partial(transform.apply, array), f"{warmup.target} for {Spec.of(array)}")


def _load_first_batch(loader: DataLoader, warmup: Warmup) -> None:
    if warmup.shapes:
        raise TargetError(f"{warmup.target} is a loader, whose arrays are known; --shape is for transforms")

    def load() -> bool:
        with loader, iter(loader) as epoch:
            return any(True for _ in epoch)

    if not run_users_code(load, f"loading the first batch of {warmup.target}"):
        raise TargetError(f"{warmup.target} has no batch, so nothing was compiled for it")


def _run_script(script: Path, arguments: Sequence[str]) -> None:
    """Run a script as Python does, until a loader delivers a batch."""
    check_file(script)
    enter_folder(script.resolve().parent)

    def run() -> None:
        runpy.run_path(str(script), run_name="__main__")

    before = sys.argv
    sys.argv = [str(script), *arguments]
    try:
        with _Interruption() as interruption:
            run_users_code(run, str(script))
    except TargetError:
        if not interruption.batches:  # else it is how the script takes being interrupted
            raise
    finally:
        sys.argv = before
    if not interruption.batches:
        raise TargetError(
            f"{script} ended without a batch of a DataLoader. Does it iterate one when it is run like this? "
            f"Arguments for it go behind --. A function or a loader in it can be named: {script}:name"
        )


class _Interruption:
    """Ends the program where it would get its first batch.

    Attributes:
        batches: How often that has happened; a program may go on in another thread, or catch what ends it.
    """

    def __init__(self) -> None:
        self.batches = 0
        self._next = LoaderIterator.__next__

    def __enter__(self) -> _Interruption:
        def interrupt(iterator: LoaderIterator) -> Any:
            self._next(iterator)
            self.batches += 1
            iterator.close()
            raise SystemExit

        LoaderIterator.__next__ = interrupt  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        LoaderIterator.__next__ = self._next  # type: ignore[method-assign]
