"""What is wrong with a user's function, out of the pages that numba writes about it."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, TracebackType
from typing import Any

from nogil_loader.errors import describe_exception
from nogil_loader.kernels.compiler.fingerprint import is_dispatcher
from nogil_loader.kernels.compiler.references import references
from nogil_loader.kernels.compiler.snapshot import is_users

# Places are given as 'File "x.py", line 3' and as 'at x.py (3)'; the first of both kinds is the innermost.
_PLACE = re.compile(r'File "(.+)", line (\d+)|(?:\bat|Raised from) (\S.*) \((\d+)\)')
_FUNCTION = re.compile(r"<function (\S+) at 0x")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LITERAL = re.compile(r"Literal\[\w+\]\(([^()]*)\)")
_BINDING = re.compile(r"Cannot bind .* to signature '.*' due to \"TypeError: (.*)\"")
_INNER = re.compile(r"^\s*(?:\w+Error: )(?!Failed in)(.+)")
_INTERNAL = re.compile(r"(?: for '\$[^']*')?, defined at .*")
_REASON_LIMIT = 300


@dataclass(frozen=True)
class _Place:
    function: FunctionType
    file: str
    line: int


def explain_failure(
    error: BaseException, functions: Mapping[str, Any], kernel: FunctionType | None = None
) -> ValueError | None:
    """Return an error that tells the author of a function why it cannot be compiled.

    Args:
        error: What numba raised.
        functions: The user functions, plain or dispatchers, by the names that the kernel has for them.
        kernel: The generated function. If a line of it that calls a user function cannot be compiled, what that
            function returns is to blame.

    Returns:
        An error with function, file, line and reason, its cause the original; None if the failure lies elsewhere.
    """
    callers = {id(each): value for value in functions.values() for each in _reachable([value])}
    users = list(_reachable(functions.values()))
    lines = _lines(error)
    place, reason = _find(error, lines, users)
    if place is None:
        place = _in_kernel(lines, functions, kernel)
        reason = f"what it returns cannot be used, {reason}"
    if place is None:
        return None
    source = linecache.getline(place.file, place.line).strip()
    told = ValueError(
        f"{callers[id(place.function)].__qualname__} cannot be compiled: {reason[:_REASON_LIMIT]}\n"
        f'  File "{place.file}", line {place.line}, in {place.function.__qualname__}'
        + (f": {source}" if source else "")
    )
    told.__cause__ = error
    return told


def _find(error: BaseException, lines: list[str], users: list[FunctionType]) -> tuple[_Place | None, str]:
    """Where in the users' functions the failure lies, and the reason."""
    for number, line in enumerate(lines):
        if (place := _place_in(line, users)) is not None:
            return place, _reason(lines, number)
    innermost = _innermost(lines)
    if innermost < 0:  # an error of numba's own: its frames tell what it was working on
        return _in_traceback(error.__traceback__, users), summarise(error)
    # Without a place there is the call: reported around an error of a plain function, behind one of a dispatcher.
    called = _called(lines[innermost + 2 :: -1], users) or _called(lines[innermost:], users)
    return called, summarise(error)


def summarise(error: BaseException) -> str:
    """Return the essence of what numba raised, in one line."""
    lines = _lines(error)
    innermost = _innermost(lines)
    return describe_exception(error) if innermost < 0 else _condense(lines[innermost:])


def _lines(error: BaseException) -> list[str]:
    return _LITERAL.sub(r"\1", _COLOURS.sub("", str(error))).splitlines()


def _innermost(lines: list[str]) -> int:
    """The line where the report of the innermost failure begins, -1 if there is none."""
    return max((at for at, line in enumerate(lines) if "Failed in " in line), default=-1)


def _reachable(values: Iterable[Any], seen: set[int] | None = None) -> Iterator[FunctionType]:
    seen = set() if seen is None else seen
    for value in values:
        function = value.py_func if is_dispatcher(value) else value
        if is_users(value) and id(function) not in seen:
            seen.add(id(function))
            yield function
            yield from _reachable((each.value for each in references(function)), seen)


