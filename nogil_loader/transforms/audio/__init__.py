"""Transforms of audio, time series and spectrograms."""

from nogil_loader.transforms.audio.gain import Gain
from nogil_loader.transforms.audio.mask import FrequencyMask, TimeMask
from nogil_loader.transforms.audio.noise import AddNoise, Jitter
from nogil_loader.transforms.audio.resample import Resample
from nogil_loader.transforms.audio.standardize import StandardizeSignal
from nogil_loader.transforms.audio.warp import TimeWarp
from nogil_loader.transforms.sequence.length import RandomCrop1D

__all__ = [
    "AddNoise",
    "FrequencyMask",
    "Gain",
    "Jitter",
    "RandomCrop1D",
    "Resample",
    "StandardizeSignal",
    "TimeMask",
    "TimeWarp",
]
