"""Figures of what happened while a setting was measured: memory, and batches that were ready."""

from __future__ import annotations

from collections.abc import Sequence

from nogil_loader.bench.report.areas import Course, Level, draw_courses
from nogil_loader.bench.report.axes import Axis
from nogil_loader.bench.report.figure import LABEL_LIMIT, Figure
from nogil_loader.bench.report.naming import choose, full_name
from nogil_loader.bench.report.numbers import is_number, nbytes, number
from nogil_loader.bench.report.scale import choose_top, thin_out
from nogil_loader.bench.report.theme import BLUE, GREEN, ORANGE
from nogil_loader.bench.report.words import clip
from nogil_loader.bench.result import Result, Setting

# Stretches of time that a drawing tells apart: one for each two units of its width.
_STRETCHES = 150
# A limit that is so many times as high as the peak would press the line to the ground.
_FAR = 4.0

Timeline = tuple[tuple[float, float], ...]


def draw_memory(result: Result) -> Figure:
    """Draw what the process took over time."""
    title = "Memory"
    chosen = choose(result)
    points = _memory_points(chosen)
    if chosen is None or not points:
        return Figure(title, "There is no record of the memory over time.")
    peak = _peak(chosen, points)
    courses = [Course(full_name(chosen, result), points, BLUE, filled=True)]
    greediest = max(result.settings, key=lambda each: _peak(each, _memory_points(each)))
    if greediest is not chosen and _memory_points(greediest) and _peak(greediest, ()) > peak:
        courses.append(Course(f"most: {full_name(greediest, result)}", _memory_points(greediest), ORANGE))
    limit = (chosen.memory and chosen.memory.limit) or result.memory_limit
    highest = max(value for course in courses for _, value in course.points)
    level = Level(f"limit {nbytes(limit)}", limit) if limit and limit <= _FAR * highest else None
    caption = f"Memory of the process while the setting was measured. At most it took {nbytes(peak)}"
    if limit and level is None:
        caption += f"; the limit of {nbytes(limit)} is far above what is drawn"
    elif limit:
        caption += f", the limit is {nbytes(limit)}"
    shrinks = chosen.memory.shrinks if chosen.memory else 0
    caption += f". It was made to load less {number(shrinks)} times." if shrinks else "."
    drawing = draw_courses(
        courses,
        level,
        Axis("seconds", _end(courses)),
        Axis("memory", choose_top([highest, level.value if level else 0.0]), unit="B"),
        label=clip(f"{title} over time. {caption}", LABEL_LIMIT),
        stepped=False,
    )
    return Figure(title, caption, drawing)


def draw_queue(result: Result) -> Figure:
    """Draw how many batches were ready for the consumer over time."""
    title = "Queue"
    chosen = choose(result)
    queue = chosen.queue if chosen else None
    points = thin_out(queue.timeline, _STRETCHES) if queue else ()
    if chosen is None or queue is None or not points:
        return Figure(title, "There is no record of the queue over time.")
    courses = [Course(f"ready: {full_name(chosen, result)}", points, GREEN, filled=True)]
    level = Level(f"capacity {number(queue.capacity)}", queue.capacity) if queue.capacity else None
    mean = sum(value for _, value in points) / len(points)
    caption = (
        "Batches that were ready for the consumer, who takes each at once and does nothing else: here an empty "
        "queue is normal, and a full one means that the consumer's own thread was the slower side."
    )
    drawing = draw_courses(
        courses,
        level,
        Axis("seconds", _end(courses)),
        Axis("batches", choose_top([*(v for _, v in points), level.value if level else 0.0]), whole=True),
        label=clip(f"{title} over time: about {number(mean)} batches ready. {caption}", LABEL_LIMIT),
        stepped=True,
    )
    return Figure(title, caption, drawing)


def _memory_points(setting: Setting | None) -> Timeline:
    memory = setting.memory if setting else None
    return thin_out(memory.timeline, _STRETCHES) if memory else ()


def _peak(setting: Setting, points: Sequence[tuple[float, float]]) -> float:
    told = setting.memory.peak_bytes if setting.memory else None
    return max(
        [value for _, value in points] + ([told] if told is not None and is_number(told) else []), default=0
    )


def _end(courses: Sequence[Course]) -> float:
    return choose_top((at for course in courses for at, _ in course.points), headroom=1.0)
