"""What a sweep is told to measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nogil_loader.bench.peers import choose_peers
from nogil_loader.bench.rounds import usual_workers
from nogil_loader.bench.subject import parse_place
from nogil_loader.checks import as_count, as_seconds
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.options import MAX_SEED, MAX_WORKERS

# A hundred repeats of every setting are a mistake, not a plan.
MOST_REPEATS = 100


@dataclass(frozen=True)
class Bench:
    """What to measure.

    Attributes:
        target: As on the command line: ``module:name`` or ``path.py:name`` of a dataset, a loader, or a function
            that returns one; or a path to data.
        workers: Numbers of workers; None for 0, 1, 2, 4 … up to twice the usable cores.
        prefetch: Batches loaded ahead for each worker.
        batch_sizes: Samples per batch; empty for the target's own.
        seconds: Of each measurement.
        repeats: Measurements of each setting.
        compare: Names of peers that load the same; ``"all"`` for those that are installed.
        memory_limit: Bytes of the control group in which all of it runs; None for none.
        timeout: Seconds for one process, its start included; it is ended after that.
        seed: Of the order.

    Raises:
        TypeError: An attribute has a wrong type.
        ValueError: It is out of range. The message names it.
    """

    target: str
    workers: Sequence[int] | None = None
    prefetch: Sequence[int] = (2,)
    batch_sizes: Sequence[int] = ()
    seconds: float = 2.0
    repeats: int = 3
    compare: Sequence[str] = ()
    memory_limit: int | None = None
    timeout: float = 300.0
    seed: int = 0

    def __post_init__(self) -> None:
        parse_place(self.target)
        if isinstance(self.compare, str):
            raise TypeError(f"compare={self.compare!r}: expected a list of names, not a string")
        choose_peers(self.compare)
        workers = usual_workers(available_cpus()) if self.workers is None else self.workers
        checked = {
            "workers": _as_choices("workers", workers, least=0, most=MAX_WORKERS),
            "prefetch": _as_choices("prefetch", self.prefetch, least=1),
            "batch_sizes": _as_choices("batch_sizes", self.batch_sizes, least=1, empty=True),
            "seconds": _as_positive_seconds("seconds", self.seconds),
            "repeats": as_count("repeats", self.repeats, least=1, most=MOST_REPEATS),
            "compare": tuple(self.compare),
            "timeout": _as_positive_seconds("timeout", self.timeout),
            "seed": as_count("seed", self.seed, least=0, most=MAX_SEED),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _as_choices(
    name: str, values: Iterable[int], *, least: int, most: int | None = None, empty: bool = False
) -> tuple[int, ...]:
    """Return different integers in their order.

    Raises:
        TypeError: One is no integer.
        ValueError: One is out of range, comes twice, or there is none although ``empty`` is False.
    """
    checked = tuple(as_count(name, value, least=least, most=most) for value in values)
    if len(set(checked)) != len(checked):
        raise ValueError(f"{name}={','.join(map(str, checked))}: expected each number once")
    if not checked and not empty:
        raise ValueError(f"{name}: expected at least one number")
    return checked


def _as_positive_seconds(name: str, value: float) -> float:
    """Return a finite number of seconds above 0.

    Raises:
        TypeError: It is no number.
        ValueError: It is not finite, or not above 0.
    """
    seconds = as_seconds(name, value)
    if seconds == 0:
        raise ValueError(f"{name}={value!r}: expected seconds above 0")
    return seconds
