"""The process of the second act: it reads an epoch as a training does, and says what arrives.

It gets the photographs on stdin, pickled, then a line with the limit in bytes. What it says is one line of JSON
each on stdout: ``ready`` before the epoch, ``batch`` after each batch, ``takes`` and ``gives`` when the training
itself takes memory and gives it back, and ``end``. A process that is killed says no more.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nogil_loader.data.photographs import Photographs
from nogil_loader.engine.statistics import Statistics
from nogil_loader.errors import LoaderError
from nogil_loader.loader import DataLoader
from nogil_loader.memory.levels import ProcessMemory
from nogil_loader.memory.relief import relieve
from nogil_loader.policies import MemoryPolicy

#: What a process ends with that went beyond its limit, where no kernel watches it. A shell shows a kill so, too.
BEYOND_LIMIT = 137

# The training keeps its memory from the one to the other part of the epoch.
_TAKES_AT, _GIVES_AT = 1 / 4, 1 / 2
# A tenth of what memory can be filled at: models that grow don't do so at once.
_TAKING_RATE = 3e8
_TAKING_STEPS = 50
# How long a whole batch is worked on; a part of one takes less, in proportion. Loading is faster, so that batches
# pile up as far as they may.
_STEP_SECONDS = 0.1
_WATCH_SECONDS = 0.002


@dataclass(frozen=True)
class Training:
    """What is read, and how; the fields travel as JSON.

    Attributes:
        samples: Of the epoch; there may be more than photographs.
        batch_size: Samples.
        workers: Threads.
        seed: Of the order.
        memory: As the loader's argument.
        extra: Bytes that the training takes for a while.
        is_watched: Whether the kernel enforces the limit. Otherwise the loader is told of it, and the process ends
            itself when it goes beyond.
    """

    samples: int
    batch_size: int
    workers: int | Literal["auto"]
    seed: int
    memory: str
    extra: int
    is_watched: bool

    def command(self) -> list[str]:
        """How to start the process."""
        code = f"import sys; from {__name__} import main; sys.exit(main(sys.argv[1]))"
        return [sys.executable, "-c", code, json.dumps(asdict(self))]

    def loader(self, photographs: Photographs, limit: int) -> DataLoader:
        """What it reads from."""
        is_told = self.memory != "off" and not self.is_watched
        return DataLoader(
            Floats(photographs, self.samples),
            batch_size=self.batch_size,
            shuffle=True,
            seed=self.seed,
            num_workers=self.workers,
            memory=MemoryPolicy(limit=limit) if is_told else self.memory,
        )


class Floats:
    """Photographs as a model takes them, with their index; over again where there are too few."""

    def __init__(self, photographs: Photographs, samples: int) -> None:
        self._photographs = photographs
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, Any]:
        image, label = self._photographs[index % len(self._photographs)]
        return {"image": np.divide(image, 255, dtype=np.float32), "label": label, "index": index}


class Watch:
    """Looks at this process's memory all the time, from a thread.

    Args:
        limit: Bytes above which the process ends; None for none.

    Attributes:
        peak: The most bytes that were seen.
    """

    def __init__(self, limit: int | None) -> None:
        self.peak = 0
        self._limit = limit
        self._memory = ProcessMemory(Path("/proc"))
        threading.Thread(target=self._look, daemon=True).start()

    def used(self) -> int:
        """Bytes in use that no file backs."""
        return self._memory.anonymous()

    def _look(self) -> None:
        while True:
            used = self.used()
            self.peak = max(self.peak, used)
            if self._limit is not None and used > self._limit:
                os._exit(BEYOND_LIMIT)
            time.sleep(_WATCH_SECONDS)


def main(training: str) -> int:
    """Read the epoch that is described as JSON."""
    task = Training(**json.loads(training))
    photographs: Photographs = pickle.load(sys.stdin.buffer)
    _warm_up(task, photographs)
    _say("ready", used=ProcessMemory(Path("/proc")).anonymous())
    limit = int(sys.stdin.buffer.readline())
    watch = Watch(None if task.is_watched else limit)
    error = ""
    statistics = Statistics()
    with task.loader(photographs, limit) as loader, iter(loader) as epoch:
        try:
            for batch in _work(task, epoch, watch):
                state = epoch.statistics().memory
                _say(
                    "batch",
                    indices=batch["index"].tolist(),
                    at_once=0 if state is None else state.in_flight_allowed,
                    used=watch.used(),
                )
        except LoaderError as failure:
            error = str(failure)
        statistics = epoch.statistics()
    memory = None if statistics.memory is None else asdict(statistics.memory)
    _say("end", error=error, peak=watch.peak, memory=memory)
    return 0


def _work(task: Training, epoch: Any, watch: Watch) -> Any:
    """Give out batches; do what a training does when it has done with each."""
    seen = 0
    taken: list[Any] = []
    is_over = False
    for batch in epoch:
        seen += len(batch["index"])
        yield batch
        if not taken and not is_over and seen >= _TAKES_AT * task.samples:
            _say("takes", nbytes=task.extra, used=watch.used())
            for _ in range(_TAKING_STEPS):
                taken.append(np.ones(task.extra // _TAKING_STEPS, np.uint8))
                time.sleep(task.extra / _TAKING_RATE / _TAKING_STEPS)
        elif taken and seen >= _GIVES_AT * task.samples:
            taken, is_over = [], True
            _say("gives", nbytes=task.extra, used=watch.used())
        time.sleep(_STEP_SECONDS * len(batch["index"]) / task.batch_size)


def _warm_up(task: Training, photographs: Photographs) -> None:
    """Have what any epoch needs, compiled kernels above all, before memory is looked at."""
    with DataLoader(Floats(photographs, 4), batch_size=2, num_workers=1, memory="off") as loader:
        for _ in loader:
            pass
    relieve()


def _say(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
