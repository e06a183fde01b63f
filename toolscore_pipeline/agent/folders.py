"""The fresh folder of one run: gone when the run ends, or at the next study if its process died."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "toolscore-run-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-\w+")


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """An empty folder for temporary files, removed afterwards.

    It carries this process's number and a lock, so that nobody takes it for a leftover.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep_leftovers() -> None:
    """Remove the folders of runs whose process was killed.

    A process that lives keeps its folder, also where its number tells nothing here because it runs
    in another container: the lock on a folder ends with the process that holds it. Folders of other
    users are left alone.
    """
    if sys.platform == "win32":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        name = _NAME.fullmatch(folder.name)
        if name is None or _is_alive(int(name[1])):
            continue
        lock = _lock(folder)
        if lock is not None:
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None when another one holds it."""
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor


def _is_alive(pid: int) -> bool:
    with suppress(OverflowError, PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
