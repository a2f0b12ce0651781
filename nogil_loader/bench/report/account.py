"""The parts of the report that are lists: what failed, how peers were driven, and where it was measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime

from nogil_loader.bench.report.naming import count, loader_name
from nogil_loader.bench.report.numbers import NOTHING, nbytes, number, seconds
from nogil_loader.bench.report.svg import element
from nogil_loader.bench.report.words import clip, escape
from nogil_loader.bench.result import Result, Setting

# What is shown of a message, of a description, of the key of a sample, and of a worker's name.
_ERROR_LIMIT, _TEXT_LIMIT, _SAMPLE_LIMIT, _WORD_LIMIT = 600, 300, 200, 60


def list_failures(settings: Iterable[Setting]) -> str:
    """Return what failed, with the sample and the error of each."""
    return element("ul", "".join(map(_failure, settings)), class_="failures")


def _failure(setting: Setting) -> str:
    failure = setting.failure
    if failure is None:
        return ""
    where = [escape(loader_name(setting)), count(setting.num_workers, "worker")]
    if setting.prefetch_factor is not None and setting.num_workers:
        where.append(f"prefetch {setting.prefetch_factor}")
    if setting.batch_size is not None:
        where.append(f"batch {setting.batch_size}")
    told = [element("b", ", ".join(where))]
    if failure.sample is not None:
        told.append(f"at sample {_users(failure.sample, _SAMPLE_LIMIT, 'code')}")
    if failure.worker is not None:
        told.append(f"in worker {_users(failure.worker, _WORD_LIMIT)}")
    return element("li", f"{' '.join(told)}{_users(failure.error, _ERROR_LIMIT, 'pre')}")


def list_notes(peers: Iterable[Setting]) -> str:
    """Return how peers were driven, each once."""
    notes = dict.fromkeys((loader_name(peer), peer.note) for peer in peers if peer.note)
    return _pairs((name, _users(note, _TEXT_LIMIT)) for name, note in notes)


def describe_run(result: Result) -> str:
    """Return where, when and how it was measured."""
    machine, options = result.machine, result.options
    quota = "no quota" if machine.quota is None else f"a quota of {number(machine.quota)}"
    sizes = options.batch_sizes or (() if result.batch_size is None else (result.batch_size,))
    pairs = {
        "date": _date(result.created),
        "target": result.target,
        "dataset": result.dataset,
        "samples": "unknown" if result.length is None else number(result.length),
        "processor": machine.cpu,
        "usable cores": f"{machine.cores}, {quota}",
        "memory": nbytes(machine.memory_bytes),
        "memory limit": "none" if result.memory_limit is None else nbytes(result.memory_limit),
        "load before": number(machine.load),
        "system": machine.system,
        "Python": f"{machine.python}, {'with' if machine.gil else 'without'} the GIL",
        "packages": ", ".join(f"{name} {version}" for name, version in machine.packages.items()),
        "each setting": f"{count(options.repeats, 'round')} of at least {seconds(options.seconds)}, taking turns",
        "workers": _listed(options.workers),
        "prefetch": _listed(options.prefetch),
        "batch size": _listed(sizes) or "none",
        "compared with": ", ".join(options.compare) or "none",
        "seed": str(options.seed),
    }
    return _pairs((name, _users(value, _TEXT_LIMIT)) for name, value in pairs.items())


def _date(created: str) -> str:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(created).strftime("%Y-%m-%d %H:%M %Z").strip()
    return created


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    inside = "".join(element("dt", escape(name)) + element("dd", value) for name, value in pairs)
    return element("dl", inside) if inside else ""


def _users(words: str, most: int, tag: str = "bdi") -> str:
    """Return text that is not ours: cut, and on its own as to the direction of reading."""
    return element(tag, escape(clip(words, most)) or NOTHING)


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
