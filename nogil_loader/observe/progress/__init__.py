"""Progress bars around an epoch."""

from nogil_loader.observe.progress.bars import ProgressBar, progress

__all__ = ["ProgressBar", "progress"]
