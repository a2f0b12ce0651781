"""The parts of the report that are tables: all settings, and how they differ from an earlier result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nogil_loader.bench.comparison import CONFIDENCE, Comparison, Interval
from nogil_loader.bench.report.naming import (
    choose,
    explain_short_names,
    loader_name,
    measure_ratio,
    short_name,
)
from nogil_loader.bench.report.numbers import NOTHING, change, nbytes, number, seconds, share, times
from nogil_loader.bench.report.svg import element
from nogil_loader.bench.report.words import clip, escape
from nogil_loader.bench.result import OURS, Result, Setting

_NOTE_LIMIT = 300
# Columns that a failed setting has nothing in. What matters most comes first: a phone shows the first three.
_MEASURED = (
    "samples/s",
    f"lowest{NOTHING}highest",
    "of the chosen",
    "batch p50",
    "batch p90",
    "batch p99",
    "consumer waited",
    "CPU cores",
    "GIL held",
    "peak memory",
)


def list_settings(result: Result) -> str:
    """Return the table of all settings, ours first, each in the order of the sweep."""
    chosen = choose(result)
    rows = (_row(setting, result, chosen) for setting in (*result.settings, *result.peers))
    return _table("All settings", (explain_short_names(result), *_MEASURED), rows)


def list_changes(comparison: Comparison, result: Result) -> str:
    """Return the table of the settings that both results have, and what they have in common."""
    between = f"between ({share(CONFIDENCE)} sure)"
    heads = (explain_short_names(result), "change", "verdict", between, "samples/s then", "now")
    rows = (
        _cells(
            _name(each.now, result),
            [
                element("b", change(each.interval.ratio - 1)),
                _judge(each.interval),
                _between(each.interval),
                number(each.earlier.median),
                number(each.now.median),
            ],
        )
        for each in comparison.changes
    )
    overall = comparison.overall
    told = (
        f"All settings together: {change(overall.ratio - 1)} ({_between(overall)}), {_judge(overall)}. "
        "A machine that was slower on one of the two days looks like slower code."
    )
    notes = "".join(
        element("li", element("bdi", escape(clip(note, _NOTE_LIMIT)))) for note in comparison.notes
    )
    differing = element("p", "What else differs:", class_="small") + element("ul", notes, class_="notes")
    return element("p", told) + _table("Changes", heads, rows) + (differing if notes else "")


def _between(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return "too few rounds to tell"
    return f"{change(interval.low - 1)} to {change(interval.high - 1)}"


def _judge(interval: Interval) -> str:
    if interval.is_slower:
        return "slower"
    return "faster" if interval.low is not None and interval.low > 1 else "unclear"


def _row(setting: Setting, result: Result, chosen: Setting | None) -> str:
    name = _name(setting, result)
    if setting.failure is not None:
        failed = element("td", "failed, see above", colspan=str(len(_MEASURED)), class_="failed")
        return element("tr", element("th", name, scope="row") + failed)
    ratio = measure_ratio(setting, chosen) if chosen is not None else None
    batch = setting.batch_seconds
    cells = [
        element("b", number(setting.median)),
        f"{number(setting.low)}{NOTHING}{number(setting.high)}",
        times(ratio.median if ratio else None),
        *map(seconds, (batch.p50, batch.p90, batch.p99) if batch else (None,) * 3),
        share(setting.wait_share),
        number(setting.cpu_cores),
        share(setting.gil.held if setting.gil else None),
        nbytes(setting.memory.peak_bytes if setting.memory else None),
    ]
    if setting is not chosen:
        return _cells(name, cells)
    tag = "recommended" if result.recommended is not None else "fastest"
    return _cells(f'{name}<span class="tag">{tag}</span>', cells, class_="chosen")


def _name(setting: Setting, result: Result) -> str:
    peer = "" if setting.loader == OURS else f"{loader_name(setting)}, "
    return element("bdi", escape(peer + short_name(setting, result)))


def _cells(name: str, cells: Iterable[str], **attributes: str) -> str:
    return element(
        "tr", element("th", name, scope="row") + "".join(f"<td>{each}</td>" for each in cells), **attributes
    )


def _table(name: str, heads: Sequence[str], rows: Iterable[str]) -> str:
    head = element("tr", "".join(f'<th scope="col">{escape(each)}</th>' for each in heads))
    table = element("table", element("thead", head) + element("tbody", "".join(rows)))
    # Only the table scrolls sideways where the screen is narrow, by keyboard too.
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)
