"""``python -m nogil_loader``."""

import sys

from nogil_loader.cli import main

sys.exit(main())
