"""What a sweep found: values that go into a JSON file and come back from it.

The keys of the file are the names of the attributes. A file has a format number; a reader of another format
refuses it. Keys may be added within a format, and a reader passes over those that it does not know.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nogil_loader.bench.decode import DecodeError, decode, encode

#: Of the JSON that `Result.to_dict` makes.
FORMAT = 1
#: What our own settings are called beside those of peers.
OURS = "nogil_loader"


class ResultError(ValueError):
    """A file or a dict is no result of ``nogil-loader bench``, or is damaged; the message says what and where."""


@dataclass(frozen=True)
class Machine:
    """Where it was measured.

    Attributes:
        cpu: The processor's name, as the system tells it.
        cores: CPUs that the process may use, by affinity and quota.
        quota: CPUs that a control group gives the time of, rounded up; None for no limit.
        memory_bytes: Of the machine, or what a control group allows if that is less.
        system: Operating system and its version.
        python: Version, with ``free-threaded`` behind it for such a build.
        gil: Whether the GIL was in force.
        packages: Versions of what took part: this package, numpy, numba, and peers.
        load: Processes that wanted to run during the minute before, as ``os.getloadavg``; None where unknown.
    """

    cpu: str
    cores: int
    quota: float | None
    memory_bytes: int
    system: str
    python: str
    gil: bool
    packages: Mapping[str, str]
    load: float | None


@dataclass(frozen=True)
class Options:
    """How it was measured.

    Attributes:
        seconds: Of each measurement, at least.
        repeats: Measurements of each setting.
        workers: Numbers of workers that were swept.
        prefetch: Batches loaded ahead per worker that were swept.
        batch_sizes: The same; empty where the loader's own was kept.
        compare: Peers that were asked for.
        seed: Of the loaders.
    """

    seconds: float
    repeats: int
    workers: tuple[int, ...]
    prefetch: tuple[int, ...]
    batch_sizes: tuple[int, ...] = ()
    compare: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class BatchSeconds:
    """How long loading one batch took in its worker, at these percentiles; seconds."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Gil:
    """Who held the GIL, in a pass of its own.

    Attributes:
        held: Share of the time in which any thread held it, 0 to 1.
        by_stage: Share of the time in which workers held it, for each stage, ``"hand-off"`` between two batches;
            and ``"consumer"`` for the thread that takes them.
        waiting: Share of the workers' time in which they waited for it; 0 without workers.
        accuracy: By how much ``held`` may be off, as an absolute share.
    """

    held: float
    by_stage: Mapping[str, float]
    waiting: float
    accuracy: float


@dataclass(frozen=True)
class Memory:
    """What the process took.

    Attributes:
        peak_bytes: The most that it ever took, child processes included; None where unknown.
        limit: Bytes that the loader's governor kept to, or the group's limit; None for neither.
        timeline: Seconds since the measurement began, and bytes then.
        shrinks: How often the governor loaded less ahead, less at once, or smaller batches.
    """

    peak_bytes: int | None
    limit: int | None
    timeline: tuple[tuple[float, float], ...] = ()
    shrinks: int = 0


