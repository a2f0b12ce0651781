"""Values of JSON made into frozen dataclasses by their type hints; what does not fit is named by its place."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from nogil_loader.errors import describe

T = TypeVar("T")

# What is shown of a value that does not fit.
_SHOWN = 60
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    types.NoneType: "null",
}


class DecodeError(ValueError):
    """A value does not fit; the message begins with its place, such as ``settings[2].rates[0]``."""


def decode(kind: type[T], value: Any, place: str = "") -> T:
    """Make a dataclass of what `encode` made of one.

    Keys that the dataclass does not have are passed over, and fields with a default may be missing.

    Args:
        kind: A dataclass whose fields are numbers, strings, tuples, mappings from strings, further dataclasses,
            or one of these or None.
        value: What a JSON parser returned.
        place: Where that stood, for the message.

    Raises:
        DecodeError: The value is something else.
    """
    made: T = _decode(kind, value, place)
    return made


def encode(value: Any) -> Any:
    """Make values for JSON of a dataclass: dicts, lists, numbers and strings.

    Properties that the class lists in ``told`` are written as well, for whoever reads the file.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        names += getattr(value, "told", ())
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): encode(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encode(part) for part in value]
    return value


def _decode(kind: Any, value: Any, place: str) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None if types.NoneType in parts else _refuse(kind, value, place)
        (kind,) = (part for part in parts if part is not types.NoneType)
        return _decode(kind, value, place)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, value, place)
    if origin is tuple:
        return _decode_tuple(parts, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise DecodeError(f"{place}: expected an object, not {describe(value, _SHOWN)}")
        return {key: _decode(parts[1], part, f"{place}[{key!r}]") for key, part in value.items()}
    return _decode_plain(kind, value, place)


def _decode_plain(kind: Any, value: Any, place: str) -> Any:
    if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    return value if kind is not float and type(value) is kind else _refuse(kind, value, place)


def _decode_tuple(parts: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise DecodeError(f"{place}: expected a list, not {describe(value, _SHOWN)}")
    if parts[-1] is ...:
        parts = (parts[0],) * len(value)
    if len(parts) != len(value):
        raise DecodeError(f"{place}: expected {len(parts)} values, not {len(value)}")
    return tuple(
        _decode(part, each, f"{place}[{at}]")
        for at, (part, each) in enumerate(zip(parts, value, strict=True))
    )


def _decode_fields(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise DecodeError(f"{place or 'this'}: expected an object, not {describe(value, _SHOWN)}")
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        where = f"{place}.{field.name}" if place else field.name
        if field.name in value:
            found[field.name] = _decode(_hints(kind)[field.name], value[field.name], where)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DecodeError(f"{where} is missing")
    try:
        return kind(**found)
    except ValueError as error:
        raise DecodeError(f"{place}: {error}" if place else str(error)) from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _refuse(kind: Any, value: Any, place: str) -> typing.NoReturn:
    kinds = typing.get_args(kind) or (kind,)
    expected = " or ".join(_WORDS.get(each, getattr(each, "__name__", str(each))) for each in kinds)
    raise DecodeError(f"{place}: expected {expected}, not {describe(value, _SHOWN)}")
