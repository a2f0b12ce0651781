"""What a dataset is like where nothing is wrong with it: its parts, sizes, times, and what threads gain. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.advice import is_pythons_own
from nogil_loader.check.census import Part, Spread, take_census
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import plural
from nogil_loader.check.outcome import Raised, Value
from nogil_loader.check.speed import Speed
from nogil_loader.errors import describe_bytes, describe_index

# Slower than the median by so much, and not by microseconds.
_SLOW = 10
_SLOW_SECONDS = 0.001
_SHOWN_SLOW = 3
# Parts beyond these are counted only.
_SHOWN_PARTS = 20
# CPU time per second of the wall below which a thread mostly waits for something else, even where others keep the
# processors busy too.
_WAITS = 0.2
# Several threads gain next to nothing below this, and where a sample holds the GIL for such a share of its time.
_NO_GAIN = 1.25
_MUCH = 0.7


@dataclass(frozen=True)
class Effort:
    """What was done.

    Attributes:
        calls: Calls while other threads read.
        places: Places in the code at which a thread was stopped while another one read.
        places_known: How many were chosen for that.
        threads: How many have read at once; 0 if that was left out, since it was known by then to be unsafe.
        twins: Whether first calls were tried on fresh copies too.
        seconds: How long the check took.
    """

    calls: int = 0
    places: int = 0
    places_known: int = 0
    threads: int = 0
    twins: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Summary:
    """What a dataset is like.

    Attributes:
        read: Samples that were read.
        parts: What is in them.
        sizes: Bytes.
        seconds: How long one took, read alone for the first time.
        slow: Keys and seconds of those that took far longer than the others.
        habits: What samples depend on → how many.
        handles: Open files and the like that all threads share.
        speed: What several threads gain; None if that was not measured.
        effort: What was done.
        python_failed: Calls in which Python itself failed, by a fault that is known.
    """

    read: int
    parts: tuple[Part, ...]
    sizes: Spread | None
    seconds: Spread | None
    slow: tuple[tuple[Hashable, float], ...]
    habits: dict[str, int]
    handles: tuple[tuple[str, str], ...]
    speed: Speed | None
    effort: Effort
    python_failed: int = 0

    @classmethod
    def of(cls, evidence: Evidence, speed: Speed | None, effort: Effort) -> Summary:
        """Return what follows from what was seen."""
        positions = evidence.positions("sample")
        came = [at for at in positions if isinstance(evidence.reading(at).outcome, Value)]
        seconds = Spread.of(evidence.reading(at).seconds for at in came)
        slow: list[tuple[Hashable, float]] = []
        if seconds is not None:
            limit = max(_SLOW_SECONDS, _SLOW * seconds.p50)
            found = [(evidence.key(at), evidence.reading(at).seconds) for at in came]
            slow = sorted((each for each in found if each[1] > limit), key=lambda each: -each[1])
        return cls(
            len(positions),
            take_census(evidence.samples()),
            Spread.of(evidence.reading(at).nbytes for at in came),
            seconds,
            tuple(slow[:_SHOWN_SLOW]),
            dict(Counter(evidence.serial.habits[at] for at in positions if at in evidence.serial.habits)),
            tuple(evidence.handles),
            speed,
            effort,
            sum(
                crossing.count
                for crossing in evidence.crossings
                if isinstance(crossing.outcome, Raised) and is_pythons_own(crossing.outcome)
            ),
        )

    def lines(self) -> list[str]:
        """Return it for a person."""
        return [*self._part_lines(), *self._size_lines(), *self._thread_lines(), *self._effort_lines()]

    def facts(self) -> dict[str, Any]:
        """Return it for a program; sizes in bytes."""
        return {
            "read": self.read,
            "parts": [
                {"path": part.path, "specs": dict(part.specs), "missing": part.missing} for part in self.parts
            ],
            "bytes": None if self.sizes is None else dataclasses.asdict(self.sizes),
            "seconds": None if self.seconds is None else dataclasses.asdict(self.seconds),
            "slow": [[_plain(key), seconds] for key, seconds in self.slow],
            "habits": self.habits,
            "handles": [list(each) for each in self.handles],
            "speed": None
            if self.speed is None
            else {**dataclasses.asdict(self.speed), "gain": self.speed.gain},
            "effort": dataclasses.asdict(self.effort),
            "python_failed": self.python_failed,
        }

    def _part_lines(self) -> list[str]:
        if not self.parts:
            return []
        shown = [
            part
            for part in self.parts
            if set(part.kinds) - {"mapping", "sequence", "record"} or part.is_ragged
        ]
        width = max((len(part.path) for part in shown), default=0)
        lines = ["Samples"]
        lines += [f"  {part.path:<{width}}  {part.describe()}".rstrip() for part in shown[:_SHOWN_PARTS]]
        if len(shown) > _SHOWN_PARTS:
            lines.append(f"  … and {len(shown) - _SHOWN_PARTS} more parts")
        return lines + [f"  {note}" for note in _notes_on(self.parts)]

    def _size_lines(self) -> list[str]:
        lines = []
        if self.sizes is not None:
            one = self.sizes
            told = " · ".join(
                f"{name} {describe_bytes(int(value))}"
                for name, value in (
                    ("least", one.least),
                    ("median", one.p50),
                    ("p99", one.p99),
                    ("most", one.most),
                )
            )
            lines += [
                "Size of a sample",
                f"  {told}" if one.least != one.most else f"  {describe_bytes(int(one.most))}",
            ]
        if self.seconds is not None:
            each = self.seconds
            told = " · ".join(
                f"{name} {_time(value)}"
                for name, value in (
                    ("median", each.p50),
                    ("p90", each.p90),
                    ("p99", each.p99),
                    ("most", each.most),
                )
            )
            lines += ["Time of a sample, read alone for the first time", f"  {told}"]
            lines += [
                f"  slow: sample {describe_index(key, 80)}, {_time(seconds)}" for key, seconds in self.slow
            ]
        return lines

    def _thread_lines(self) -> list[str]:
        if self.speed is None:
            return []
        return ["Threads", *(f"  {line}" for line in _tell_speed(self.speed))]

    def _effort_lines(self) -> list[str]:
        effort, habits = self.effort, self.habits
        lines = ["What was done"]
        lines.append(f"  read {plural(self.read, 'sample')} alone, at least twice, in several threads")
        if effort.calls:
            lines.append(f"  compared {plural(effort.calls, 'call')} made while other threads read")
        if effort.places_known:
            part = "" if effort.places == effort.places_known else f" of {effort.places_known:,}"
            lines.append(
                f"  stopped a thread at {effort.places:,}{part} places of its call, while another one read"
            )
        if effort.threads:
            lines.append(f"  read in {effort.threads} threads at once")
        elif effort.calls:
            lines.append("  did not read in many threads at once: by then it was known not to be safe")
        if effort.calls and not effort.twins:
            lines.append(
                "  first calls were not tried by several threads, since the dataset cannot be copied: name a "
                "function that makes it, and each trial gets a new one"
            )
        if habits.get("random"):
            lines.append(
                f"  {plural(habits['random'], 'sample')} depend on random numbers: values were compared where the "
                "same were drawn, elsewhere shapes and dtypes"
            )
        if habits.get("restless"):
            lines.append(
                f"  {plural(habits['restless'], 'sample')} differ each time: only shapes and dtypes were compared"
            )
        lines += [f"  all threads share {what}: {path}" for path, what in self.handles]
        if self.python_failed:
            lines.append(
                f"  {plural(self.python_failed, 'call')} met a fault of Python 3.11, none of the dataset: now "
                "and then ast.parse, which numpy.load uses, raises SystemError when threads change. Python 3.12 "
                'does not; here on_failure="rebuild" reads such a sample again'
            )
        lines.append(f"  took {effort.seconds:.1f} s")
        return lines


def _notes_on(parts: tuple[Part, ...]) -> list[str]:
    notes = []
    wide = [part.path or "the sample" for part in parts if "float64" in part.dtypes and "array" in part.kinds]
    if wide:
        notes.append(f"float64 in {', '.join(wide[:3])}: twice the memory of float32, which most models take")
    if any("tensor" in part.kinds for part in parts):
        notes.append("torch tensors: batches will be tensors too")
    if any("image" in part.kinds for part in parts):
        notes.append("images of Pillow are not stacked: return numpy.asarray(image)")
    loose = [part.path or "the sample" for part in parts if "object" in part.kinds]
    if loose:
        notes.append(f"objects in {', '.join(loose[:3])}: batches will hold a list of them")
    if any("object" in part.dtypes for part in parts):
        notes.append("arrays of Python objects: they are not copied, only referred to")
    return notes


def _tell_speed(speed: Speed) -> list[str]:
    lines = [f"one thread reads {_rate(speed.alone)} samples/s"]
    if speed.gil is not None:
        share = f"{100 * speed.gil:.0f} % (±{100 * speed.gil_accuracy:.0f} %)"
        lines.append(f"a sample holds the GIL, which one thread at a time can, for {share} of its time")
    if speed.threads > 1:
        lines.append(f"{speed.threads} threads read {speed.gain:.1f} times as fast")
    if speed.cpu_alone < _WAITS and (speed.gil or 0.0) < _WAITS:
        lines.append("it mostly waits, for a disk or a network: more threads than CPUs may pay off")
    elif (speed.gil is not None and speed.gil > _MUCH) or (speed.gil is None and speed.gain <= _NO_GAIN):
        lines.append(
            "more threads will not help much; compiled transforms do, __getitems__ over arrays, or a Python "
            "without a GIL"
        )
    return lines


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _plain(key: Hashable) -> Any:
    return key if isinstance(key, int | str) else describe_index(key)
