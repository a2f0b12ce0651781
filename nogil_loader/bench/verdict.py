"""What holds a loader back, told from what was measured: pure.

Each rule looks at evidence of its own, and the first one that holds decides:

* *memory*: the governor loaded less ahead or made batches smaller, or workers waited for memory, those of the
  chosen setting or of the one with the most workers.
* *reader*: workers had nothing to do for most of the time, since one thread has to read an iterable and was at it.
* *hand-off*: workers had nothing to do for most of the time although the consumer does nothing but ask: the limit
  is its thread, which takes the batches over.
* *gil*: workers waited for the GIL, or held it nearly all the time.
* *waiting*: workers were on no CPU for most of the time that they loaded, and not for want of the GIL: they waited
  for a disk, a network, a lock or a sleep.
* *bandwidth*: workers were on a CPU and did not need the GIL, and still two were hardly faster than one.
* *cpu*: workers were on a CPU all the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nogil_loader.bench.choice import by_workers
from nogil_loader.bench.result import Setting

#: Stages in which a worker works, in the order in which they come.
BUSY = ("fetch", "transform", "collate", "convert")

# Shares beyond which a cause counts as the main one. Two threads that only hold the GIL wait for half of their
# time and hold it for all of it; a sleep uses no CPU, a decoder all; half is the middle.
_HALF = 0.5
_WAITS_FOR_GIL = 0.25
_HOLDS_GIL = 0.85
_WAITS_FOR_MEMORY = 0.10
# Of the ideal. Two hyper-threads of a core give 0.6 to 0.7.
_SCALES_BADLY = 0.65
_ON_CPU = 0.8
_FULL = 0.9
_HARDLY = 0.2
# What more workers have to bring if they do not wait for each other.
_SCALES = 1.3

_ADVICE = {
    "fetch": "a cheaper __getitem__: decode smaller, keep what was decoded, leave work to kernels",
    "transform": "a shorter transform, or smaller images for it",
    "collate": "a cheaper collate_fn; the default one is fastest with arrays of one shape",
    "convert": "samples that are already what the batch shall be",
}


@dataclass(frozen=True)
class Verdict:
    """What holds a loader back.

    Attributes:
        kind: ``"memory"``, ``"reader"``, ``"hand-off"``, ``"gil"``, ``"waiting"``, ``"bandwidth"``, ``"cpu"``, or
            ``"unknown"``.
        sentence: The same in words, with the numbers, and what helps.
    """

    kind: str
    sentence: str


def judge(
    settings: Sequence[Setting], chosen: Setting, *, cores: int, gil: bool, iterable: bool = False
) -> Verdict:
    """Name what holds the chosen setting back.

    Args:
        settings: All of ours.
        chosen: One of them that was measured.
        cores: That the process may use.
        gil: Whether there is a GIL in force.
        iterable: Whether one thread has to read the dataset.
    """
    row = by_workers(settings, chosen)
    # Nobody contends with fewer than two; and more workers than cores wait for each other anyway.
    several = [each for each in row if 2 <= each.num_workers <= max(2, cores)]
    crowd = max([*several, chosen], key=lambda each: each.num_workers)
    for verdict in (
        _memory(chosen, row[-1] if row else chosen),
        _reader(chosen) if iterable else None,
        _hand_off(chosen),
        _gil(row, chosen, crowd) if gil else None,
        _waiting(chosen, cores),
        _bandwidth(row, crowd),
        _cpu(row, chosen, cores),
    ):
        if verdict is not None:
            return verdict
    return Verdict("unknown", "What holds it back does not show in what was measured.")


def _memory(chosen: Setting, widest: Setting) -> Verdict | None:
    told = ""
    shrinks = 0 if chosen.memory is None else chosen.memory.shrinks
    for setting in (chosen, widest):
        waited = _share(setting, "memory")
        if waited >= _WAITS_FOR_MEMORY:
            workers = f"{setting.num_workers} worker{'s' * (setting.num_workers != 1)}"
            told = f"{workers} waited for it for {waited:.0%} of their time"
            break
    if shrinks:
        shrank = f"the governor shrank what is in flight {shrinks} time{'s' * (shrinks != 1)}"
        told = f"{shrank}, and {told}" if told else shrank
    if not told:
        return None
    return Verdict(
        "memory",
        f"Limited by memory: {told}; more memory helps, or smaller batches and fewer of them at a time.",
    )


def _reader(chosen: Setting) -> Verdict | None:
    idle, stages = _share(chosen, "idle"), chosen.stages
    if idle < _HALF or stages.get("fetch", 0.0) < sum(stages.get(stage, 0.0) for stage in BUSY[1:]):
        return None
    return Verdict(
        "reader",
        f"Bound by the iterable: one thread reads it, and the workers, which only transform and collate, had "
        f"nothing to do for {idle:.0%} of their time; a dataset with __getitem__ can be read by all of them.",
    )


def _hand_off(chosen: Setting) -> Verdict | None:
    idle = _share(chosen, "idle")
    if idle < _HALF:
        return None
    return Verdict(
        "hand-off",
        f"Bound by the hand-over: workers had nothing to do for {idle:.0%} of their time, since batches cost less "
        f"to load than to take over; larger batches help.",
    )


def _gil(row: Sequence[Setting], chosen: Setting, crowd: Setting) -> Verdict | None:
    # A worker that waits for the GIL is on no CPU meanwhile, and one more does not make it faster.
    stuck = _speedup(row, crowd) < _SCALES and (_on_cpu(crowd) or 0.0) < _ON_CPU
    told = _tell_gil(crowd, stuck=stuck) or _tell_gil(chosen, stuck=stuck)
    if not told:
        return None
    return Verdict(
        "gil",
        f"Bound by the GIL{_holder(crowd)}: {told}, so more workers do not help; compiled transforms, "
        f"__getitems__ for whole batches, libraries that release it, or free-threaded Python do.",
    )


def _tell_gil(setting: Setting, *, stuck: bool) -> str:
    """What says that the GIL is what threads of this setting wait for; empty if nothing does."""
    gil, wanted, workers = setting.gil, setting.gil_wanted or 0.0, setting.num_workers
    if gil is not None and workers >= 2 and gil.waiting >= _WAITS_FOR_GIL:
        return f"{workers} workers wait for it for {gil.waiting:.0%} of their time"
    if gil is not None and gil.held >= _HOLDS_GIL:
        return f"it is held for {gil.held:.0%} of the time"
    if gil is None and stuck and workers >= 2 and wanted >= _HALF:
        return f"others wait for it at the end of {wanted:.0%} of the batches"
    return ""


def _holder(setting: Setting) -> str:
    """Which stage holds the GIL most."""
    holders = {} if setting.gil is None else setting.gil.by_stage
    where = max(holders, key=lambda stage: holders[stage], default="")
    return f" in {where}" if where in BUSY else ""


def _waiting(chosen: Setting, cores: int) -> Verdict | None:
    share = _on_cpu(chosen)
    busy = (chosen.cpu_cores or 0.0) + (chosen.other_cores or 0.0)
    # On a machine without a free core, what is not on one may just as well wait for one, up to a point.
    if share is None or share >= (_HARDLY if busy >= _FULL * cores else _HALF):
        return None
    return Verdict(
        "waiting",
        f"Bound by waiting{_where(chosen)} for a disk, a network, a lock or a sleep: while they load, workers are "
        f"on a CPU for {share:.0%} of the time; more workers than cores help as long as it gets faster.",
    )


def _bandwidth(row: Sequence[Setting], crowd: Setting) -> Verdict | None:
    share = _on_cpu(crowd)
    if crowd.num_workers < 2 or share is None or share < _ON_CPU:
        return None
    speedup = _speedup(row, crowd)
    if speedup >= _SCALES_BADLY * crowd.num_workers:
        return None
    return Verdict(
        "bandwidth",
        f"Bound by memory bandwidth{_where(crowd)}, as it seems: {crowd.num_workers} workers are on a CPU for "
        f"{share:.0%} of the time, do not wait for the GIL, and are {speedup:.2f} times as fast as one; smaller "
        f"dtypes and fewer copies help. Cores that others use, or that are hyper-threads, look the same.",
    )


def _cpu(row: Sequence[Setting], chosen: Setting, cores: int) -> Verdict | None:
    share = _on_cpu(chosen)
    busy = {stage: chosen.stages.get(stage, 0.0) for stage in BUSY}
    if share is None or not sum(busy.values()):
        return None
    stage = max(busy, key=lambda name: busy[name])
    part = busy[stage] / sum(busy.values())
    full = chosen.num_workers >= cores
    tried = any(each.num_workers > chosen.num_workers for each in row)
    more = "more workers bring nothing within the noise" if tried else "more workers were not tried"
    if full:
        more = f"all {cores} usable cores are at work"
    return Verdict(
        "cpu",
        f"Bound by the CPU in {stage}, which takes {part:.0%} of the workers' time; {more}, so what helps is "
        f"{_ADVICE[stage]}.",
    )


def _speedup(row: Sequence[Setting], crowd: Setting) -> float:
    """How many times as fast as one worker many are; infinite where one was not measured."""
    one = next((each.median for each in row if each.num_workers == 1), None)
    return (crowd.median or 0.0) / one if one else math.inf


def _share(setting: Setting, stage: str) -> float:
    """The share of a stage in the workers' time after start-up, 0 without workers."""
    total = sum(seconds for name, seconds in setting.stages.items() if name not in ("start_up", "compile"))
    return setting.stages.get(stage, 0.0) / total if setting.num_workers and total else 0.0


def _on_cpu(setting: Setting) -> float | None:
    """The share of loading that was on a CPU: by the workers' clocks, or, without them, by the process's."""
    if setting.cpu_share is not None:
        return setting.cpu_share
    return None if setting.cpu_cores is None else min(1.0, setting.cpu_cores / max(1, setting.num_workers))


def _where(setting: Setting) -> str:
    busy = {stage: setting.stages.get(stage, 0.0) for stage in BUSY}
    stage = max(busy, key=lambda name: busy[name])
    return f" in {stage}" if busy[stage] else ""