@dataclass(frozen=True)
class Queue:
    """Batches that were ready for the consumer.

    Attributes:
        capacity: The most that there may be, those being loaded included; None where the loader does not tell.
        timeline: Seconds since the measurement began, and batches ready then.
    """

    capacity: int | None
    timeline: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why a setting was not measured to its end.

    Attributes:
        error: In one line.
        sample: The key of the sample that failed, as text; None if it was not a sample's fault.
        worker: In which worker; None if unknown.
    """

    error: str
    sample: str | None = None
    worker: str | None = None


@dataclass(frozen=True)
class Setting:
    """One combination of what was swept, and what was measured of it.

    Attributes:
        loader: ``"nogil_loader"``, or the name of a peer.
        num_workers: Threads; processes with a peer whose workers are processes.
        prefetch_factor: Batches loaded ahead per worker; None where the loader has no such thing.
        batch_size: Samples per batch; None for single samples and for a batch sampler.
        rates: Samples per second, one for each repeat, in the order of the rounds; empty if it failed.
        batch_seconds: How long a batch took to load; None where the loader does not tell.
        wait_share: Share of the time in which the consumer, who does nothing else, waited; None if it failed.
        cpu_cores: CPU time per second of the process and its children, in cores; None if unknown.
        other_cores: CPU time per second of all other processes of the machine, in cores; None if unknown.
        cpu_share: Of the workers' time in fetch, transform, collate and convert, the share on a CPU; None where
            the loader does not tell.
        gil_wanted: Share of batches at whose end other threads waited for the GIL; None where the loader does not
            tell.
        stages: Worker-seconds by stage; empty where the loader does not tell.
        gil: Who held the GIL; None where that cannot be seen.
        memory: What the process took; None if it failed.
        queue: Batches that were ready; None where the loader does not tell.
        failure: Why there are no numbers; None if all went well.
        note: How a peer was driven, for people; empty for our own loader.
    """

    loader: str
    num_workers: int
    prefetch_factor: int | None
    batch_size: int | None
    rates: tuple[float, ...] = ()
    batch_seconds: BatchSeconds | None = None
    wait_share: float | None = None
    cpu_cores: float | None = None
    other_cores: float | None = None
    cpu_share: float | None = None
    gil_wanted: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    gil: Gil | None = None
    memory: Memory | None = None
    queue: Queue | None = None
    failure: Failure | None = None
    note: str = ""

    told: ClassVar[tuple[str, ...]] = ("median", "low", "high")

    def __post_init__(self) -> None:
        if (self.failure is None) != bool(self.rates):
            raise ValueError("expected either rates or a failure")
        if min(self.rates, default=1.0) <= 0:
            raise ValueError(f"rates: expected numbers above 0, not {min(self.rates)}")

    @property
    def median(self) -> float | None:
        """Of the rates; None if it failed."""
        return statistics.median(self.rates) if self.rates else None

    @property
    def low(self) -> float | None:
        """The lowest rate; None if it failed."""
        return min(self.rates, default=None)

    @property
    def high(self) -> float | None:
        """The highest rate; None if it failed."""
        return max(self.rates, default=None)


@dataclass(frozen=True)
class Result:
    """All of a sweep.

    Attributes:
        created: When it ended, ISO 8601 with time zone.
        machine: Where it was measured.
        target: What was named on the command line.
        dataset: What that is, in a line.
        length: Samples of the dataset; None where it does not tell.
        batch_size: Of the first setting.
        options: How it was measured.
        settings: Those of our loader, in the order of the sweep.
        peers: Those of others.
        recommended: Index into ``settings``; None if all failed.
        sentence: What holds the loader back.
        notes: Further sentences: the rule of the recommendation, how it scales, what was shrunk.
        code: The line of code that makes the recommended loader; empty if there is none.
        memory_limit: Bytes of the control group in which it ran; None for none.
    """

    created: str
    machine: Machine
    target: str
    dataset: str
    length: int | None
    batch_size: int | None
    options: Options
    settings: tuple[Setting, ...]
    peers: tuple[Setting, ...]
    recommended: int | None
    sentence: str
    notes: tuple[str, ...] = ()
    code: str = ""
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        chosen = self.recommended
        if chosen is not None and not (0 <= chosen < len(self.settings) and self.settings[chosen].rates):
            raise ValueError(f"recommended={chosen}: expected the index of a setting that was measured")

    @property
    def best(self) -> Setting | None:
        """The setting of ours with the highest median; None if all failed."""
        measured = [setting for setting in self.settings if setting.rates]
        return max(measured, key=lambda setting: setting.median or 0.0, default=None)

    @property
    def failed(self) -> tuple[Setting, ...]:
        """All settings without numbers, those of peers included."""
        return tuple(setting for setting in (*self.settings, *self.peers) if setting.failure is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of JSON types."""
        return {"format": FORMAT, **encode(self)}

    @classmethod
    def from_dict(cls, data: Any) -> Result:
        """Return the result of which `to_dict` made this.

        Raises:
            ResultError: It is of another format, or damaged.
        """
        if not isinstance(data, dict) or "format" not in data:
            raise ResultError("this is no result of nogil-loader bench: it has no format")
        if data["format"] != FORMAT or isinstance(data["format"], bool):
            raise ResultError(
                f"format {data['format']!r}: this version of nogil_loader reads format {FORMAT}"
            )
        try:
            return decode(cls, data)
        except DecodeError as error:
            raise ResultError(f"damaged: {error}") from None

    def to_json(self) -> str:
        """Return the text of a JSON file."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"


def read_result(path: Path) -> Result:
    """Read what ``nogil-loader bench --json`` wrote.

    Raises:
        ResultError: The file cannot be read, or has something else in it; the message begins with its name.
    """
    try:
        return Result.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ResultError(f"{path}: not JSON: {error}") from error
    except (ResultError, UnicodeDecodeError, RecursionError) as error:
        raise ResultError(f"{path}: {error}") from error
