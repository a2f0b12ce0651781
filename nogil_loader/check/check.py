"""Checks a dataset: reads it alone and in many threads, and says what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nogil_loader.check.crew import Crew
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.examination import Examination
from nogil_loader.check.item import Item
from nogil_loader.check.judging import judge_iterable
from nogil_loader.check.options import Options
from nogil_loader.check.randomness import Randomness
from nogil_loader.check.report import Report
from nogil_loader.check.serial import SerialReadings
from nogil_loader.check.stream import StreamReader, read_stream
from nogil_loader.check.summary import Effort, Summary
from nogil_loader.check.usage import Usage
from nogil_loader.data import protocols


def check_dataset(
    dataset: Any,
    *,
    samples: int = 200,
    threads: int | None = None,
    rounds: int = 2,
    timeout: float = 30.0,
    seed: int = 0,
    make: Callable[[], Any] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Report:
    """Read a dataset alone and in many threads at once, and say what is wrong with it.

    It is called as the workers of a loader call it, many times, out of order, and again for the same index. While
    several threads read, Python's switch interval is very short; it is put back, and so are global random states.

    Args:
        dataset: Map-style or iterable, or a loader over one (nogil_loader's or torch's). Of a loader,
            ``clone_dataset`` and ``worker_init_fn`` are heeded.
        samples: How many are read, spread over the dataset; the first and the last one are among them.
        threads: How many read at once; by default twice the CPUs, at least 8.
        rounds: How often they go through all patterns.
        timeout: Seconds that one call may take until it counts as hanging. A thread that hangs cannot be ended; it
            stays, as a daemon, until its call returns.
        seed: Of orders, and of what `nogil_loader.sample_rng` gives.
        make: Makes another dataset (or loader) like this one, for trials of first calls on what cannot be copied.
        progress: Told what is being done.

    Raises:
        TypeError: An argument has a wrong type, or ``dataset`` is none.
        ValueError: An argument is out of range, or the dataset is empty.
    """
    options = Options(samples, threads, rounds, timeout, seed)
    usage = Usage.of(dataset)
    protocols.check_dataset(usage.subject.dataset)
    tell = progress or _say_nothing
    if protocols.is_map_style(usage.subject.dataset):
        return Examination(usage, options, make, tell).run()
    return _check_iterable(usage, options, tell)


def _check_iterable(usage: Usage, options: Options, tell: Callable[[str], object]) -> Report:
    dataset = usage.subject.dataset
    randomness = Randomness(dataset)
    began = time.monotonic()
    tell("reading twice")
    with randomness.kept(), Crew(1, options.timeout) as crew:
        reader = StreamReader(dataset, randomness, options.seed)
        streaming = read_stream(reader, randomness, crew, dataset, options.samples)
    if not streaming.first:
        raise ValueError(f"dataset={type(dataset).__name__}: it is empty; expected at least one sample")
    serial = SerialReadings(
        streaming.first, streaming.second, streaming.habits, overwritten=streaming.overwritten
    )
    evidence = Evidence(
        type(dataset).__name__,
        [Item("sample", (number,)) for number in range(len(streaming.first))],
        serial,
        length=protocols.dataset_length(dataset),
        collates=usage.collates,
        load=usage.load,
    )
    summary = Summary.of(evidence, None, Effort(seconds=time.monotonic() - began))
    return Report(evidence.name, "iterable", evidence.length, judge_iterable(evidence, streaming), summary)


def _say_nothing(told: str) -> None:
    """Say nothing."""
