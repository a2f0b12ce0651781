"""Bad arguments are refused with name and value; good ones are taken whatever their number type (F01)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.checks import as_count, as_flag, as_seconds
from tests.naming import told


class UnprintableValue:
    def __repr__(self) -> NoReturn:
        raise RuntimeError("no text for you")


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.int32(2), np.array(2)])
def test_f01_integers_of_any_kind_are_counts(value: Any) -> None:
    count = as_count("batch_size", value, least=1)
    assert count == 2
    assert type(count) is int


@pytest.mark.parametrize(
    "value",
    [True, False, np.True_, np.array(True), 2.0, np.float32(2), "4", b"4", None, [2], np.array([2]), 1j],
    ids=told,
)
def test_f01_what_is_no_integer_is_a_type_error_with_name_and_value(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        as_count("batch_size", value, least=1)
    assert str(caught.value).startswith(f"batch_size={value!r}: expected an integer ≥ 1, not ")


@pytest.mark.torch
def test_f01_a_bool_tensor_is_no_count_and_an_integer_tensor_is() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"batch_size=tensor\(True\): .* not a bool"):
        as_count("batch_size", torch.tensor(True), least=1)
    assert as_count("batch_size", torch.tensor(3), least=1) == 3


@pytest.mark.parametrize("value", [0, -1, np.int8(-3), -(2**70)])
def test_f01_a_count_below_the_least_is_a_value_error_with_name_and_value(value: Any) -> None:
    with pytest.raises(ValueError, match="an integer ≥ 1") as caught:
        as_count("batch_size", value, least=1)
    assert str(caught.value).startswith(f"batch_size={value!r}: ")


@pytest.mark.parametrize("value", [-1, 2**64, np.int64(-1)])
def test_f01_a_seed_outside_of_64_bits_is_refused_with_the_range(value: Any) -> None:
    with pytest.raises(ValueError, match=f"an integer from 0 to {2**64 - 1}$"):
        as_count("seed", value, least=0, most=2**64 - 1)


@given(value=st.integers(), least=st.integers(), width=st.integers(min_value=0) | st.none())
def test_a_count_is_accepted_exactly_when_it_is_in_range(value: int, least: int, width: int | None) -> None:
    most = None if width is None else least + width
    if value >= least and (most is None or value <= most):
        assert as_count("n", value, least=least, most=most) == value
    else:
        with pytest.raises(ValueError, match=r"^n="):
            as_count("n", value, least=least, most=most)


@pytest.mark.parametrize(
    "value",
    [0, 1, 1.5, np.float32(1.5), np.int64(3), np.array(0.5), Decimal("0.5"), Fraction(1, 2)],
    ids=told,
)
def test_numbers_of_any_kind_are_seconds(value: Any) -> None:
    seconds = as_seconds("timeout", value)
    assert seconds == float(value)
    assert type(seconds) is float


@pytest.mark.parametrize(
    "value", [True, np.True_, "1", b"1", bytearray(b"1"), None, 1j, [1.0], np.datetime64("2020")], ids=told
)
def test_what_is_no_number_is_no_time(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        as_seconds("timeout", value)
    assert str(caught.value).startswith(f"timeout={value!r}: expected seconds ≥ 0, not ")


@pytest.mark.parametrize("value", [-1, -0.001, float("inf"), float("nan"), np.float64("nan"), 10**400])
def test_a_time_is_finite_and_not_negative(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^timeout=.*: expected a finite number of seconds ≥ 0$"):
        as_seconds("timeout", value)


@pytest.mark.parametrize("value", [True, np.True_])
def test_python_and_numpy_bools_are_flags(value: Any) -> None:
    assert as_flag("shuffle", value) is True


@pytest.mark.parametrize("value", [0, 1, "yes", None, np.int64(1), []], ids=told)
def test_what_is_only_truthy_is_no_flag(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        as_flag("drop_last", value)
    assert str(caught.value).startswith(f"drop_last={value!r}: expected True or False, not ")


@pytest.mark.parametrize(
    "check", [lambda value: as_count("n", value, least=0), lambda value: as_flag("n", value)]
)
@pytest.mark.parametrize(
    "value", [UnprintableValue(), "x" * 1_000_000, np.zeros(1_000_000)], ids=["bad", "long", "array"]
)
def test_a_value_that_is_hard_to_print_still_gets_a_short_error(check: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^n=") as caught:
        check(value)
    assert len(str(caught.value)) < 400
