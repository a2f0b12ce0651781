"""Masked tokens, as in BERT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.noise import fill_noise_words, noise_word, noise_words
from nogil_loader.transforms.accept import EXACT, expect
from nogil_loader.transforms.arguments import as_chance, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

#: A random word times this is a number in [0, 1).
UNIT: Final = 2.0**-32
# Random tokens are drawn from 32-bit words: in a vocabulary of this size one may be 1 % likelier than another.
_LARGEST_VOCABULARY: Final = 1 << 25


@dataclass(frozen=True)
class MaskTokens(Operation):
    """Hides random tokens which a model is to find again (masked language modelling).

    Each token is selected with a probability. Of the selected ones, 80 % are replaced by the mask token, 10 % by
    a random one, and 10 % stay as they are (Devlin et al., "BERT: Pre-training of deep bidirectional
    transformers for language understanding", 2018). Labels are the selected tokens, and ``ignore_index``
    elsewhere.

    Takes a sequence ``(L,)`` of any integer dtype and gives int64 ``(2, L)``: row 0 the inputs, row 1 the
    labels. Of a batch: ``inputs, labels = batch[:, 0], batch[:, 1]``.

    Args:
        mask_token: The token that stands for a hidden one.
        vocab_size: Random tokens are 0 to ``vocab_size - 1``, special ones among them, as in BERT. Whether the
            tokens of the dataset are below it is not checked.
        probability: That a token is selected.
        special_tokens: Tokens that are never selected: padding, beginning, end.
        mask_share: Share of the selected tokens that are replaced by the mask token.
        random_share: Share of them that are replaced by a random token.
        ignore_index: Label of the tokens that are not selected; what torch's cross entropy leaves out.
    """

    mask_token: int
    vocab_size: int
    probability: float = 0.15
    special_tokens: Sequence[int] = ()
    mask_share: float = 0.8
    random_share: float = 0.1
    ignore_index: int = -100

    def __post_init__(self) -> None:
        settle(self, **masking_arguments(self))

    def step(self, spec: Spec) -> Step:
        """Return the step for a sequence.

        Raises:
            ValueError: The array is not one of integers with one axis.
        """
        expect(self, spec, "iu", axes=1, what="a sequence (L,)")
        as_mask = self.probability * self.mask_share
        as_random = self.probability * (self.mask_share + self.random_share)
        return Step(
            name=repr(self),
            kind="sample",
            function=mask_tokens,
            reference=_mask_tokens,
            source=spec,
            target=masked_spec(spec),
            numbers=(
                self.mask_token,
                self.vocab_size,
                self.ignore_index,
                self.probability,
                as_mask,
                as_random,
                *self.special_tokens,
            ),
            scratch=_words,
        )


def masking_arguments(transform: Any) -> dict[str, Any]:
    """Return the checked arguments that `MaskTokens` and `MaskSpans` have in common."""
    name = type(transform).__name__
    special = transform.special_tokens
    if isinstance(special, str | bytes) or not isinstance(special, Sequence | np.ndarray | set | frozenset):
        raise TypeError(f"{name}.special_tokens={describe(special, 200)}: expected a list of tokens")
    found: dict[str, Any] = {
        "mask_token": _as_token(f"{name}.mask_token", transform.mask_token),
        "vocab_size": as_count(f"{name}.vocab_size", transform.vocab_size, least=1, most=_LARGEST_VOCABULARY),
        "probability": as_chance(f"{name}.probability", transform.probability),
        "special_tokens": tuple(sorted(_as_token(f"{name}.special_tokens", each) for each in special)),
        "mask_share": as_chance(f"{name}.mask_share", transform.mask_share),
        "random_share": as_chance(f"{name}.random_share", transform.random_share),
        "ignore_index": _as_token(f"{name}.ignore_index", transform.ignore_index),
    }
    # Shares such as 0.9 and 0.1 may add up to a little more than 1.
    if found["mask_share"] + found["random_share"] > 1 + 1e-9:
        raise ValueError(
            f"{name}.mask_share={transform.mask_share!r} and random_share={transform.random_share!r}: expected "
            f"shares of the selected tokens, together at most 1"
        )
    return found


def _as_token(name: str, value: Any) -> int:
    return as_count(name, value, least=-EXACT, most=EXACT)


def _words(spec: Spec) -> tuple[int, int]:
    return spec.shape[0], 0


def masked_spec(spec: Spec) -> Spec:
    """Return the spec of inputs and labels made of a sequence."""
    return Spec((2, *spec.shape), np.dtype(np.int64))


@jitable
def is_among(token: int, tokens: Any) -> bool:
    """Tell whether a token is one of ``tokens`` (float64)."""
    for i in range(len(tokens)):  # noqa: SIM110 - a generator expression does not compile
        if token == int(tokens[i]):
            return True
    return False


@jitable
def random_token(word: Any, vocab_size: float) -> int:
    """Return the token below ``vocab_size`` that a random word chooses."""
    return int(float(word) * UNIT * vocab_size)


@jitable
def mask_tokens(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Write inputs and labels.

    The word of noise with a token's own number decides what happens to it, and the one ``len(source)`` further on
    which random token it becomes.

    Args:
        source: Tokens ``(L,)``.
        target: int64 ``(2, L)``.
        numbers: Mask token, size of the vocabulary, ignored label, the bounds of "selected", "mask" and "random",
            special tokens.
        drawn: Unused.
        rng: Key, index, position.
        work: ``(L,)``.
        table: Unused.
    """
    length = len(source)
    mask_token, vocab_size, ignored = int(numbers[0]), numbers[1], int(numbers[2])
    selected, as_mask, as_random, special = numbers[3], numbers[4], numbers[5], numbers[6:]
    inputs, labels = target[0], target[1]
    for i in range(length):
        inputs[i] = source[i]
        labels[i] = ignored
    words = work[:length].view(np.uint32)
    fill_noise_words(rng[0], rng[1], rng[2], 0, words)
    for i in range(length):
        chance = float(words[i]) * UNIT
        if chance >= selected or is_among(inputs[i], special):
            continue
        labels[i] = inputs[i]
        if chance < as_mask:
            inputs[i] = mask_token
        elif chance < as_random:
            inputs[i] = random_token(noise_word(rng[0], rng[1], rng[2], length + i), vocab_size)


def _mask_tokens(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    mask_token, vocab_size, ignored, selected, as_mask, as_random, *special = numbers
    words = noise_words(rng[0], int(rng[1]), int(rng[2]), 0, 2 * len(array)).reshape(2, -1) / 2.0**32
    tokens = array.astype(np.int64)
    chosen = (words[0] < selected) & ~np.isin(tokens, np.array(special, np.int64))
    replaced = np.where(words[0] < as_mask, int(mask_token), (words[1] * vocab_size).astype(np.int64))
    inputs = np.where(chosen & (words[0] < as_random), replaced, tokens)
    return np.stack([inputs, np.where(chosen, tokens, int(ignored))])
