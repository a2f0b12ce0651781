from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.kernels.images.power import TINY, power_float32, raise_float32

exponents = st.floats(2.0**-7, 20, width=32)
values = st.lists(st.floats(width=32) | st.floats(0, 1, width=32), min_size=1, max_size=20)


@given(values, exponents)
def test_loop_and_numpy_give_the_same_bits(values: list[float], exponent: float) -> None:
    numbers = np.array(values, np.float32)
    row = numbers.copy()
    with np.errstate(all="ignore"):
        raise_float32(row, 1.0, exponent, 1.0)
        expected = power_float32(numbers, exponent)
    np.testing.assert_array_equal(row.view(np.int32)[~np.isnan(row)], expected.view(np.int32)[~np.isnan(row)])
    np.testing.assert_array_equal(np.isnan(row), np.isnan(numbers))


@given(st.lists(st.floats(0, 1, width=32, allow_subnormal=False), min_size=1, max_size=50), exponents)
def test_powers_of_fractions_are_exact_to_2e_7(values: list[float], exponent: float) -> None:
    numbers = np.array(values, np.float32)
    exact = numbers.astype(np.float64) ** exponent
    np.testing.assert_allclose(power_float32(numbers, exponent), exact, rtol=0, atol=2e-7)


@given(st.floats(2.0**-60, 2.0**60, width=32), st.floats(2.0**-7, 2, width=32))
def test_relative_error_grows_with_the_powers_of_two_of_the_result(value: float, exponent: float) -> None:
    exact = value**exponent
    error = abs(power_float32(np.array([value], np.float32), exponent)[0] - exact) / exact
    assert error < 2e-7 + 1e-7 * abs(np.log2(exact))


@pytest.mark.parametrize("exponent", [0.01, 0.5, 1.0, 2.2, 20.0])
def test_zero_and_one_stay(exponent: float) -> None:
    assert power_float32(np.array([0, 1], np.float32), exponent).tolist() == [0, 1]


def test_what_no_power_is_defined_for() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -1, TINY / 2], np.float32)
    assert str(power_float32(values, 1.5)) == "[nan inf  0.  0.  0.]"
    assert power_float32(np.array([1e-30, 1e30], np.float32), 2).tolist() == [0, np.inf]
