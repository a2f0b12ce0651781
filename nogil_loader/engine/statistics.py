"""Snapshots of how an epoch goes."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Literal

from nogil_loader.engine.tuning import TuningEvent
from nogil_loader.memory.decision import MemoryStatistics

# Below the first share of its time that the consumer waits, it is the consumer that takes the time; above the
# second, the loader. In between neither is worth a word.
_HARDLY_WAITS, _WAITS = 0.05, 0.2


@dataclass(frozen=True)
class Progress:
    """Samples processed so far, skipped ones and those received before a resume included.

    Attributes:
        items_processed: Samples behind the consumer.
        items_total: Samples of the epoch, None where the dataset does not tell.
    """

    items_processed: int
    items_total: int | None


@dataclass(frozen=True)
class Percentiles:
    """What half of the latest values, 90 and 99 per cent of them do not exceed.

    Attributes:
        p50: The median, in seconds.
        p90: In seconds.
        p99: In seconds.
        count: Of how many values.
    """

    p50: float
    p90: float
    p99: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles | None:
        """Return those of some values by nearest rank, None if there are none."""
        return cls.weighted((value, 1) for value in values)

    @classmethod
    def weighted(cls, values: Iterable[tuple[float, int]]) -> Percentiles | None:
        """Return those of values that stand for several each, None if there are none."""
        ordered = sorted(values)
        if not ordered:
            return None
        ranks = list(itertools.accumulate(weight for _, weight in ordered))
        last = ranks[-1] - 1
        p50, p90, p99 = (
            ordered[bisect.bisect_right(ranks, round(last * share))][0] for share in (0.5, 0.9, 0.99)
        )
        return cls(p50, p90, p99, ranks[-1])


@dataclass(frozen=True)
class StageSeconds:
    """What worker threads spent their time on, all together, in seconds.

    Every batch's time counts. What it consists of is known of one every few milliseconds, where batches take
    microseconds; the others are taken to consist of the same, and what takes one of them unexpectedly long counts
    as fetch.

    Attributes:
        fetch: Reading samples: ``__getitem__``, ``__getitems__``, the iterator of an iterable, for which one more
            thread counts.
        transform: Declared transforms.
        collate: Making batches of samples.
        convert: Handing batches to another framework, and moving samples about.
        compile: Compiling kernels, or waiting for one that another thread compiles.
        memory: Waiting for memory, or for the governor's word about it.
        idle: Nothing to load: as many batches are ready as may be and the consumer is to take one, or an iterable
            has not given the next samples yet.
        start_up: ``worker_init_fn`` and ``clone_dataset``.
    """

    fetch: float = 0.0
    transform: float = 0.0
    collate: float = 0.0
    convert: float = 0.0
    compile: float = 0.0
    memory: float = 0.0
    idle: float = 0.0
    start_up: float = 0.0

    @property
    def busy(self) -> float:
        """Seconds of loading: fetch, transform, collate and convert."""
        return self.fetch + self.transform + self.collate + self.convert

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.as_dict().values())

    def as_dict(self) -> dict[str, float]:
        """Return seconds by the stages' names."""
        return asdict(self)


@dataclass(frozen=True)
class Queue:
    """Batches on their way to the consumer.

    Attributes:
        capacity: How many there may be.
        planned: Those that wait for a worker.
        loading: Those that are being loaded.
        ready: Those that wait for the consumer.
    """

    capacity: int = 0
    planned: int = 0
    loading: int = 0
    ready: int = 0


@dataclass(frozen=True)
class WorkerCpu:
    """What the time of loading says about processor and GIL, from timed batches.

    Attributes:
        share: Of the time of loading, during which the thread ran on a processor. The rest it waited: for the GIL,
            a disk, a lock, or a processor.
        gil_wanted: Share of batches at whose end other threads waited for the GIL.
    """

    share: float
    gil_wanted: float


