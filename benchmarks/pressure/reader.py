"""The process under pressure: ``python -m benchmarks.pressure.reader JSON`` reads epochs and says what arrived.

Everything it says is one line of JSON: ``ready`` before the loader starts, ``batch`` after each batch, and the
``report`` at the end. A process that was killed says no more; one that hangs leaves its stacks on stderr.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import gc
import json
import resource
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import resident
from benchmarks.pressure.loaders import LOADERS
from benchmarks.pressure.samples import BATCH, SAMPLES, Ragged, first_difference, identify

_KINDS = {"AS": (resource.RLIMIT_AS, "VmSize:"), "DATA": (resource.RLIMIT_DATA, "VmData:")}


@dataclasses.dataclass(frozen=True)
class Task:
    """What one process reads, and how; the fields travel as JSON.

    Attributes:
        loader: A name in ``LOADERS``.
        workers, prefetch: As the loader's arguments.
        memory: ``"auto"``, ``"off"``, a limit, or the fields of a policy.
        samples, hints, scratch: As the dataset's arguments.
        step: Seconds for which the consumer keeps a whole batch; a part of one in proportion.
        keep: Whether it keeps all batches, as ``list(loader)`` does.
        seconds: Start epochs for so long instead of reading one.
        until_told: Leave as soon as a line comes in on stdin.
        rlimit: ``"AS"`` or ``"DATA"``: limit this process's own memory, ``room`` above what it has at its start.
        room: In bytes.
        hang: Seconds after which it counts as hanging.
    """

    loader: str = "ours"
    workers: int = 2
    prefetch: int = 2
    memory: Any = "auto"
    samples: int = SAMPLES
    hints: bool = True
    scratch: int = 0
    step: float = 0.02
    keep: bool = False
    seconds: float = 0.0
    until_told: bool = False
    rlimit: str = ""
    room: int = 0
    hang: float = 60.0


class Reader:
    """Reads as it is told and keeps the books."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.dataset = Ragged(task.samples, hints=task.hints, scratch=task.scratch)
        self.loader: Any = None
        self.kept: list[Any] = []
        self.parts: list[int] = []
        self.wrong = ""
        self.told = False
        self.epochs = 0
        self.delivered = 0
        self.resident: list[int] = []
        self.wall = 0.0

    def run(self) -> dict[str, Any]:
        """Read everything; what is raised on the way is part of the report."""
        task = self.task
        error: dict[str, Any] | None = None
        say("ready", resident=resident.resident_bytes())
        start = time.monotonic()
        try:
            while True:
                faulthandler.dump_traceback_later(task.hang, exit=True)
                self._read_epoch()
                if self.wrong or self.told or time.monotonic() - start >= task.seconds:
                    break
        except BaseException as failure:
            error = describe(failure)
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.wall = time.monotonic() - start
        return {
            "exact": error is None and not self.wrong,
            "wrong": self.wrong,
            "error": error,
            "epochs": self.epochs,
            "delivered": self.delivered,
            "parts": self.parts,
            "wall": self.wall,
            "resident": self.resident,
            "peak_resident": resident.peak_bytes(),
            "memory": memory_statistics(self.loader),
        }

    def _read_epoch(self) -> None:
        task = self.task
        if self.loader is None:
            self.loader = LOADERS[task.loader](
                self.dataset, workers=task.workers, prefetch=task.prefetch, memory=task.memory
            )
        received: list[int] = []
        for batch in self.loader:
            received.extend(identify(sample, self.dataset.sizes) for sample in batch)
            self.parts.append(len(batch))
            self.delivered += len(batch)
            if task.keep:
                self.kept.append(batch)
            say("batch", samples=len(batch), memory=memory_statistics(self.loader, without="events"))
            time.sleep(task.step * len(batch) / BATCH)
            if task.until_told and select.select([sys.stdin], [], [], 0)[0]:
                self.told = True
                break
        batch = None
        self.wrong = first_difference(received, complete=None if self.told else len(self.dataset))
        self.epochs += 1
        if task.seconds:
            gc.collect()
            self.resident.append(resident.resident_bytes())


def say(event: str, **fields: Any) -> None:
    """Tell the parent process something; the clock is the same in all processes."""
    print(json.dumps({"event": event, "at": time.monotonic(), **fields}), flush=True)


def describe(failure: BaseException) -> dict[str, Any]:
    """Return the kinds and the words of an error and of its causes."""
    return {"kinds": [type(each).__name__ for each in _chain(failure)], "text": str(failure)[:4000]}


def _chain(failure: BaseException | None) -> Iterator[BaseException]:
    while failure is not None:
        yield failure
        failure = failure.__cause__ or failure.__context__


def memory_statistics(loader: Any, *, without: str = "") -> dict[str, Any] | None:
    """Return what the governor says about itself, but for one field; None for loaders without one."""
    statistics = getattr(loader, "statistics", None)
    memory = getattr(statistics(), "memory", None) if callable(statistics) else None
    if memory is None:
        return None
    fields = dataclasses.fields(memory)
    kept = {field.name: getattr(memory, field.name) for field in fields if field.name != without}
    kept["events"] = [dataclasses.asdict(event) for event in kept.get("events", ())]
    return kept


def limit_this_process(kind: str, room: int) -> None:
    """Set a resource limit ``room`` bytes above what this process takes now."""
    number, field = _KINDS[kind]
    taken = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)
    )
    resource.setrlimit(number, (int(taken.split()[1]) * 1024 + room, resource.RLIM_INFINITY))


def main() -> int:
    task = Task(**json.loads(sys.argv[1]))
    if task.rlimit:
        if task.loader == "ours":
            import nogil_loader  # noqa: F401 - what it maps is no part of the room
        limit_this_process(task.rlimit, task.room)
    say("report", **Reader(task).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
