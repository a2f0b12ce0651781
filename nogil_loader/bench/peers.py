"""Other loaders over the same dataset, each driven as its documentation advises for whole batches.

All of them are given the same batches of keys in the same order. Those with threads fetch and collate a batch in
one call, so that a batch is handed over once and not sample by sample. Batches are made by the caller's own
``collate_fn`` where there is one. Else torch makes them by its own default, and the others, which have none, by
`stack_samples`: what one would write for them in numpy.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nogil_loader.bench.feeds import Load, PeerFeed, Plan, as_read_by_peers
from nogil_loader.bench.subject import Subject

# A pipeline that gives nothing for so long is stuck; the bench itself gives up on a child before that.
_PATIENCE = 3600.0


@dataclass(frozen=True)
class Peer:
    """Another loader.

    Attributes:
        module: What is imported.
        package: What is installed.
        least_workers: Below which it has no such setting.
        open: Makes it ready: subject, plan, workers, batches loaded ahead for each.
    """

    module: str
    package: str
    least_workers: int
    open: Callable[[Subject, Plan, int, int], PeerFeed]

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported here, without importing it."""
        return importlib.util.find_spec(self.module) is not None


def stack_samples(samples: list[Any]) -> Any:
    """Make a batch of samples as torch's default does, of numpy arrays; of tensors, with torch."""
    first = samples[0]
    if isinstance(first, np.ndarray):
        return np.stack(samples)
    if isinstance(first, int | float | complex | np.generic):
        return np.array(samples)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        return torch.stack(samples)
    if isinstance(first, Mapping):
        return {key: stack_samples([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        return [stack_samples(list(parts)) for parts in zip(*samples, strict=True)]
    return samples


def _open_torch(subject: Subject, plan: Plan, workers: int, ahead: int) -> PeerFeed:
    from torch.utils.data import DataLoader

    arguments: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": subject.collate_fn,
        "worker_init_fn": subject.arguments.get("worker_init_fn"),
    }
    if workers:
        arguments.update(prefetch_factor=ahead, persistent_workers=True)
    if plan.single:
        arguments.update(batch_size=None, sampler=_Singles(plan))
    else:
        arguments["batch_sampler"] = plan
    batches = "the loader's collate_fn" if subject.collate_fn is not None else "torch's default_collate"
    return PeerFeed(DataLoader(_dataset(subject), **arguments), plan, f"worker processes; {batches}")


def _open_torchdata(subject: Subject, plan: Plan, workers: int, ahead: int) -> PeerFeed:
    from torchdata.nodes import Loader, ParallelMapper, Prefetcher, SamplerWrapper

    load, note = _threads(subject, plan)
    nodes = ParallelMapper(SamplerWrapper(plan), load, num_workers=workers, method="thread")
    # Two for each worker are under way in any case.
    if workers and ahead > 2:
        nodes = Prefetcher(nodes, workers * (ahead - 2))
    return PeerFeed(Loader(nodes), plan, note, load)


def _open_spdl(subject: Subject, plan: Plan, workers: int, ahead: int) -> PeerFeed:
    load, note = _threads(subject, plan)
    return PeerFeed(_Pipelines(load, plan, workers, workers * ahead), plan, note, load)


def _open_grain(subject: Subject, plan: Plan, workers: int, ahead: int) -> PeerFeed:
    load, note = _threads(subject, plan)
    return PeerFeed(_GrainEpochs(load, plan, workers, workers * ahead), plan, note, load)


#: The loaders that can be compared, by the name that is given for them.
PEERS = {
    "torch": Peer("torch", "torch", 0, _open_torch),
    "torchdata": Peer("torchdata", "torchdata", 0, _open_torchdata),
    "spdl": Peer("spdl", "spdl", 1, _open_spdl),
    "grain": Peer("grain", "grain", 0, _open_grain),
}


@dataclass(frozen=True)
class _Singles:
    """The keys of a plan, one by one."""

    plan: Plan

    def __iter__(self) -> Iterator[Any]:
        return (key for keys in self.plan for key in keys)


@dataclass(frozen=True)
class _Pipelines:
    """SPDL: a pipeline for each epoch, with batches of keys as its source."""

    load: Load
    plan: Plan
    workers: int
    ahead: int

    def __iter__(self) -> Iterator[Any]:
        from spdl.pipeline import PipelineBuilder

        pipeline = (
            PipelineBuilder()
            .add_source(self.plan)
            .pipe(self.load, concurrency=self.workers, output_order="input", max_failures=0)
            .add_sink(self.ahead)
            .build(num_threads=self.workers)
        )
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=_PATIENCE)


@dataclass(frozen=True)
class _GrainEpochs:
    """Grain: a dataset for each epoch whose items are the batches."""

    load: Load
    plan: Plan
    workers: int
    ahead: int

    def __iter__(self) -> Iterator[Any]:
        import grain

        read = grain.ReadOptions(num_threads=self.workers, prefetch_buffer_size=max(1, self.ahead))
        source = grain.MapDataset.source(_Batches(self.load, list(self.plan)))
        return iter(source.to_iter_dataset(read))


@dataclass(frozen=True)
class _Batches:
    """A source whose items are batches."""

    load: Load
    keys: list[list[Any]]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.keys[index])


def _dataset(subject: Subject) -> Any:
    return as_read_by_peers(subject.dataset, subject.arguments.get("seed") or 0)


def _threads(subject: Subject, plan: Plan) -> tuple[Load, str]:
    """What worker threads call, and how that is told."""
    if plan.single:
        return Load(_dataset(subject), None), "worker threads; single samples"
    own = subject.collate_fn
    if own is not None:
        return Load(_dataset(subject), own), "worker threads; the loader's collate_fn"
    return Load(_dataset(subject), stack_samples), "worker threads; numpy.stack"


def choose_peers(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return which of the peers that are asked for are installed, and which are missing.

    ``"all"`` asks for every one.

    Raises:
        ValueError: A name is none of a peer.
    """
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in PEERS and name != "all":
            raise ValueError(f"compare={name!r}: expected {', '.join(PEERS)}, or all")
    wanted = list(PEERS) if "all" in asked else asked
    found = [name for name in wanted if PEERS[name].is_installed]
    return found, [name for name in wanted if name not in found]
