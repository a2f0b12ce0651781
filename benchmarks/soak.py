"""Stress without an end in sight: ``python -m benchmarks.soak --seconds 3600``, or ``./dev soak``.

Each round draws a loader, a policy and a set of faults from its seed, and reads some epochs to their end through
all that goes wrong: samples that raise once, a few times or always, in every way there is to raise,
``SystemExit`` included, and workers killed from outside at arbitrary bytecodes. When an epoch dies or is left
early, the position is saved, and the same loader or a new one goes on from there.

Checked is what the loader promises: every planned sample arrives exactly once or is on record as skipped, in
the order that a loader without workers and faults gives, nothing hangs, and no thread outlives its loader. The
first violation ends the run with the seed that repeats its round.

``--memory`` stresses the loader under memory limits instead; see ``benchmarks.soak_memory``.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import faulthandler
import random
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

import nogil_loader as nl
from benchmarks import soak_memory
from nogil_loader.bench.cgroup import why_not

# A round takes a second or two; one that takes this long hangs.
_HANG_SECONDS = 60.0
# A worker that was killed while it holds nothing may take the pool's idle step to notice the end.
_GONE_SECONDS = 5.0
_WORKER_THREADS = "nogil_loader-"
_WAYS_TO_RAISE: tuple[type[BaseException], ...] = (
    ValueError,
    OSError,
    MemoryError,
    StopIteration,
    IndexError,
    GeneratorExit,
    KeyboardInterrupt,
    SystemExit,
)


class Violation(AssertionError):
    """A promise was broken."""


@dataclasses.dataclass
class Audit:
    """What happened so far."""

    rounds: int = 0
    epochs: int = 0
    planned: int = 0
    delivered: int = 0
    skipped: int = 0
    raised: int = 0
    killed: int = 0
    deaths: int = 0
    left_early: int = 0

    def __str__(self) -> str:
        fields = ", ".join(f"{name} {value:,}" for name, value in dataclasses.asdict(self).items())
        return f"soak: {fields}"


class Faulty:
    """Samples that are their own index, and raise as often as they are told to.

    Args:
        length: Samples.
        faults: For each faulty index, what it raises and how many times; a negative number is for ever.
    """

    def __init__(self, length: int, faults: dict[int, tuple[type[BaseException], int]]) -> None:
        self.length = length
        self.raised = 0
        self._faults = dict(faults)
        self._lock = threading.Lock()

    def heal(self) -> None:
        """Let nothing raise any more."""
        with self._lock:
            self._faults.clear()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            kind, times = self._faults.get(index, (ValueError, 0))
            if times:
                self._faults[index] = (kind, times - 1)
                self.raised += 1
        if times:
            raise kind(f"sample {index}")
        return np.full(3, index)


class FaultyInBatches(Faulty):
    """The same, read a batch at a time."""

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self[int(index)] for index in indices]


class Killer(threading.Thread):
    """Raises ``SystemExit`` in random worker threads, wherever they are."""

    def __init__(self, chance: random.Random, pause: float) -> None:
        super().__init__(name="soak-killer", daemon=True)
        self.killed = 0
        self._chance = chance
        self._pause = pause
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.wait(self._chance.expovariate(1 / self._pause)):
            frames = sys._current_frames()
            victims = [
                thread.ident
                for thread in _worker_threads()
                if thread.ident is not None and _can_be_killed(frames.get(thread.ident))
            ]
            del frames
            if victims:
                victim = ctypes.c_ulong(self._chance.choice(victims))
                self.killed += ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    victim, ctypes.py_object(SystemExit)
                )

    def stop(self) -> None:
        self._enough.set()
        self.join()


def _can_be_killed(frame: FrameType | None) -> bool:
    """Whether a thread with this innermost frame is one that Python itself lets be killed cleanly.

    A kill meant for a thread that is in ``Thread.start()`` may hit the new thread instead, whose state carries
    its parent's ident until it runs; and one that hits a new thread before it has told its parent that it runs
    leaves the parent in ``Thread.start()`` for ever.
    """
    codes = set()
    while frame is not None:
        codes.add(frame.f_code)
        frame = frame.f_back
    return threading.Thread.run.__code__ in codes and threading.Thread.start.__code__ not in codes


def _worker_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(_WORKER_THREADS)]


class Round:
    """One draw of everything, and the epochs read with it."""

    def __init__(self, seed: int, audit: Audit) -> None:
        self.chance = chance = random.Random(seed)
        self.audit = audit
        length = chance.choice((0, 1, 7, 100, 500, 1000))
        workers = chance.choice((0, 1, 2, 2, 4, 8))
        # In the caller's own thread it is Ctrl-C, which passes through.
        ways = [way for way in _WAYS_TO_RAISE if workers or way is not KeyboardInterrupt]
        faults = {
            index: (chance.choice(ways), chance.choice((1, 1, 1, 2, 5, -1)))
            for index in chance.sample(range(length), min(length, chance.choice((0, 1, 5, 20))))
        }
        self.dataset = chance.choice((Faulty, FaultyInBatches))(length, faults)
        self.same_stream: dict[str, Any] = {
            "batch_size": chance.choice((1, 3, 8, 64)),
            "shuffle": chance.random() < 0.5,
            "seed": chance.getrandbits(32),
        }
        self.options: dict[str, Any] = {
            "num_workers": workers,
            "prefetch_factor": chance.choice((1, 2, 4)),
            "persistent_workers": chance.random() < 0.5,
            "in_order": chance.random() < 0.75,
            "on_failure": chance.choice(
                ("raise", "rebuild", "skip", nl.FailurePolicy(rebuild=1, skip=5), nl.FailurePolicy(skip=0.5))
            ),
        }
        self.leaves_early = chance.random() < 0.3
        # Without workers there is nobody to kill but the consumer.
        self.kills = workers > 0 and chance.random() < 0.4

    def __str__(self) -> str:
        extras = {"leaves_early": self.leaves_early, "kills": self.kills}
        return (
            f"{type(self.dataset).__name__}({len(self.dataset)}), {self.same_stream | self.options | extras}"
        )

    def read(self, epochs: int) -> None:
        """Read some epochs to their end.

        Raises:
            Violation: A promise was broken.
        """
        self.loader = self._new_loader()
        for epoch in range(epochs):
            self._read_epoch(epoch)
        self.loader.close()
        _check_threads()

    def _new_loader(self) -> Any:
        return nl.DataLoader(self.dataset, **self.same_stream, **self.options)

    def _read_epoch(self, epoch: int) -> None:
        planned = self._plan(epoch)
        delivered: list[int] = []
        skipped: list[int] = []
        attempts = 0
        while not self._read_on(delivered, skipped):
            attempts += 1
            if attempts == 10:
                self.dataset.heal()
            if attempts > 1000:
                raise Violation(f"epoch {epoch} does not end: {len(delivered)} of {len(planned)} delivered")
            self._go_on()
        _compare(planned, delivered, skipped, in_order=self.options["in_order"])
        self.audit.epochs += 1
        self.audit.planned += len(planned)
        self.audit.delivered += len(delivered)
        self.audit.skipped += len(skipped)

    def _plan(self, epoch: int) -> list[int]:
        reference = nl.DataLoader(Faulty(len(self.dataset), {}), num_workers=0, **self.same_stream)
        reference.set_epoch(epoch)
        return [int(sample[0]) for batch in reference for sample in batch]

    def _read_on(self, delivered: list[int], skipped: list[int]) -> bool:
        """Read until the epoch is over, dies or is left; True when it is over."""
        known = len(self.loader.skipped)
        leave_after = self.chance.randrange(1, 20) if self.leaves_early else -1
        try:
            for batch in self.loader:
                delivered.extend(int(sample[0]) for sample in batch)
                leave_after -= 1
                if leave_after == 0:
                    self.audit.left_early += 1
                    return False
        except nl.DeadWorkerError:
            self.audit.deaths += 1
            return False
        finally:
            skipped.extend(record.index for record in self.loader.skipped[known:])
        return True

    def _go_on(self) -> None:
        state = self.loader.state_dict()
        if self.chance.random() < 0.5:
            self.loader.rebuild()
        else:
            self.loader.close()
            self.loader = self._new_loader()
        self.loader.load_state_dict(state)


def _compare(planned: list[int], delivered: list[int], skipped: list[int], *, in_order: bool) -> None:
    left_out = set(skipped)
    expected = [index for index in planned if index not in left_out]
    if len(left_out) != len(skipped):
        raise Violation(f"skipped more than once: {sorted(skipped)}")
    if (delivered if in_order else sorted(delivered)) != (expected if in_order else sorted(expected)):
        twice = sorted({index for index in delivered if delivered.count(index) > 1})
        missing = sorted(set(expected) - set(delivered))
        unplanned = sorted(set(delivered) - set(expected))
        raise Violation(
            f"{len(planned)} planned, {len(delivered)} delivered, {len(skipped)} skipped; twice: {twice[:20]}, "
            f"missing: {missing[:20]}, skipped or unplanned and yet delivered: {unplanned[:20]}; in the wrong "
            f"order, if these are empty"
        )


def _check_threads() -> None:
    deadline = time.monotonic() + _GONE_SECONDS
    while left := _worker_threads():
        if time.monotonic() > deadline:
            frames = sys._current_frames()
            stacks = [
                f"{thread.name}:\n{''.join(traceback.format_stack(frames.get(thread.ident or 0)))}"
                for thread in left
            ]
            raise Violation("threads outlive their closed loader:\n" + "\n".join(stacks))
        time.sleep(0.01)


@contextmanager
def _killing(round_: Round, seed: int) -> Iterator[None]:
    if not round_.kills:
        yield
        return
    killer = Killer(random.Random(~seed), pause=0.01)
    killer.start()
    try:
        yield
    finally:
        killer.stop()
        round_.audit.killed += killer.killed


def soak(seed: int, seconds: float, rounds: int | None) -> int:
    """Run rounds until the time or their number is over; 0 if every promise was kept."""
    audit = Audit()
    end = time.monotonic() + seconds
    report_at = time.monotonic() + 10
    while time.monotonic() < end and audit.rounds != rounds:
        round_seed = seed + audit.rounds
        round_ = Round(round_seed, audit)
        # The last line before a hang says which round it is; then every thread's stack, then exit code 1.
        print(f"\rround {round_seed} ", end="", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
        try:
            with _killing(round_, round_seed):
                round_.read(epochs=round_.chance.randint(1, 3))
        except Exception as error:
            print(f"\n{audit}\nround {round_seed}: {round_}", file=sys.stderr)
            print(f"broken: {type(error).__name__}: {error}", file=sys.stderr)
            print(f"again: python -m benchmarks.soak --seed {round_seed} --rounds 1", file=sys.stderr)
            if not isinstance(error, Violation):
                raise
            return 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        audit.rounds += 1
        audit.raised += round_.dataset.raised
        if time.monotonic() > report_at:
            print(f"\r{audit}", flush=True)
            report_at += 10
    print(f"\r{audit}; every promise kept (seeds {seed} to {seed + audit.rounds - 1})")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Stress the loader.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: %(default)g)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first round; the next has the next number"
    )
    parser.add_argument("--rounds", type=int, default=None, help="stop after so many rounds")
    parser.add_argument("--memory", action="store_true", help="under memory limits, which takes root")
    options = parser.parse_args()
    if options.memory and (reason := why_not()):
        parser.error(reason)
    stress = soak_memory.soak if options.memory else soak
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return stress(seed, options.seconds, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
