"""Images like photographs for the groups that work on one sample after the other, and the tools they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.augment.work import MEAN, STD
from benchmarks.harness import take_turns
from nogil_loader.data.dead_leaves import paint_dead_leaves

_PAINTED = 16


def make_photographs(count: int, height: int, width: int) -> NDArray[np.uint8]:
    """Return images, shape ``(count, height, width, 3)``; 16 are painted and the others are these, shifted."""
    painted = np.stack([paint_dead_leaves(height, width, seed) for seed in range(min(count, _PAINTED))])
    return np.stack([np.roll(painted[at % _PAINTED], at, (0, 1)) for at in range(count)])


def time_samples(
    sides: Mapping[str, Callable[[], int]], rounds: int, warm_ups: int = 2
) -> dict[str, list[float]]:
    """Return µs per sample of each round; a side is a function that makes samples and says how many."""
    timers = {name: partial(_time, side) for name, side in sides.items()}
    take_turns(timers, warm_ups)
    return take_turns(timers, rounds)


def one_by_one(function: Callable[[int], Any], count: int) -> Callable[[], int]:
    """Make a side of a function that makes sample number so and so."""

    def side() -> int:
        for index in range(count):
            function(index)
        return count

    return side


def by_our_loader(images: NDArray[Any], chain: Any) -> Callable[[], int]:
    """Make a side of our loader in the caller's thread, with all that it does for a batch."""
    import nogil_loader as nl

    loader = nl.DataLoader(
        nl.ArrayDataset(images), batch_size=64, shuffle=True, num_workers=0, seed=0, transform=chain
    )

    def side() -> int:
        return sum(len(batch) for batch in loader)

    return side


def check(who: str, sample: Any, reference: Any, *, levels: float, share: float = 0.0) -> None:
    """Compare what a side makes with what another one makes.

    Args:
        who: The sides, for the message.
        sample, reference: Arrays or tensors of the same shape: uint8, or normalised with channels first.
        levels: By how many 8-bit levels pixels may differ.
        share: Which share of the values may differ by more.

    Raises:
        RuntimeError: They are further apart.
    """
    first, second = _as_levels(sample), _as_levels(reference)
    if first.shape != second.shape:
        raise RuntimeError(f"{who}: {first.shape} against {second.shape}")
    error = np.abs(first - second)
    beyond = float((error > levels + 1e-3).mean())
    if beyond > share:
        raise RuntimeError(
            f"{who}: {beyond:.2%} of the values are more than {levels:g} levels apart, at most {error.max():g}"
        )


def _as_levels(sample: Any) -> NDArray[np.float64]:
    array = np.asarray(sample)
    if array.dtype == np.uint8:
        return array.astype(np.float64)
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise RuntimeError(f"expected contiguous float32, not {array.dtype}{array.shape} {array.strides}")
    levels: NDArray[np.float64] = 255 * (array * np.array(STD)[:, None, None] + np.array(MEAN)[:, None, None])
    return levels


def _time(side: Callable[[], int]) -> float:
    began = time.perf_counter()
    count = side()
    return (time.perf_counter() - began) / count * 1e6
