"""Figures of what goes on in the workers: their stages, and who holds the GIL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nogil_loader.bench.report.figure import LABEL_LIMIT, Figure
from nogil_loader.bench.report.naming import choose, explain_short_names, full_name, short_name
from nogil_loader.bench.report.numbers import THIN, is_number, share
from nogil_loader.bench.report.stack import Part, Row, draw_stack
from nogil_loader.bench.report.theme import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    STONE,
    VERMILLION,
    YELLOW,
)
from nogil_loader.bench.report.words import clip
from nogil_loader.bench.result import Gil, Result, Setting

# In the order in which a batch goes through them; then what is no work.
_STAGES = {
    "fetch": Part("fetch", BLUE),
    "transform": Part("transform", ORANGE),
    "collate": Part("collate", GREEN),
    "convert": Part("convert", SKY),
    "compile": Part("compile", YELLOW),
    "memory": Part("waiting for memory", VERMILLION),
    "start_up": Part("start-up", STONE),
    "idle": Part("idle", GREY),
}
# More rows than this are more than anybody compares by eye.
_MOST_ROWS = 40
_NAME_LIMIT = 30


def draw_stages(result: Result) -> Figure:
    """Draw what the workers' time goes into."""
    title = "Where the workers' time goes"
    settings = _keep_best([each for each in result.settings if _total(each.stages) > 0], result)
    if not settings:
        return Figure(title, "No setting has times by stage.")
    names = _order(name for each in settings for name, value in each.stages.items() if _sound(value))
    chosen = choose(result)
    rows = [
        Row(
            short_name(each, result),
            tuple(_sound(each.stages.get(name, 0.0)) / _total(each.stages) for name in names),
            strong=each is chosen,
        )
        for each in settings
    ]
    parts = [_part(name) for name in names]
    told = "; ".join(
        f"{full_name(each, result)}: {_tell(row.shares, parts)}" for each, row in _with_rows(settings, rows)
    )
    return Figure(
        title,
        "Shares of the workers' time. Fetch is the dataset's own code, transform and collate make the batch, "
        "convert hands it to the framework; idle workers had nothing to load, as the queue was full. "
        "The bold row is the setting that is recommended.",
        draw_stack(
            rows, parts, names=explain_short_names(result), label=clip(f"{title}. {told}", LABEL_LIMIT)
        ),
    )


def draw_gil(result: Result) -> Figure:
    """Draw who holds the GIL, and how long workers wait for it."""
    title = "The GIL"
    found = [
        (each, each.gil) for each in result.settings if each.gil is not None and is_number(each.gil.held)
    ]
    if not found:
        if not result.machine.gil:
            return Figure(title, "This Python runs without the GIL: no thread waits for another one's code.")
        chosen = choose(result)
        wanted = chosen.gil_wanted if chosen else None
        more = (
            f" After {share(wanted)} of the batches other threads were waiting for it."
            if wanted is not None
            else ""
        )
        return Figure(title, f"Who held the GIL was not measured.{more}")
    kept = _keep_best([each for each, _ in found], result)
    found = [(each, gil) for each, gil in found if any(each is one for one in kept)]
    names = _order(name for _, gil in found for name, value in gil.by_stage.items() if _sound(value))
    parts = [*map(_part, names), Part("other threads", STONE)]
    chosen = choose(result)
    rows = [
        Row(
            short_name(each, result),
            _share_out(gil, names),
            strong=each is chosen,
            spread=_sound(gil.accuracy),
            below=_sound(gil.waiting),
        )
        for each, gil in found
    ]
    told = "; ".join(
        f"{full_name(each, result)}: held {share(gil.held)}, waiting {share(gil.waiting)}"
        for each, gil in found
    )
    worst = max(_sound(gil.accuracy) for _, gil in found)
    return Figure(
        title,
        "The thick bar is the share of the time in which a thread held the GIL, by the stage its worker was in. "
        "The thin bar is the share of their time that workers waited for it: near zero, threads scale; towards "
        f"100{THIN}%, more workers bring nothing. Accurate to {share(worst)}, as the mark shows.",
        draw_stack(
            rows,
            parts,
            Part("waiting for the GIL", PURPLE),
            names=explain_short_names(result),
            label=clip(f"{title}. {told}", LABEL_LIMIT),
        ),
    )


def _with_rows(settings: Sequence[Setting], rows: Sequence[Row]) -> Iterable[tuple[Setting, Row]]:
    return zip(settings, rows, strict=True)


def _share_out(gil: Gil, names: Sequence[str]) -> tuple[float, ...]:
    """Return the shares of the stages and what other threads held; both were estimated, so they may not add up."""
    workers = [_sound(gil.by_stage.get(name, 0.0)) for name in names]
    return (*workers, max(0.0, gil.held - sum(workers)))


def _tell(shares: Sequence[float], parts: Sequence[Part]) -> str:
    return ", ".join(
        f"{part.name} {share(part_share)}"
        for part, part_share in zip(parts, shares, strict=True)
        if part_share > 0
    )


def _keep_best(settings: list[Setting], result: Result) -> list[Setting]:
    """Return the fastest settings if there are too many, the recommended one in any case, in their order."""
    chosen = choose(result)
    ranked = sorted(settings, key=lambda each: (each is chosen, each.median or 0.0), reverse=True)
    kept = {id(each) for each in ranked[:_MOST_ROWS]}
    return [each for each in settings if id(each) in kept]


def _order(names: Iterable[str]) -> list[str]:
    """Return each name once, those that are known in their order, then the others."""
    known = list(_STAGES)
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def _part(name: str) -> Part:
    return _STAGES.get(name, Part(clip(name, _NAME_LIMIT), PURPLE))


def _total(stages: Mapping[str, float]) -> float:
    return sum(map(_sound, stages.values()))


def _sound(value: float) -> float:
    return value if is_number(value) and value > 0 else 0.0
