"""Watches a thread run, instruction by instruction.

Python 3.12 has an interface for that, `sys.monitoring`; before, and where all its tools are taken, it is
`sys.settrace`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any, TypeAlias

#: Told about each instruction before it runs: the frame, and the instruction's offset in its code.
Look: TypeAlias = Callable[[FrameType, int], object]

# Large libraries that keep their own order, and the machinery around a call.
_NOT_LOOKED_INTO = frozenset(
    [
        *("numpy", "torch", "nogil_loader", "importlib", "_frozen_importlib", "_frozen_importlib_external"),
        *("threading", "contextlib", "typing", "abc", "codecs", "encodings", "dis", "enum"),
    ]
)
# Numbers of tools that Python gives to nobody in particular, then those of optimizers, profilers and debuggers.
_TOOLS = (3, 4, 5, 2, 0)


def is_looked_into(frame: FrameType) -> bool:
    """Whether code is worth stopping in: neither that of large libraries nor the machinery of Python."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] not in _NOT_LOOKED_INTO


def instructions(look: Look, only: CodeType | None = None) -> AbstractContextManager[None]:
    """Watch what the calling thread runs in the block.

    Args:
        look: Told about each instruction.
        only: Whose instructions; None for all code that is worth it.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any(monitoring.get_tool(tool) is None for tool in _TOOLS):
        return _monitored(monitoring, look, only)
    return _traced(look, only)


@contextlib.contextmanager
def _monitored(monitoring: Any, look: Look, only: CodeType | None) -> Iterator[None]:
    me = threading.get_ident()

    def see(code: CodeType, offset: int) -> None:
        if threading.get_ident() != me:
            return
        frame = sys._getframe(1)
        if only is not None or is_looked_into(frame):
            look(frame, offset)

    tool = next(tool for tool in _TOOLS if monitoring.get_tool(tool) is None)
    event = monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "nogil_loader check")
    try:
        monitoring.register_callback(tool, event, see)
        if only is None:
            monitoring.set_events(tool, event)
        else:
            monitoring.set_local_events(tool, only, event)
        yield
    finally:
        if only is None:
            monitoring.set_events(tool, 0)
        else:
            monitoring.set_local_events(tool, only, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


@contextlib.contextmanager
def _traced(look: Look, only: CodeType | None) -> Iterator[None]:
    def enter(frame: FrameType, event: str, argument: object) -> Any:
        if not is_looked_into(frame) if only is None else frame.f_code is not only:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return see

    def see(frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            look(frame, frame.f_lasti)
        return see

    with tracing(enter):
        yield


@contextlib.contextmanager
def tracing(trace: Callable[[FrameType, str, object], Any]) -> Iterator[None]:
    """Let a function trace the calls of the calling thread in the block, as `sys.settrace` has it."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
