"""Images with the statistics of photographs, for decoders and augmentations to work on.

White noise costs a JPEG decoder twice as much as a photograph does and a plain colour a third, so neither can
stand in for one. What makes a photograph is objects of all sizes that hide each other (Lee, Mumford, Huang,
"Occlusion models for natural images", 2001), each with a texture of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Discs of radius r are as frequent as r**-3, which makes the image look the same at every scale. The numbers
# below were chosen so that a JPEG of quality 90 takes 0.3 bytes per pixel, like the median photograph of
# scikit-image (0.08 to 0.37).
_PIXELS_PER_DISC = 500
_SMALLEST_RADIUS = 3.0
_LARGEST_RADIUS = 0.5  # of the shorter side
_COLOURFULNESS = 0.3
_TEXTURE = 5.0  # standard deviation in 8-bit levels, on average over the discs


def paint_dead_leaves(height: int, width: int, seed: int | Sequence[int]) -> NDArray[np.uint8]:
    """Return an image of discs that lie on top of each other like leaves on the ground.

    Args:
        height: In pixels.
        width: In pixels.
        seed: The image is a function of the arguments.

    Returns:
        Shape ``(height, width, 3)``, uint8.
    """
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    count = max(1, height * width // _PIXELS_PER_DISC)
    largest = max(_LARGEST_RADIUS * min(height, width), _SMALLEST_RADIUS)
    radii = _draw_radii(rng, count, _SMALLEST_RADIUS, largest)
    # The first ones, which lie lowest, are large, so that the ground does not show.
    ground = radii[: count // 10]
    ground[:] = _draw_radii(rng, len(ground), largest / 4, largest)
    centres = rng.random((count, 2)) * (height, width)
    greys, hues = rng.uniform(20, 235, (count, 1)), rng.uniform(-128, 128, (count, 3))
    colours = greys + _COLOURFULNESS * hues
    roughness = rng.uniform(0, 2 * _TEXTURE, count)

    pixels = np.full((height, width, 3), 128.0)
    amplitude = np.full((height, width), _TEXTURE)
    for radius, (y, x), colour, rough in zip(radii, centres, colours, roughness, strict=True):
        rows = slice(max(0, int(y - radius)), int(y + radius) + 2)
        columns = slice(max(0, int(x - radius)), int(x + radius) + 2)
        down = np.arange(height)[rows, None] - y
        across = np.arange(width)[None, columns] - x
        is_covered = down**2 + across**2 <= radius**2
        pixels[rows, columns][is_covered] = colour
        amplitude[rows, columns][is_covered] = rough
    pixels += (amplitude * _pink_noise(rng, height, width))[:, :, None]
    image: NDArray[np.uint8] = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    return image


def _draw_radii(rng: np.random.Generator, count: int, smallest: float, largest: float) -> NDArray[np.float64]:
    """Draw from the density r**-3 between two radii, by inverting its integral."""
    share = rng.random(count)
    radii: NDArray[np.float64] = (smallest**-2 * (1 - share) + largest**-2 * share) ** -0.5
    return radii


def _pink_noise(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float64]:
    """Return noise whose amplitude falls as 1 / frequency, with mean 0 and standard deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = np.inf  # no constant part
    spectrum: NDArray[Any] = np.fft.rfft2(rng.standard_normal((height, width))) / frequency
    noise = np.fft.irfft2(spectrum, s=(height, width))
    noise /= max(float(noise.std()), np.finfo(np.float64).tiny)
    return noise
