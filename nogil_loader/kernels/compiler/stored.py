"""Machine code of one function in one file, in the form that numba's dispatchers expect of a cache.

numba's own cache wants a source file whose time and size do not change, writes two files that can disagree, and
loads what is in them unseen. Here a file is checked first, whatever goes wrong means compiling, and the cache
never makes a compilation fail.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from nogil_loader.kernels.compiler.cache import Entry


class Stored:
    """What numba asks for a compiled function before it compiles, and gives the function to afterwards.

    Args:
        entry: The file, or why there is none.
        prepare: Called before the function is compiled.
        tell: Called with the reason when the function cannot be stored.

    Attributes:
        found: Whether the function was loaded.
        file: Its machine code, None if there is no file of it.
        reason: Why there is none.
    """

    cache_path = None

    def __init__(self, entry: Entry | str, prepare: Callable[[], None], tell: Callable[[str], None]) -> None:
        self.found = False
        self.file: Path | None = None
        self.reason = ""
        self._entry = entry
        self._prepare = prepare
        self._tell = tell

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled function, None if it has to be compiled."""
        if isinstance(self._entry, Entry) and (payload := self._entry.read()) is not None:
            context.refresh()  # registers what the machine code links to
            with contextlib.suppress(Exception):  # compiling replaces the file
                result = CompileResult._rebuild(context, *pickle.loads(payload))
                self.found, self.file = True, self._entry.result
                return result
        self._prepare()
        context.refresh()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store a function that was compiled just now."""
        self.reason = self._save(result)
        if self.reason:
            self._tell(self.reason)

    def _save(self, result: Any) -> str:
        """Write the file; return why that is not possible."""
        if isinstance(self._entry, str):
            return self._entry
        if result.library.has_dynamic_globals:
            return "it uses addresses of this process (a large global array, or a C function)"
        try:
            self._entry.write(dumps(result._reduce()))
        except OSError as failure:
            return f"{self._entry.folder}: {failure.strerror}"
        except Exception as failure:  # noqa: BLE001 - the function is compiled, and good
            return repr(failure)
        self.file = self._entry.result
        return ""
