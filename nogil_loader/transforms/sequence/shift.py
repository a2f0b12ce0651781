"""Labels of a model that predicts the next token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.accept import expect
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class ShiftLabels(Operation):
    """Tokens and, for each, the token that follows it: what a causal language model is trained on.

    Takes a sequence ``(L,)`` of any integer dtype and gives ``(2, L - 1)`` of the same: row 0 the inputs, without
    the last token, row 1 the labels, without the first one. Of a batch: ``inputs, labels = batch[:, 0],
    batch[:, 1]``. Models that shift labels themselves do not need it.
    """

    def step(self, spec: Spec) -> Step:
        """Return the step for a sequence.

        Raises:
            ValueError: The array is not one of integers with one axis, or has fewer than two tokens.
        """
        expect(self, spec, "iu", axes=1, what="a sequence (L,)")
        if spec.shape[0] < 2:
            raise ValueError(f"{self}: expected at least 2 tokens, not {spec.shape[0]}")
        return Step(
            name=repr(self),
            kind="sample",
            function=shift_labels,
            reference=_shift_labels,
            source=spec,
            target=replace(spec, shape=(2, spec.shape[0] - 1)),
        )


@jitable
def shift_labels(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Write all tokens but the last, then all but the first."""
    for i in range(len(source) - 1):
        target[0, i] = source[i]
        target[1, i] = source[i + 1]


def _shift_labels(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return np.stack([array[:-1], array[1:]])
