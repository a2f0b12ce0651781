"""What follows from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from nogil_loader.bench.choice import RULE, describe_peers, describe_scaling, recommend
from nogil_loader.bench.machine import describe_machine
from nogil_loader.bench.order import Bench
from nogil_loader.bench.peers import PEERS
from nogil_loader.bench.result import OURS, Options, Result, Setting
from nogil_loader.bench.task import About
from nogil_loader.bench.verdict import judge
from nogil_loader.engine.cpus import available_cpus

# Where so many epochs were begun in one measurement, beginning them is part of what was measured.
_SHORT_EPOCHS = 5
# Of the cores, in use by others: more than this, and figures are lower than they would be.
_BUSY = 0.2


def conclude(
    bench: Bench, settings: Sequence[Setting], about: About, epochs: int, missing: Sequence[str]
) -> Result:
    """Make the result of what was measured.

    Args:
        bench: What was to be measured.
        settings: In the order of the sweep.
        about: What the target is.
        epochs: The most that were begun in one measurement.
        missing: Peers that were asked for and are not installed.
    """
    ours = tuple(setting for setting in settings if setting.loader == OURS)
    peers = tuple(setting for setting in settings if setting.loader != OURS)
    packages = [PEERS[name].package for name in dict.fromkeys(each.loader for each in peers)]
    machine = describe_machine(packages, gil=about.gil)
    recommended = recommend(ours)
    if recommended is None:
        failure = ours[0].failure
        sentence, notes, code = f"No setting could be measured: {failure.error if failure else ''}", [], ""
    else:
        chosen = ours[recommended]
        verdict = judge(ours, chosen, cores=machine.cores, gil=about.gil, iterable=about.iterable)
        sentence = verdict.sentence
        # Workers that wait do not need a core of their own.
        more = verdict.kind == "waiting" or chosen.num_workers < machine.cores
        notes = [
            *describe_scaling(ours, chosen, more=more),
            *describe_peers(ours, peers),
            *_doubts(bench, epochs, ours),
        ]
        notes.append(f"Recommended is {RULE}.")
        code = _code(chosen, about)
    if missing:
        packages = [PEERS[name].package for name in missing]
        notes.append(f"Not installed: {', '.join(missing)} (pip install {' '.join(packages)}).")
    return Result(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        target=bench.target,
        dataset=about.dataset,
        length=about.length,
        batch_size=next((each.batch_size for each in ours if each.batch_size is not None), None),
        options=Options(
            seconds=bench.seconds,
            repeats=bench.repeats,
            workers=tuple(bench.workers or ()),
            prefetch=tuple(bench.prefetch),
            batch_sizes=tuple(bench.batch_sizes),
            compare=tuple(bench.compare),
            seed=bench.seed,
        ),
        settings=ours,
        peers=peers,
        recommended=recommended,
        sentence=sentence,
        notes=tuple(notes),
        code=code,
        memory_limit=bench.memory_limit,
    )


def _doubts(bench: Bench, epochs: int, ours: Sequence[Setting]) -> list[str]:
    """What makes the figures others than they would be in training."""
    notes = []
    if epochs >= _SHORT_EPOCHS:
        notes.append(
            f"The dataset was read up to {epochs} times within {bench.seconds:g} s, so the figures include the "
            f"beginning of epochs."
        )
    skipping = [each for each in ours if each.note]
    if skipping:
        workers = skipping[-1].num_workers
        notes.append(
            f"With {workers} worker{'s' * (workers != 1)} {skipping[-1].note}; they count for nothing."
        )
    others = [each.other_cores for each in ours if each.other_cores is not None]
    busiest = max(others, default=0.0)
    if busiest > _BUSY * available_cpus():
        notes.append(
            f"Other processes used up to {busiest:.1f} cores meanwhile; on a quiet machine the figures would be "
            f"others."
        )
    return notes


def _code(chosen: Setting, about: About) -> str:
    arguments = ["..." if about.is_loader else "dataset"]
    if chosen.batch_size is not None:
        arguments.append(f"batch_size={chosen.batch_size}")
    arguments.append(f"num_workers={chosen.num_workers}")
    if chosen.num_workers:
        arguments.append(f"prefetch_factor={chosen.prefetch_factor}")
    return f"nogil_loader.DataLoader({', '.join(arguments)})"
