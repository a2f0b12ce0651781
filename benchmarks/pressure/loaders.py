"""The loaders that are tried under pressure, all with batches that are plain lists of samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from benchmarks.pressure.samples import BATCH, Ragged


class AsTensors:
    """The samples as torch's users have them; torch hands tensors over in shared memory."""

    def __init__(self, dataset: Ragged) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(self.dataset[index])


def ours(dataset: Ragged, *, workers: int, prefetch: int, memory: Any) -> Any:
    """Make this project's loader; ``memory`` may also be the fields of a policy."""
    import nogil_loader
    from nogil_loader.policies import MemoryPolicy

    if isinstance(memory, dict):
        memory = MemoryPolicy(**memory)
    return nogil_loader.DataLoader(
        dataset,
        batch_size=BATCH,
        num_workers=workers,
        prefetch_factor=prefetch,
        collate_fn=list,
        memory=memory,
    )


def torch(dataset: Ragged, *, workers: int, prefetch: int, memory: Any) -> Iterable[Any]:
    """Make torch's loader, which knows nothing of memory."""
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(
        AsTensors(dataset), batch_size=BATCH, num_workers=workers, prefetch_factor=prefetch, collate_fn=list
    )
    return loader


def threads(dataset: Ragged, *, workers: int, prefetch: int, memory: Any) -> Iterator[Any]:
    """Load as most hand-written loaders do: threads that work some fixed number of batches ahead."""

    def load(start: int) -> list[Any]:
        return [dataset[index] for index in range(start, min(start + BATCH, len(dataset)))]

    ahead: deque[Future[list[Any]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(dataset), BATCH):
            ahead.append(pool.submit(load, start))
            if len(ahead) > workers * prefetch:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


LOADERS: dict[str, Callable[..., Any]] = {"ours": ours, "torch": torch, "threads": threads}
