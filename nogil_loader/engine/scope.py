"""What user code can learn about the sample and the worker it runs for.

The random numbers of a sample are a pure function of (seed, epoch, index), so they are the same for any
number of workers, after any rebuild and after a resume (G4).
"""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nogil_loader.plan.words import word_of

_WORD = 2**64 - 1
# Second half of the Philox key: keeps these streams apart from other uses of the same seed. The bytes of
# "nogil_ld", so that it is plain that nothing is hidden in the number.
_STREAM: Final = int.from_bytes(b"nogil_ld", "big")
_NO_SAMPLE: Final = object()

#: The stages of a sample or batch, as errors name them.
FETCH: Final = "fetch"
TRANSFORM: Final = "transform"
COLLATE: Final = "collate"
CONVERT: Final = "output conversion"
#: A kernel is compiled: nobody is late then.
COMPILE: Final = "compile"
#: A thread that has begun waits for memory.
MEMORY: Final = "memory"
#: What the thread that reads an iterable is called where workers have numbers.
READER: Final = "reader"


class SampleScope:
    """Which sample is being loaded, kept up to date by the loading loop with plain attribute stores.

    Attributes:
        key: Dataset key of the current sample, or a private marker between samples.
        offset: Its place in the ticket; None outside the loop over samples.
        stage: What is being done: ``"fetch"``, ``"collate"`` …
        owner: The epoch that it is loaded for.
        generator: The sample's generator once somebody asked for it; the loop resets it to None.
    """

    __slots__ = ("epoch", "generator", "key", "offset", "owner", "seed", "stage")

    def __init__(self, seed: int, epoch: int, owner: object = None) -> None:
        self.owner = owner
        self.seed = seed
        self.epoch = epoch
        self.key: Any = _NO_SAMPLE
        self.offset: int | None = None
        self.stage = ""
        self.generator: np.random.Generator | None = None

    def leave_samples(self, stage: str) -> None:
        """Enter a stage that concerns the whole batch."""
        self.key = _NO_SAMPLE
        self.offset = None
        self.generator = None
        self.stage = stage


current_scope: ContextVar[SampleScope | None] = ContextVar("nogil_loader_sample", default=None)


def sample_rng(index: Hashable = _NO_SAMPLE) -> np.random.Generator:
    """Return the random generator of the sample that is being loaded.

    It is keyed by (seed, epoch, index) alone: the same for any number of workers, after a rebuild and after a
    resume, different for every sample and every epoch. Calling it again for the same sample continues the same
    generator.

    Args:
        index: The dataset index, needed only where several samples are loaded in one call (``__getitems__``)
            or where a batch is collated. Each call with an index starts that sample's generator anew.

    Returns:
        A ``numpy.random.Generator`` over Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as
        1, 2, 3", 2011) with key (seed, constant) and counter (0, 0, index, epoch).

    Raises:
        RuntimeError: Called outside a loader, or between samples without an index.
    """
    scope = current_scope.get()
    if scope is None:
        raise RuntimeError(
            "sample_rng() was called outside a loader (or in a thread that user code started itself); to try a "
            "dataset by hand, wrap the call: with nogil_loader.testing.sample_scope(seed=0, epoch=0, index=3): …"
        )
    if index is not _NO_SAMPLE:
        return _generator(scope.seed, scope.epoch, index)
    if scope.key is _NO_SAMPLE:
        raise RuntimeError(
            "sample_rng() knows which sample is meant only while that sample is loaded by itself, not in "
            "__getitems__, collate_fn, worker_init_fn or an iterable's __iter__; pass the index: sample_rng(index)"
        )
    if scope.generator is None:
        scope.generator = _generator(scope.seed, scope.epoch, scope.key)
    return scope.generator


def _generator(seed: int, epoch: int, key: Hashable) -> np.random.Generator:
    counter = np.array([0, 0, word_of(key), epoch & _WORD], dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(counter=counter, key=np.array([seed, _STREAM], dtype=np.uint64))
    )


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that runs the calling code, as in torch.

    Attributes:
        id: From 0 to ``num_workers`` - 1; a rebuilt worker keeps the id.
        num_workers: How many there are.
        seed: A seed of the worker's own. Prefer ``sample_rng()``: what depends on the worker is not
            reproducible across worker counts.
        dataset: The worker's dataset: the loader's own, or the worker's copy with ``clone_dataset``.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any = field(repr=False)


current_worker: ContextVar[WorkerInfo | None] = ContextVar("nogil_loader_worker", default=None)


def get_worker_info() -> WorkerInfo | None:
    """Return what is known of the worker that calls this; None outside workers and with ``num_workers=0``.

    The one thread that reads an iterable dataset is not a worker, so code that splits an iterable by worker
    (as torch's process workers need it) reads all of it there.
    """
    return current_worker.get()
