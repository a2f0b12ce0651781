"""Bars that rich draws: all bars of a terminal in one display, one below the other.

A thread draws them a few times a second, so a batch costs nothing and a consumer that waits sees for what.

* The thread keeps no epoch alive, and ends with the last bar.
* ``_lock`` is held while something is drawn, never while an epoch is read, whose locks are not ours. A finaliser
  does not wait for it: then the thread does what is left to do.
* A terminal that goes away costs the bars, nothing else.
* Rich puts what is printed above the bars. What goes to a file or a pipe is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from nogil_loader.observe.progress.reading import Eye, Reading
from nogil_loader.observe.progress.surroundings import is_terminal

# Seconds between two drawings, each of which takes about 1 ms of a processor.
PERIOD = 0.2
# How long a consumer waits for its turn to draw, in seconds. Others draw for milliseconds, unless their terminal
# takes nothing; then it does without.
_PATIENCE = 1.0
# Columns between two texts; that a bar has at most, beside remarks, and at least to be worth drawing.
_GAP, _WIDEST, _BAR, _NARROWEST = 2, 40, 10, 5

_lock = threading.Lock()
_displays: list[Display] = []


class TerminalBar:
    """One bar.

    Args:
        eye: Reads the epoch.
        description: What stands to the left.
        leave: Whether the bar stays when it has ended; None for all but those that begin below another one.
    """

    period = math.inf

    def __init__(self, eye: Eye, description: str, leave: bool | None) -> None:
        self._eye = eye
        self.description = description
        self.leave_line = leave
        self.ended = ""
        self._latest = eye.read()
        self._final: Reading | None = None  # not to be overtaken by what the display's thread has just read

    def look(self) -> None:
        """The display's thread looks."""

    @property
    def reading(self) -> Reading:
        """What to show."""
        return self._latest if self._final is None else self._final

    def read(self) -> None:
        """Look at the epoch."""
        self._latest = self._eye.read()
        if self._eye.is_gone and not self.ended:
            self.ended = "stopped"

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Take the bar off the display."""
        self._final = self._eye.last(how)
        self.ended = how
        with _turn(0 if finalizing else _PATIENCE) as mine:
            for display in _displays[:] if mine else ():
                display.sweep()


class Display:
    """The bars of one console.

    Args:
        console: Rich's.
    """

    def __init__(self, console: Any) -> None:
        from rich.live import Live

        self.console = console
        self._bars: list[TerminalBar] = []
        self._over = threading.Event()
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,  # lines that stay are printed
            redirect_stdout=is_terminal(sys.stdout),
            redirect_stderr=is_terminal(sys.stderr),
        )

    def start(self) -> None:
        """Begin to draw.

        Raises:
            rich.errors.LiveError: Something else draws on this console, and this version of rich allows only one.
        """
        self._live.start()
        _displays.append(self)
        threading.Thread(target=self._run, name="nogil_loader-progress", daemon=True).start()

    def add(self, bar: TerminalBar) -> None:
        """Show one more bar."""
        if bar.leave_line is None:
            bar.leave_line = not self._bars
        self._bars.append(bar)
        self._draw()

    def _run(self) -> None:
        while not self._over.wait(PERIOD):
            for bar in list(self._bars):
                bar.read()
            with _turn(PERIOD) as mine:
                if mine and not self._over.is_set():
                    self._draw()
                    self.sweep()

    def _draw(self) -> None:
        table = self._table(self._bars)
        with self._drawing():
            self._live.update(table, refresh=True)

    def sweep(self) -> None:
        """Let go of bars that have ended, and of the terminal with the last one."""
        ended = [bar for bar in self._bars if bar.ended]
        if not ended and self._bars:
            return
        self._bars = [bar for bar in self._bars if not bar.ended]
        rest, lines = self._table(self._bars), [self._table([bar]) for bar in ended if bar.leave_line]
        with self._drawing():
            self._live.update(rest)
            for line in lines:
                self.console.print(line)
            self._live.refresh()
        if not self._bars:
            self.stop()

    def stop(self) -> None:
        """Give the terminal back."""
        self._over.set()
        if self in _displays:
            _displays.remove(self)
        with self._drawing():
            self._live.stop()

    def forget(self) -> None:
        """In the child of a fork, let what is printed go where it went before; the terminal is the parent's."""
        self.console.pop_render_hook()
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            setattr(sys, name, getattr(stream, "rich_proxied_file", stream))

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        # EIO from a terminal that was closed, ValueError from a stream that was.
        with contextlib.suppress(OSError, ValueError):
            yield

    def _table(self, bars: list[TerminalBar]) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, _GAP, 0, 0))
        rows = [(bar.description, bar.reading.figures, bar.reading.remarks) for bar in bars]
        if not rows:
            return table
        name, figures, remarks = (
            max(Text(text).cell_len for text in column) for column in zip(*rows, strict=True)
        )
        name = min(name, self.console.width // 3)
        room = self.console.width - name - figures - 2 * _GAP
        bar = min(_WIDEST, max(min(_BAR, room), room - remarks - _GAP))
        widths = [name, bar, figures, min(remarks, room - bar - _GAP)]
        if bar < _NARROWEST:
            widths[1] = widths[3] = 0
        elif widths[3] < _NARROWEST:
            widths[3] = 0
        for each, (name_, figures_, remarks_) in zip(bars, rows, strict=True):
            cells = [Text(name_), _drawn(each, bar), Text(figures_), Text(remarks_, style="dim")]
            table.add_row(*(cell for cell, width in zip(cells, widths, strict=True) if width > 0))
        for column, width in zip(table.columns, [width for width in widths if width > 0], strict=True):
            column.width, column.no_wrap, column.overflow = width, True, "ellipsis"
        return table


def _drawn(bar: TerminalBar, width: int) -> Any:
    from rich.progress_bar import ProgressBar

    done, total = bar.reading.done, bar.reading.total
    if total is None and bar.ended:
        done, total = int(bar.ended == "complete"), 1
    return ProgressBar(total=total, completed=done, width=max(0, width), pulse=total is None)


def terminal_bar(
    eye: Eye, description: str, *, file: TextIO | None, leave: bool | None
) -> TerminalBar | None:
    """Begin a bar; None where something else draws on the terminal and rich cannot share it."""
    from rich.errors import LiveError

    bar = TerminalBar(eye, description, leave)
    console = _console(file)
    with _turn(_PATIENCE) as mine:
        if not mine:
            return None
        display = next((each for each in _displays if each.console.file is console.file), None)
        if display is None:
            display = Display(console)
            try:
                display.start()
            except LiveError:
                return None
            except RuntimeError:  # the system gives no more threads
                display.stop()
                return None
        display.add(bar)
    return bar


def _console(file: TextIO | None) -> Any:
    import rich
    from rich.console import Console

    # The one that the user's own rich output goes to, so that it goes above the bars.
    shared = rich.get_console()
    if shared.file is file or (file is None and is_terminal(shared.file)):
        return shared
    return Console(stderr=True) if file is None else Console(file=file)


@contextlib.contextmanager
def _turn(seconds: float) -> Iterator[bool]:
    """Hold the lock if it is to be had within so many seconds."""
    mine = _lock.acquire(timeout=seconds) if seconds else _lock.acquire(blocking=False)
    try:
        yield mine
    finally:
        if mine:
            _lock.release()


@atexit.register
def _stop_all() -> None:
    """Give all terminals back; the cursor would stay hidden."""
    with _turn(_PATIENCE) as mine:
        for display in _displays[:] if mine else ():
            display.stop()


_held_for_fork = False


def _before_fork() -> None:
    # A thread that draws at that moment would leave rich's locks held in the child.
    global _held_for_fork
    _held_for_fork = bool(_displays) and _lock.acquire(timeout=_PATIENCE)


def _after_fork_in_parent() -> None:
    global _held_for_fork
    if _held_for_fork:
        _held_for_fork = False
        _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for display in _displays:
        display.forget()
    _displays.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
