"""The report: what to do first, then why, then everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nogil_loader.bench.comparison import Comparison
from nogil_loader.bench.report.account import describe_run, list_failures, list_notes
from nogil_loader.bench.report.figure import Figure
from nogil_loader.bench.report.inside import draw_gil, draw_stages
from nogil_loader.bench.report.naming import (
    best_of_each,
    choose,
    count,
    find_fastest,
    full_name,
    loader_name,
    measure_ratio,
    measured,
)
from nogil_loader.bench.report.numbers import number, rate
from nogil_loader.bench.report.style import page_style
from nogil_loader.bench.report.svg import element
from nogil_loader.bench.report.tables import list_changes, list_settings
from nogil_loader.bench.report.throughput import draw_peers, draw_throughput
from nogil_loader.bench.report.timelines import draw_memory, draw_queue
from nogil_loader.bench.report.words import clip, escape
from nogil_loader.bench.result import Result

_FIGURES: tuple[Callable[[Result], Figure], ...] = (
    draw_throughput,
    draw_peers,
    draw_stages,
    draw_gil,
    draw_memory,
    draw_queue,
)
_TARGET_LIMIT, _SENTENCE_LIMIT, _CODE_LIMIT = 120, 1000, 2000


def render_report(result: Result, comparison: Comparison | None = None) -> str:
    """Return the report as one HTML page that needs nothing else: no network, no script, no other file.

    Whatever is missing in the result, a measurement that failed or a part that was not looked at, is said in a
    sentence where it would be.

    Args:
        result: What to report on.
        comparison: Of this result with an earlier one.
    """
    parts = [
        _render_head(result),
        element("div", "\n".join(_render_figure(draw(result)) for draw in _FIGURES), class_="figures"),
        *_render_failures(result),
        *([_section("Since the earlier result", list_changes(comparison, result))] if comparison else []),
        _section("All settings", list_settings(result) + list_notes(result.peers)),
        _section("How it was measured", describe_run(result)),
    ]
    title = escape(f"{clip(result.target, _TARGET_LIMIT)}: nogil_loader bench")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{page_style()}\n</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def headline(result: Result) -> str:
    """Return what a reader remembers: which setting, and how fast."""
    chosen = choose(result)
    if chosen is None:
        return f"None of {count(len(result.settings), 'setting')} was measured to its end."
    setting = count(chosen.num_workers, "worker")
    if chosen.prefetch_factor is not None and chosen.num_workers:
        setting += f" and prefetch_factor={chosen.prefetch_factor}"
    verb = "Use" if result.recommended is not None else "The fastest is"
    return f"{verb} {setting}: {rate(chosen.median)}"


def beside_peers(result: Result) -> str:
    """Return how many times as fast as each peer our loader is, each at its best; empty without peers."""
    ours = find_fastest(result.settings)
    if ours is None:
        return ""
    told = [
        f"{number(ratio.median)} times as fast as {loader_name(peer)}"
        for peer in best_of_each(measured(result.peers))
        if (ratio := measure_ratio(ours, peer)) is not None
    ]
    if not told:
        return ""
    # The recommended setting may be a little slower than the fastest.
    at_best = "" if ours is choose(result) else f"At its best ({full_name(ours, result)}) "
    return f"{at_best}{_join(told)}."


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _render_head(result: Result) -> str:
    target = element("bdi", escape(clip(result.target, _TARGET_LIMIT)) or "?")
    parts = [
        element("p", f"nogil_loader bench of {target}", class_="over"),
        element("h1", escape(headline(result))),
    ]
    if beside := beside_peers(result):
        parts.append(element("p", escape(beside), class_="lead"))
    if result.sentence:
        parts.append(element("p", escape(clip(result.sentence, _SENTENCE_LIMIT)), class_="lead"))
    if result.code:
        parts.append(element("pre", element("code", _lines(result.code)), class_="use"))
    if result.notes:
        notes = "".join(element("li", escape(clip(note, _SENTENCE_LIMIT)) or "?") for note in result.notes)
        parts.append(element("ul", notes, class_="notes"))
    return element("header", "\n".join(parts))


def _lines(code: str) -> str:
    return "\n".join(map(escape, code[:_CODE_LIMIT].splitlines()))


def _render_figure(figure: Figure) -> str:
    caption = escape(figure.caption)
    if figure.drawing is None:
        return _section(figure.title, element("p", caption, class_="small"))
    return _section(figure.title, element("figure", figure.drawing.inline() + element("figcaption", caption)))


def _render_failures(result: Result) -> Iterable[str]:
    if result.failed:
        yield _section(f"What failed: {count(len(result.failed), 'setting')}", list_failures(result.failed))


def _section(title: str, inside: str) -> str:
    return element("section", element("h2", escape(title)) + inside)
