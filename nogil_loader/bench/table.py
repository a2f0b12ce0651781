"""A result as text: pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from nogil_loader.bench.comparison import Comparison
from nogil_loader.bench.result import OURS, Failure, Result, Setting
from nogil_loader.errors import describe_bytes

_WIDTH = 100
_NOTHING = "-"
_CHOSEN = "*"
_HEADS = (
    *("", "loader", "workers", "prefetch", "batch size", "samples/s", "low", "high", "wait"),
    *("batch p50", "p99", "CPU", "memory"),
)


def as_text(result: Result) -> str:
    """Return the table, what holds the loader back, and what to use."""
    parts = [_head(result), _table(result)]
    failures = [f"failed: {_name(each)}: {_why(each.failure)}" for each in result.failed if each.failure]
    notes = [f"{each.loader}: {each.note}" for each in _first_of_each(result.peers) if each.note]
    # What may be long is wrapped; code is not, since it is copied.
    parts += ["\n".join(_wrap(line) for line in lines) for lines in (failures, notes) if lines]
    if result.recommended is not None:
        chosen = result.settings[result.recommended]
        told = f"{_CHOSEN} recommended: {_name(chosen)}"
        parts.append(f"{told}\n\n    {result.code}" if result.code else told)
    parts.append("\n".join(map(_wrap, (result.sentence, *result.notes))))
    return "\n\n".join(parts)


def as_comparison(comparison: Comparison, created: str) -> str:
    """Return by how much each setting, and all together, differ from an earlier result."""
    rows = [
        (_name(each.now), _rate(each.earlier.median), _rate(each.now.median), str(each.interval))
        for each in comparison.changes
    ]
    table = _align([("", "then", "now", "change"), *rows], left=(0, 3))
    lines = [
        f"against {created}:\n",
        *table,
        "",
        f"all settings together: {comparison.overall}",
        *(f"not the same: {note}" for note in comparison.notes),
    ]
    return "\n".join(lines)


def _head(result: Result) -> str:
    options, machine = result.options, result.machine
    cores = f"{machine.cores} usable core{'s' * (machine.cores != 1)}"
    gil = "" if machine.gil else ", no GIL"
    where = f"{machine.cpu}, {cores}; {machine.system}; Python {machine.python}{gil}"
    lines = [
        f"{result.target}: {result.dataset}",
        f"{options.repeats} x {options.seconds:g} s for each setting; {where}",
    ]
    if result.memory_limit is not None:
        lines.append(f"in {describe_bytes(result.memory_limit)} of memory, by a control group")
    return "\n".join(lines)


def _table(result: Result) -> str:
    settings = [*result.settings, *result.peers]
    rows = [_HEADS, *(_row(each, at == result.recommended) for at, each in enumerate(settings))]
    if not result.peers:  # then all of them are ours
        rows = [(row[0], *row[2:]) for row in rows]
    return "\n".join(_align(rows, left=(0, 1) if result.peers else (0,)))


def _row(setting: Setting, chosen: bool) -> tuple[str, ...]:
    which = (
        _CHOSEN if chosen else "",
        setting.loader,
        str(setting.num_workers),
        _NOTHING
        if setting.num_workers == 0 or setting.prefetch_factor is None
        else str(setting.prefetch_factor),
        _NOTHING if setting.batch_size is None else str(setting.batch_size),
    )
    if setting.failure is not None:
        return (*which, "failed", *(_NOTHING,) * 7)
    times, memory = setting.batch_seconds, setting.memory
    return (
        *which,
        _rate(setting.median),
        _rate(setting.low),
        _rate(setting.high),
        _NOTHING if setting.wait_share is None else f"{setting.wait_share:.0%}",
        _seconds(None if times is None else times.p50),
        _seconds(None if times is None else times.p99),
        _NOTHING if setting.cpu_cores is None else f"{setting.cpu_cores:.2f}",
        _NOTHING if memory is None or memory.peak_bytes is None else describe_bytes(memory.peak_bytes),
    )


def _align(rows: Sequence[tuple[str, ...]], left: Sequence[int]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _name(setting: Setting) -> str:
    parts = [] if setting.loader == OURS else [setting.loader]
    parts.append(f"{setting.num_workers} worker{'s' * (setting.num_workers != 1)}")
    if setting.num_workers and setting.prefetch_factor is not None:
        parts.append(f"prefetch {setting.prefetch_factor}")
    if setting.batch_size is not None:
        parts.append(f"batches of {setting.batch_size}")
    return ", ".join(parts)


def _why(failure: Failure) -> str:
    where = [f"sample {failure.sample}"] if failure.sample is not None else []
    where += [f"worker {failure.worker}"] if failure.worker is not None else []
    return failure.error + (f" ({', '.join(where)})" if where else "")


def _first_of_each(settings: Sequence[Setting]) -> list[Setting]:
    return list({each.loader: each for each in reversed(settings) if each.note}.values())[::-1]


def _rate(rate: float | None) -> str:
    if rate is None:
        return _NOTHING
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return _NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _wrap(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
