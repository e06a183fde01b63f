"""Benchmarks: `python -m bench` measures against the targets, with the reference library beside."""

import os
import resource
import threading
import time
from pathlib import Path

# The most memory that each process which grades beside this one had, in megabytes.
_workers: dict[str, float] = {}


def watch_workers() -> None:
    """Count the memory of the processes that grade beside this one too, from now on."""
    threading.Thread(target=_watch, daemon=True).start()


def peak_mb() -> float:
    """The most memory this process had, in megabytes, and its workers if they are watched.

    Linux tells it of the program alone; ``ru_maxrss`` begins with what the parent had.
    """
    own = _peak("self")
    if own is None:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return own + sum(_workers.values())


def _watch() -> None:
    while True:
        for children in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            for child in (_text(children) or "").split():
                # Not before it has become a program of its own: until then it has its parent's.
                if "toolscore_pipeline.workers" in (_text(Path(f"/proc/{child}/cmdline")) or ""):
                    _workers[child] = max(_peak(child) or 0.0, _workers.get(child, 0.0))
        time.sleep(0.05)


def _peak(process: str) -> float | None:
    lines = (_text(Path(f"/proc/{process}/status")) or "").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
