"""Transforms of several parts of a sample at once, and of whole batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from nogil_loader.transforms.chain import Prepare, draw_for
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform


class JointTransform(ABC):
    """Changes several parts of each sample in step, such as an image and its mask."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = Transform.__repr__  # type: ignore[method-assign,assignment]

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

    @abstractmethod
    def fits(self, specs: Sequence[Spec]) -> Iterator[tuple[Program, Fit]]:
        """Iterate over the kernels for samples whose parts have these specs.

        Raises:
            Misfit: They do not fit; the message names the transform.
        """

    def apply(
        self, values: Sequence[Any], *, seed: int = 0, epoch: int = 0, index: Hashable = 0
    ) -> tuple[Any, ...]:
        """Transform the parts of one sample exactly as a loader does.

        Args:
            values: The parts, in the order of the loader's keys; they are not changed.
            seed: Of the loader.
            epoch: The epoch.
            index: The sample's key in the dataset.

        Returns:
            New arrays.

        Raises:
            ValueError: They do not fit; the message names the transform.
        """
        self.check_keys(len(values))
        return tuple(self.transform_parts(values, draw_for(seed, epoch, (index,))))


class BatchTransform(ABC):
    """Mixes the samples of a batch.

    What a sample becomes depends on the others in its batch, so the loader keeps batches whole.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = Transform.__repr__  # type: ignore[method-assign,assignment]

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

    @abstractmethod
    def prepare(self) -> None:
        """Compile in the calling thread what most batches need; anything else is compiled when it is needed."""

    def apply(
        self, values: Sequence[Any], *, seed: int = 0, epoch: int = 0, indices: Sequence[Hashable]
    ) -> tuple[Any, ...]:
        """Transform a batch exactly as a loader does.

        Args:
            values: The parts, in the order of the loader's keys: arrays ``(B, …)``; they are not changed.
            seed: Of the loader.
            epoch: The epoch.
            indices: The samples' keys in the dataset, B of them.

        Returns:
            New arrays.

        Raises:
            ValueError: They do not fit; the message names the transform.
        """
        self.check_keys(len(values))
        copies = [np.array(value) for value in values]
        return tuple(self.transform_batch(copies, draw_for(seed, epoch, indices)))
