"""Collation: from samples to batches, written straight into their slots."""

from nogil_loader.collate.default import DefaultCollate, default_collate
from nogil_loader.collate.ragged import Packed
from nogil_loader.collate.sequences import Masked, PackCollate, PadCollate, Padded, pack_collate, pad_collate
from nogil_loader.collate.slots import Slots

__all__ = [
    "DefaultCollate",
    "Masked",
    "PackCollate",
    "Packed",
    "PadCollate",
    "Padded",
    "Slots",
    "default_collate",
    "pack_collate",
    "pad_collate",
]
