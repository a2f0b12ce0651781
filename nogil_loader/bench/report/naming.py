"""Which settings a report speaks about, and what it calls them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.numbers import is_number
from nogil_loader.bench.report.words import clip
from nogil_loader.bench.result import OURS, Result, Setting

# A loader's name is the library's; more than this is a mistake.
_NAME_LIMIT = 24
_TIMES = "\N{MULTIPLICATION SIGN}"


def measured(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings that have a rate to show."""
    return [setting for setting in settings if is_number(setting.median)]


def choose(result: Result) -> Setting | None:
    """Return the setting that a report is about: the recommended one, else the fastest; None if all failed."""
    if result.recommended is not None:
        return result.settings[result.recommended]
    return find_fastest(result.settings)


def find_fastest(settings: Iterable[Setting]) -> Setting | None:
    """Return the setting with the highest median; None if none has one."""
    return max(measured(settings), key=_rank, default=None)


def best_of_each(peers: Iterable[Setting]) -> list[Setting]:
    """Return the fastest setting of each peer, a failed one for a peer that has no other, in their order."""
    best: dict[str, Setting] = {}
    for peer in peers:
        known = best.get(peer.loader)
        if known is None or _rank(peer) > _rank(known):
            best[peer.loader] = peer
    return list(best.values())


def _rank(setting: Setting) -> float:
    median = setting.median
    return median if median is not None and math.isfinite(median) else -math.inf


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one setting is as another: median, lowest and highest over the rounds."""

    median: float
    low: float
    high: float


def measure_ratio(ours: Setting, other: Setting) -> Ratio | None:
    """Return how many times as fast ``ours`` is, None where that is no number.

    In each round the settings took turns, so the ratio of each round is free of what slowed the whole machine.
    Where the rounds of the two do not match, the medians are compared.
    """
    pairs: Sequence[tuple[float, float]] = [(ours.median or 0.0, other.median or 0.0)]
    if len(ours.rates) == len(other.rates):
        pairs = list(zip(ours.rates, other.rates, strict=True))
    ratios = [one / another for one, another in pairs if another > 0 and math.isfinite(one / another)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def count(number: int, what: str) -> str:
    """Return ``no workers``, ``1 worker``, ``2 workers``."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def loader_name(setting: Setting) -> str:
    """Return the name of the library."""
    return clip(setting.loader, _NAME_LIMIT)


def full_name(setting: Setting, result: Result) -> str:
    """Return what tells a setting from all others, in words; without workers nothing is loaded ahead."""
    parts = [] if setting.loader == OURS else [loader_name(setting)]
    parts.append(count(setting.num_workers, "worker"))
    if setting.prefetch_factor is not None and setting.num_workers:
        parts.append(f"prefetch {setting.prefetch_factor}")
    if batches_differ(result) and setting.batch_size is not None:
        parts.append(f"batch {setting.batch_size}")
    return ", ".join(parts)


def short_name(setting: Setting, result: Result) -> str:
    """Return the name of one of our settings beside a bar: workers, prefetch, and batch size if that was swept."""
    name = str(setting.num_workers)
    if setting.prefetch_factor is not None and setting.num_workers:
        name += f" {_TIMES} {setting.prefetch_factor}"
    return f"{name}, {setting.batch_size}" if batches_differ(result) else name


def explain_short_names(result: Result) -> str:
    """Return what `short_name` tells."""
    return f"workers {_TIMES} prefetch{', batch size' if batches_differ(result) else ''}"


def batches_differ(result: Result) -> bool:
    """Whether our settings have more than one batch size."""
    return len({setting.batch_size for setting in result.settings}) > 1
