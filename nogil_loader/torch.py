"""The loader for PyTorch: batches are torch tensors. Changing the import line is enough."""

from __future__ import annotations

from typing import Any

import nogil_loader.loader
from nogil_loader.engine.scope import get_worker_info

__all__ = ["DataLoader", "get_worker_info"]


class DataLoader(nogil_loader.loader.DataLoader):
    """`nogil_loader.DataLoader` with ``output="torch"``: arrays arrive as tensors, without a copy.

    All arguments are those of `nogil_loader.DataLoader`; those that torch has come in torch's order.

    Raises:
        ImportError: torch is not installed.
    """

    def __init__(self, *args: Any, output: str = "torch", **kwargs: Any) -> None:
        super().__init__(*args, output=output, **kwargs)
