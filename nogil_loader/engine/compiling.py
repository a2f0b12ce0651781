"""Compiles the kernels of transforms, says so, and stops the clock meanwhile."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from nogil_loader.engine.scope import COMPILE, SampleScope
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.program import Program

logger = logging.getLogger("nogil_loader")


def compile_kernel(program: Program, fit: Fit) -> None:
    """Compile a kernel and say so: on a terminal by a line that is there while it lasts, else in the log."""
    if program.is_ready(fit):
        return
    began = time.perf_counter()
    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    told = False

    def announce(name: str) -> None:
        nonlocal told
        told = True
        logger.info("compiling a kernel for %s", fit.source)
        if terminal is not None:
            terminal.write(f"nogil_loader: compiling a kernel for {fit.source} …")
            terminal.flush()

    program.compile(fit, announce)
    if told and terminal is not None:
        terminal.write(f" {time.perf_counter() - began:.1f} s\n")


def compile_off_the_clock(scope: SampleScope) -> Callable[[Program, Fit], None]:
    """Return what compiles a kernel while a sample waits for it, which is nobody's delay."""

    def compile_first(program: Program, fit: Fit) -> None:
        stage, scope.stage = scope.stage, COMPILE
        try:
            compile_kernel(program, fit)
        finally:
            scope.stage = stage

    return compile_first
