"""Readers of what a loader measures: progress bars, exporters, traces, the GIL."""
