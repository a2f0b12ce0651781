"""What the demo loads, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from nogil_loader.plan import Permutation

#: What can be shown: a worker dies; memory gets short.
ACTS = ("worker", "memory")


@dataclass(frozen=True)
class PlantedDeath:
    """Where a worker dies.

    Attributes:
        batch: The batch whose middle sample kills the worker that reads it.
        every_time: Kill each worker that reads it, not just the first.
    """

    batch: int
    every_time: bool = False


@dataclass(frozen=True)
class Demo:
    """What to load and what goes wrong.

    Attributes:
        samples: Photographs.
        batch_size: Of the first act.
        workers: Threads, as the loader's argument ``num_workers``.
        failure: As the loader's argument ``on_failure``; for the first act.
        seed: Of the photographs and of the order.
        death: Which worker dies in the first act; None for nobody.
        acts: Which of `ACTS` to show.

    Raises:
        ValueError: The death is planted in a batch that the epoch does not have.
    """

    samples: int
    batch_size: int
    workers: int | Literal["auto"]
    failure: str
    seed: int
    death: PlantedDeath | None = None
    acts: tuple[str, ...] = ACTS

    def __post_init__(self) -> None:
        if self.death is not None and self.death.batch >= self.batches:
            raise ValueError(
                f"batch {self.death.batch} does not exist: {self.samples} samples make {self.batches} "
                f"batches of {self.batch_size}, counted from 0"
            )

    @property
    def batches(self) -> int:
        """How many batches the epoch has."""
        return -(-self.samples // self.batch_size)

    def with_death(self, death: PlantedDeath) -> Demo:
        """The same with a worker's death."""
        return replace(self, death=death)

    @property
    def victims(self) -> str:
        """Whom the sample kills."""
        return "every worker" if self.death is not None and self.death.every_time else "the first worker"

    @property
    def doomed_index(self) -> int | None:
        """The dataset index of the sample that kills: the order of an epoch is known beforehand."""
        if self.death is None:
            return None
        start = self.death.batch * self.batch_size
        middle = (start + min(start + self.batch_size, self.samples)) // 2
        return int(Permutation(self.samples, self.seed, epoch=0).indices(middle, middle + 1)[0])
