"""Masked tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.sequence import MaskSpans, MaskTokens
from tests.transforms.sample_steps import refusal, run

MASK, SIZE = 103, 1000


@given(
    tokens=st.lists(st.integers(0, 127), max_size=40),
    special=st.sets(st.integers(0, 127), max_size=5),
    probability=st.floats(0, 1),
    shares=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)),
    dtype=st.sampled_from(["int8", "uint16", "int64", "uint64"]),
    index=st.integers(0, 2**64 - 1),
)
def test_labels_are_the_selected_tokens_and_the_others_stay(
    tokens: list[int],
    special: set[int],
    probability: float,
    shares: tuple[float, float],
    dtype: str,
    index: int,
) -> None:
    array = np.array(tokens, dtype)
    transform = MaskTokens(MASK, SIZE, probability, tuple(special), *shares)
    inputs, labels = run(transform, array, index=index, kernel=False)
    selected = labels != -100
    np.testing.assert_array_equal(labels[selected], array[selected])
    np.testing.assert_array_equal(inputs[~selected], array[~selected])
    assert not special & set(labels[selected].tolist())
    assert ((inputs >= 0) & (inputs < SIZE)).all()


def test_shares_are_those_of_bert() -> None:
    tokens = np.arange(2000, 2000 + 100_000)
    inputs, labels = run(MaskTokens(MASK, SIZE), tokens, index=5, python=False)
    selected = labels != -100
    # Each bound is more than five standard deviations from the mean.
    assert selected.mean() == pytest.approx(0.15, abs=0.006)
    kept = inputs[selected] == labels[selected]
    masked = inputs[selected] == MASK
    randomised = (inputs[selected] < SIZE) & ~masked
    assert masked.mean() == pytest.approx(0.8, abs=0.02)
    assert randomised.mean() == pytest.approx(0.1, abs=0.015)
    assert kept.mean() == pytest.approx(0.1, abs=0.015)
    assert (kept | masked | randomised).all()
    found = inputs[selected][randomised]
    assert (found.min(), found.max()) <= (10, SIZE)
    assert found.max() >= SIZE - 10
    assert found.mean() == pytest.approx(SIZE / 2, abs=SIZE / 25)
    # Whether neighbours are selected is independent.
    both = (selected[1:] & selected[:-1]).mean()
    assert both == pytest.approx(0.15**2, abs=0.004)


def test_no_two_samples_and_no_two_seeds_are_masked_alike() -> None:
    transform, tokens = MaskTokens(MASK, SIZE), np.arange(60)
    labels = [run(transform, tokens, index=i, seed=s, kernel=False)[1] for i in range(8) for s in (0, 1)]
    assert len({each.tobytes() for each in labels}) == 16


@pytest.mark.parametrize(("probability", "selected"), [(0.0, 0), (1.0, 30)])
def test_none_or_all_tokens_are_selected_at_the_ends(probability: float, selected: int) -> None:
    inputs, labels = run(MaskTokens(MASK, SIZE, probability, mask_share=1.0, random_share=0.0), np.arange(30))
    assert (labels != -100).sum() == selected
    assert (inputs == MASK).sum() == selected


def test_labels_that_are_not_asked_for_can_be_any_number() -> None:
    _, labels = run(MaskTokens(MASK, SIZE, 0.5, ignore_index=-1), np.arange(30, dtype=np.int16), kernel=False)
    assert -1 in labels
    assert -100 not in labels


def test_special_tokens_may_be_a_set_or_an_array_and_equal_transforms_are_equal() -> None:
    assert MaskTokens(MASK, SIZE, special_tokens={2, 1}) == MaskTokens(  # type: ignore[arg-type]
        MASK,
        SIZE,
        special_tokens=np.array([1, 2]),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("kind", [MaskTokens, MaskSpans])
def test_what_cannot_be_is_refused_with_the_transform_named(kind: type[MaskTokens] | type[MaskSpans]) -> None:
    name = kind.__name__
    transform = kind(MASK, SIZE)
    assert "float32 is not supported; expected a sequence (L,) of integers" in refusal(
        transform, (5,), "float32"
    )
    assert "bool is not supported" in refusal(transform, (5,), "bool")
    assert "not an array of shape (5, 2)" in refusal(transform, (5, 2), "int64")
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=rf"{name}\.probability"):
            kind(MASK, SIZE, wrong)
    with pytest.raises(ValueError, match=rf"{name}\.vocab_size=0"):
        kind(MASK, 0)
    with pytest.raises(TypeError, match=rf"{name}\.mask_token"):
        kind(103.0, SIZE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"{name}\.special_tokens=5"):
        kind(MASK, SIZE, special_tokens=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"{name}\.mask_share=0\.8 and random_share=0\.3"):
        kind(MASK, SIZE, random_share=0.3)
