"""Values that a transform gives to the channels of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nogil_loader.transforms.spec import Spec


def as_pixel(who: object, name: str, values: Sequence[float], spec: Spec) -> tuple[float, ...]:
    """Return a pixel value for an image, rounded to the nearest integer where its dtype is one.

    Args:
        who: The transform.
        name: Of its argument.
        values: One number for each channel, or one for all.
        spec: The image.

    Raises:
        ValueError: Their number is another one, or the dtype cannot hold them; the message names ``who``.
    """
    if len(values) not in (1, spec.channels):
        raise ValueError(
            f"{who}: {name} has {len(values)} values, but the image ({spec}) has {spec.channels} "
            f"channel{'s' if spec.channels != 1 else ''}; give one value for each, or one for all"
        )
    limits = spec.limits()
    if limits is None:
        return tuple(values)
    if min(values) < limits[0] or max(values) > limits[1]:
        raise ValueError(
            f"{who}: {name} is outside of {limits[0]:.0f} to {limits[1]:.0f}, which {spec.dtype} can hold"
        )
    return tuple(float(np.rint(each)) for each in values)
