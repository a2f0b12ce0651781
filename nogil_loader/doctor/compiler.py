"""The compiler of kernels: whether there is one, what it was told, and where it keeps what it made."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nogil_loader.doctor.cache import Cache
from nogil_loader.doctor.finding import Diagnosis, Finding
from nogil_loader.doctor.layers import choose_layer, loadable_layers
from nogil_loader.errors import describe_exception
from nogil_loader.kernels.compiler.cache import cache_folder

# Modules of this package that tell numba how to compile; the rest works if these can be imported.
_OWN = (
    "nogil_loader.kernels.intrinsics",
    "nogil_loader.kernels.images.blocks",
    "nogil_loader.kernels.images.vectors",
)
# What kernels gain most from: vectors of 16, 32 and 64 bytes on x86, and what ARM has.
_VECTORS = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "neon", "sve", "sve2")
# The level at which LLVM makes vector code of loops.
_LEVEL = 3


@dataclass(frozen=True)
class Processor:
    """What machine code is made for.

    Attributes:
        name: LLVM's name of the processor.
        vectors: Its sets of vector instructions.
    """

    name: str
    vectors: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """What numba goes by, as it has read it from variables and files.

    Attributes:
        is_disabled: Whether it does not compile at all.
        level: How much is optimised, 0 to 3.
        checks_bounds: Whether every index is checked.
        has_debug_info: Whether code is made for a debugger.
        vectorizes: Whether loops become vector code.
        processor: Another processor or other features than those of this machine; empty for this one.
        layer: The threading layer asked for.
        priority: Which layer it tries first.
    """

    is_disabled: bool
    level: int
    checks_bounds: bool
    has_debug_info: bool
    vectorizes: bool
    processor: str
    layer: str
    priority: tuple[str, ...]

    @classmethod
    def of(cls, config: Any) -> Settings:
        """Read them from ``numba.config``."""
        told = (getattr(config, name, None) for name in ("CPU_NAME", "CPU_FEATURES"))
        return cls(
            is_disabled=bool(getattr(config, "DISABLE_JIT", False)),
            level=int(getattr(config, "OPT", _LEVEL)),
            checks_bounds=bool(getattr(config, "BOUNDSCHECK", False)),
            has_debug_info=bool(getattr(config, "DEBUGINFO_DEFAULT", False)),
            vectorizes=bool(getattr(config, "LOOP_VECTORIZE", True)),
            processor=" ".join(str(each) for each in told if each is not None),
            layer=str(getattr(config, "THREADING_LAYER", "default")),
            priority=tuple(getattr(config, "THREADING_LAYER_PRIORITY", ("tbb", "omp", "workqueue"))),
        )


@dataclass(frozen=True)
class CompilerDiagnosis(Diagnosis):
    """What is known about the compiler.

    Attributes:
        version: Of numba; None if it cannot be imported.
        failure: Why it cannot be imported, or kernels cannot be declared with it; empty if they can.
        settings: What numba goes by; None without numba.
        processor: What machine code is made for; None if not known.
        layer: The threading layer that numba would choose for others' functions; None if not known, or if there is
            none.
        layers: Which layers could be loaded; None if not known.
        variables: Variables of the environment that numba reads.
        cache: Where kernels are kept.
        platform: As ``sys.platform``.
    """

    title = "Compiler of kernels"
    version: str | None
    failure: str
    settings: Settings | None
    processor: Processor | None
    layer: str | None
    layers: dict[str, bool] | None
    variables: dict[str, str]
    cache: Cache
    platform: str

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        lines = [f"  numba {self.version or 'cannot be imported'}"]
        if self.processor is not None:
            vectors = f" ({' '.join(self.processor.vectors)})" if self.processor.vectors else ""
            lines.append(f"  makes code for {self.processor.name}{vectors}")
        if self.variables:
            lines.append("  " + " ".join(f"{name}={value}" for name, value in self.variables.items()))
        return lines + self.cache.lines()

    def findings(self) -> list[Finding]:
        """Return what follows for kernels."""
        if self.failure:
            found = f"kernels run as plain Python, much slower: {self.failure}"
            advice = 'python -c "import numba" shows more; pip install -U numba'
            return [Finding("problem", found, advice)]
        return [*self._settings(), *self._processor(), *self._layer(), *self.cache.findings()]

    def _settings(self) -> list[Finding]:
        settings = self.settings
        if settings is None:
            return []
        if settings.is_disabled:
            found = "numba was told not to compile: kernels run as plain Python, much slower"
            return [Finding("warning", found, "unset NUMBA_DISABLE_JIT")]
        slow = [
            (
                settings.level < _LEVEL,
                f"NUMBA_OPT={settings.level}: code is optimised little",
                "unset NUMBA_OPT",
            ),
            (settings.checks_bounds, "every index in a kernel is checked", "unset NUMBA_BOUNDSCHECK"),
            (settings.has_debug_info, "kernels are compiled for a debugger", "unset NUMBA_DEBUGINFO"),
            (not settings.vectorizes, "loops do not become vector code", "unset NUMBA_LOOP_VECTORIZE"),
        ]
        found_slow = [
            Finding("warning", f"{found}: slower", advice) for holds, found, advice in slow if holds
        ]
        return found_slow or [Finding("ok", "kernels are compiled and optimised")]

    def _processor(self) -> list[Finding]:
        told = "" if self.settings is None else self.settings.processor
        if told:
            found = f"code is made for {told}, not for this processor: slower, or refused by it"
            return [Finding("warning", found, "unset NUMBA_CPU_NAME and NUMBA_CPU_FEATURES")]
        vectors = () if self.processor is None else self.processor.vectors
        if "sse4.2" in vectors and "avx2" not in vectors:
            found = "no AVX2: kernels work on 16 bytes at a time, not on 32"
            return [
                Finding("note", found, "in a virtual machine: let it have the host's processor (-cpu host)")
            ]
        return []

    def _layer(self) -> list[Finding]:
        for_whom = "for functions of yours with parallel=True; the loader's kernels use none"
        if self.layers is None:
            return [Finding("note", f"numba's threading layer is not known ({for_whom})")]
        if self.layer is None:
            asked = "" if self.settings is None else self.settings.layer
            found = f"no threading layer {asked!r} can be loaded ({for_whom})"
            return [Finding("note", found, "unset NUMBA_THREADING_LAYER, or pip install tbb")]
        found = f"threading layer {self.layer} ({for_whom})"
        if self.layer == "workqueue":
            found += ": two workers in such functions at once end the process"
            return [
                Finding("note", found, "leave parallel out: workers are parallel already; or pip install tbb")
            ]
        if self.layer == "omp" and self.platform.startswith("linux"):
            found += ": after one has run, a forked child that runs one is ended"
            return [Finding("note", found, 'start processes by multiprocessing.get_context("spawn")')]
        return [Finding("ok", found)]


def import_compiler() -> Any:
    """Import numba, and those of this package's modules that might not suit a release of it.

    Raises:
        Exception: Whatever an import raises.
    """
    numba = importlib.import_module("numba")
    for name in _OWN:
        importlib.import_module(name)
    return numba


def examine_compiler(
    *,
    import_numba: Callable[[], Any] = import_compiler,
    host: Callable[[], tuple[str, Mapping[str, bool]]] | None = None,
    layers: Callable[[], dict[str, bool] | None] = loadable_layers,
    find_folder: Callable[[], Path | None] = cache_folder,
    may_write: Callable[[Path], bool] | None = None,
    usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
) -> CompilerDiagnosis:
    """Look at the compiler.

    Args:
        import_numba: Returns the module; raises if kernels cannot be compiled with it.
        host: Returns the processor's name and its features.
        layers: Returns which threading layers could be loaded.
        find_folder: Returns the folder of compiled kernels.
        may_write: Whether files can be made in a folder.
        usage: Returns total, used and free bytes of a file system, as ``shutil.disk_usage``.
        environ: The environment, by default the real one.
        platform: As ``sys.platform``.
    """
    environ = os.environ if environ is None else environ
    numba, failure = None, ""
    try:
        numba = import_numba()
    except Exception as error:  # noqa: BLE001 - missing, or broken in whatever way
        failure = describe_exception(error)
    settings = None if numba is None else Settings.of(numba.config)
    loadable = None if numba is None else layers()
    return CompilerDiagnosis(
        version=None if numba is None else str(numba.__version__),
        failure=failure,
        settings=settings,
        processor=None if numba is None else _processor(_host if host is None else host),
        layer=choose_layer(settings.layer, settings.priority, loadable, platform)
        if settings and loadable
        else None,
        layers=loadable,
        variables={name: value for name, value in sorted(environ.items()) if name.startswith("NUMBA_")},
        cache=Cache.of(find_folder(), environ, may_write=may_write, usage=usage),
        platform=platform,
    )


def _processor(host: Callable[[], tuple[str, Mapping[str, bool]]]) -> Processor | None:
    try:
        name, features = host()
    except Exception:  # noqa: BLE001 - LLVM does not know every processor
        return None
    return Processor(name, tuple(feature for feature in _VECTORS if features.get(feature)))


def _host() -> tuple[str, Mapping[str, bool]]:
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features()