def _place_in(line: str, users: list[FunctionType]) -> _Place | None:
    """The place that a line of numba's message names, if it lies in a user's function."""
    match = _PLACE.search(line)
    return match and _place_at(match[1] or match[3], int(match[2] or match[4]), users)


def _place_at(file: str, line: int, users: list[FunctionType]) -> _Place | None:
    around = []
    for each in users:
        first, last = _lines_of(each.__code__)
        if first <= line <= last and os.path.abspath(file) == os.path.abspath(each.__code__.co_filename):
            around.append((last - first, each))
    if not around:
        return None
    start = _start_of(min(around, key=lambda found: found[0])[1])
    return start if line < start.line else replace(start, line=line)


def _called(lines: list[str], users: list[FunctionType]) -> _Place | None:
    """The first user's function in some lines of numba's message."""
    for line in lines:
        for name in _FUNCTION.findall(line):
            for each in users:
                if each.__name__ == name:
                    return _start_of(each)
    return None


def _in_traceback(trace: TracebackType | None, users: list[FunctionType]) -> _Place | None:
    """The user's function, and the line of it, that numba's own frames were working on, the innermost."""
    codes = {id(each.__code__): each for each in users}
    found = None
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, FunctionType) and id(value.__code__) in codes:
                found = _start_of(codes[id(value.__code__)])
            elif (
                found is not None and type(value).__module__ == "numba.core.ir"
            ):  # an instruction knows its place
                place = getattr(value, "loc", None)
                found = _place_at(getattr(place, "filename", ""), getattr(place, "line", 0), users) or found
        trace = trace.tb_next
    return found


def _in_kernel(lines: list[str], functions: Mapping[str, Any], kernel: FunctionType | None) -> _Place | None:
    """The user's function called in the line of generated code at fault."""
    if kernel is None:
        return None
    for line in lines:
        place = _place_in(line, [kernel])
        if place is not None:
            words = re.findall(r"\w+", linecache.getline(place.file, place.line))
            for each in _reachable(functions[word] for word in words if word in functions):
                return _start_of(each)
    return None


def _start_of(function: FunctionType) -> _Place:
    code = function.__code__
    first, last = _lines_of(code)
    for line in range(first, last + 1):  # decorators come first
        if linecache.getline(code.co_filename, line).lstrip().startswith(("def ", "async def ")):
            return _Place(function, code.co_filename, line)
    return _Place(function, code.co_filename, first)


def _lines_of(code: CodeType) -> tuple[int, int]:
    lines = [code.co_firstlineno, *(line for *_, line in code.co_lines() if line)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines += _lines_of(constant)
    return min(lines), max(lines)


def _reason(lines: list[str], at: int) -> str:
    """What is said about the place in line ``at``. Reports of inner failures are indented further than that."""
    if "Raised from" in lines[at]:
        return lines[at].partition(". Raised from")[0].strip()
    for start in range(at - 1, -1, -1):
        if "Failed in " in lines[start]:
            body = start + 1
            while body < at and "Failed in " in lines[body]:
                body += 1
            if _indent(lines[body]) == _indent(lines[at]):
                return _condense(lines[body : at + 1])
    return _condense(lines[:at])


def _condense(lines: list[str]) -> str:
    """The first sentence of a report, or the call that is not supported and why."""
    told = [line.strip() for line in lines if line.strip() and "Failed in " not in line]
    if not told:
        return ""
    if bindings := _BINDING.findall("\n".join(told)):
        return str(bindings[-1])
    if not told[0].startswith(("No implementation", "Invalid use")):
        return _INTERNAL.sub("", told[0])
    call = next((line[4:] for line in told if line.startswith(">>> ")), told[0])
    inner = [match[1] for line in told if (match := _INNER.match(line))]
    return f"no implementation of {call} ({inner[-1]})" if inner else f"no implementation of {call}"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
