"""What a child process is told to measure, and what it answers: both go through a file as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.bench.result import Setting

#: Names of the files in the folder that a child is given.
TASK, ANSWER = "task.json", "answer.json"


@dataclass(frozen=True)
class Task:
    """One measurement.

    Attributes:
        target: What to load, as on a command line.
        loader: Ours, or the name of a peer.
        num_workers: Of the loader.
        prefetch_factor: Of the loader.
        batch_size: Of the loader; None for the target's own.
        seconds: How long to measure, at least.
        observe: Whether to go on afterwards and look at memory, the queue and the GIL.
        seed: Of the order.
        parent: The process that waits for the answer; without it there is no use in going on.
        memory_limit: Bytes of the control group that the child is in; None for none.
    """

    target: str
    loader: str
    num_workers: int
    prefetch_factor: int
    batch_size: int | None
    seconds: float
    observe: bool
    seed: int
    parent: int
    memory_limit: int | None = None


@dataclass(frozen=True)
class About:
    """What the target turned out to be.

    Attributes:
        dataset: In a line.
        length: Samples; None where it does not tell.
        is_loader: Whether a loader was named, with arguments of its own, and not a dataset.
        no_peers: Why other loaders cannot load it; empty where they can.
        gil: Whether the GIL was in force at the end.
        iterable: Whether one thread has to read it.
    """

    dataset: str
    length: int | None
    is_loader: bool
    no_peers: str
    gil: bool
    iterable: bool = False


@dataclass(frozen=True)
class Refusal:
    """The target cannot be measured in any setting.

    Attributes:
        message: Why.
        trace: The traceback from where the user's code begins; empty if that is not to blame.
    """

    message: str
    trace: str


@dataclass(frozen=True)
class Answer:
    """What came of a task; either a refusal, or the others.

    Attributes:
        refusal: Why nothing was measured.
        about: What the target is.
        setting: With one rate, or with a failure.
        epochs: How many were begun while it was measured.
    """

    refusal: Refusal | None = None
    about: About | None = None
    setting: Setting | None = None
    epochs: int = 0
