"""Philox gives its published answers in every form of its source, and draws depend on all that they should."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.philox import epoch_key, fill_uniforms, philox, uniforms
from tests.kernels.randomness import assert_independent, excess, reference, reference_key

WORDS = st.integers(0, 2**32 - 1)
LONG_WORDS = st.integers(0, 2**64 - 1)

# Counter, key and result of the three vectors "philox4x32 10" that are published with Random123.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (  # digits of pi
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def plain_philox(counters: Any, keys: Any, out: Any) -> None:
    for row in range(len(counters)):
        c = counters[row]
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = philox(c[0], c[1], c[2], c[3], keys[row])


def array_philox(counters: Any, keys: Any, out: Any) -> None:
    out[...] = np.stack(philox(counters[:, 0], counters[:, 1], counters[:, 2], counters[:, 3], keys), axis=-1)


def plain_uniforms(key: Any, indices: Any, position: Any, out: Any) -> None:
    for row in range(len(indices)):
        fill_uniforms(key, indices[row], position, out[row])


@pytest.fixture(scope="module")
def compiled() -> Callable[[Any], Any]:
    """A function that gives the compiled form of one of the above."""
    import numba

    jit.introduce(numba)
    return functools.cache(numba.njit(nogil=True, error_model="numpy"))


Form = Callable[[Any, Any, Any], None]


@pytest.fixture(scope="module")
def forms(compiled: Callable[[Any], Any]) -> list[Form]:
    """All forms in which the source of `philox` runs."""
    return [plain_philox, array_philox, compiled(plain_philox)]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN, ids=["zeros", "ones", "pi"])
def test_published_vectors_come_out_of_every_form(
    forms: list[Form], counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    keys = np.array([key[0] | key[1] << 32], np.uint64)
    for form in forms:
        out = np.zeros((1, 4), np.uint64)
        form(np.array([counter], np.uint64), keys, out)
        assert out.tolist() == [list(expected)]


@given(
    draws=st.lists(st.tuples(st.tuples(WORDS, WORDS, WORDS, WORDS), LONG_WORDS), min_size=1, max_size=4),
)
def test_every_form_agrees_with_integers_of_any_length(
    forms: list[Form], draws: list[tuple[tuple[int, int, int, int], int]]
) -> None:
    expected = [reference(counter, key) for counter, key in draws]
    counters = np.array([counter for counter, _ in draws], np.uint64)
    keys = np.array([key for _, key in draws], np.uint64)
    for form in forms:
        out = np.zeros((len(draws), 4), np.uint64)
        form(counters, keys, out)
        assert out.tolist() == expected


@given(seed=LONG_WORDS, epoch=st.integers(-(2**70), 2**70))
def test_epoch_keys_are_as_documented(seed: int, epoch: int) -> None:
    key = epoch_key(seed, epoch)
    assert type(key) is np.uint64
    assert int(key) == reference_key(seed, epoch)


def test_seeds_and_epochs_that_are_close_or_exchanged_have_keys_of_their_own() -> None:
    near = [*range(32), 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    assert len({int(epoch_key(seed, epoch)) for seed in near for epoch in near}) == len(near) ** 2


@given(
    seed=LONG_WORDS,
    epoch=st.integers(0, 2**64 - 1),
    indices=st.lists(LONG_WORDS, min_size=0, max_size=3),
    position=WORDS,
    count=st.integers(0, 11),
)
def test_uniforms_are_the_same_in_numpy_in_python_and_compiled(
    compiled: Callable[[Any], Any], seed: int, epoch: int, indices: list[int], position: int, count: int
) -> None:
    key = epoch_key(seed, epoch)
    rows = np.array(indices, np.uint64)
    expected = uniforms(key, rows, position, count)
    assert expected.shape == (len(indices), count)
    assert expected.dtype == np.float64
    for form in (plain_uniforms, compiled(plain_uniforms)):
        out = np.full((len(indices), count), -1.0)
        form(key, rows, position, out)
        np.testing.assert_array_equal(out, expected)


@given(seed=LONG_WORDS, epoch=st.integers(0, 2**64 - 1), index=LONG_WORDS, position=WORDS)
def test_uniforms_are_the_words_of_successive_blocks(
    seed: int, epoch: int, index: int, position: int
) -> None:
    drawn = uniforms(epoch_key(seed, epoch), np.array([index], np.uint64), position, 9)
    words = [
        word
        for block in range(3)
        for word in reference([index % 2**32, index >> 32, position, block], reference_key(seed, epoch))
    ]
    assert drawn.tolist() == [[word / 2**32 for word in words[:9]]]
    assert (drawn >= 0).all()
    assert (drawn < 1).all()


def test_signed_indices_draw_what_their_bits_draw() -> None:
    signed = np.array([0, 5, -1, -(2**63)], np.int64)
    expected = uniforms(epoch_key(0, 0), signed.view(np.uint64), 0, 4)
    np.testing.assert_array_equal(uniforms(epoch_key(0, 0), signed, 0, 4), expected)  # type: ignore[arg-type]


def test_indices_beyond_the_precision_of_float64_are_told_apart() -> None:
    indices = np.arange(2**63, 2**63 + 64, dtype=np.uint64)
    assert len(np.unique(uniforms(epoch_key(0, 0), indices, 0, 1))) == 64


def test_numbers_are_uniform() -> None:
    drawn = uniforms(epoch_key(1, 2), np.arange(50_000, dtype=np.uint64), 3, 8)
    assert abs(excess(np.histogram(drawn, 1000, (0, 1))[0])) < 5
    ordered = np.sort(drawn, axis=None)
    steps = np.arange(ordered.size + 1) / ordered.size
    distance = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    assert distance * ordered.size**0.5 < 1.95  # Kolmogorov and Smirnov: larger once in a thousand


@pytest.mark.parametrize("bit", range(0, 32, 5))
def test_each_bit_of_a_number_is_fair(bit: int) -> None:
    drawn = uniforms(epoch_key(2, 0), np.arange(50_000, dtype=np.uint64), 0, 4)
    ones = (np.floor(drawn * 2.0 ** (bit + 1)) % 2).sum()
    assert abs(ones - drawn.size / 2) < 5 * drawn.size**0.5 / 2


# What a draw depends on, each changed alone by the smallest step, and by one in the upper half where there is one.
NEIGHBOURS = {
    "index": (0, 0, 1, 0),
    "index, upper half": (0, 0, 2**32, 0),
    "position": (0, 0, 0, 1),
    "epoch": (0, 1, 0, 0),
    "epoch, upper half": (0, 2**32, 0, 0),
    "seed": (1, 0, 0, 0),
    "seed, upper half": (2**32, 0, 0, 0),
    "seed and epoch in opposite directions": (-1, 1, 0, 0),
}


@pytest.mark.parametrize("step", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_neighbouring_draws_are_independent(step: tuple[int, int, int, int]) -> None:
    def draw(seed: int, epoch: int, index: int, position: int) -> Any:
        indices = np.arange(index, index + 2 * 25_000, 2, dtype=np.uint64)
        return uniforms(epoch_key(5 + seed, 7 + epoch), indices, 11 + position, 4).ravel()

    assert_independent(draw(0, 0, 0, 0), draw(*step))


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5])
def test_the_numbers_of_one_operation_are_independent(distance: int) -> None:
    drawn = uniforms(epoch_key(5, 7), np.arange(10_000, dtype=np.uint64), 11, 16)
    assert_independent(drawn[:, distance:].ravel(), drawn[:, :-distance].ravel())
