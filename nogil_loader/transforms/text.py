"""The text of a kernel while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nogil_loader.transforms.numbers import Offsets
from nogil_loader.transforms.step import Node, Step


class Text:
    """Lines of source, and what they refer to.

    Args:
        offsets: Where the constants of each step are.
        first_position: Is added to the steps' positions where random numbers are drawn.

    Attributes:
        names: The global names of the text.
        lines: The lines.
        offsets: As given.
    """

    def __init__(self, offsets: Offsets, first_position: int) -> None:
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.offsets = offsets
        self._first = first_position
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Add lines at the present depth."""
        self.lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line, and what is added inside below it."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def call(self, function: Callable[..., Any] | None, *arguments: str) -> str:
        """Return the call of a function, which gets a name of its own."""
        assert function is not None
        name = getattr(function, "__name__", "function")
        name = name if name.isidentifier() else "function"
        if not (getattr(function, "__module__", None) or "").startswith("nogil_loader."):
            name = f"user_{name}"  # a user's function may be called as a variable of the text is, or like ``len``
        known = name
        number = 2
        while self.names.setdefault(known, function) is not function:
            known, number = f"{name}_{number}", number + 1
        return f"{known}({', '.join(arguments)})"

    def numbers(self, position: int) -> str:
        """Return where the constants of a step are."""
        start, end = self.offsets.starts[position]
        return f"numbers[{start}:{end}]"

    def parameters(self, node: Node) -> tuple[str, str]:
        """Return where the constants of a step are, and what was drawn for it."""
        return self.numbers(node.position), f"drawn[{node.position}]"

    def position(self, node: Node) -> int:
        """Return the number that keys the random numbers of a step."""
        return self._first + node.position

    def seed(self, step: Step) -> None:
        """Set the ``rng`` of a step."""
        self.add(f"rng[0], rng[1], rng[2], rng[3] = epoch_key, key, {self.position(step)}, 0")


def word(node: Node) -> str:
    """Return how the text calls a step: without its constants, which are arguments."""
    return f"{node.position} {node.name.partition('(')[0]}"
