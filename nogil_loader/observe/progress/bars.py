"""``progress(loader)``: the loader's batches, and a bar where somebody can see it."""

from __future__ import annotations

import logging
import math
import sys
from typing import Any, TextIO

from nogil_loader.checks import as_flag
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.errors import describe, describe_exception
from nogil_loader.notices import warn
from nogil_loader.observe.progress.reading import Eye
from nogil_loader.observe.progress.surroundings import in_notebook, is_installed, is_terminal
from nogil_loader.observe.watching import Onlooker, Watched, WatchedIterator

logger = logging.getLogger("nogil_loader")

_COMMANDS = {"rich": 'pip install "nogil_loader[progress]"', "tqdm": "pip install tqdm"}


class Nobody:
    """Who looks on where nobody can see a bar."""

    period = math.inf

    def look(self) -> None:
        """See nothing."""

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Go."""


class ProgressBar(Watched):
    """A loader whose epochs are shown; see `progress`, which makes it."""

    def __init__(
        self,
        source: Any,
        description: str | None,
        *,
        backend: str | None,
        disable: bool | None,
        file: TextIO | None,
        leave: bool | None,
    ) -> None:
        super().__init__(source, self._invite)
        self._description = None if description is None else " ".join(description.split())
        self._backend = backend
        self._disable = disable
        self._file = file
        self._leave = leave

    def _invite(self, iterator: LoaderIterator | WatchedIterator) -> Onlooker:
        try:
            return self._begin_bar(iterator)
        except (OSError, ValueError) as error:  # a terminal that is gone, a closed file
            logger.info("no progress bar is shown: %s", describe_exception(error))
            return Nobody()

    def _begin_bar(self, iterator: LoaderIterator | WatchedIterator) -> Onlooker:
        backend = self._choose()
        if not backend:
            return Nobody()
        eye, file, leave = Eye(iterator), self._file, self._leave
        description = self._description
        if description is None:
            description = f"epoch {iterator.statistics().epoch}"
        if backend == "notebook":
            from nogil_loader.observe.progress.notebook import NotebookBar

            return NotebookBar(eye, description, leave=leave)
        if backend == "tqdm":
            from nogil_loader.observe.progress.with_tqdm import TqdmBar

            return TqdmBar(eye, description, file=file, leave=leave)
        from nogil_loader.observe.progress.terminal import terminal_bar

        return terminal_bar(eye, description, file=file, leave=leave) or Nobody()

    def _choose(self) -> str:
        """Return who draws, "" for nobody."""
        notebook = self._file is None and in_notebook()
        seen = notebook or is_terminal(sys.stderr if self._file is None else self._file)
        if self._disable or (self._disable is None and not seen):
            return ""
        if notebook and self._backend != "tqdm":
            return "notebook"
        if self._backend is not None:
            return self._backend
        for backend in _COMMANDS:
            if is_installed(backend):
                return backend
        warn(f"no progress bar is shown, since neither rich nor tqdm is installed: {_COMMANDS['rich']}")
        return ""


def progress(
    loader: Any,
    description: str | None = None,
    *,
    backend: str | None = None,
    disable: bool | None = None,
    file: TextIO | None = None,
    leave: bool | None = None,
) -> ProgressBar:
    """Iterate a loader with a bar that shows how far the epoch is.

    The batches are the loader's, and so are errors. Samples are counted, not batches, so the total is right when
    batches come in parts, when samples are skipped and after a resume. Beside the bar stand samples per second,
    the share of the time that your loop waits for data, memory, and what is unusual about workers.

    Leaving the loop early closes the epoch, unless ``loader`` is an iterator of your own.

    Args:
        loader: A `DataLoader`, each of whose epochs gets a bar, or an iterator of one.
        description: What stands to the left; by default ``"epoch 3"``.
        backend: ``"rich"`` or ``"tqdm"``; None for the first of them that is installed. In a notebook the bar is
            an HTML element, unless ``"tqdm"`` is asked for.
        disable: None shows a bar on terminals and in notebooks only, True never, False always.
        file: Where to draw, by default stderr.
        leave: Whether the bar stays when it has ended; None for all but those that begin below another one.

    Raises:
        TypeError: ``loader`` is no loader, or another argument has a wrong type.
        ValueError: ``backend`` is unknown.
        ImportError: The backend that was asked for is not installed.
    """
    if description is not None and not isinstance(description, str):
        raise TypeError(
            f"description={describe(description, 100)}: expected a string, not {type(description).__name__}"
        )
    if backend is not None and backend not in tuple(_COMMANDS):
        raise ValueError(f"backend={describe(backend, 100)}: expected 'rich', 'tqdm' or None")
    if backend is not None and not is_installed(backend):
        raise ImportError(
            f"backend={backend!r}: {backend} is not installed: {_COMMANDS[backend]}", name=backend
        )
    if file is not None and not callable(getattr(file, "write", None)):
        raise TypeError(f"file={describe(file, 100)}: expected a text stream, not {type(file).__name__}")
    return ProgressBar(
        loader,
        description,
        backend=backend,
        disable=None if disable is None else as_flag("disable", disable),
        file=file,
        leave=None if leave is None else as_flag("leave", leave),
    )
