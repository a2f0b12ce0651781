"""The page that lists all transforms lists all of them, with the arguments and defaults that they have."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from nogil_loader import transforms
from tests.scripts import REPOSITORY

_ROW = re.compile(r"^\| `(?P<name>\w+)(?:\((?P<arguments>.*?)\))?` \| \S.*\|$", re.MULTILINE)
PAGE = (REPOSITORY / "docs" / "transforms.md").read_text(encoding="utf-8")
ROWS = {row["name"]: row["arguments"] for row in _ROW.finditer(PAGE)}


def arguments_of(function: Any) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", transforms.__all__)
def test_the_page_tells_the_arguments_of_every_public_name(name: str) -> None:
    assert name in ROWS
    told, value = ROWS[name], getattr(transforms, name)
    if told is None:
        assert inspect.isabstract(value)
    else:
        assert arguments_of(eval(f"lambda {told}: None")) == arguments_of(value)


METHODS = ["apply", "parameters", "explain", "source", "preview", "output_spec"]


@pytest.mark.parametrize("name", METHODS)
def test_the_page_tells_the_arguments_of_every_method(name: str) -> None:
    method = arguments_of(getattr(transforms.Transform, name))
    assert arguments_of(eval(f"lambda {ROWS[name]}: None")) == method[1:]


def test_the_page_lists_nothing_else() -> None:
    assert set(ROWS) == {*transforms.__all__, *METHODS}
