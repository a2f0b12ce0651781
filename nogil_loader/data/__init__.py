"""Datasets, and the ways in which datasets are read."""

from nogil_loader.data.arrays import ArrayDataset
from nogil_loader.data.joining import Concat, Zip
from nogil_loader.data.mapper import Mapper
from nogil_loader.data.photographs import Photographs
from nogil_loader.data.protocols import (
    BatchSource,
    IterableDataset,
    MapDataset,
    SampleStream,
    batched_fetch,
    batched_stream,
    check_dataset,
    dataset_length,
    is_map_style,
    stream_samples,
)
from nogil_loader.data.selection import Sampled, Shuffled, Subset
from nogil_loader.data.window import Window

__all__ = [
    "ArrayDataset",
    "BatchSource",
    "Concat",
    "IterableDataset",
    "MapDataset",
    "Mapper",
    "Photographs",
    "SampleStream",
    "Sampled",
    "Shuffled",
    "Subset",
    "Window",
    "Zip",
    "batched_fetch",
    "batched_stream",
    "check_dataset",
    "dataset_length",
    "is_map_style",
    "stream_samples",
]
