"""Masked spans."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.sequence import MaskSpans
from tests.transforms.sample_steps import run

MASK, SIZE = 103, 1000


@given(
    tokens=st.lists(st.integers(0, 20), max_size=40),
    special=st.sets(st.integers(0, 20), max_size=5),
    probability=st.floats(0, 1),
    max_length=st.integers(1, 12),
    geometric_p=st.none() | st.floats(0, 1),
    index=st.integers(0, 2**64 - 1),
)
def test_as_many_tokens_are_hidden_as_were_asked_for_and_no_special_one(
    tokens: list[int],
    special: set[int],
    probability: float,
    max_length: int,
    geometric_p: float | None,
    index: int,
) -> None:
    array = np.array(tokens, np.uint8)
    transform = MaskSpans(MASK, SIZE, probability, max_length, geometric_p, tuple(special))
    inputs, labels = run(transform, array, index=index, kernel=False)
    hidden = labels != -100
    eligible = ~np.isin(array, list(special))
    assert hidden.sum() == math.ceil(probability * eligible.sum())
    assert not (hidden & ~eligible).any()
    np.testing.assert_array_equal(labels[hidden], array[hidden])
    np.testing.assert_array_equal(inputs[~hidden], array[~hidden])


def test_lengths_are_those_of_spanbert_in_the_mean() -> None:
    tokens = np.arange(2000, 2000 + 20_000)
    # So sparse that spans hardly ever meet; all of them are seen, since each is replaced by mask tokens.
    transform = MaskSpans(MASK, SIZE, 0.02, mask_share=1.0, random_share=0.0)
    inputs, _ = run(transform, tokens, python=False, kernel=False)
    runs = [len(list(group)) for hidden, group in groupby(inputs == MASK) if hidden]
    assert sum(runs) == 400
    # 3.8 in the paper; about 105 spans of a standard deviation of 2.6, and a few of them touch.
    assert np.mean(runs) == pytest.approx(3.8, abs=1.1)


def test_spans_of_fixed_length_are_whole_but_where_they_meet_the_end_or_the_share() -> None:
    tokens = np.arange(2000, 2400)
    transform = MaskSpans(MASK, SIZE, 0.1, 5, geometric_p=None, mask_share=1.0, random_share=0.0)
    inputs, _ = run(transform, tokens, index=2, kernel=False)
    runs = [len(list(group)) for hidden, group in groupby(inputs == MASK) if hidden]
    assert sum(runs) == 40
    assert sum(length % 5 != 0 for length in runs) <= 3
    assert 5 in runs


def test_a_span_is_replaced_as_a_whole() -> None:
    tokens = np.arange(2000, 2200)
    kinds = set()
    for index in range(40):
        # One span of 8 tokens: the share is as large as it.
        inputs, labels = run(MaskSpans(MASK, SIZE, 0.04, 8, None), tokens, index=index, kernel=index < 8)
        hidden = np.flatnonzero(labels != -100)
        assert len(hidden) == 8
        if hidden[-1] - hidden[0] > 7:
            continue  # it met the end of the sequence, and a second one was needed
        words = inputs[hidden]
        if (words == MASK).all():
            kinds.add("mask")
        elif (words == tokens[hidden]).all():
            kinds.add("keep")
        else:
            assert (words < SIZE).all()
            assert len(set(words.tolist())) > 1
            kinds.add("random")
    assert kinds == {"mask", "keep", "random"}


def test_first_tokens_are_anywhere() -> None:
    tokens = np.arange(2000, 2010)
    firsts = np.zeros(10, int)
    for index in range(300):
        _, labels = run(MaskSpans(MASK, SIZE, 0.1, 1), tokens, index=index, kernel=False)
        firsts[labels != -100] += 1
    # 30 expected of each; fewer than 10 of any would be 3.8 standard deviations away.
    assert firsts.sum() == 300
    assert firsts.min() >= 10


def test_all_special_or_no_tokens_at_all_are_left_alone() -> None:
    transform = MaskSpans(MASK, SIZE, 1.0, special_tokens=[7])
    inputs, labels = run(transform, np.full(5, 7), kernel=False)
    assert inputs.tolist() == [7] * 5
    assert labels.tolist() == [-100] * 5
    assert run(transform, np.zeros(0, np.int32), kernel=False).shape == (2, 0)


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"MaskSpans\.max_length=0"):
        MaskSpans(MASK, SIZE, max_length=0)
    with pytest.raises(ValueError, match=r"MaskSpans\.geometric_p=1\.5"):
        MaskSpans(MASK, SIZE, geometric_p=1.5)
