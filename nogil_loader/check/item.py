"""What a dataset is asked for: a sample, a batch of them, or the size of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from nogil_loader.data.protocols import batched_fetch, fetch_list
from nogil_loader.errors import describe_index, describe_indices
from nogil_loader.memory.estimate import size_hint

#: ``"sample"``: ``dataset[key]``; ``"batch"``: ``__getitems__(keys)``; ``"size"``: the hint ``nbytes(key)``.
Kind = Literal["sample", "batch", "size"]


@dataclass(frozen=True)
class Item:
    """One thing that is asked for, again and again.

    Attributes:
        kind: What.
        keys: Of the sample, or of those of the batch.
    """

    kind: Kind
    keys: tuple[Hashable, ...]

    def ask(self, dataset: Any) -> list[Any]:
        """Return what the dataset says: one sample, the samples of a batch, or a number.

        Raises:
            DatasetError: A batch has a wrong number of samples.
            BaseException: Whatever the dataset raises.
        """
        if self.kind == "sample":
            return [dataset[self.keys[0]]]
        if self.kind == "size":
            hint = size_hint(dataset)
            return [None if hint is None else hint(self.keys[0])]
        fetch = batched_fetch(dataset)
        return [] if fetch is None else fetch_list(dataset, fetch, list(self.keys))

    def __str__(self) -> str:
        if self.kind == "sample":
            return f"sample {describe_index(self.keys[0], 80)}"
        if self.kind == "size":
            return f"nbytes({describe_index(self.keys[0], 80)})"
        return f"__getitems__({describe_indices(self.keys)})"


def choose_positions(length: int, count: int) -> list[int]:
    """Return ``count`` positions of ``length``, in short runs of neighbours that are spread evenly.

    The first and the last one are always among them. Neighbours are, because what a shared file position mixes up
    is often the sample beside.
    """
    if length <= count:
        return list(range(length))
    run = min(4, max(1, count // 4))
    runs = max(1, count // run)
    starts = [at * (length - run) // max(1, runs - 1) for at in range(runs)]
    chosen = {0, length - 1} | {start + step for start in starts for step in range(run)}
    others = (at for at in range(0, length, max(1, length // count)) if at not in chosen)
    chosen.update(islice(others, max(0, count - len(chosen))))
    return sorted(chosen)


def batches_of(keys: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    """Return batches as samplers may ask for them: ascending, descending, mixed, of one, and with repeats."""
    if not keys:
        return []
    size = min(size, len(keys))
    head, tail = tuple(keys[:size]), tuple(keys[-size:])
    spread = tuple(keys[at * len(keys) // size] for at in range(size))
    mixed = tuple(spread[(at * 5 + 3) % size] for at in range(size)) if size % 5 else spread[::-1]
    batches = [head, tail, head[::-1], spread, mixed, tail[::-1], (keys[-1],), (keys[0],)]
    if len(keys) > 1:
        batches.append((keys[-1], keys[0], keys[-1], keys[0]))
    return list(dict.fromkeys(batches))
