"""Imports run downwards only, and what is heavy is imported when it is first needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import nogil_loader

PACKAGE = Path(nogil_loader.__file__).parent

# Lowest first. A module may import what stands on a lower line, and its own unit (the module or sub-package
# directly under nogil_loader that it belongs to). Units on one line do not know each other.
LAYERS = [
    {"errors"},
    {"checks", "files", "fixed", "notices"},
    {"policies"},
    {"kernels"},
    {"memory", "plan"},
    {"collate", "transforms", "data"},
    {"engine"},
    {"options"},
    {"loader"},
    {"interop", "resilient", "targets", "testing", "torch"},
    {"observe"},
    {"bench", "check", "demo", "doctor", "preview", "warmup"},
    {"cli"},
    {"__main__", "__init__"},
]
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}

# Imported inside functions only, because importing nogil_loader must stay cheap. numba and llvmlite are what
# kernels are made of, so there, and only there, they stand at the top; those modules are imported when needed.
HEAVY = {
    *("numba", "llvmlite", "torch", "jax", "psutil", "rich", "simplejpeg", "skimage", "tqdm", "PIL", "cv2"),
    *("prometheus_client", "threadpoolctl", "spdl", "grain", "torchdata"),
}


@dataclass(frozen=True)
class Import:
    """One imported module as written somewhere in the package."""

    importer: Path
    line: int
    module: str
    at_import_time: bool

    def __str__(self) -> str:
        return f"{self.importer.relative_to(PACKAGE.parent)}:{self.line} imports {self.module}"


def unit_of(path: Path) -> str:
    """The unit that a file belongs to: ``plan/epoch.py`` → ``plan``, ``loader.py`` → ``loader``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path, tree: ast.AST, at_import_time: bool = True) -> Iterator[Import]:
    """Every import statement in a file, those inside functions and under TYPE_CHECKING included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name, at_import_time)
        elif isinstance(node, ast.ImportFrom):
            yield from _resolve(path, node, at_import_time)
        else:
            deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            type_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            yield from imports_of(path, node, at_import_time and not deferred and not type_only)


def _resolve(path: Path, node: ast.ImportFrom, at_import_time: bool) -> Iterator[Import]:
    module = node.module or ""
    if node.level:
        package = ["nogil_loader", *path.relative_to(PACKAGE).parts[:-1]]
        parent = package[: len(package) - node.level + 1]
        module = ".".join([*parent, module] if module else parent)
    # "from nogil_loader import errors" imports a module, so the name counts as part of the path.
    for alias in node.names:
        yield Import(path, node.lineno, f"{module}.{alias.name}", at_import_time)


def imported_unit(module: str) -> str:
    """The unit that an imported name belongs to; names of the top package itself live in ``__init__``."""
    parts = module.split(".")[1:]
    return parts[0] if parts and parts[0] in RANK else "__init__"


def violations(imports: list[Import]) -> list[str]:
    """The imports that do not run downwards."""
    found = []
    for entry in imports:
        if entry.module.split(".")[0] != "nogil_loader":
            continue
        own, other = unit_of(entry.importer), imported_unit(entry.module)
        if own in RANK and own != other and RANK[other] >= RANK[own]:
            found.append(f"{entry}: {own} does not stand above {other}")
    return found


def eager_heavy_imports(imports: list[Import]) -> list[str]:
    """The heavy modules that would be imported together with the package."""
    return [
        str(entry)
        for entry in imports
        if entry.at_import_time
        and (top := entry.module.split(".")[0]) in HEAVY
        and not (top in ("numba", "llvmlite") and unit_of(entry.importer) == "kernels")
    ]


@pytest.fixture(scope="module")
def package_imports() -> list[Import]:
    return [
        entry
        for path in sorted(PACKAGE.rglob("*.py"))
        for entry in imports_of(path, ast.parse(path.read_text(encoding="utf-8")))
    ]


def test_every_module_has_a_place_in_the_layers() -> None:
    units = {unit_of(path) for path in PACKAGE.rglob("*.py")}
    assert units <= set(RANK), (
        f"give {sorted(units - set(RANK))} a layer in this test and in docs/explanation/how-it-works.md"
    )


def test_imports_run_downwards_only(package_imports: list[Import]) -> None:
    assert violations(package_imports) == []


def test_heavy_modules_are_imported_inside_functions_only(package_imports: list[Import]) -> None:
    assert eager_heavy_imports(package_imports) == []


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("plan/epoch.py", "from nogil_loader.errors import LoaderError", False),
        ("plan/epoch.py", "from nogil_loader.plan import samplers", False),
        ("plan/epoch.py", "from . import samplers", False),
        ("plan/epoch.py", "from .. import errors", False),
        ("plan/epoch.py", "from nogil_loader import loader", True),
        ("plan/epoch.py", "import nogil_loader.engine.pool", True),
        ("plan/epoch.py", "def f():\n    from ..loader import DataLoader", True),
        ("plan/epoch.py", "from nogil_loader.collate import default_collate", True),
        ("plan/epoch.py", "import nogil_loader", True),
        ("errors.py", "from nogil_loader.policies import FailurePolicy", True),
        ("errors.py", "if TYPE_CHECKING:\n    from .loader import DataLoader", True),
    ],
)
def test_the_check_tells_upward_imports_from_downward_ones(file: str, source: str, wrong: bool) -> None:
    assert bool(violations(list(imports_of(PACKAGE / file, ast.parse(source))))) is wrong


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("loader.py", "import numba", True),
        ("loader.py", "class A:\n    import torch.utils", True),
        ("loader.py", "try:\n    from numba import njit\nexcept ImportError:\n    pass", True),
        ("loader.py", "def f():\n    import numba", False),
        ("loader.py", "if TYPE_CHECKING:\n    import torch", False),
        ("loader.py", "import numpy", False),
        ("kernels/copy.py", "import numba", False),
        ("kernels/copy.py", "import torch", True),
    ],
)
def test_the_check_tells_eager_imports_from_deferred_ones(file: str, source: str, wrong: bool) -> None:
    assert bool(eager_heavy_imports(list(imports_of(PACKAGE / file, ast.parse(source))))) is wrong
