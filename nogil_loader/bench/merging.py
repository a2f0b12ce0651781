"""Several measurements of one setting made into one: pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nogil_loader.bench.result import BatchSeconds, Memory, Setting


def merge(measured: Sequence[Setting]) -> Setting:
    """Return a setting with the rates of all measurements, in their order.

    One that failed stands for all of them. Seconds by stage are added up; shares, times and CPU use are medians.
    What was observed comes from the first measurement in which that was done.

    Raises:
        ValueError: There is none.
    """
    if not measured:
        raise ValueError("expected at least one measurement")
    for setting in measured:
        if setting.failure is not None:
            return setting
    observed = next(
        (each for each in measured if each.memory is not None and each.memory.timeline), measured[0]
    )
    stages: Counter[str] = Counter()
    for setting in measured:
        stages.update(setting.stages)
    return replace(
        observed,
        rates=tuple(rate for setting in measured for rate in setting.rates),
        batch_seconds=_batch_seconds([each.batch_seconds for each in measured if each.batch_seconds]),
        wait_share=_median(each.wait_share for each in measured),
        cpu_cores=_median(each.cpu_cores for each in measured),
        other_cores=_median(each.other_cores for each in measured),
        cpu_share=_median(each.cpu_share for each in measured),
        gil_wanted=_median(each.gil_wanted for each in measured),
        stages=dict(stages),
        memory=_memory(observed.memory, [each.memory for each in measured if each.memory]),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _batch_seconds(all_of_them: Sequence[BatchSeconds]) -> BatchSeconds | None:
    if not all_of_them:
        return None
    return BatchSeconds(
        *(statistics.median(getattr(each, name) for each in all_of_them) for name in ("p50", "p90", "p99"))
    )


def _memory(observed: Memory | None, all_of_them: Sequence[Memory]) -> Memory | None:
    if observed is None:
        return None
    return replace(
        observed,
        peak_bytes=max(
            (each.peak_bytes for each in all_of_them if each.peak_bytes is not None), default=None
        ),
        shrinks=max(each.shrinks for each in all_of_them),
    )
