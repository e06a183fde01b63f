"""``python -m toolscore_pipeline`` is the ``toolscore`` command."""

from __future__ import annotations

import sys

from toolscore_pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
