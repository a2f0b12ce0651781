"""Policies are frozen values, checked when they are made."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.policies import FailurePolicy
from tests.naming import told


def test_the_shorthands_are_the_documented_policies() -> None:
    assert FailurePolicy.of("raise") == FailurePolicy(rebuild=0, skip=0)
    assert FailurePolicy.of("rebuild") == FailurePolicy(rebuild=3, skip=0)
    assert FailurePolicy.of("skip") == FailurePolicy(rebuild=1, skip=0.001)


def test_a_policy_stands_for_itself() -> None:
    policy = FailurePolicy(rebuild=7)
    assert FailurePolicy.of(policy) is policy


def test_an_unknown_shorthand_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="on_failure='retry': expected 'raise', 'rebuild', 'skip' or a FailurePolicy"
    ):
        FailurePolicy.of("retry")


@pytest.mark.parametrize("value", [None, 3, True, ["raise"]], ids=told)
def test_what_is_no_policy_is_a_type_error_with_its_value(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        FailurePolicy.of(value)
    assert str(caught.value).startswith(f"on_failure={value!r}: ")
    assert str(caught.value).endswith(f"not {type(value).__name__}")


@pytest.mark.parametrize("field", ["rebuild", "skip"])
@pytest.mark.parametrize("value", [-1, np.int64(-1)])
def test_f01_a_negative_count_is_refused_with_the_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"FailurePolicy.{field}="):
        FailurePolicy(**{field: value})


@pytest.mark.parametrize("field", ["rebuild", "skip"])
@pytest.mark.parametrize("value", [True, "3", None])
def test_f01_what_is_no_number_is_refused_with_the_field(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"FailurePolicy.{field}="):
        FailurePolicy(**{field: value})


@pytest.mark.parametrize("share", [1.0, -0.1, 2.5, float("nan"), float("inf"), np.float32(1.5)])
def test_a_share_outside_of_zero_to_one_is_refused(share: Any) -> None:
    with pytest.raises(ValueError, match="a count is an int"):
        FailurePolicy(skip=share)


@pytest.mark.parametrize(
    ("skip", "planned", "allowance"),
    [
        (0, 1000, 0),
        (5, 1000, 5),
        (5, 3, 5),
        (0.0, 1000, 0),
        (0.001, 1000, 1),
        (0.001, 1001, 2),
        (0.001, 1, 0),
        (0.001, 0, 0),
        (0.07, 100, 7),  # 0.07 * 100 is 7.000000000000001 in binary
        (np.float64(0.07), 100, 7),
        (np.float32(0.5), 5, 3),
        (np.int64(4), 10, 4),
    ],
)
def test_the_skip_allowance_is_the_count_or_the_share_rounded_up(
    skip: Any, planned: int, allowance: int
) -> None:
    assert FailurePolicy(skip=skip).skip_allowance(planned) == allowance


@given(percent=st.integers(0, 99), hundreds=st.integers(0, 10**7))
def test_a_share_in_percent_of_whole_hundreds_is_exact(percent: int, hundreds: int) -> None:
    assert FailurePolicy(skip=percent / 100).skip_allowance(100 * hundreds) == percent * hundreds


def test_a_policy_is_frozen_comparable_and_picklable() -> None:
    policy = FailurePolicy(rebuild=np.int64(2), skip=np.float64(0.25))  # type: ignore[arg-type]
    assert policy == FailurePolicy(rebuild=2, skip=0.25)
    assert hash(policy) == hash(FailurePolicy(rebuild=2, skip=0.25))
    assert repr(policy) == "FailurePolicy(rebuild=2, skip=0.25)"
    assert pickle.loads(pickle.dumps(policy)) == policy
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.rebuild = 3  # type: ignore[misc]
