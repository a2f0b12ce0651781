"""torchvision's transforms, also beside a torch that its compiled part was not made for."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def load_v2() -> Any:
    """Import ``torchvision.transforms.v2``.

    The wheels on PyPI are linked to a torch with CUDA. Beside a CPU build their compiled part, which has boxes
    and codecs and nothing that a transform needs, cannot be loaded, and then torchvision fails to import because
    two of its operators were never declared. Declaring them is all that it takes.
    """
    import torch

    try:
        from torchvision.transforms import v2
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)  # its declarations go when it goes
        from torchvision.transforms import v2
    return v2


_kept: list[Any] = []
