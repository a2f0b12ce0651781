"""The dtype of an image's pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.pixels import scale_and_shift
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Cast(Operation):
    """The same pixel values in another dtype; `ToFloat` brings them to another scale too.

    What an integer dtype cannot hold is rounded to the nearest integer (ties to even) and clipped; NaN becomes 0.
    The same holds for bool, for which one half and less is False. The largest value that int32 and uint32 get from
    float32 is 2147483520 and 4294967040, the largest float32 that they can hold.

    Args:
        dtype: bool, an integer of 8 to 32 bits, float32 or float64, by name or as numpy's.
    """

    dtype: npt.DTypeLike

    def __post_init__(self) -> None:
        settle(self, dtype=_as_dtype(self.dtype).name)

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        return cast_step(self, spec.image(self), np.dtype(self.dtype))


def cast_step(who: object, spec: Spec, dtype: np.dtype[Any]) -> Step:
    """Return the step from an image to another dtype."""
    target = spec.with_dtype(dtype)
    if target == spec:
        return Step(repr(who), "layout", None, None, spec, target)
    limits = target.limits()
    if limits is None or np.can_cast(spec.dtype, dtype, "safe"):
        return Step(repr(who), "point", keep, _keep, spec, target, exact=True)
    low, high = limits
    if float(spec.work.type(high)) <= high:
        return Step(repr(who), "point", keep, _keep, spec, target)
    high = float(np.nextafter(spec.work.type(high), spec.work.type(0)))
    return Step(repr(who), "point", clip, _clip, spec, target, numbers=(low, high))


def _as_dtype(value: Any) -> np.dtype[Any]:
    name = f"Cast.dtype={describe(value, 200)}"
    if value is None:
        raise TypeError(f"{name}: expected a dtype")
    try:
        dtype: np.dtype[Any] = np.dtype(value).newbyteorder("=")
    except TypeError as failure:
        raise TypeError(f"{name}: expected a dtype ({failure})") from None
    Spec((1, 1), dtype).image(name)
    return dtype


@jitable
def keep(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Change nothing: integers are rounded and clipped after every step."""


def _keep(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return values


@jitable
def clip(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Clip to ``numbers``, which the dtype of the row can hold while it cannot hold the target's own limits."""
    values = row.reshape(-1)
    least, most = row.dtype.type(numbers[0]), row.dtype.type(numbers[1])
    for x in range(len(values)):
        value = values[x]
        value = least if value < least else value
        values[x] = most if value > most else value


def _clip(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = np.clip(values, values.dtype.type(numbers[0]), values.dtype.type(numbers[1]))
    return result


@dataclass(frozen=True)
class ToFloat(Operation):
    """Pixels as float32, integers divided by the largest one of their dtype, so that 0 to white becomes 0 to 1.

    The division is a product with the inverse, as in torchvision's ``to_dtype(scale=True)``; white becomes 1.
    Floats and bools keep their values.
    """

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        if spec.dtype.kind not in "iu":
            return cast_step(self, spec, np.dtype(np.float32))
        return Step(
            name=repr(self),
            kind="point",
            function=scale_and_shift,
            reference=_to_unit,
            source=spec,
            target=spec.with_dtype(np.float32),
            numbers=(*[1.0 / spec.white] * spec.channels, *[0.0] * spec.channels),
        )


def _to_unit(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = values * values.dtype.type(numbers[0])
    return result
