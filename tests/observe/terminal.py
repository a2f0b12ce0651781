"""A terminal for tests: a real pseudo-terminal, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from tests.loading import PATIENCE
from tests.scripts import REPOSITORY

COLUMNS, LINES = 110, 24
# What programs are told about the terminal; nothing that makes rich or tqdm decide otherwise.
ENVIRONMENT = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
UNSET = (
    *("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS", "TQDM_DISABLE"),
    *("TQDM_MININTERVAL", "TQDM_NCOLS", "TQDM_ASCII"),
)

_PIECE = re.compile(
    r"\x1b\[(?P<number>\??[\d;]*)(?P<code>[A-Za-z])|(?P<control>[\r\n\x07])|(?P<text>[^\x1b\r\n\x07]+)"
)


class Screen:
    """What is left on a screen after some bytes; a sequence that it does not know is an error.

    Attributes:
        is_cursor_hidden: Whether the cursor is hidden.
    """

    def __init__(self, written: bytes) -> None:
        self.is_cursor_hidden = False
        self._lines: list[str] = [""]
        self._row = self._column = 0
        text = written.decode("utf-8", errors="ignore")  # the last character may be half of one
        position = 0
        while position < len(text):
            piece = _PIECE.match(text, position)
            if piece is None:
                assert len(text) - position < 10, f"unknown sequence: {text[position : position + 20]!r}"
                break  # the last sequence may be half of one
            position = piece.end()
            self._apply(piece)

    def _apply(self, piece: re.Match[str]) -> None:
        code, number = piece["code"], piece["number"]
        if piece["text"]:
            self._write(piece["text"])
        elif piece["control"] == "\r":
            self._column = 0
        elif piece["control"] == "\n":
            self._move_down()
        elif code == "A":
            self._row = max(0, self._row - int(number or 1))
        elif code == "K":
            assert number == "2", f"unknown way to erase a line: {number}"
            self._lines[self._row] = ""
        elif code in ("h", "l"):
            assert number == "?25", f"unknown mode: {number}"
            self.is_cursor_hidden = code == "l"
        else:
            assert code in ("m", None), f"unknown sequence: {piece[0]!r}"

    def _write(self, text: str) -> None:
        while text:
            if self._column == COLUMNS:  # a full line is left only when there is more to come
                self._move_down()
                self._column = 0
            now, text = text[: COLUMNS - self._column], text[COLUMNS - self._column :]
            line, end = self._lines[self._row].ljust(self._column), self._column + len(now)
            self._lines[self._row] = line[: self._column] + now + line[end:]
            self._column = end

    def _move_down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line.rstrip() for line in self._lines if line.strip()]

    @property
    def is_at_line_start(self) -> bool:
        """Whether a shell's prompt would stand on a line of its own."""
        return self._column == 0 and not self._lines[self._row].strip()


class Terminal:
    """A pseudo-terminal, read by a thread.

    Attributes:
        stream: For writing to it.
        written: What came out at its other end.
    """

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.stream: TextIO = open(slave, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as this
        self.written = b""
        self._change = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                got = os.read(self._master, 65536)
            except OSError:  # nobody has the other end open any more
                got = b""
            with self._change:
                self.written += got
                self._change.notify_all()
            if not got:
                return

    def wait_for(self, words: str) -> None:
        """Wait until the screen shows some words."""
        with self._change:
            assert self._change.wait_for(
                lambda: any(words in line for line in Screen(self.written).lines), PATIENCE
            ), f"{words!r} is not shown: {Screen(self.written).lines}"

    def close(self) -> Screen:
        """Hang up, and return what the screen shows."""
        self.stream.close()
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive(), "somebody has the terminal open"
        os.close(self._master)
        return Screen(self.written)


@contextmanager
def terminal(patch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Open a terminal, in surroundings that say nothing else."""
    opened = Terminal()
    for name in UNSET:
        patch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    try:
        yield opened
    finally:
        patch.undo()
        if not opened.stream.closed:
            opened.close()


def run_in_terminal(
    folder: Path, code: str, *, is_stdout: bool = True, timeout: float = 30.0
) -> tuple[int, Screen, bytes]:
    """Run a script on a terminal of its own.

    Args:
        folder: The script's working directory.
        code: The script.
        is_stdout: Whether its stdout is the terminal; otherwise only stdin and stderr are.
        timeout: Seconds until it counts as hanging.

    Returns:
        Its exit code, the screen, and what it wrote to another stdout.
    """
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    opened = Terminal()
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env={**environment, **ENVIRONMENT, "PYTHONPATH": str(REPOSITORY)},
        stdin=opened.stream,
        stdout=opened.stream if is_stdout else subprocess.PIPE,
        stderr=opened.stream,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.wait()
    return process.returncode, opened.close(), output or b""
