"""How thoroughly a dataset is checked."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.checks import as_count, as_seconds
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.options import MAX_SEED

#: Threads beyond this would only wait for each other.
MOST_THREADS = 256
# Fewer seldom meet in the same line.
_LEAST_THREADS = 8


@dataclass(frozen=True)
class Options:
    """How thoroughly to check.

    Attributes:
        samples: How many are read.
        threads: How many read at once; None for twice the CPUs, at least 8.
        rounds: How often they go through all patterns.
        timeout: Seconds that one call may take.
        seed: Of orders, and of what `nogil_loader.sample_rng` gives.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of range.
    """

    samples: int = 200
    threads: int | None = None
    rounds: int = 2
    timeout: float = 30.0
    seed: int = 0

    def __post_init__(self) -> None:
        as_count("samples", self.samples, least=1)
        if self.threads is not None:
            as_count("threads", self.threads, least=2, most=MOST_THREADS)
        as_count("rounds", self.rounds, least=0)
        if as_seconds("timeout", self.timeout) == 0:
            raise ValueError("timeout=0: expected seconds > 0, so that no call can hang the check")
        as_count("seed", self.seed, least=0, most=MAX_SEED)

    @property
    def crew(self) -> int:
        """How many threads there are."""
        if self.threads is not None:
            return self.threads
        return min(MOST_THREADS, max(_LEAST_THREADS, 2 * available_cpus()))
