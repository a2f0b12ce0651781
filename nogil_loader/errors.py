"""The errors that a loader raises on its own account, and the text they carry.

Two promises hold for every class here. The attributes tell a program what the message tells a person, and
building or printing an error never fails, whatever the objects it describes do when they are printed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

# Long enough for any real message, short enough that a sample's repr pasted into one does not flood a log.
_CAUSE_LIMIT = 2000
_SHOWN_INDICES = 16


def describe(value: object, limit: int = _CAUSE_LIMIT) -> str:
    """Return ``repr(value)`` shortened to ``limit`` characters, or a stand-in if its ``repr`` raises."""
    return _shorten(_guarded(repr, value), limit)


def describe_exception(error: BaseException) -> str:
    """Return ``Type: message`` for an exception, also when its ``__str__`` raises or returns nonsense."""
    name = type(error).__name__
    text = _shorten(_guarded(str, error), _CAUSE_LIMIT)
    return f"{name}: {text}" if text else name


def describe_indices(indices: Sequence[Hashable]) -> str:
    """Return the indices of a batch, the first few of them where there are many."""
    shown = ", ".join(describe_index(index, 80) for index in indices[:_SHOWN_INDICES])
    return f"[{shown}]" if len(indices) <= _SHOWN_INDICES else f"[{shown}, … {len(indices)} in all]"


def describe_index(index: Hashable, limit: int = 200) -> str:
    """Return a dataset index as a person writes it: ``17`` where numpy's repr is ``np.int64(17)``."""
    return describe(index.item() if isinstance(index, np.generic) else index, limit)


def describe_bytes(nbytes: int) -> str:
    """Return a number of bytes as a person writes it, in decimal units: ``20.5 kB``, ``1.20 GB``."""
    size = float(max(0, nbytes))
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.2f} GB"


def _guarded(render: Callable[[Any], str], value: object) -> str:
    try:
        return str.__str__(
            render(value)
        )  # a plain str, also when what came back is a subclass with surprises
    except BaseException as failure:  # noqa: BLE001 - a __str__ may raise anything, SystemExit included
        return f"<{type(value).__name__} whose {render.__name__}() raises {type(failure).__name__}>"


def _shorten(text: str, limit: int) -> str:
    shown = text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
    # A lone surrogate, as in undecodable file names, would make printing the message fail.
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")


def _rebuild_error(cls: type[LoaderError], args: tuple[Any, ...], state: dict[str, Any]) -> LoaderError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class LoaderError(Exception):
    """Base class of everything that nogil_loader raises on its own account."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with ``args`` alone, which keyword-only parameters do not survive.
        return _rebuild_error, (type(self), self.args, dict(self.__dict__))


class DatasetError(LoaderError):
    """A dataset broke its own contract, for instance by returning a wrong number of items."""


class ResumeError(LoaderError, ValueError):
    """A saved state does not fit this loader; the message names the field that differs.

    Attributes:
        field: The field of the state that differs, such as ``"length"`` or ``"seed"``.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class CollateError(LoaderError, ValueError):
    """Samples of one batch do not fit together.

    Attributes:
        path: Where in the sample the misfit is, such as ``"image"`` or ``"boxes[0].corners"``; empty at the
            root.
        indices: Dataset indices involved, the offending one last. Empty when collation ran outside a loader
            and only positions in the batch are known.
        shapes: Shapes in the same order as ``indices``, where shapes are what differs.
        dtypes: dtypes in the same order as ``indices``, where dtypes are what differs.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        indices: Sequence[Hashable] = (),
        shapes: Sequence[tuple[int, ...]] = (),
        dtypes: Sequence[Any] = (),
    ) -> None:
        super().__init__(message)
        self.path = path
        self.indices = tuple(indices)
        self.shapes = tuple(shapes)
        self.dtypes = tuple(dtypes)


class DeadWorkerError(LoaderError):
    """A worker died; says which one, on which sample, of what, and what to do about it.

    The exception that killed the worker is ``__cause__``: the original object, with the traceback into the
    dataset's code.

    Attributes:
        worker_id: The worker, from 0; ``"reader"`` for the thread that reads an iterable.
        epoch: The epoch, from 0.
        batch: The batch's number within the epoch, from 0; None outside a batch (worker start-up).
        indices: Dataset indices of the whole batch.
        index: Dataset index of the failing sample, None when it is not known which sample failed.
        rebuilds: How often a worker was rebuilt for this batch before giving up.
        memory: A memory reading taken when the worker died, or None.
        during: What the worker was doing: ``"worker_init_fn"``, ``"fetch"``, ``"collate"`` …
    """

    #: A search for these words, which burn's loader panics with, has to find this error.
    headline = "Dataloader worker thread should be alive"

    def __init__(
        self,
        *,
        worker_id: int | str,
        cause: BaseException | None = None,
        epoch: int | None = None,
        batch: int | None = None,
        indices: Sequence[Hashable] = (),
        index: Hashable = None,
        rebuilds: int = 0,
        memory: Any = None,
        during: str = "",
        detail: str = "",
    ) -> None:
        self.worker_id = worker_id
        self.epoch = epoch
        self.batch = batch
        self.indices = tuple(indices)
        self.index = index
        self.rebuilds = rebuilds
        self.memory = memory
        self.during = during
        self.detail = detail
        self.__cause__ = cause
        super().__init__(self._compose(cause))

    def _compose(self, cause: BaseException | None) -> str:
        died = self.detail or (describe_exception(cause) if cause is not None else "it ended without a word")
        lines = [f"{self.headline}: worker {self.worker_id} died{self._where()}: {died}"]
        if self.indices:
            lines.append(f"  samples of the batch: {describe_indices(self.indices)}")
        if self.rebuilds:
            lines.append(f"  the batch was tried again on {self.rebuilds} rebuilt worker(s) before giving up")
        lines.extend(f"  {advice}" for advice in self._advice())
        return "\n".join(lines)

    def _where(self) -> str:
        parts = []
        if self.during:
            parts.append(f" in {self.during}")
        if self.index is not None:
            parts.append(f" on sample {describe_index(self.index)}")
        if self.batch is not None:
            parts.append(f" of batch {self.batch}")
        if self.epoch is not None:
            parts.append(f" in epoch {self.epoch}" if self.batch is None else f", epoch {self.epoch}")
        return "".join(parts)

    def _advice(self) -> list[str]:
        if self.__cause__ is not None and _is_bound_to_its_thread(self.__cause__):
            return [
                "what to do: the object belongs to the thread that made it, so make it in the worker: in",
                "worker_init_fn, or with clone_dataset= and a function that returns a dataset.",
            ]
        reading = "" if self.memory is None else f" (now: {_shorten(_guarded(str, self.memory), 300)})"
        return [
            "what to do: fix the code that raised (the traceback above, __cause__, leads to it);",
            'or rebuild instead of reusing dead workers: on_failure="rebuild", or loader.rebuild() by hand;',
            f"or lower the memory pressure if memory ran out{reading}.",
        ]


def _is_bound_to_its_thread(error: BaseException) -> bool:
    """Whether a sqlite3 object was used in a thread other than the one that made it."""
    kind = type(error)
    return (kind.__module__, kind.__name__) == ("sqlite3", "ProgrammingError") and "same thread" in str(error)


def copy_without_traceback(error: DeadWorkerError) -> DeadWorkerError:
    """Return a copy that does not keep the frames alive through which the error was raised."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin


