"""Noise is a function of the element alone, the same in every form, and distributed as it should be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.noise import (
    fill_noise_words,
    fill_normal_noise,
    fill_uniform_noise,
    noise_words,
    normal_noise,
    normal_number,
    normal_pair,
    uniform_noise,
)
from nogil_loader.kernels.philox import epoch_key
from tests.kernels.randomness import assert_independent, excess, reference, reference_key

WORDS = st.integers(0, 2**32 - 1)
LONG_WORDS = st.integers(0, 2**64 - 1)
# Block numbers pass 2**31 at 2**33 and leave 32 bits at 2**34.
STARTS = st.one_of(
    st.integers(0, 9),
    st.integers(2**33 - 9, 2**33 + 9),
    st.integers(2**34 - 9, 2**34 + 9),
    st.integers(0, 2**40),
)

# Two million normal numbers, enough for the tails.
MANY = 1 << 21
NORMAL = NormalDist()
# Where the normal distribution is cut into 256 parts of equal probability.
CUTS = np.array([NORMAL.inv_cdf(part / 256) for part in range(1, 256)])


def fill(key: Any, index: Any, position: Any, start: Any, words: Any, uniform: Any, normal: Any) -> None:
    fill_noise_words(key, index, position, start, words)
    fill_uniform_noise(key, index, position, start, uniform)
    fill_normal_noise(key, index, position, start, normal)


@pytest.fixture(scope="module")
def compiled() -> Callable[..., None]:
    """``fill`` as a kernel."""
    import numba

    jit.introduce(numba)
    t = numba.types
    rows = (t.uint32[::1], t.float32[::1], t.float32[::1])
    signature = t.void(t.uint64, t.uint64, t.int64, t.int64, *rows)
    kernel: Callable[..., None] = numba.njit(signature, nogil=True, error_model="numpy")(fill)
    return kernel


def bits(array: Any) -> list[int]:
    """The bits of 32-bit items, so that 0 and -0 differ."""
    found: list[int] = array.view(np.uint32).tolist()
    return found


@functools.cache
def many_normals() -> Any:
    return normal_noise(epoch_key(3, 1), 4, 1, 0, MANY).astype(np.float64)


@given(seed=LONG_WORDS, epoch=WORDS, index=LONG_WORDS, position=WORDS, start=STARTS, count=st.integers(0, 41))
@example(seed=0, epoch=0, index=0, position=0, start=1, count=4096)  # long enough for every vectorised loop
@example(seed=0, epoch=0, index=0, position=0, start=2**32, count=4095)
def test_rows_are_the_same_in_numpy_in_python_and_compiled(
    compiled: Callable[..., None], seed: int, epoch: int, index: int, position: int, start: int, count: int
) -> None:
    key = epoch_key(seed, epoch)
    expected = [
        bits(numbers(key, index, position, start, count))
        for numbers in (noise_words, uniform_noise, normal_noise)
    ]
    for form in (fill, compiled):
        # One item more on either side, which must stay as it is.
        rows = [np.full(count + 2, 9, dtype) for dtype in (np.uint32, np.float32, np.float32)]
        form(key, np.uint64(index), position, start, *(row[1:-1] for row in rows))
        assert [bits(row[1:-1]) for row in rows] == expected
        assert all(row[0] == row[-1] == 9 for row in rows)


@given(index=LONG_WORDS, position=WORDS, start=STARTS)
def test_words_come_from_blocks_that_parameters_never_use(index: int, position: int, start: int) -> None:
    key = reference_key(0, 0)
    expected = []
    for element in range(start, start + 5):
        block = 2**31 + element // 4 % 2**31
        expected.append(reference([index % 2**32, index >> 32, position, block], key)[element % 4])
    assert noise_words(epoch_key(0, 0), index, position, start, 5).tolist() == expected


@given(start=st.integers(0, 200), count=st.integers(0, 50))
def test_a_part_has_the_numbers_that_it_has_within_the_whole(start: int, count: int) -> None:
    key = epoch_key(1, 1)
    for numbers in (noise_words, uniform_noise, normal_noise):
        whole = numbers(key, 2, 3, 0, 250)
        part = numbers(key, 2, 3, start, count)
        assert part.dtype == whole.dtype
        assert bits(part) == bits(whole[start : start + count])


def test_one_number_is_that_of_its_row() -> None:
    key = epoch_key(1, 1)
    row = normal_noise(key, 2, 3, 0, 12)
    single = [normal_number(key, np.uint64(2), 3, element) for element in range(12)]
    assert bits(np.array(single)) == bits(row)


def test_uniform_noise_is_uniform_below_1() -> None:
    drawn = uniform_noise(epoch_key(1, 2), 3, 4, 0, 1 << 19)
    assert drawn.dtype == np.float32
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(excess(np.histogram(drawn, 1000, (0, 1))[0])) < 5
    assert ((drawn * 2.0**24) % 2).mean() == pytest.approx(0.5, abs=5 / 2 / 2**9.5)  # the last bit varies


# Words that give the largest radius, none, and angles at the ends of the quarters.
EDGES = np.array([0, 1, 2**29, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**32 - 2**7, 2**32 - 1], np.uint32)


def test_normal_numbers_are_those_of_box_and_muller_to_float32() -> None:
    drawn = noise_words(epoch_key(0, 0), 0, 0, 0, 200_000)
    radial = np.concatenate([np.repeat(EDGES, len(EDGES)), drawn[0::2]])
    angular = np.concatenate([np.tile(EDGES, len(EDGES)), drawn[1::2]])
    # In float32, from 2**-33 to 1; all that follows is exact to float64.
    share = radial.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    radius = np.sqrt(-2 * np.log(share.astype(np.float64)))
    # The angle within a quarter is the lower 30 bits as a signed number.
    angle = ((angular << np.uint32(2)).view(np.int32) / 2.0**31) * np.pi / 4
    cosine = np.where(angular >> np.uint32(31), -np.cos(angle), np.cos(angle))
    exchange = (angular >> np.uint32(30)) % 2 == 1
    first = radius * np.where(exchange, np.sin(angle), cosine)
    second = radius * np.where(exchange, cosine, np.sin(angle))
    for exact, got in zip((first, second), normal_pair(radial, angular), strict=True):
        assert got.dtype == np.float32
        assert (np.abs(got - exact) < 2e-7 * (1 + radius)).all()


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    drawn = many_normals()
    # Mean and variance of the k-th power of a normal number.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)):
        assert abs((drawn**power).mean() - mean) < 5 * (variance / MANY) ** 0.5


def test_normal_numbers_follow_the_normal_distribution() -> None:
    ordered = np.sort(many_normals())[::16][1:]
    share = np.arange(1, len(ordered) + 1) * 16 / MANY
    exact = np.array([NORMAL.cdf(value) for value in ordered.tolist()])
    assert np.abs(share - exact).max() * MANY**0.5 < 1.95  # as of Kolmogorov and Smirnov, once in a thousand


@pytest.mark.parametrize("deviations", [2, 3, 4, 4.5])
def test_tails_are_as_heavy_as_they_should_be(deviations: float) -> None:
    drawn = many_normals()
    for tail in (drawn > deviations, drawn < -deviations):
        expected = MANY * NORMAL.cdf(-deviations)
        assert abs(tail.sum() - expected) < 5 * expected**0.5


def test_tails_reach_beyond_six_deviations() -> None:
    largest = normal_pair(np.zeros(1, np.uint32), np.zeros(1, np.uint32))[0]
    assert 6.76 < largest[0] < 6.77


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 224])
def test_neighbouring_elements_are_independent(distance: int) -> None:
    assert_normals_independent(many_normals()[distance:400_000], many_normals()[: 400_000 - distance])


@pytest.mark.parametrize("step", [(1, 0), (0, 1)], ids=["index", "position"])
def test_neighbouring_samples_and_operations_are_independent(step: tuple[int, int]) -> None:
    first = normal_noise(epoch_key(0, 0), 8, 1, 0, 300_000)
    second = normal_noise(epoch_key(0, 0), 8 + step[0], 1 + step[1], 0, 300_000)
    assert_normals_independent(first.astype(np.float64), second.astype(np.float64))


def assert_normals_independent(a: Any, b: Any) -> None:
    """Neither the uniform numbers behind them nor their magnitudes go together."""
    assert_independent(np.searchsorted(CUTS, a) / 256, np.searchsorted(CUTS, b) / 256)
    assert abs(np.corrcoef(a**2, b**2)[0, 1]) * len(a) ** 0.5 < 5
