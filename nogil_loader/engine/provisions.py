"""What the epochs of a loader share about memory: where readings come from, and what samples were seen to take."""

from __future__ import annotations

import logging
import os
from functools import partial

from nogil_loader.engine.rations import Rations
from nogil_loader.memory import heap
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.ranks import is_distributed, local_world_size
from nogil_loader.memory.source import ReadingSource
from nogil_loader.policies import MemoryPolicy

logger = logging.getLogger("nogil_loader")


class Provisions:
    """A loader's memory.

    Args:
        policy: How much there is and what is given up first.
        copies: How often a batch exists while it is made, as far as can be said beforehand.
        rereadable: Whether samples that were dropped can be loaded again.
    """

    def __init__(self, policy: MemoryPolicy, *, copies: int, rereadable: bool) -> None:
        self._policy = policy
        self._copies = copies
        self._estimate = self._new_estimate()
        self._source = ReadingSource(policy)
        self._rereadable = rereadable
        # Ranks have to make the same number of steps, so by default their batches stay whole.
        self._sharded = is_distributed(os.environ)
        self._told = False
        reading = self._source.read()
        # A limit below what the machine has: there, what the C library keeps for later decides what fits.
        if policy.tune_malloc and reading is not None and not self._source.is_host:
            heap.fix_thresholds()

    def rations(self, *, workers: int, capacity: int) -> Rations:
        """What the threads of a new epoch ask."""
        policy = self._policy
        fixed = self._sharded if policy.fixed_batch_size is None else policy.fixed_batch_size
        return Rations(
            partial(self._governor, workers, capacity),
            self._source,
            policy=policy,
            capacity=capacity,
            divisible=not fixed,
            rereadable=self._rereadable,
            warn=self._tell_of_hints,
        )

    def _tell_of_hints(self, reason: str) -> None:
        if not self._told:
            self._told = True
            logger.warning("sizes of samples are learned, and hints ignored from here on: %s", reason)

    def _governor(self, workers: int, capacity: int, *, anew: bool) -> tuple[Governor, Estimate]:
        if anew:
            self._estimate = self._new_estimate()
        governor = Governor(
            self._policy,
            self._estimate,
            workers=workers,
            capacity=capacity,
            sharded=self._sharded,
            revocable=self._rereadable,
            measures=not self._source.is_host,
            ranks=local_world_size(os.environ) if self._source.is_shared else 1,
        )
        return governor, self._estimate

    def _new_estimate(self) -> Estimate:
        return Estimate(scratch=self._policy.scratch, copies=self._copies)
