"""Which settings are measured, and in which order: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Case:
    """A setting to measure.

    Attributes:
        loader: ``"nogil_loader"``, or the name of a peer.
        num_workers: As the loader's argument.
        prefetch_factor: The same.
        batch_size: The same; None for what the target itself says.
    """

    loader: str
    num_workers: int
    prefetch_factor: int
    batch_size: int | None = None

    def __str__(self) -> str:
        parts = [f"workers {self.num_workers}", f"prefetch {self.prefetch_factor}"]
        if self.batch_size is not None:
            parts.append(f"batch size {self.batch_size}")
        return f"{self.loader}, {', '.join(parts)}"


def usual_workers(cores: int) -> tuple[int, ...]:
    """Return 0, 1, 2, 4 … up to twice the cores, and the number of cores itself."""
    doubling = (1 << power for power in range((2 * cores).bit_length()))
    return tuple(sorted({0, cores, *(number for number in doubling if number <= 2 * cores)}))


def cases_of(
    loaders: Sequence[str],
    workers: Sequence[int],
    prefetch: Sequence[int],
    batch_sizes: Sequence[int] = (),
    least_workers: dict[str, int] | None = None,
) -> tuple[Case, ...]:
    """Return every combination, those of the first loader first.

    Without workers nothing is loaded ahead, so there ``prefetch`` has one value, the first.

    Args:
        loaders: Names.
        workers: Numbers of workers.
        prefetch: Batches ahead per worker.
        batch_sizes: Empty for the target's own.
        least_workers: By name, below which number a loader has no such setting.
    """
    least = least_workers or {}
    return tuple(
        Case(loader, number, ahead, size)
        for loader, size, number, ahead in product(loaders, batch_sizes or (None,), workers, prefetch)
        if number >= least.get(loader, 0) and (number > 0 or ahead == prefetch[0])
    )


def rounds_of(cases: Sequence[Case], repeats: int) -> tuple[tuple[Case, ...], ...]:
    """Return the rounds: each has every case once.

    The order turns by an equal part from round to round, so that on average each case comes equally early, and a
    machine that gets slower meanwhile makes all of them slower.
    """
    shifts = [number * len(cases) // repeats for number in range(repeats)]
    return tuple((*cases[shift:], *cases[:shift]) for shift in shifts)
