"""Masked runs of tokens, as in SpanBERT."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.noise import noise_word, noise_words
from nogil_loader.transforms.accept import expect
from nogil_loader.transforms.arguments import as_number, settle
from nogil_loader.transforms.sequence.tokens import (
    UNIT,
    is_among,
    masked_spec,
    masking_arguments,
    random_token,
)
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# How often a place is drawn that turns out to be taken before the next free one is used. With half of the tokens
# taken, that happens to one span in 65,000.
_TRIES: Final = 16
# What tokens are marked with in the scratch table.
_FREE: Final = 0
_TAKEN: Final = 1
_SPECIAL: Final = 2


@dataclass(frozen=True)
class MaskSpans(Operation):
    """Hides runs of neighbouring tokens which a model is to find again, as in SpanBERT.

    Spans are hidden one after the other until a share of the tokens is (Joshi et al., "SpanBERT: Improving
    pre-training by representing and predicting spans", 2019): a length is drawn, then the first token, every
    one that is neither hidden nor special being equally likely. Of the spans, 80 % are replaced by mask tokens,
    10 % by random tokens, and 10 % stay as they are. Spans end before special tokens, and the last one is cut
    off where the share is reached; they may touch or run into each other. There are no whole words here: a span
    begins at any token.

    Takes a sequence ``(L,)`` of any integer dtype and gives int64 ``(2, L)``: row 0 the inputs, row 1 the
    labels. Of a batch: ``inputs, labels = batch[:, 0], batch[:, 1]``.

    Args:
        mask_token: The token that stands for a hidden one.
        vocab_size: Random tokens are 0 to ``vocab_size - 1``.
        probability: Share of the tokens (those that are not special) that are hidden, rounded up to whole ones.
        max_length: Tokens of the longest span.
        geometric_p: Lengths are geometrically distributed: each token is the span's last with this probability;
            longer spans than ``max_length`` are not drawn. With SpanBERT's 0.2 and 10 they have 3.8 tokens in
            the mean. None: every span has ``max_length`` tokens.
        special_tokens: Tokens that are never hidden: padding, beginning, end.
        mask_share: Share of the spans that are replaced by mask tokens.
        random_share: Share of them that are replaced by random tokens.
        ignore_index: Label of the tokens that are not hidden.
    """

    mask_token: int
    vocab_size: int
    probability: float = 0.15
    max_length: int = 10
    geometric_p: float | None = 0.2
    special_tokens: Sequence[int] = ()
    mask_share: float = 0.8
    random_share: float = 0.1
    ignore_index: int = -100

    def __post_init__(self) -> None:
        settle(
            self,
            max_length=as_count("MaskSpans.max_length", self.max_length, least=1, most=1024),
            **masking_arguments(self),
        )
        if self.geometric_p is not None:
            settle(
                self, geometric_p=as_number("MaskSpans.geometric_p", self.geometric_p, least=0.0, most=1.0)
            )

    def step(self, spec: Spec) -> Step:
        """Return the step for a sequence.

        Raises:
            ValueError: The array is not one of integers with one axis.
        """
        expect(self, spec, "iu", axes=1, what="a sequence (L,)")
        return Step(
            name=repr(self),
            kind="sample",
            function=mask_spans,
            reference=_mask_spans,
            source=spec,
            target=masked_spec(spec),
            numbers=(
                self.mask_token,
                self.vocab_size,
                self.ignore_index,
                self.probability,
                self.mask_share,
                self.mask_share + self.random_share,
                self.max_length,
                *self._bounds(),
                *self.special_tokens,
            ),
            scratch=_marks_and_places,
        )

    def _bounds(self) -> list[float]:
        """Return for each length but the longest one the chance that a span is not longer."""
        if self.geometric_p is None:
            return [0.0] * (self.max_length - 1)
        shares = [(1 - self.geometric_p) ** at for at in range(self.max_length)]
        sums = list(accumulate(shares))
        return [each / sums[-1] for each in sums[:-1]]


def _marks_and_places(spec: Spec) -> tuple[int, int]:
    return 0, 2 * spec.shape[0]


@jitable
def mask_spans(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Write inputs and labels.

    The words of noise from ``len(source)`` on choose the spans, in order; the one with a token's own number says
    which random token it becomes.

    Args:
        source: Tokens ``(L,)``.
        target: int64 ``(2, L)``.
        numbers: Mask token, size of the vocabulary, ignored label, share of hidden tokens, bounds of "mask" and
            "random", the longest length, bounds of all shorter lengths, special tokens.
        drawn: Unused.
        rng: Key, index, position.
        work: Unused.
        table: ``(2 L,)``.
    """
    length = len(source)
    mask_token, vocab_size, ignored = int(numbers[0]), numbers[1], int(numbers[2])
    as_mask, as_random, longest = numbers[4], numbers[5], int(numbers[6])
    bounds, special = numbers[7 : 6 + longest], numbers[6 + longest :]
    inputs, labels = target[0], target[1]
    marks, places = table[:length], table[length : 2 * length]
    count = 0
    for i in range(length):
        inputs[i] = source[i]
        labels[i] = ignored
        marks[i] = _SPECIAL
        if not is_among(inputs[i], special):
            marks[i] = _FREE
            places[count] = i
            count += 1
    left = math.ceil(numbers[3] * count)
    word = length
    while left > 0:
        chance = span_number(rng, word)
        span = 1
        while span < longest and chance >= bounds[span - 1]:
            span += 1
        word += 1
        at = int(span_number(rng, word) * count)
        tries = 1
        while marks[places[at]] == _TAKEN:
            if tries < _TRIES:
                word += 1
                at = int(span_number(rng, word) * count)
                tries += 1
            else:
                at = (at + 1) % count
        word += 1
        chance = span_number(rng, word)
        word += 1
        first = places[at]
        for i in range(first, min(first + span, length)):
            if marks[i] == _SPECIAL or left == 0:
                break
            if marks[i] == _FREE:
                marks[i] = _TAKEN
                left -= 1
                labels[i] = inputs[i]
                if chance < as_mask:
                    inputs[i] = mask_token
                elif chance < as_random:
                    inputs[i] = random_token(noise_word(rng[0], rng[1], rng[2], i), vocab_size)


@jitable
def span_number(rng: Any, word: int) -> float:
    """Return a word of noise as a number in [0, 1)."""
    return float(noise_word(rng[0], rng[1], rng[2], word)) * UNIT


def _mask_spans(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    mask_token, vocab_size, ignored, share, as_mask, as_random, longest, *others = numbers
    bounds, special = others[: int(longest) - 1], others[int(longest) - 1 :]
    length = len(array)
    randoms = noise_words(rng[0], int(rng[1]), int(rng[2]), 0, length) / 2.0**32 * vocab_size
    inputs = array.astype(np.int64)
    labels = np.full(length, int(ignored), np.int64)
    eligible = ~np.isin(inputs, np.array(special, np.int64))
    places = np.flatnonzero(eligible)
    hidden = np.zeros(length, bool)
    most = math.ceil(share * len(places))
    draws = _numbers_from(rng, length)
    while hidden.sum() < most:
        span = 1 + int(np.searchsorted(bounds, next(draws), side="right"))
        tries = [int(next(draws) * len(places))]
        while hidden[places[tries[-1]]] and len(tries) < _TRIES:
            tries.append(int(next(draws) * len(places)))
        after = np.roll(places, -tries[-1])
        first = int(after[~hidden[after]][0])
        chance = next(draws)
        covered = np.arange(first, min(first + span, length))
        covered = covered[np.logical_and.accumulate(eligible[covered])]
        covered = covered[~hidden[covered]][: most - int(hidden.sum())]
        hidden[covered] = True
        labels[covered] = array[covered]
        if chance < as_mask:
            inputs[covered] = int(mask_token)
        elif chance < as_random:
            inputs[covered] = randoms[covered].astype(np.int64)
    return np.stack([inputs, labels])


def _numbers_from(rng: Any, start: int) -> Iterator[float]:
    while True:
        yield from noise_words(rng[0], int(rng[1]), int(rng[2]), start, 64) / 2.0**32
        start += 64
