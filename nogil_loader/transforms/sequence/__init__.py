"""Transforms of sequences: windows of fixed length, and masks and labels for language models."""

from nogil_loader.transforms.sequence.length import PadOrTruncate, RandomCrop1D
from nogil_loader.transforms.sequence.shift import ShiftLabels
from nogil_loader.transforms.sequence.spans import MaskSpans
from nogil_loader.transforms.sequence.tokens import MaskTokens

__all__ = ["MaskSpans", "MaskTokens", "PadOrTruncate", "RandomCrop1D", "ShiftLabels"]
