"""The first act: a worker dies in the middle of an epoch, and what arrived all the same is counted."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from nogil_loader.data.photographs import Photographs
from nogil_loader.demo.script import Demo
from nogil_loader.engine.outcome import SkipRecord
from nogil_loader.engine.scope import sample_rng
from nogil_loader.engine.statistics import Statistics
from nogil_loader.errors import LoaderError
from nogil_loader.loader import DataLoader


class DemoDataset:
    """Photographs with their index, randomly mirrored; one of them may end the thread that reads it.

    ``SystemExit`` is the quietest death that a Python thread can die: nothing is printed, and nobody is told.
    """

    def __init__(self, photographs: Photographs, demo: Demo) -> None:
        self._photographs = photographs
        self._doomed_index = demo.doomed_index
        self._every_time = demo.death is not None and demo.death.every_time
        self._deaths = itertools.count()  # next() is atomic, so that of two workers only one is the first

    def __len__(self) -> int:
        return len(self._photographs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == self._doomed_index and (next(self._deaths) == 0 or self._every_time):
            raise SystemExit("ended by the demo")
        image, label = self._photographs[index]
        return {
            "image": image[:, ::-1] if sample_rng().random() < 0.5 else image,
            "label": label,
            "index": index,
        }


def play_worker_act(demo: Demo, photographs: Photographs, output: TextIO) -> int:
    """Run the epoch, report to ``output``, and return 0 if every sample is accounted for, else 1."""
    say = functools.partial(print, file=output)
    loader = DataLoader(
        DemoDataset(photographs, demo),
        batch_size=demo.batch_size,
        shuffle=True,
        seed=demo.seed,
        num_workers=demo.workers,
        on_failure=demo.failure,
    )
    say(f"{len(photographs)} images ({photographs.source}), {loader.num_workers} worker threads")
    if demo.death is not None:
        say(f"sample {demo.doomed_index}, in batch {demo.death.batch}, will end {demo.victims} reading it")
    arrivals: Counter[int] = Counter()
    failure: LoaderError | None = None
    with loader, iter(loader) as epoch, _progress_bar(demo.samples, output) as advance:
        start = time.perf_counter()
        try:
            for batch in epoch:
                arrivals.update(batch["index"].tolist())
                advance(len(batch["index"]))
        except LoaderError as error:
            failure = error
        seconds = time.perf_counter() - start
        statistics = epoch.statistics()
    if failure is not None:
        say(f"\n{failure}\n")
    return _audit(demo, statistics, arrivals, loader.skipped, seconds, say)


def _audit(
    demo: Demo,
    statistics: Statistics,
    arrivals: Counter[int],
    skipped: Sequence[SkipRecord],
    seconds: float,
    say: Callable[[str], None],
) -> int:
    """Compare what was asked for with what arrived, by the samples' own indices."""
    for record in skipped:
        say(f"skipped sample {record.index}: {record.reason}")
    expected = set(range(demo.samples)) - {record.index for record in skipped}
    missing = len(expected - arrivals.keys())
    repeated = sum(count > 1 for count in arrivals.values())
    complete = not missing and not repeated and demo.samples == statistics.delivered + statistics.skipped
    say(
        f"planned {demo.samples}, delivered {statistics.delivered}, skipped {statistics.skipped}, "
        f"missing {missing}, repeated {repeated}; rebuilt {statistics.rebuilds}; "
        f"{statistics.delivered / seconds:,.0f} samples/s"
    )
    say("every sample is accounted for" if complete else "NOT every sample is accounted for")
    return 0 if complete else 1


@contextmanager
def _progress_bar(total: int, output: TextIO) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal if the extra for it is installed; elsewhere stay quiet."""
    if not output.isatty():
        yield lambda count: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda count: None
        return
    columns = (TextColumn("loading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=output)) as bar:
        task = bar.add_task("loading", total=total)
        yield lambda count: bar.advance(task, count)
