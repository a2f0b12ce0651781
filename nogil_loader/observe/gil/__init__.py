"""The GIL meter: which stage holds the GIL for which share of the time, and how long threads wait for it."""

from nogil_loader.observe.gil.meter import GilMeter, gil_meter
from nogil_loader.observe.gil.report import GilReport

__all__ = ["GilMeter", "GilReport", "gil_meter"]
