"""What a step of Dagster tells: how far it has come, and what to do when it could not go on.

Nothing here knows Dagster; sentences are handed to whoever logs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolscore_pipeline.errors import (
    AuditError,
    ContractError,
    InputError,
    SettingsError,
    ToolscoreError,
    UsageError,
    WarehouseError,
    WarehouseLockedError,
)

if TYPE_CHECKING:
    from toolscore_pipeline.loading import Progress

Say = Callable[[str], None]

# A line of progress at most this often, in seconds: a log is read, not watched.
SECONDS_BETWEEN_LINES = 2.0


class StepProgress:
    """Turns the figures of a step into lines of its log.

    Args:
        say: takes a line.
        clock: seconds, of any start.
    """

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._started = clock()
        self._told = self._started

    def graded(self, done: int, total: int) -> None:
        """Tell how many pairs of run and contract have been graded, how fast, and what remains.

        Each call is a line: a chunk of grades is some seconds of work.
        """
        if done == 0:
            self._started = self._clock()
            self._say(f"{total:,} pairs of run and contract to grade")
            return
        rate = done / max(self._clock() - self._started, 1e-9)
        self._say(
            f"graded {done:,} of {total:,} pairs of run and contract, {rate:,.0f} a second;"
            f" {_left(total - done, rate)}"
        )

    def loaded(self, progress: Progress) -> None:
        """Tell how many files have been read, at most every few seconds."""
        now = self._clock()
        if now - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told = now
        rate = progress.bytes_done / max(now - self._started, 1e-9)
        left = progress.byte_count - progress.bytes_done
        self._say(
            f"{progress.files_done:,} of {progress.file_count:,} files,"
            f" {progress.bytes_done / 1e6:,.1f} of {progress.byte_count / 1e6:,.1f} MB,"
            f" {progress.run_count:,} runs; {_left(left, rate)}"
        )


def _left(amount: float, rate: float) -> str:
    """How long what is left will take, if it goes on like this."""
    if amount <= 0:
        return "nothing remains"
    return f"about {duration(amount / rate)} remaining" if rate > 0 else "time remaining unknown"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def advice(error: ToolscoreError) -> str:
    """What to do about an error that stopped a step, in a sentence or two."""
    if isinstance(error, ContractError):
        return (
            "Mend the file and save it: it is judged anew by itself while the sensor changed_files"
            " is on, else materialise the group judgments. No grade was changed."
        )
    if isinstance(error, AuditError):
        return f"The table is as it was before. {error.mend}".rstrip()
    if isinstance(error, WarehouseLockedError):
        return "When the other process has ended, re-execute this run from its failure."
    if isinstance(error, WarehouseError):
        return (
            "Mend what the sentence names (room on the disk, permissions, the file itself), then"
            " re-execute this run from its failure."
        )
    if isinstance(error, SettingsError):
        return "Mend the project file, reload the definitions, and materialise again."
    if isinstance(error, UsageError):
        return "Change the settings in the launchpad and launch again."
    if isinstance(error, InputError):
        return (
            "Mend the file, or take it out of the project, and materialise again. What was loaded"
            " before stays."
        )
    return "Mend what the sentence names, and materialise again."
