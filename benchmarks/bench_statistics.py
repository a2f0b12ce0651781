"""Statistics: what it costs that a loader measures itself.

The hand-off of tiny batches, as in the group "handoff", where a loader has the least time for anything else. It is
compared with itself after the lines that time threads have been taken out of its functions, in the same round. The
rows below say what watching costs on top of that: a trace of everything, and a progress bar on a terminal, of
which nothing is promised.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench_handoff import Integers
from benchmarks.harness import Row, compare, run_fresh, take_turns

_GROUP = "statistics"
_BATCH = 64
_UNIT = "µs/batch"
_AROUND_A_TICKET = (
    ("        began = stopwatch.began = perf_counter()\n", ""),
    ("        if began < stopwatch.due:\n", "        if True:\n"),
    (
        """            ended = perf_counter()
            stopwatch.wall += ended - began
            stopwatch.ended = ended
            stopwatch.tickets += 1
            if ended - began > stopwatch.slow:
                stopwatch.note_slow(ended - began)
""",
        "",
    ),
)
# Where timing is woven in, and what it reads without.
_WOVEN: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "nogil_loader.engine.run:EpochRun",
        "deliver",
        (("        if self._pace.since:\n            self._pace.end_wait()\n", ""),),
    ),
    (
        "nogil_loader.engine.threaded:ThreadCrew",
        "wait",
        (("        now = self._pace.begin_wait()\n", "        now = 0.0\n"),),
    ),
    ("nogil_loader.engine.worker:Worker", "load_next", _AROUND_A_TICKET),
    ("nogil_loader.engine.inline:InlineCrew", "_load_or_read", _AROUND_A_TICKET),
)


def take_timing_out() -> None:
    """Put functions in the place of the engine's that are the same but for the lines that time threads.

    Raises:
        RuntimeError: A line is not there any more.
    """
    for place, name, changes in _WOVEN:
        module_name, _, class_name = place.partition(":")
        owner = getattr(__import__(module_name, fromlist=[class_name]), class_name)
        function = getattr(owner, name)
        source = inspect.getsource(function)
        for woven, plain in changes:
            if woven not in source:
                raise RuntimeError(f"{place}.{name} does not have the line {woven.strip()!r} any more")
            source = source.replace(woven, plain)
        scope: dict[str, Any] = {}
        code = "from __future__ import annotations\n" + textwrap.dedent(source)
        exec(compile(code, name, "exec"), function.__globals__, scope)
        setattr(owner, name, scope[name])


@contextlib.contextmanager
def _tracing() -> Iterator[Callable[[Any], Any]]:
    import nogil_loader

    with tempfile.TemporaryDirectory() as folder, nogil_loader.trace(Path(folder) / "run.json"):
        yield lambda loader: loader


@contextlib.contextmanager
def _showing() -> Iterator[Callable[[Any], Any]]:
    import nogil_loader

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    yield lambda loader: nogil_loader.progress(loader, file=Terminal(), disable=False)


@contextlib.contextmanager
def _nothing() -> Iterator[Callable[[Any], Any]]:
    yield lambda loader: loader


_WATCHERS = {"nothing": _nothing, "trace": _tracing, "progress bar": _showing}


def measure(batches: int, workers: int, timing: bool = True, watcher: str = "nothing") -> float:
    """Return µs per batch over one epoch, after a short one that warms up."""
    import nogil_loader

    if not timing:
        take_timing_out()
    for length in (200, batches):
        loader = nogil_loader.DataLoader(Integers(_BATCH * length), batch_size=_BATCH, num_workers=workers)
        with _WATCHERS[watcher]() as watch:
            iterator = iter(watch(loader))
            next(iterator)
            start = time.perf_counter()
            rest = sum(1 for _ in iterator)
            elapsed = time.perf_counter() - start
    return elapsed / rest * 1e6


def run(quick: bool) -> list[Row]:
    batches, rounds = (300, 1) if quick else (10_000, 25)
    rows = []
    for workers in (2, 0):
        taken = take_turns(
            {
                "with": partial(run_fresh, measure, batches=batches, workers=workers),
                "without": partial(run_fresh, measure, batches=batches, workers=workers, timing=False),
            },
            rounds,
        )
        who = f"{workers} workers" if workers else "no workers"
        rows.append(
            compare(
                *(_GROUP, f"trivial batch of {_BATCH}, {who}", _UNIT, taken["with"], taken["without"]),
                against="the same without timing",
                target=0.99,
            )
        )
    batches, rounds = (300, 1) if quick else (3000, 5)
    taken = take_turns(
        {
            watcher: partial(run_fresh, measure, batches=batches, workers=2, watcher=watcher)
            for watcher in _WATCHERS
        },
        rounds,
    )
    rows += [
        compare(
            _GROUP, f"the same with a {watcher}", _UNIT, taken[watcher], taken["nothing"], against="without"
        )
        for watcher in list(_WATCHERS)[1:]
    ]
    return rows
