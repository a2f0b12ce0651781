"""Policies are frozen values, checked when they are made."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.policies import STEPS, FailurePolicy, MemoryPolicy
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


def test_memory_shorthands_are_the_policies_that_they_stand_for() -> None:
    policy = MemoryPolicy(limit=123 << 20)
    assert MemoryPolicy.of(policy) is policy
    assert MemoryPolicy.of("off") is None
    assert MemoryPolicy.of("auto") == MemoryPolicy()
    assert MemoryPolicy.of("4GiB") == MemoryPolicy(limit=4 << 30)
    assert MemoryPolicy.of(0.8) == MemoryPolicy(limit=0.8)
    assert MemoryPolicy.of(np.float64(0.8)) == MemoryPolicy(limit=0.8)
    assert MemoryPolicy.of(1 << 30) == MemoryPolicy(limit=1 << 30)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500MB", 500_000_000),
        ("500 MB", 500_000_000),
        ("1.5GiB", 3 << 29),
        ("0.1TB", 100_000_000_000),  # 0.1 is no binary fraction
        ("2097152B", 2 << 20),
        ("2048kB", 2_048_000),
        ("2048KiB", 2 << 20),
        (" 4gib ", 4 << 30),
        ("1TiB", 1 << 40),
    ],
)
def test_a_limit_with_a_unit_is_so_many_bytes(text: str, size: int) -> None:
    assert MemoryPolicy(limit=text).limit == size


@pytest.mark.parametrize(
    "limit",
    [
        *("", "4", "4G", "four GiB", "-4GiB", "1e3GiB", "4GiB!", "\u0664GiB", "off", "Auto", "0GiB", "1kB"),
        *(0, -1, 4, 1000, (1 << 20) - 1, 0.0, -0.5, 1.5, float("nan"), float("inf"), np.float32(2.0)),
    ],
)
def test_a_limit_that_means_nothing_is_refused_with_what_is_allowed(limit: Any) -> None:
    with pytest.raises(ValueError, match=r"MemoryPolicy\.limit=.*'auto'.*'4GiB'.*share") as caught:
        MemoryPolicy(limit=limit)
    assert repr(limit) in str(caught.value)


@pytest.mark.parametrize("limit", [None, True, np.True_, b"4GiB", [1], {"limit": 1}])
def test_a_limit_of_another_type_is_refused(limit: Any) -> None:
    with pytest.raises(TypeError, match=r"MemoryPolicy\.limit=.*'auto'.*not (bool|a bool|\w+)"):
        MemoryPolicy(limit=limit)
    with pytest.raises(TypeError, match=r"memory=.*'off', a MemoryPolicy, 'auto'"):
        MemoryPolicy.of(limit)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"soft": 0.0}, ValueError, r"MemoryPolicy\.soft=0\.0: expected a share"),
        ({"soft": "0.8"}, TypeError, r"MemoryPolicy\.soft='0\.8': expected a share of the limit, not str"),
        ({"soft": float("nan")}, ValueError, r"MemoryPolicy\.soft=nan"),
        ({"hard": 1.1}, ValueError, r"MemoryPolicy\.hard=1\.1: .* at most 1"),
        ({"hard": True}, TypeError, r"MemoryPolicy\.hard=True: .* not bool"),
        ({"soft": 0.93}, ValueError, r"MemoryPolicy\.soft=0\.93: expected less than hard=0\.93"),
        ({"soft": 0.95}, ValueError, r"MemoryPolicy\.soft=0\.95: expected less than hard=0\.93"),
        ({"order": ("prefetch", "batch")}, ValueError, r"MemoryPolicy\.order=.*each once"),
        ({"order": ("prefetch", "worker", "batch")}, ValueError, r"'worker'.*expected 'prefetch', 'workers'"),
        ({"order": (*STEPS, "batch")}, ValueError, r"MemoryPolicy\.order="),
        ({"order": "batch"}, TypeError, r"MemoryPolicy\.order='batch': .*not str"),
        ({"min_batch_size": 0}, ValueError, r"MemoryPolicy\.min_batch_size=0: expected an integer ≥ 1"),
        ({"min_workers": 1.0}, TypeError, r"MemoryPolicy\.min_workers=1\.0"),
        ({"fixed_batch_size": 1}, TypeError, r"MemoryPolicy\.fixed_batch_size=1: expected True or False"),
        ({"scratch": -1.0}, ValueError, r"MemoryPolicy\.scratch=-1\.0: expected a multiple ≥ 0"),
        ({"scratch": float("inf")}, ValueError, r"MemoryPolicy\.scratch=inf"),
        ({"scratch": "3"}, TypeError, r"MemoryPolicy\.scratch='3'.*not str"),
        ({"interval": 0}, ValueError, r"MemoryPolicy\.interval=0: expected more than 0 seconds"),
        ({"stall": -1}, ValueError, r"MemoryPolicy\.stall=-1"),
        ({"probe": 3}, TypeError, r"MemoryPolicy\.probe=3: expected a callable"),
    ],
)
def test_a_memory_field_out_of_range_is_named_with_its_value_and_what_is_allowed(
    fields: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        MemoryPolicy(**fields)


def test_a_memory_policy_is_frozen_comparable_hashable_and_picklable() -> None:
    policy = MemoryPolicy(limit="1GiB", order=["batch", "workers", "prefetch"], scratch=3)  # type: ignore[arg-type]
    assert policy == MemoryPolicy(limit=1 << 30, order=("batch", "workers", "prefetch"), scratch=3.0)
    assert hash(policy) == hash(
        MemoryPolicy(limit=1 << 30, order=("batch", "workers", "prefetch"), scratch=3)
    )
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert dataclasses.replace(policy) == policy
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.soft = 0.5  # type: ignore[misc]
