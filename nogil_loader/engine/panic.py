"""Turning whatever ends a piece of code into a value.

A Python thread that ends by ``SystemExit``, by an exception raised into it from outside, or by any exception
that nobody reads about, ends silently, and whoever waits for it waits for ever. The wrapper here lets nothing
escape: what ends the code becomes a `DeadWorkerError` that is returned and, if asked for, handed to a
callback.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar, overload

from nogil_loader.errors import DeadWorkerError
from nogil_loader.memory.reading import read_memory

P = ParamSpec("P")
R = TypeVar("R")


@overload
def catch_panics(
    target: Callable[P, R],
    *,
    name: int | str | None = None,
    on_death: Callable[[DeadWorkerError], object] | None = None,
) -> Callable[P, R | DeadWorkerError]: ...


@overload
def catch_panics(
    target: None = None,
    *,
    name: int | str | None = None,
    on_death: Callable[[DeadWorkerError], object] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | DeadWorkerError]]: ...


def catch_panics(
    target: Callable[P, R] | None = None,
    *,
    name: int | str | None = None,
    on_death: Callable[[DeadWorkerError], object] | None = None,
) -> Callable[P, R | DeadWorkerError] | Callable[[Callable[P, R]], Callable[P, R | DeadWorkerError]]:
    """Wrap a callable so that whatever ends it becomes a ``DeadWorkerError`` value.

    "Whatever" is every ``BaseException``: ordinary exceptions, ``SystemExit``, ``KeyboardInterrupt``,
    ``GeneratorExit``, ``StopIteration``, and what ``PyThreadState_SetAsyncExc`` raises from another thread.

    Args:
        target: What to call. Without it the function is a decorator with arguments.
        name: What the error calls the worker; the callable's own name by default.
        on_death: Called with the error, in the thread that died: how the owner of a thread hears of it, since
            a thread returns nothing. ``SimpleQueue().put`` is a good one. What it raises is swallowed.

    Returns:
        A callable with the same parameters that returns what ``target`` returns, or the error. The original
        exception is the error's ``__cause__``.

    Example:
        ``Thread(target=catch_panics(work, on_death=deaths.put)).start()``

    Raises:
        TypeError: ``target`` or ``on_death`` is not callable.
    """
    if target is not None and not callable(target):
        raise TypeError(f"target={target!r}: expected a callable, not {type(target).__name__}")
    if on_death is not None and not callable(on_death):
        raise TypeError(f"on_death={on_death!r}: expected a callable or None")
    if target is None:
        return functools.partial(catch_panics, name=name, on_death=on_death)
    worker = name if name is not None else getattr(target, "__name__", type(target).__name__)

    @functools.wraps(target, updated=())
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | DeadWorkerError:
        try:
            return target(*args, **kwargs)
        except BaseException as cause:  # noqa: BLE001 - the point of this function
            death = _describe(worker, cause)
        if on_death is not None:
            # A broken listener must not bring back the silent end.
            with contextlib.suppress(BaseException):
                on_death(death)
        return death

    return guarded


def _describe(worker: int | str, cause: BaseException) -> DeadWorkerError:
    try:
        return DeadWorkerError(worker_id=worker, cause=cause, memory=read_memory())
    except BaseException:  # noqa: BLE001 - a thread that is being killed may be killed again while it reports
        return DeadWorkerError(worker_id=worker, cause=cause)
