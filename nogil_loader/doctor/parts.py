"""The parts of an examination, and all of them in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nogil_loader.doctor.compiler import examine_compiler
from nogil_loader.doctor.cpu import examine_cpu
from nogil_loader.doctor.finding import Diagnosis, Unexamined
from nogil_loader.doctor.limits import examine_limits
from nogil_loader.doctor.memory import examine_memory
from nogil_loader.doctor.packages import examine_packages
from nogil_loader.doctor.python import examine_python
from nogil_loader.doctor.ranks import examine_ranks
from nogil_loader.doctor.shm import examine_shm
from nogil_loader.doctor.system import examine_system
from nogil_loader.doctor.threads import examine_threads
from nogil_loader.errors import describe_exception
from nogil_loader.policies import MemoryPolicy

#: What can be asked about, one by one or all at once.
PARTS = (
    *("system", "cpu", "memory", "shm", "limits", "ranks"),
    *("python", "packages", "compiler", "threads"),
)


def examine(
    parts: Sequence[str] = PARTS,
    *,
    memory: MemoryPolicy | str | float = "auto",
    imported: tuple[str, ...] = (),
    examiners: Mapping[str, Callable[[], Diagnosis]] | None = None,
    tell: Callable[[Diagnosis], object] = lambda diagnosis: None,
) -> dict[str, Diagnosis]:
    """Look at several of `PARTS`. Whatever a part cannot find out is said to be unknown.

    Args:
        parts: Which ones.
        memory: The argument ``memory=`` of the loader that is asked about.
        imported: Modules that were imported to see what they bring.
        examiners: What looks at a part, in the place of this package's own.
        tell: Called with each part at once: where memory is short, a later one may end the process.

    Raises:
        ValueError: ``memory`` is a string that cannot be read, or a limit that is out of range.
        TypeError: ``memory`` is none of what is allowed.
    """
    MemoryPolicy.of(memory)
    look: dict[str, Callable[[], Diagnosis]] = {
        "system": examine_system,
        "cpu": examine_cpu,
        "memory": lambda: examine_memory(memory),
        "shm": examine_shm,
        "limits": examine_limits,
        "ranks": examine_ranks,
        "python": examine_python,
        "packages": examine_packages,
        "compiler": examine_compiler,
        "threads": lambda: examine_threads(imported=imported),
        **(examiners or {}),
    }
    found = {}
    for part in parts:
        found[part] = _examine(part, look[part])
        tell(found[part])
    return found


def _examine(part: str, look: Callable[[], Diagnosis]) -> Diagnosis:
    try:
        diagnosis = look()
        # What fails in these fails here.
        diagnosis.lines()
        diagnosis.findings()
    except Exception as failure:  # noqa: BLE001 - systems differ, and the other parts are worth telling
        return Unexamined(part, describe_exception(failure))
    return diagnosis
