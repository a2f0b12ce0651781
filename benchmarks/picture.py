"""Draws what the memory governor does when a neighbour takes half of the memory: ``python -m benchmarks.picture``.

An epoch is read under a limit that the kernel enforces. In the middle another process in the same group takes
memory and gives it back. The result is an SVG file without any dependency, with colours that can be
read on a light and on a dark ground.
"""

from __future__ import annotations

import argparse
import dataclasses
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.pressure.reader import Task
from benchmarks.pressure.runs import Neighbour, Run, run
from nogil_loader.bench.cgroup import MemoryGroup, why_not
from nogil_loader.policies import MemoryPolicy

_TARGET = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "memory-run.svg"
_MB = 10**6
_LIMIT = 2000 * _MB
_EXTRA = 1100 * _MB
# What a process that is not in a hurry takes; a tenth of what memory can be filled at.
_RATE = 5e8
# Seconds of the run: what comes before, how long the neighbour keeps what it took, and how long it takes until
# everything is as before, which is eight calm seconds and some more.
_BEFORE, _HOLDS, _AFTER = 5.0, 4.0, 12.0
_SAMPLING = 0.05
# An epoch that does not end by itself; at its end a loader gives everything back.
_TASK = Task(step=0.3, samples=10_000, until_told=True)


@dataclasses.dataclass
class Record:
    """What was seen, with times in seconds from the first batch on.

    Attributes:
        limit: Bytes.
        full: Batches that may be in flight when memory is plentiful.
        used: ``(time, bytes in use, bytes of these that the neighbour has)``.
        said: ``(time, samples of the batch, bytes to plan with, batches that may be in flight)``.
        takes, gives: When the neighbour begins to take memory, and when it has given it back.
        whole: Samples of a whole batch.
    """

    limit: int
    full: int
    used: list[tuple[float, int, int]]
    said: list[tuple[float, int, int, int]]
    takes: float
    gives: float
    whole: int


def record() -> Record:
    """Make a run and return what was seen.

    Raises:
        OSError: No memory group can be made here.
        RuntimeError: The run did not end as it should.
    """
    seen: list[tuple[float, int, int]] = []

    def during(under_way: Run) -> None:
        over = threading.Event()
        with Neighbour(under_way.group) as neighbour:
            sampler = threading.Thread(target=_sample, args=(under_way.group, seen, over))
            sampler.start()
            try:
                _trouble(under_way, neighbour)
            finally:
                over.set()
                sampler.join()

    outcome = run(_TASK, _LIMIT, during=during)
    batches = [event for event in outcome.events if event["event"] == "batch"]
    if outcome.verdict != "exact" or "gives" not in outcome.marks:
        raise RuntimeError(str(outcome))
    start, end = batches[0]["at"], outcome.marks["end"]
    return Record(
        limit=_LIMIT,
        full=_TASK.workers * (_TASK.prefetch + 1),
        used=[(at - start, used, others) for at, used, others in seen if start <= at <= end],
        said=[
            (
                event["at"] - start,
                event["samples"],
                event["memory"]["room"],
                event["memory"]["in_flight_allowed"],
            )
            for event in batches
            if event["at"] <= end
        ],
        takes=outcome.marks["takes"] - start,
        gives=outcome.marks["gives"] - start,
        whole=max(event["samples"] for event in batches),
    )


def _trouble(under_way: Run, neighbour: Neighbour) -> None:
    if not under_way.wait_for_batches(1):
        return
    list(under_way.hear(_BEFORE))
    taken = neighbour.take(_EXTRA, _RATE)
    if taken is None:
        return
    under_way.marks["takes"] = taken["began"]
    list(under_way.hear(_HOLDS))
    given = neighbour.give()
    if given is None:
        return
    under_way.marks["gives"] = given["done"]
    list(under_way.hear(_AFTER))
    under_way.marks["end"] = time.monotonic()
    under_way.tell()


def _sample(group: MemoryGroup, seen: list[tuple[float, int, int]], over: threading.Event) -> None:
    """Note what the group has in use, and what of it the neighbour has."""
    while not over.wait(_SAMPLING):
        pids = (group.folder / "cgroup.procs").read_text().split()
        others = [pid for pid in pids if "neighbour" in _command(pid)]
        seen.append((time.monotonic(), group.used(), sum(map(_anonymous, others))))


