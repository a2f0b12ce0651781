"""Runs a transform: works it out for each kind of array it meets, compiles it once, and gives it memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.fingerprint import fingerprint
from nogil_loader.kernels.compiler.generated import load_kernel
from nogil_loader.kernels.compiler.toolchain import compiling
from nogil_loader.transforms.codegen import KERNEL, Writer
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.numbers import steps
from nogil_loader.transforms.reference import run_reference
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform
from nogil_loader.transforms.workspace import Workspace, stored

Array = npt.NDArray[Any]

# Datasets of photographs have some thousands of different shapes; a fit takes about 10 kB.
_MOST_FITS = 4096


@dataclass(frozen=True)
class Draw:
    """Whose random numbers are drawn: a pure function of these.

    Attributes:
        epoch_key: Stands for seed and epoch (see `kernels.philox.epoch_key`).
        words: Stand for the samples, ``(B,)`` uint64.
    """

    epoch_key: np.uint64
    words: npt.NDArray[np.uint64]


class Program:
    """A transform that has no plain functions in it, ready to run. Any number of threads may use it at once.

    Args:
        transform: What to do.
        first_position: Is added to the steps' positions where random numbers are drawn.

    Attributes:
        first_position: The same.
    """

    def __init__(self, transform: Transform, first_position: int = 0) -> None:
        self._transform = transform
        self.first_position = first_position
        self._fits: dict[Spec, Fit] = {}
        self._kernels: dict[tuple[Any, ...], Any] = {}
        self._users: dict[int, Any] = {}
        self._digest = ""
        self._workspace = Workspace()

    def fit(self, spec: Spec) -> Fit:
        """Return the transform worked out for arrays of this spec.

        Raises:
            ValueError: It does not fit; the message names the transform.
        """
        fit = self._fits.get(spec)
        if fit is None:
            fit = Fit.of(self._transform, spec)
            for step in steps(fit.nodes):
                if step.arguments:
                    self._users[id(step.function)] = step.function
            if len(self._fits) >= _MOST_FITS:
                self._fits.clear()
            self._fits[spec] = fit
        return fit

    def source(self, fit: Fit) -> Writer:
        """Return the kernel's source."""
        return Writer(fit.nodes, fit.parts, fit.offsets, type(self._transform).__name__, self.first_position)

    def compile(self, fit: Fit, announce: Callable[[str], None] | None = None) -> None:
        """Compile the kernel for a spec, or load it from the cache, unless that has been done.

        Args:
            fit: The transform worked out for the spec.
            announce: Called before something is compiled, which takes seconds.

        Raises:
            ValueError: A user's function does not compile; the message names its file and line.
        """
        with compiling:  # the lock that a fork waits for
            if fit.form not in self._kernels:
                writer = self.source(fit)
                kernel = load_kernel(writer.text, KERNEL, _signature(fit), writer.names, announce=announce)
                # Loops over pixels in plain Python would take seconds for an image; numpy does the same.
                use = kernel if kernel is not None and kernel.origin != "python" else None
                self._kernels[fit.form] = None if use is None else use.function

    def refresh(self) -> None:
        """Forget the kernels if users' functions, or what they refer to, have changed since the last time."""
        if self._users:
            digest = fingerprint(tuple(self._users.values())).digest
            if digest != self._digest:
                self._kernels.clear()
                self._digest = digest

    def is_ready(self, fit: Fit) -> bool:
        """Whether nothing has to be compiled for a spec."""
        return fit.form in self._kernels

    def run(self, fit: Fit, source: Array, indices: npt.NDArray[np.int64], draw: Draw, out: Array) -> None:
        """Transform arrays of a source into the slots of a batch.

        Args:
            fit: The transform worked out for the spec of one array.
            source: ``(N, …)`` in any layout and byte order; what is not plain is copied first.
            indices: ``(B,)`` int64, 0 to N - 1; not checked.
            draw: One word for each of ``indices``.
            out: ``(B, …)`` of the target's shape and dtype, C-contiguous.
        """
        if not is_plain(source, fit.source.dtype):
            # Only the rows that are wanted are brought into order.
            source = np.ascontiguousarray(source[indices], fit.source.dtype)
            indices = np.arange(len(indices))
        try:
            kernel = self._kernels[fit.form]
        except KeyError:
            self.compile(fit)
            kernel = self._kernels[fit.form]
        if kernel is None:
            self._run_reference(fit, source, indices, draw, out)
            return
        kernel(
            source if source.dtype.kind != "b" else source.view(np.uint8),
            indices,
            draw.words,
            draw.epoch_key,
            fit.numbers,
            fit.sizes,
            *self._workspace.arrays(fit),
            out if out.dtype.kind != "b" else out.view(np.uint8),
        )

    def _run_reference(
        self, fit: Fit, source: Array, indices: npt.NDArray[np.int64], draw: Draw, out: Array
    ) -> None:
        for at, index in enumerate(indices):
            out[at] = run_reference(
                fit,
                source[index],
                epoch_key=draw.epoch_key,
                word=int(draw.words[at]),
                first_position=self.first_position,
            )


def is_plain(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether kernels can read an array as it is."""
    return array.dtype == dtype and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned


def _signature(fit: Fit) -> Callable[[Any], Any]:
    """Return what makes the kernel's signature of ``numba.types``; arguments as in `codegen.ARGUMENTS`."""

    def make(types: Any) -> Any:
        def array(dtype: npt.DTypeLike, axes: int, *, readonly: bool = False) -> Any:
            element = getattr(types, stored(np.dtype(dtype)).name)
            return types.Array(element, axes, "C", readonly=readonly)

        return types.void(
            array(fit.source.dtype, len(fit.source.shape) + 1, readonly=True),
            array(np.int64, 1, readonly=True),
            array(np.uint64, 1, readonly=True),
            types.uint64,
            array(np.float64, 1, readonly=True),
            array(np.int64, 2, readonly=True),
            array(np.float64, 1),
            array(np.float64, 2),
            array(np.uint64, 1),
            array(np.int64, 2),
            array(np.float64, 1),
            array(np.float32, 1),
            array(np.float64, 1),
            array(np.float32, 1),
            array(np.float64, 1),
            array(np.int64, 1),
            *(array(spec.dtype, len(spec.shape)) for spec in fit.buffers),
            array(fit.target.dtype, len(fit.target.shape) + 1),
        )

    return make
