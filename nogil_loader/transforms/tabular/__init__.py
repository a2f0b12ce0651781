"""Transforms of the rows of tables."""

from nogil_loader.transforms.tabular.clip import Clip
from nogil_loader.transforms.tabular.missing import FillMissing
from nogil_loader.transforms.tabular.one_hot import OneHot
from nogil_loader.transforms.tabular.quantize import Quantize
from nogil_loader.transforms.tabular.select import SelectColumns
from nogil_loader.transforms.tabular.standardize import StandardizeColumns

__all__ = ["Clip", "FillMissing", "OneHot", "Quantize", "SelectColumns", "StandardizeColumns"]
