"""Which setting to use, and how it scales: pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nogil_loader.bench.result import Setting

# Repeats on a quiet machine differ by a few per cent; a spread of more than a tenth says that it was not quiet,
# and is no reason to give a tenth away.
_LEAST_NOISE = 0.03
_MOST_NOISE = 0.10
#: The rule of `recommend`, for people.
RULE = (
    "the fewest workers, then the least loaded ahead, whose median is within the noise of the best: not below its "
    f"slowest repeat, where that is {_LEAST_NOISE:.0%} to {_MOST_NOISE:.0%} below its median. No workers at all, "
    "which load nothing while the training computes, come last"
)
# Another worker that brings less than this is within what a sweep can tell.
_WORTH = 1.10


def recommend(settings: Sequence[Setting]) -> int | None:
    """Return the index of the setting to use, by `RULE`; None if all failed.

    Of batch sizes, the one of the best setting is taken: how large a batch is, is the training's affair.
    """
    measured = [setting for setting in settings if setting.rates]
    best = max(measured, key=_rate, default=None)
    if best is None:
        return None
    slowest = min(best.rates)
    bar = min(max(slowest, _rate(best) * (1 - _MOST_NOISE)), _rate(best) * (1 - _LEAST_NOISE))
    enough = [each for each in measured if _rate(each) >= bar and each.batch_size == best.batch_size]
    chosen = min(enough, key=lambda each: (not each.num_workers, each.num_workers, each.prefetch_factor or 0))
    return next(at for at, setting in enumerate(settings) if setting is chosen)


def by_workers(settings: Sequence[Setting], like: Setting) -> list[Setting]:
    """Return what was measured with the same batch size and prefetching as ``like``, by the number of workers."""
    same = [
        each
        for each in settings
        if each.rates
        and (each.loader, each.batch_size) == (like.loader, like.batch_size)
        and (each.prefetch_factor == like.prefetch_factor or 0 in (each.num_workers, like.num_workers))
    ]
    if like.num_workers == 0:  # which stands for any prefetching: the first one that was swept with workers
        ahead = next((each.prefetch_factor for each in same if each.num_workers), None)
        same = [each for each in same if each.num_workers == 0 or each.prefetch_factor == ahead]
    return sorted(same, key=lambda each: each.num_workers)


def describe_scaling(settings: Sequence[Setting], chosen: Setting, *, more: bool) -> list[str]:
    """Say what more workers bring, in sentences.

    Args:
        settings: All of ours.
        chosen: The one to use.
        more: Whether even more workers than were tried may be faster.
    """
    row = [each for each in by_workers(settings, chosen) if each.num_workers]
    if len(row) < 2:
        return []
    one, best = row[0], max(row, key=_rate)
    gain = _rate(best) / _rate(one)
    if gain > _WORTH:
        notes = [f"{best.num_workers} workers are {gain:.1f} times as fast as {one.num_workers}."]
    else:
        notes = [f"More workers than {one.num_workers} are hardly faster."]
    if more and chosen is row[-1] and _rate(chosen) > _WORTH * _rate(row[-2]):
        notes.append(
            f"The largest number of workers that was tried is the fastest: try more, such as --workers "
            f"{chosen.num_workers},{chosen.num_workers * 2},{chosen.num_workers * 4}."
        )
    return notes


def describe_peers(ours: Sequence[Setting], peers: Sequence[Setting]) -> list[str]:
    """Say how the best setting of ours compares with the best one of each peer, in sentences."""
    best = max((each for each in ours if each.rates), key=_rate, default=None)
    if best is None:
        return []
    notes = []
    for name in dict.fromkeys(each.loader for each in peers):
        peer = max((each for each in peers if each.loader == name and each.rates), key=_rate, default=None)
        if peer is None:
            continue
        # Round by round, so that what slowed the whole machine slowed both.
        ratios = [mine / theirs for mine, theirs in zip(best.rates, peer.rates, strict=False)]
        median, low, high = statistics.median(ratios), min(ratios), max(ratios)
        notes.append(
            f"nogil_loader at its best (workers: {best.num_workers}) is {median:.2f} times as fast as {name} at "
            f"its best (workers: {peer.num_workers}), {low:.2f} to {high:.2f} over the rounds."
        )
    return notes


def _rate(setting: Setting) -> float:
    return setting.median or 0.0
