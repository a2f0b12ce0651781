"""The process that measures one setting: ``python -m nogil_loader.bench.child FOLDER``.

Each measurement has a process of its own. What a loader leaves behind, threads, imports or memory, cannot help or
hurt the next one, workers that are forked meet no foreign threads, and what crashes, crashes alone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from nogil_loader.bench.decode import decode, encode
from nogil_loader.bench.failures import failure_of
from nogil_loader.bench.feeds import Feed, OurFeed, PeerFeed, Plan, Totals
from nogil_loader.bench.measure import Reader, Reading, peak_bytes
from nogil_loader.bench.observing import Timelines, watch_gil
from nogil_loader.bench.result import OURS, BatchSeconds, Memory, Queue, Setting
from nogil_loader.bench.subject import Subject, find_subject, parse_place
from nogil_loader.bench.task import ANSWER, TASK, About, Answer, Refusal, Task
from nogil_loader.data.protocols import is_map_style
from nogil_loader.targets import TargetError

# How often a child looks whether its parent is still there.
_LOOK_SECONDS = 1.0


def main(folder: Path) -> None:
    """Do the task in a folder, leave the answer there, and end the process whatever still runs in it."""
    task = decode(Task, json.loads((folder / TASK).read_text(encoding="utf-8")))
    threading.Thread(target=_end_with_parent, args=(task.parent,), daemon=True).start()
    answer = json.dumps(encode(answer_to(task)), allow_nan=False)
    partial = folder / f"{ANSWER}.part"
    partial.write_text(answer, encoding="utf-8")
    os.replace(partial, folder / ANSWER)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a thread that hangs in user code, or workers that wait for their queue, would hold it up.
    os._exit(0)


def answer_to(task: Task) -> Answer:
    """Measure what the task says."""
    try:
        subject = find_subject(parse_place(task.target))
    except TargetError as error:
        return Answer(Refusal(str(error), error.trace))
    epochs = 0
    feed: Feed | None = None
    try:
        feed = _open(task, subject)
        setting, epochs = _measure(task, subject, feed)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the sweep goes on
        failed = feed.failed if isinstance(feed, PeerFeed) else None
        note = "" if feed is None else feed.note
        setting = _setting(task, subject, failure=failure_of(error, failed), note=note)
    if feed is not None:
        feed.close()
    about = About(
        str(subject),
        subject.length,
        subject.is_loader,
        subject.no_peers,
        _has_gil(),
        iterable=not is_map_style(subject.dataset),
    )
    return Answer(None, about, setting, epochs)


def _open(task: Task, subject: Subject) -> Feed:
    if task.loader == OURS:
        loader = subject.loader(
            num_workers=task.num_workers,
            prefetch_factor=task.prefetch_factor,
            batch_size=task.batch_size,
            seed=task.seed,
        )
        return OurFeed(loader)
    from nogil_loader.bench.peers import PEERS

    plan = Plan(subject, task.batch_size, task.seed)
    return PEERS[task.loader].open(subject, plan, task.num_workers, task.prefetch_factor)


def _measure(task: Task, subject: Subject, feed: Feed) -> tuple[Setting, int]:
    reader = Reader(feed)
    # Until as many batches came as may be under way at once: then as many are begun as are finished.
    reader.fill(task.num_workers * (task.prefetch_factor + 1) + 1, task.seconds)
    before = feed.totals() if isinstance(feed, OurFeed) else None
    reading = reader.read(task.seconds, task.num_workers)
    told = _told_by_us(feed, before, reading) if isinstance(feed, OurFeed) and before else {}
    memory = Memory(peak_bytes(), task.memory_limit)
    if task.observe:
        memory, told = _observe(task, reader, feed, memory, told)
    if isinstance(feed, OurFeed):
        memory = _with_governor(memory, feed)
    own, others = reading.cpu_seconds, reading.other_seconds
    told["cpu_cores"] = None if own is None else own / reading.seconds
    told["other_cores"] = None if others is None else others / reading.seconds
    setting = _setting(task, subject, rates=(reading.rate,), memory=memory, note=feed.note, **told)
    return setting, reading.epochs


def _told_by_us(feed: OurFeed, before: Totals, reading: Reading) -> dict[str, Any]:
    """What our loader tells of the time that was measured."""
    added, typical = feed.totals().since(before), feed.typical()
    times, cpu = typical.batch_seconds, typical.cpu
    return {
        "stages": dict(added.stages),
        "wait_share": min(1.0, added.waited / reading.seconds),
        "batch_seconds": None if times is None else BatchSeconds(times.p50, times.p90, times.p99),
        "cpu_share": None if cpu is None else cpu.share,
        "gil_wanted": None if cpu is None else cpu.gil_wanted,
    }


def _observe(
    task: Task, reader: Reader, feed: Feed, memory: Memory, told: dict[str, Any]
) -> tuple[Memory, dict[str, Any]]:
    """Go on for as long again, and look on meanwhile; then once more for the GIL.

    The two are apart, since watching the GIL takes a compiler, whose memory is not the loader's.
    """
    read = partial(reader.read, task.seconds, task.num_workers)
    with Timelines(feed) as timelines:
        read()
    peak = max([peak_bytes() or 0, *(int(nbytes) for _, nbytes in timelines.memory)])
    if isinstance(feed, OurFeed):
        queue = Queue(feed.typical().queue.capacity, tuple(timelines.ready))
        told = {**told, "queue": queue, "gil": watch_gil(read, workers=task.num_workers)}
    return Memory(peak or None, memory.limit, tuple(timelines.memory)), told


def _with_governor(memory: Memory, feed: OurFeed) -> Memory:
    now = feed.now().memory
    if now is None:
        return memory
    # How much room there is, in eighths, follows what others use; it takes nothing away by itself.
    events = [event for event in now.events if event.allowance != "room"]
    shrinks = sum(event.after < event.before for event in events) + now.splits + now.cuts
    return Memory(memory.peak_bytes, memory.limit or now.limit, memory.timeline, shrinks)


def _setting(task: Task, subject: Subject, **measured: Any) -> Setting:
    size = subject.arguments.get("batch_size") if task.batch_size is None else task.batch_size
    return Setting(task.loader, task.num_workers, task.prefetch_factor, size, **measured)


def _has_gil() -> bool:
    is_enabled = getattr(sys, "_is_gil_enabled", None)  # Python 3.13
    return True if is_enabled is None else bool(is_enabled())


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
