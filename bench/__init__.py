"""Benchmarks: `python -m bench` measures against the targets, with the reference library beside."""

import resource
from pathlib import Path


def peak_mb() -> float:
    """The most memory this process had, in megabytes.

    Linux tells it of the program alone; ``ru_maxrss`` begins with what the parent had.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
