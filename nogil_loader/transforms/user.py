"""Users' own operations, compiled like the built-in ones."""

from __future__ import annotations

import dis
import importlib
import inspect
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.fingerprint import is_parallel
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.compiler.references import references
from nogil_loader.kernels.noise import noise_word, normal_number
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

Array = npt.NDArray[Any]
_UNIT = 2.0**-32


class _Decorated(Operation):
    """What a decorator has put in the place of a function."""

    function: Callable[..., Any]

    def __reduce__(self) -> Any:
        # The function cannot be found under its name any more: the transform is there.
        python = python_of(self.function)
        if python.__module__ in sys.modules and _found(python.__module__, python.__qualname__) is self:
            return _found, (python.__module__, python.__qualname__)
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


def _found(module: str, qualname: str) -> Any:
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


@dataclass(frozen=True)
class Kernel(_Decorated):
    """A user's function from array to array; made by `kernel`.

    Args:
        function: ``(array, out, rng)``: reads ``array`` and writes all of ``out``. Plain Python that numba can
            compile, or an ``njit`` function.
        output: From the `Spec` of ``array`` to that of ``out``; None for the same shape and dtype.
    """

    function: Callable[[Array, Array, Any], None]
    output: Callable[[Spec], Spec] | None = None

    def __post_init__(self) -> None:
        _check_function("kernel", self.function, 3, "(array, out, rng)")
        if self.output is not None and not callable(self.output):
            raise TypeError(
                f"kernel.output={describe(self.output, 200)}: expected a function from Spec to Spec"
            )

    def __repr__(self) -> str:
        return f"kernel {_name(self.function)}"

    def step(self, spec: Spec) -> Step:
        """Return the step for an array.

        Raises:
            TypeError: ``output`` returned something that is no spec.
        """
        target = spec if self.output is None else self.output(spec)
        if not isinstance(target, Spec):
            raise TypeError(f"{self}: output returned {describe(target, 200)}, expected a Spec")

        def reference(array: Array, numbers: Any, drawn: Any, rng: Any) -> Array:
            out = np.zeros(target.shape, target.dtype)
            python_of(self.function)(array, out, rng)
            return out

        return Step(
            repr(self),
            "sample",
            self.function,
            reference,
            spec,
            target,
            arguments=("source", "target", "rng"),
        )


@dataclass(frozen=True)
class Pixelwise(_Decorated):
    """A user's function from value to value, which becomes part of the sweep; made by `pixelwise`.

    Args:
        function: ``value -> value`` for each channel by itself, or ``(red, green, blue) -> (red, green,
            blue)``, with as many arguments as the image has channels. Values are floats on the scale of the
            pixels (0 to 255 for uint8); results for integer pixels are rounded and clipped.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        _check_function("pixelwise", self.function, None, "(value) or one argument for each channel")

    def __repr__(self) -> str:
        return f"pixelwise {_name(self.function)}"

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The function takes several values, but not one for each channel of the image.
        """
        spec = spec.image(self)
        count = len(inspect.signature(python_of(self.function)).parameters)
        if count not in (1, spec.channels):
            raise ValueError(
                f"{self}: the function takes {count} values, but the image ({spec}) has {spec.channels} channels"
            )
        return Step(
            repr(self),
            "point",
            self.function,
            self._reference if count == 1 else self._reference_of_pixels,
            spec,
            spec,
            arguments=("value",) * count,
        )

    def _reference(self, values: Array, numbers: Any, drawn: Any, rng: Any) -> Array:
        function = python_of(self.function)
        flat = [function(float(value)) for value in values.reshape(-1)]
        return np.array(flat, values.dtype).reshape(values.shape)

    def _reference_of_pixels(self, values: Array, numbers: Any, drawn: Any, rng: Any) -> Array:
        function = python_of(self.function)
        pixels = [function(*map(float, pixel)) for pixel in values.reshape(-1, values.shape[-1])]
        return np.array(pixels, values.dtype).reshape(values.shape)


@overload
def kernel(
    function: Callable[[Array, Array, Any], None], *, output: Callable[[Spec], Spec] | None = None
) -> Kernel: ...
@overload
def kernel(
    *, output: Callable[[Spec], Spec] | None = None
) -> Callable[[Callable[[Array, Array, Any], None]], Kernel]: ...
def kernel(function: Any = None, *, output: Callable[[Spec], Spec] | None = None) -> Any:
    """Make a transform of a function from array to array, compiled to run without the GIL.

    Args:
        function: ``(array, out, rng)``: reads ``array`` (contiguous, read-only) and writes every element of
            ``out``. It is compiled by numba, so it uses loops and numpy functions that numba knows. It should
            not raise and should make no arrays. Global constants and functions that it uses are looked at again
            whenever an epoch begins. Random numbers come from ``rng``: `uniform`, `normal`, `integer` of
            `nogil_loader.transforms`; they depend on (seed, epoch, index) alone.
        output: From the `Spec` of ``array`` to that of ``out``; the same by default.

    Returns:
        A transform that goes anywhere transforms go.

    Raises:
        TypeError: It is no function.
        ValueError: It does not take three arguments, or is an ``njit`` function with ``parallel=True``. When a
            loader is made or begins: it cannot be compiled; the message says which line of it and why.

    Example:
        ``@nl.kernel`` above ``def invert(image, out, rng): …``, then ``Compose([invert, ToCHW()])``.
    """
    if function is None:
        return lambda function: Kernel(function, output)
    return Kernel(function, output)


