"""Transforms of several parts of a sample at once, and of whole batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from nogil_loader.transforms.chain import Prepare
from nogil_loader.transforms.program import Draw


class JointTransform(ABC):
    """Changes several parts of each sample in step, such as an image and its mask."""

    @abstractmethod
    def transform_parts(
        self, values: Sequence[Any], draw: Draw, compile_first: Prepare | None = None
    ) -> Sequence[Any]:
        """Return the parts of one sample, transformed.

        Args:
            values: The parts, in the order of the loader's keys; they are not changed.
            draw: Of one sample.
            compile_first: Called when a kernel has to be compiled, which takes seconds; it does that.

        Raises:
            Misfit: They do not fit; the message names the transform.
        """

    @abstractmethod
    def check_keys(self, count: int) -> None:
        """Refuse a number of keys that it cannot work on.

        Raises:
            ValueError: As above.
        """


class BatchTransform(ABC):
    """Mixes the samples of a batch.

    What a sample becomes depends on the others in its batch, so the loader keeps batches whole.
    """

    @abstractmethod
    def transform_batch(self, values: Sequence[Any], draw: Draw) -> Sequence[Any]:
        """Return the parts of a batch, transformed.

        Args:
            values: The parts, in the order of the loader's keys: arrays ``(B, …)`` that may be changed.
            draw: Of the batch's samples.

        Raises:
            ValueError: They do not fit.
        """

    @abstractmethod
    def check_keys(self, count: int) -> None:
        """Refuse a number of keys that it cannot work on.

        Raises:
            ValueError: As above.
        """