@dataclass(frozen=True)
class Statistics:
    """What has happened in one epoch so far.

    Attributes:
        epoch: The epoch, from 0.
        planned: Samples planned so far, without those received before a resume.
        delivered: Samples that the consumer received.
        skipped: Samples left out, each with a record in ``loader.skipped``.
        batches: Batches that the consumer received.
        rebuilds: How often a worker was rebuilt.
        abandoned: How many stuck threads were given up on.
        workers_alive: Workers alive now; 0 with ``num_workers=0`` and after the end.
        memory: What the memory governor knows and did; None with ``memory="off"``.
        num_workers: Workers in use.
        prefetch_factor: Batches loaded ahead for each of them.
        seconds: From ``iter(loader)`` until now, or to the end of the epoch.
        nbytes: Bytes of delivered batches. With ``memory="off"`` batches that take microseconds are not all
            weighed, and then this is an estimate.
        samples_per_second: Over the whole epoch.
        recent_samples_per_second: Over the latest 1,000 batches of the last ten seconds.
        stages: What worker threads spent their time on.
        batch_seconds: How long it took to load one of the latest batches, without compiling kernels, and without
            reading where an iterable gives the samples; None as long as there are none.
        wait_seconds: How long the consumer waited for one of the latest batches; None as long as there are none.
        consumer_wait: Seconds that the consumer waited for batches.
        queue: Batches on their way.
        cpu: Processor and GIL; None as long as nothing was timed.
        buffers_made: Large blocks of memory that all loaders of the process asked of the system.
        buffers_reused: How often one was used again.
        tuning: What ``num_workers="auto"`` and ``prefetch_factor="auto"`` have changed, the oldest first.
    """

    epoch: int = 0
    planned: int = 0
    delivered: int = 0
    skipped: int = 0
    batches: int = 0
    rebuilds: int = 0
    abandoned: int = 0
    workers_alive: int = 0
    memory: MemoryStatistics | None = None
    num_workers: int = 0
    prefetch_factor: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    samples_per_second: float = 0.0
    recent_samples_per_second: float = 0.0
    stages: StageSeconds = StageSeconds()
    batch_seconds: Percentiles | None = None
    wait_seconds: Percentiles | None = None
    consumer_wait: float = 0.0
    queue: Queue = Queue()
    cpu: WorkerCpu | None = None
    buffers_made: int = 0
    buffers_reused: int = 0
    tuning: tuple[TuningEvent, ...] = ()

    @property
    def restarts(self) -> int:
        """The same as ``rebuilds``."""
        return self.rebuilds

    @property
    def consumer_wait_share(self) -> float:
        """Share of the epoch's time that the consumer waited for batches, 0 to 1."""
        return min(1.0, self.consumer_wait / self.seconds) if self.seconds > 0 else 0.0

    @property
    def bottleneck(self) -> Literal["loader", "consumer", "balanced"]:
        """Who takes the time: the consumer waits for the loader, hardly ever does, or something in between."""
        share = self.consumer_wait_share
        return "loader" if share > _WAITS else "consumer" if share < _HARDLY_WAITS else "balanced"

    def sentence(self) -> str:
        """Say who takes the time."""
        if not self.batches:
            return "Nothing was delivered yet."
        share = f"the consumer waits for data {self.consumer_wait_share:.0%} of the time"
        if self.bottleneck == "consumer":
            return f"The loader keeps up: {share}."
        stages = {name: self.stages.as_dict()[name] for name in _WORK}
        slowest, spent = max(stages, key=lambda name: stages[name]), sum(stages.values())
        where = f", and workers spend {stages[slowest] / spent:.0%} of loading on {slowest}" if spent else ""
        verdict = (
            "The loader holds the consumer up" if self.bottleneck == "loader" else "Both take their time"
        )
        return f"{verdict}: {share}{where}."


#: Stages in which a batch is made.
BUSY = ("fetch", "transform", "collate", "convert")
# What may be in the way of a batch.
_WORK = (*BUSY, "compile", "memory")
#: All stages.
STAGES = tuple(field.name for field in fields(StageSeconds))