class WorkerTimeoutError(DeadWorkerError, TimeoutError):
    """A worker made no progress for longer than ``timeout`` seconds.

    Attributes:
        stack: What the worker was doing when it was given up on, innermost call last.
        timeout: The limit in seconds.
    """

    def __init__(self, *, stack: str = "", timeout: float = 0.0, **details: Any) -> None:
        self.stack = stack
        self.timeout = timeout
        details.setdefault("detail", f"no progress for {timeout:g} s")
        super().__init__(**details)

    def _advice(self) -> list[str]:
        advice = [
            "what to do: find out why the sample hangs (the stack below is where it was);",
            'or raise timeout=, or give up on stuck workers and go on: on_failure="rebuild" or "skip".',
        ]
        if self.stack:
            advice.append("stack of the stuck worker:\n" + self.stack.rstrip())
        return advice


class MemoryBudgetError(MemoryError, LoaderError):  # in this order MemoryError.__new__ serves subclasses
    """What has to be loaded cannot fit into the memory that the loader may use.

    Attributes:
        needed: Bytes that were needed.
        budget: Bytes that the loader may have in flight.
        limit: Bytes of the limit that binds.
        used: Bytes that are used at that level.
        held: Bytes in batches that the consumer has not let go of, as far as can be seen.
        source: Who set the limit.
    """

    def __init__(
        self,
        message: str,
        *,
        needed: int | None = None,
        budget: int | None = None,
        limit: int | None = None,
        used: int | None = None,
        held: int | None = None,
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.needed = needed
        self.budget = budget
        self.limit = limit
        self.used = used
        self.held = held
        self.source = source

    @classmethod
    def refused(
        cls,
        *,
        index: Hashable,
        samples: int,
        during: str,
        refusal: str,
        needed: int | None,
        budget: int,
        limit: int | None,
        used: int,
        held: int,
        source: str,
    ) -> MemoryBudgetError:
        """Return the error for a sample, or a batch that must stay whole, for which the system gave no memory."""
        what = f"sample {describe_index(index)}" if samples == 1 else f"a batch of {samples} samples"
        where = f" in {during}" if during else ""
        known = (
            ""
            if limit is None
            else f" {describe_bytes(used)} of {describe_bytes(limit)} are in use ({source}), of which"
        )
        return cls(
            f"there is no memory for {what}{where}, not even with nothing else being loaded: {refusal}.{known} "
            f"{describe_bytes(held)} are in batches that the consumer holds.\n  what to do: make the samples "
            f"smaller, let go of batches before asking for the next one, or raise the limit.",
            needed=needed,
            budget=budget,
            limit=limit,
            used=used,
            held=held,
            source=source,
        )
