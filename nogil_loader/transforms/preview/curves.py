"""Draws signals as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nogil_loader.transforms.preview.text import Colour

if TYPE_CHECKING:
    from PIL.Image import Image

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
_COLOURS: tuple[Colour, ...] = (
    *((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)),
    *((86, 180, 233), (230, 159, 0), (0, 0, 0), (240, 228, 66)),
)
# Lines are drawn so much larger and then reduced, which makes them smooth.
_FINE = 3
# So many points can be told from each other; they get dots.
_MOST_DOTS = 64
_PAPER: Colour = (250, 250, 250)


def draw_curves(values: npt.NDArray[np.float64], span: tuple[float, float], width: int, height: int) -> Image:
    """Return a picture of signals.

    Args:
        values: ``(signals, length)``; where one is not finite its line is interrupted.
        span: The values at the lower and at the upper edge.
        width: In pixels.
        height: In pixels.
    """
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width * _FINE, height * _FINE), _PAPER)
    canvas = ImageDraw.Draw(image)
    for number, signal in enumerate(values):
        colour = _COLOURS[number % len(_COLOURS)]
        for piece in _pieces(signal, span, image.size):
            if len(piece) > 1:
                canvas.line(piece, colour, _FINE, "curve")
            if len(signal) <= _MOST_DOTS:
                for x, y in piece:
                    canvas.ellipse((x - 4, y - 4, x + 4, y + 4), colour)
    return image.resize((width, height), Image.Resampling.BOX)


def _pieces(
    signal: npt.NDArray[np.float64], span: tuple[float, float], size: tuple[int, int]
) -> list[list[tuple[float, float]]]:
    """Return the corners of a signal's lines, in pixels."""
    width, height = size
    margin = 4 * _FINE
    places, values = _reduce(signal, width // _FINE)
    low, high = span
    x = margin + places * (width - 2 * margin)
    with np.errstate(invalid="ignore"):
        share = (values - low) / (high - low) if high > low else np.where(np.isfinite(values), 0.5, np.nan)
        y = height - margin - share * (height - 2 * margin)
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in zip(x.tolist(), y.tolist(), strict=True):
        if np.isfinite(point[1]):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return pieces


def _reduce(
    signal: npt.NDArray[np.float64], columns: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return points from 0 to 1 and values there; of a long signal the least and the largest in each column."""
    length = len(signal)
    if length <= 2 * columns:
        return np.arange(length) / max(1, length - 1), signal
    edges = np.arange(columns) * length // columns
    both = np.stack([np.fmin.reduceat(signal, edges), np.fmax.reduceat(signal, edges)], axis=1)
    return np.repeat(np.arange(columns) / (columns - 1), 2), both.ravel()
