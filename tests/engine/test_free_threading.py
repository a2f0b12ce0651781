"""A GIL that an import has brought back is told from one that was always there, or was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import pytest

from nogil_loader.engine import free_threading
from nogil_loader.engine.free_threading import REENABLED_ADVICE, gil_was_reenabled, warn_of_reenabled_gil


@pytest.mark.parametrize(
    ("is_free_threaded", "is_enabled", "options", "environment", "expected"),
    [
        (True, True, {}, {}, True),
        (True, False, {}, {}, False),
        (False, True, {}, {}, False),
        (True, True, {"gil": "1"}, {}, False),
        (True, True, {}, {"PYTHON_GIL": "1"}, False),
        (
            True,
            True,
            {"gil": "0"},
            {"PYTHON_GIL": "1"},
            True,
        ),  # the option counts; somebody has overruled it since
        (True, True, {"dev": True}, {"PYTHON_GIL": "0"}, True),
    ],
)
def test_only_a_gil_that_nobody_asked_for_counts(
    is_free_threaded: bool,
    is_enabled: bool,
    options: Mapping[str, str],
    environment: Mapping[str, str],
    expected: bool,
) -> None:
    told = gil_was_reenabled(
        is_free_threaded=is_free_threaded,
        is_gil_enabled=lambda: is_enabled,
        options=options,
        environment=environment,
    )
    assert told is expected


def test_the_caller_is_warned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_threading, "_warned", False)
    monkeypatch.setattr(free_threading, "gil_was_reenabled", lambda: True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_reenabled_gil()
        warn_of_reenabled_gil()
    assert [str(each.message) for each in caught] == [REENABLED_ADVICE]
    assert caught[0].filename == __file__
    assert "-X gil=0" in REENABLED_ADVICE


def test_nobody_is_warned_where_the_gil_is_as_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_threading, "_warned", False)
    if gil_was_reenabled():
        pytest.skip("this Python's GIL was brought back by an import")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_reenabled_gil()
