"""Figures of speed: against the number of workers, and beside other loaders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nogil_loader.bench.report.axes import Axis
from nogil_loader.bench.report.bars import Bar, draw_bars
from nogil_loader.bench.report.figure import LABEL_LIMIT, Figure
from nogil_loader.bench.report.lines import Guide, Point, Series, draw_lines
from nogil_loader.bench.report.naming import (
    batches_differ,
    best_of_each,
    choose,
    count,
    find_fastest,
    full_name,
    loader_name,
    measure_ratio,
    measured,
)
from nogil_loader.bench.report.numbers import NOTHING, number, rate, times
from nogil_loader.bench.report.scale import choose_top
from nogil_loader.bench.report.theme import BLUE, GREEN, ORANGE, PURPLE, SKY, STONE, VERMILLION
from nogil_loader.bench.report.words import clip
from nogil_loader.bench.result import Result, Setting

# As many lines as can be told apart on a phone.
_OUR_COLOURS, _THEIR_COLOURS = (BLUE, ORANGE, GREEN, SKY), (VERMILLION, PURPLE, STONE)
# Half of a marker and of the lines beside each other at no workers.
_INSET = 16


def draw_throughput(result: Result) -> Figure:
    """Draw samples per second against workers."""
    title = "Throughput"
    ours, chosen = measured(result.settings), choose(result)
    peers = measured(result.peers)
    if not ours and not peers:
        return Figure(title, "No setting was measured to its end, so there is no speed to show.")
    if len(ours) + len(peers) == 1:
        only = (ours or peers)[0]
        return Figure(
            title,
            f"One setting was measured: {full_name(only, result)}, {rate(only.median)} ({_spread(only)} over "
            f"{count(len(only.rates), 'round')}). A line needs several numbers of workers.",
        )
    groups = _group_ours(ours, result)
    shown = _choose_groups(groups, chosen)
    theirs = _group_peers(peers)[: len(_THEIR_COLOURS)]
    series = [
        *(
            Series(name, _points(each, result), colour)
            for (name, each), colour in zip(shown, _OUR_COLOURS, strict=False)
        ),
        *(
            Series(name, _points(each, result), colour, hollow=True)
            for (name, each), colour in zip(theirs, _THEIR_COLOURS, strict=False)
        ),
    ]
    drawn = [point for each in series for point in each.points]
    workers = sorted({0, *(point.x for point in drawn)})
    guide, explained = _make_guide([setting for _, each in shown for setting in each])
    ringed = next(
        (
            (at, each.index(chosen))
            for at, (_, each) in enumerate(shown)
            if chosen is not None and chosen in each
        ),
        None,
    )
    drawing = draw_lines(
        series,
        Axis("workers", choose_top(workers), values=tuple(workers), inset=_INSET),
        Axis("samples/s", choose_top(point.high for point in drawn)),
        label=_tell(title, series),
        guide=guide,
        ringed=ringed,
        ring="recommended" if result.recommended is not None else "fastest",
    )
    left_out = len(groups) - len(shown)
    return Figure(
        title,
        "Samples per second for each number of workers: the median of "
        f"{count(result.options.repeats, 'round')}, with a bar from the slowest to the fastest round."
        + (" Dashed lines are other loaders." if theirs else "")
        + explained
        + (
            f" The {len(shown)} fastest of {len(groups)} lines are drawn; the table has all."
            if left_out
            else ""
        ),
        drawing,
    )


def draw_peers(result: Result) -> Figure:
    """Draw how many times as fast as each peer our loader is, each at its best."""
    title = "Beside other loaders"
    ours = find_fastest(result.settings)
    if not result.peers:
        return Figure(
            title,
            "The option --compare torch,spdl,grain runs the same dataset through others; none was measured.",
        )
    if ours is None:
        return Figure(title, "No setting of our own was measured to its end, so there is nothing to compare.")
    bars = [_make_bar(ours, peer, result) for peer in best_of_each(result.peers)]
    told = ", ".join(f"{bar.name}: {bar.note if bar.value is None else times(bar.value)}" for bar in bars)
    drawing = draw_bars(
        bars,
        label=clip(f"{title}, how many times as fast: {told}", LABEL_LIMIT),
        unit="\N{MULTIPLICATION SIGN}",
        reference=1.0,
        reference_name="as fast as the other",
    )
    return Figure(
        title,
        f"How many times as fast our fastest setting ({full_name(ours, result)}) is as the fastest one of every "
        "other loader: the median over the rounds, in which they took turns, and a mark from the lowest to the "
        "highest. Orange is where the other one is faster.",
        drawing,
    )


def _make_bar(ours: Setting, peer: Setting, result: Result) -> Bar:
    ratio = measure_ratio(ours, peer)
    name = full_name(peer, result)
    if ratio is None:
        return Bar(name, None, note="failed" if peer.failure else "no ratio")
    return Bar(name, ratio.median, ratio.low, ratio.high)


def _group_ours(settings: Iterable[Setting], result: Result) -> list[tuple[str, list[Setting]]]:
    """Return the lines: settings that differ in the number of workers only.

    Without workers nothing is loaded ahead, so such a setting belongs to every line.
    """
    groups: dict[str, list[Setting]] = {}
    for setting in sorted(settings, key=lambda each: each.num_workers == 0):
        batch = f", batch {setting.batch_size}" if batches_differ(result) else ""
        lines = [name for name in groups if name.endswith(batch)] if setting.num_workers == 0 else []
        for name in lines or [f"prefetch {setting.prefetch_factor}{batch}"]:
            groups.setdefault(name, []).append(setting)
    return [(name, sorted(group, key=lambda each: each.num_workers)) for name, group in groups.items()]


def _group_peers(settings: Iterable[Setting]) -> list[tuple[str, list[Setting]]]:
    best: dict[str, dict[int, Setting]] = {}
    for setting in settings:
        line = best.setdefault(loader_name(setting), {})
        known = line.get(setting.num_workers)
        if known is None or (setting.median or 0.0) > (known.median or 0.0):
            line[setting.num_workers] = setting
    return [(name, [line[workers] for workers in sorted(line)]) for name, line in best.items()]


def _choose_groups(
    groups: Sequence[tuple[str, list[Setting]]], chosen: Setting | None
) -> list[tuple[str, list[Setting]]]:
    """Return the groups with the highest rates, in any case that of the chosen setting, in their order."""

    def rank(group: tuple[str, list[Setting]]) -> tuple[bool, float]:
        return chosen in group[1], max(setting.median or 0.0 for setting in group[1])

    best = sorted(groups, key=rank, reverse=True)[: len(_OUR_COLOURS)]
    return [group for group in groups if group in best]


def _points(settings: Iterable[Setting], result: Result) -> tuple[Point, ...]:
    return tuple(
        Point(
            setting.num_workers,
            setting.median or 0.0,
            setting.low or 0.0,
            setting.high or 0.0,
            f"{full_name(setting, result)}: {rate(setting.median)} ({_spread(setting)})",
        )
        for setting in settings
    )


def _spread(setting: Setting) -> str:
    return f"{number(setting.low)}{NOTHING}{number(setting.high)}"


def _make_guide(settings: Sequence[Setting]) -> tuple[Guide | None, str]:
    """Return the line of workers that do not disturb each other, and the sentence that explains it."""
    fewest = min((each.num_workers for each in settings if each.num_workers), default=0)
    if all(each.num_workers <= fewest for each in settings):
        return None, ""
    slope = max(each.median or 0.0 for each in settings if each.num_workers == fewest) / fewest
    if slope <= 0:
        return None, ""
    alone = "1 worker alone" if fewest == 1 else f"each of {fewest} workers"
    return Guide("ideal", slope), f" The dotted line is the ideal: every worker as fast as {alone}."


def _tell(title: str, series: Iterable[Series]) -> str:
    told = "; ".join(
        f"{each.name}: " + ", ".join(f"{point.x:g} workers {number(point.y)}" for point in each.points)
        for each in series
    )
    return clip(f"{title} in samples per second against workers. {told}", LABEL_LIMIT)
