"""Datasets, and the ways in which datasets are read."""

from nogil_loader.data.arrays import ArrayDataset
from nogil_loader.data.protocols import (
    BatchSource,
    IterableDataset,
    MapDataset,
    batched_fetch,
    check_dataset,
    dataset_length,
    fetch_samples,
    is_map_style,
)

__all__ = [
    "ArrayDataset",
    "BatchSource",
    "IterableDataset",
    "MapDataset",
    "batched_fetch",
    "check_dataset",
    "dataset_length",
    "fetch_samples",
    "is_map_style",
]
