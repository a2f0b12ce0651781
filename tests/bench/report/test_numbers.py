from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.report import numbers
from nogil_loader.bench.report.numbers import NOTHING, THIN


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12 346"),
        (12_345, "12 345"),
        (40, "40"),
        (100.0, "100"),
        (99.96, "100"),
        (99.94, "99.9"),
        (9.999, "10.0"),
        (4.268, "4.27"),
        (0.012, "0.0120"),
        (0.0, "0"),
        (-3.25, "\N{MINUS SIGN}3.25"),
        (1.5e300, "1.50e+300"),
        (2e-9, "2.00e-09"),
        (None, NOTHING),
        (math.nan, NOTHING),
        (-math.inf, NOTHING),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert numbers.number(value).replace(THIN, " ") == text


@given(st.floats(1e-4, 1e11))
def test_a_number_is_written_with_an_error_below_half_a_per_cent(value: float) -> None:
    assert float(numbers.number(value).replace(THIN, "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (numbers.rate(8445.2), "8 445 samples/s"),
        (numbers.rate(math.inf), NOTHING),
        (numbers.share(0.634), "63 %"),
        (numbers.share(0.0), "0 %"),
        (numbers.share(0.0004), "< 1 %"),
        (numbers.share(None), NOTHING),
        (numbers.change(0.0316), "+3.2 %"),
        (numbers.change(-0.1), "\N{MINUS SIGN}10.0 %"),
        (numbers.change(math.nan), NOTHING),
        (numbers.seconds(2.3), "2.30 s"),
        (numbers.seconds(0.041), "41.0 ms"),
        (numbers.seconds(35e-6), "35.0 µs"),
        (numbers.seconds(0.0), "0 µs"),
        (numbers.seconds(None), NOTHING),
        (numbers.nbytes(1.62e9), "1.62 GB"),
        (numbers.nbytes(2.5e12), "2 500.00 GB"),
        (numbers.nbytes(math.nan), NOTHING),
        (numbers.times(3.9), "3.90\N{MULTIPLICATION SIGN}"),
        (numbers.times(None), NOTHING),
    ],
)
def test_units(written: str, text: str) -> None:
    assert written.replace(THIN, " ") == text
