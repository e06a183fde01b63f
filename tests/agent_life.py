"""A process that runs a study and may be killed, forked from one that has its imports."""

from __future__ import annotations

import os
import sys

import mcp  # noqa: F401
import openai  # noqa: F401

from toolscore_pipeline.cli import main


def live(arguments: list[str], environment: dict[str, str]) -> None:
    """Run the command line with these arguments and variables, printing nothing."""
    os.environ.update(environment)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os._exit(main(arguments))