def _command(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:  # it has ended
        return ""


def _anonymous(pid: str) -> int:
    try:
        status = Path("/proc", pid, "status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line[:8] == "RssAnon:"), 0)


# Drawing

_WIDTH, _LEFT, _RIGHT = 840, 64, 706
# Grey that can be read on white and on black, and colours of about the same brightness.
_TEXT = "#767676"
_OURS, _OTHERS, _LIMIT_COLOUR = "#3b82d0", "#c9772b", "#cc4438"
_ROOM_COLOUR, _COUNT_COLOUR = "#2e9468", "#8a63d2"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A part of the picture with its own vertical axis.

    Attributes:
        title: What is shown.
        top, bottom: Where it is.
        highest: What the top stands for; the bottom is 0.
        ticks: Values that get a line.
        seconds: What the whole width stands for.
    """

    title: str
    top: float
    bottom: float
    highest: float
    ticks: Sequence[float]
    seconds: float

    def x(self, seconds: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * seconds / self.seconds, 1)

    def y(self, value: float) -> float:
        return round(self.bottom - (self.bottom - self.top) * value / self.highest, 1)

    def axis(self) -> Iterable[str]:
        yield _words(_LEFT - 48, self.top - 12, self.title, weight="bold")
        for tick in self.ticks:
            yield _line(_LEFT, self.y(tick), _RIGHT, self.y(tick), _TEXT, 'stroke-opacity="0.25"')
            yield _words(_LEFT - 8, self.y(tick) + 4, f"{tick:,.0f}", anchor="end")

    def area(self, points: Sequence[tuple[float, float, float]], colour: str) -> str:
        """What lies between a lower and an upper value."""
        there = [f"{self.x(at)},{self.y(high)}" for at, _, high in points]
        back = [f"{self.x(at)},{self.y(low)}" for at, low, _ in reversed(points)]
        return f'<polygon points="{" ".join(there + back)}" fill="{colour}" fill-opacity="0.75"/>'

    def steps(self, points: Sequence[tuple[float, float]], colour: str, more: str = "") -> str:
        """A value that holds until the next one."""
        (at, value), *others = points
        path = [f"M{self.x(at)} {self.y(value)}"]
        for at, value in others:
            path.append(f"H{self.x(at)}V{self.y(value)}")
        return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2" {more}/>'


def draw(seen: Record) -> str:
    """Return the picture as SVG."""
    seconds = seen.used[-1][0]
    policy = MemoryPolicy()
    memory = Panel(
        "Memory in use, MB", 40, 250, 1.08 * seen.limit / _MB, range(0, seen.limit // _MB + 1, 500), seconds
    )
    allowed = Panel("What the loader allows itself, % of all", 304, 404, 105, (0, 50, 100), seconds)
    parts = Panel("Samples in each batch", 458, 558, 1.05 * seen.whole, range(0, seen.whole + 1, 16), seconds)
    shapes = [shape for panel in (memory, allowed, parts) for shape in panel.axis()]

    loader = [(at, 0.0, (used - others) / _MB) for at, used, others in seen.used]
    shapes.append(memory.area(loader, _OURS))
    shapes.append(memory.area([(at, (used - o) / _MB, used / _MB) for at, used, o in seen.used], _OTHERS))
    limit = seen.limit / _MB
    for name, share, dashes in (
        (f"limit {limit:,.0f} MB", 1.0, ""),
        ("hard mark", policy.hard, "6 3"),
        ("soft mark", policy.soft, "2 3"),
    ):
        height = memory.y(share * limit)
        shapes.append(_line(_LEFT, height, _RIGHT, height, _LIMIT_COLOUR, f'stroke-dasharray="{dashes}"'))
        shapes.append(_words(_RIGHT + 8, height + 4, name, _LIMIT_COLOUR))
    shapes.append(_words(_RIGHT + 8, memory.y(0.62 * limit), "the neighbour", _OTHERS))
    shapes.append(_words(_RIGHT + 8, memory.y(0.30 * limit), "the loader's process", _OURS))

    most = max(room for _, _, room, _ in seen.said)
    shapes.append(allowed.steps([(at, 100 * room / most) for at, _, room, _ in seen.said], _ROOM_COLOUR))
    in_flight = [(at, 100 * count / seen.full) for at, _, _, count in seen.said]
    shapes.append(allowed.steps(in_flight, _COUNT_COLOUR, 'stroke-dasharray="5 3"'))
    shapes.append(_words(_RIGHT + 8, allowed.y(70), "memory", _ROOM_COLOUR))
    shapes.append(_words(_RIGHT + 8, allowed.y(45), "batches at a time", _COUNT_COLOUR))

    for at, samples, _, _ in seen.said:
        shapes.append(f'<circle cx="{parts.x(at)}" cy="{parts.y(samples)}" r="3" fill="{_OURS}"/>')

    for at, what in ((seen.takes, "a neighbour comes"), (seen.gives, "and goes")):
        place = memory.x(at)
        shapes.append(_line(place, memory.top - 8, place, parts.bottom, _TEXT, 'stroke-dasharray="2 4"'))
        shapes.append(_words(place + 5, memory.top - 4, what))
    shapes += [
        _words(parts.x(second), parts.bottom + 18, f"{second} s", anchor="middle")
        for second in range(0, int(seconds) + 1, 5)
    ]
    name = "A loader under a limit, while a neighbour takes memory and gives it back"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 590" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">\n<title>{name}</title>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" {more}/>'


def _words(
    x: float, y: float, text: str, colour: str = _TEXT, *, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picture", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--output", type=Path, default=_TARGET, help="where to write it (default: %(default)s)"
    )
    options = parser.parse_args()
    if reason := why_not():
        parser.error(f"no memory group: {reason}")
    options.output.write_text(draw(record()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
