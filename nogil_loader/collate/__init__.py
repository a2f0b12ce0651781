"""Collation: from samples to batches, written straight into their slots."""

from nogil_loader.collate.default import DefaultCollate, default_collate
from nogil_loader.collate.writer import BatchWriter

__all__ = ["BatchWriter", "DefaultCollate", "default_collate"]
