"""Threads that call the dataset, each call with a limit of time.

What holds:

1. Nobody waits for a call without a limit. A call that does not return is given up on with its thread, a daemon
   that ends when the call does.
2. What a job raises comes back to whoever gave it.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from nogil_loader.check.outcome import Hung, stack_lines

_OWN = os.path.join(os.path.dirname(__file__), "")
# How often it is looked whether a call takes too long. Results are waited for without any delay.
_STEP = 0.05
# For a thread that has nothing to do any more. It takes microseconds.
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Report:
    """What a thread has to say: that a job is done, or anything that the job says on the way."""

    hand: Hand
    job: int
    news: Any = None
    result: Any = None
    error: BaseException | None = None
    is_end: bool = True


class Hand:
    """A thread that does one job after the other.

    Attributes:
        number: From 0.
        at: What it is calling now and since when (`time.monotonic`); None between calls.
        is_lost: Whether it was given up on.
    """

    def __init__(self, number: int, outbox: SimpleQueue[Report], context: contextvars.Context) -> None:
        self.number = number
        self.at: tuple[int, float] | None = None
        self.is_lost = False
        self.box: dict[str, Any] = {}
        self._outbox = outbox
        self._jobs: SimpleQueue[tuple[int, Callable[[Hand], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=context.run, args=(self._live,), name=f"check-{number}", daemon=True
        )
        self._thread.start()

    def begin(self, number: int, job: Callable[[Hand], Any]) -> None:
        """Start a job."""
        self._jobs.put((number, job))

    def say(self, number: int, news: Any) -> None:
        """Report something in the middle of a job; called in the thread."""
        self._outbox.put(Report(self, number, news, is_end=False))

    def end(self) -> None:
        """Tell the thread to end."""
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(seconds)

    def stack(self) -> tuple[str, ...]:
        """Where the dataset's code is now, innermost call last."""
        return stack_lines(self._thread.ident, _OWN)

    def spot(self) -> object:
        """Return something that is the same as before only if the thread has not got on."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return None if frame is None else (id(frame), frame.f_lasti)

    def is_asleep(self) -> bool:
        """Whether the thread waits for something other than a processor, as far as the system tells."""
        try:
            state = Path(f"/proc/self/task/{self._thread.native_id}/stat").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return True
        return state.rpartition(")")[2].split()[0] != "R"

    def _live(self) -> None:
        while (order := self._jobs.get()) is not None:
            number, job = order
            del order
            try:
                report = Report(self, number, result=job(self))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever gave the job
                report = Report(self, number, error=error)
            del job
            self._outbox.put(report)
            del report


class Crew:
    """Some threads and what comes back from them; a context manager that ends them.

    Args:
        size: How many.
        seconds: What one call may take.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self.seconds = seconds
        self._outbox: SimpleQueue[Report] = SimpleQueue()
        self._context = contextvars.copy_context()
        self._given = 0
        self._lost: list[Hand] = []
        self.hands = [self._hire(number) for number in range(size)]

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for hand in [*self.hands, *self._lost]:
            hand.end()
        deadline = time.monotonic() + (_END_SECONDS if kind is None else 0.0)
        for hand in self.hands:
            hand.join(max(0.0, deadline - time.monotonic()))

    def begin(self, hand: Hand, job: Callable[[Hand], Any]) -> int:
        """Give a hand a job and return the job's number."""
        self._given += 1
        hand.begin(self._given, job)
        return self._given

    def next_report(self, seconds: float) -> Report | None:
        """Return what a hand has to say next, None if nobody says anything for so long.

        Raises:
            BaseException: A job has failed by a fault of this program.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                report = self._outbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return None
            if report.hand.is_lost:
                continue  # it came back after all, too late
            if report.error is not None:
                raise report.error
            return report

    def do(self, hand: Hand, job: Callable[[Hand], Any]) -> Any:
        """Let a hand do a job of one call, and return the result, or a `Hung` if the call does not return."""
        number = self.begin(hand, job)
        report = self.next_report(self.seconds)
        if report is None:
            hung = Hung(self.seconds, hand.stack())
            self.give_up(hand)
            return hung
        assert report.job == number, "only one job is being done"
        return report.result

    def do_all(
        self, jobs: Iterable[tuple[Hand, Callable[[Hand], Any]]], on_late: Callable[[list[Hand]], object]
    ) -> dict[Hand, Any]:
        """Let hands do jobs of many calls at once, and return their results; see `collect`."""
        return self.collect({self.begin(hand, job): hand for hand, job in jobs}, on_late)

    def collect(self, pending: dict[int, Hand], on_late: Callable[[list[Hand]], object]) -> dict[Hand, Any]:
        """Wait for jobs that have begun, and return their results, without those that are stuck in a call.

        Args:
            pending: Number of a job → whose it is.
            on_late: Called once with the hands that are stuck, before they are given up on; has to see to it
                that the jobs of the others end.
        """
        pending, results = dict(pending), {}
        told = False
        while pending:
            report = self.next_report(_STEP)
            if report is not None:
                if report.is_end:
                    results[report.hand] = report.result
                    del pending[report.job]
                continue
            now = time.monotonic()
            late = [hand for hand in pending.values() if _is_late(hand, now, self.seconds)]
            if late and not told:
                # Those that wait for each other began at about the same time.
                late = [hand for hand in pending.values() if _is_late(hand, now, self.seconds / 2)]
                told = True
                on_late(late)
            for hand in late:
                self.give_up(hand)
            pending = {number: hand for number, hand in pending.items() if hand not in late}
        return results

    def give_up(self, hand: Hand) -> None:
        """Have another thread in the place of one that does not come back."""
        hand.is_lost = True
        self._lost.append(hand)
        self.hands[hand.number] = self._hire(hand.number)

    def _hire(self, number: int) -> Hand:
        return Hand(number, self._outbox, self._context.copy())


def _is_late(hand: Hand, now: float, seconds: float) -> bool:
    at = hand.at
    return at is not None and now - at[1] > seconds
