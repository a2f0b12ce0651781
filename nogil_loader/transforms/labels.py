"""Labels of samples that were mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class WrongLabel(ValueError):
    """The label of one sample of a batch is not one of the classes.

    Attributes:
        position: The sample's place in the batch.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def mix_labels(who: object, labels: Array, weights: Array, num_classes: int | None) -> Array:
    """Return the labels of a batch in which every sample was mixed with the next one, the last with the first.

    Args:
        who: The transform, for the messages.
        labels: Integers ``(B,)`` or floats ``(B, classes)``.
        weights: Each sample's own weight, ``(B,)``; the next one's is 1 minus that.
        num_classes: Number of classes; None where labels tell it.

    Returns:
        A new array ``(B, classes)``: float32 for integer labels, else of the labels' dtype.

    Raises:
        WrongLabel: A label is not one of the classes.
        ValueError: Labels of another shape or dtype, or it is not known how many classes there are.
    """
    if labels.dtype.kind == "f":
        if labels.ndim != 2 or num_classes not in (None, labels.shape[1]):
            raise ValueError(
                f"{who}: float labels of shape {labels.shape}; expected (B, "
                f"{'classes' if num_classes is None else num_classes})"
            )
        own = weights.astype(np.float32 if labels.dtype.itemsize <= 4 else np.float64)[:, None]
        with np.errstate(all="ignore"):
            mixed = labels * own + np.roll(labels, -1, 0) * (1 - own)
        # Weight 1 means that the other label does not count, whatever it is.
        return np.where(own == 1, labels, mixed).astype(labels.dtype, copy=False)
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise ValueError(
            f"{who}: labels of {labels.dtype} and shape {labels.shape}; expected integers (B,), the classes, or "
            f"floats (B, classes), their probabilities"
        )
    if num_classes is None:
        raise ValueError(f"{who}: integer labels need num_classes, the number of classes")
    wrong = (labels < 0) | (labels >= num_classes)
    if wrong.any():
        at = int(wrong.argmax())
        raise WrongLabel(f"{who}: label {labels[at]}; expected 0 to {num_classes - 1}", at)
    own = weights.astype(np.float32)
    mixed = np.zeros((len(labels), num_classes), np.float32)
    every = np.arange(len(labels))
    mixed[every, labels] = own
    mixed[every, np.roll(labels, -1)] += 1 - own
    return mixed