def pixelwise(function: Callable[..., Any]) -> Pixelwise:
    """Make a transform of a function from pixel value to pixel value; it becomes part of the fused kernel.

    Args:
        function: See `Pixelwise`.

    Raises:
        TypeError: It is no function.
        ValueError: It takes no argument, or is an ``njit`` function with ``parallel=True``.

    Example:
        ``@nl.pixelwise`` above ``def halve(value): return value / 2``.
    """
    return Pixelwise(function)


@jitable
def uniform(rng: Any) -> float:
    """Return the next random number of a kernel's ``rng``, uniform in [0, 1), a multiple of 2**-32."""
    return noise_word(rng[0], rng[1], rng[2], _next(rng)) * _UNIT  # type: ignore[no-any-return]


@jitable
def normal(rng: Any) -> float:
    """Return the next random number of a kernel's ``rng``, of the standard normal distribution."""
    return float(normal_number(rng[0], rng[1], rng[2], _next(rng)))


@jitable
def integer(rng: Any, end: int) -> int:
    """Return the next random integer of a kernel's ``rng``, from 0 to ``end`` - 1; ``end`` is at most 2**32."""
    return int(uniform(rng) * end)


@jitable
def _next(rng: Any) -> Any:
    taken = rng[3]
    rng[3] = taken + np.uint64(1)
    return np.int64(taken)


def python_of(function: Any) -> Callable[..., Any]:
    """Return the plain function of an ``njit`` function, or the function itself."""
    python: Callable[..., Any] = getattr(function, "py_func", function)
    return python


def _check_function(who: str, function: Any, count: int | None, expected: str) -> None:
    if not inspect.isfunction(python_of(function)):
        raise TypeError(f"{who}({describe(function, 200)}): expected a function {expected}")
    if inspect.isgeneratorfunction(python_of(function)) or inspect.iscoroutinefunction(python_of(function)):
        raise ValueError(
            f"{who} {_name(function)}: it is a generator or a coroutine, expected a plain function"
        )
    if who == "kernel" and _returns_something(python_of(function)):
        raise ValueError(
            f"{who} {_name(function)}: it returns a value, which nobody sees; write the result into its second "
            f"argument"
        )
    if (drawn := _global_draw(python_of(function), set())) is not None:
        raise ValueError(
            f"{who} {_name(function)}: it draws by {drawn}, whose state in compiled code belongs to the thread: "
            f"samples would depend on the worker; use a kernel's rng, with uniform, normal and integer of "
            f"nogil_loader.transforms"
        )
    if is_parallel(function):
        raise ValueError(
            f"{who} {_name(function)}: it is compiled with parallel=True, and two worker threads in a parallel "
            f"region abort the process; leave it out, the loader's workers run in parallel already"
        )
    parameters = inspect.signature(python_of(function)).parameters.values()
    kinds = {each.kind for each in parameters}
    plain = kinds <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if not plain or len(parameters) == 0 or count not in (None, len(parameters)):
        raise ValueError(f"{who} {_name(function)}: it has to take {expected}")


def _returns_something(function: Callable[..., Any]) -> bool:
    before = None
    for each in dis.get_instructions(function):
        if each.opname == "RETURN_CONST" and each.argval is not None:
            return True
        if each.opname == "RETURN_VALUE":
            nothing = before is not None and before.opname == "LOAD_CONST" and before.argval is None
            if not nothing:
                return True
        before = each
    return False


def _global_draw(function: Any, seen: set[int]) -> str | None:
    """Return how a function, or one that it calls, draws random numbers of a global state; None if it does not."""
    if not inspect.isfunction(function) or id(function) in seen:
        return None
    seen.add(id(function))
    for each in references(function):
        path = (*each.path, *each.rest)
        owner = getattr(each.value, "__self__", None)
        of_numpy = getattr(each.value, "__name__", "") == "numpy" and each.rest[:1] == ("random",)
        of_module = each.value is random or getattr(each.value, "__name__", "") == "numpy.random"
        if of_numpy or of_module or isinstance(owner, np.random.RandomState | random.Random):
            return ".".join(path)
        found = _global_draw(python_of(each.value), seen)
        if found is not None:
            return found
    return None


def _name(function: Any) -> str:
    return str(getattr(python_of(function), "__qualname__", "function"))
