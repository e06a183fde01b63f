"""Starting a server's process group, and ending all of it whatever it does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

GRACE_SECONDS = 1.0
"""How long a server may take to leave after its input closed, and again after SIGTERM."""


# Reads one line from a pipe whose other end only this process holds. The line "done" means that
# the group was ended in order; the end of the pipe without it, that this process died.
_WATCH = (
    'read word; [ "$word" = done ] && exit; '
    f'kill -s TERM -- "-$1"; sleep {GRACE_SECONDS:g}; kill -s KILL -- "-$1"'
)


class Watcher:
    """Ends a process group when this process dies without having done so (POSIX).

    A killed process runs no clean-up, so a small shell of its own session waits for that.
    """

    def __init__(self, group: int) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        if sys.platform != "win32":
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "watch", str(group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """Let the watcher go without ending anything."""
        if self._shell is None or self._shell.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._shell.stdin.write(b"done\n")
            self._shell.stdin.close()
        self._shell.wait()
        self._shell = None


def descendants(pid: int) -> dict[int, str]:
    """The processes below ``pid`` with their start times; empty where /proc does not tell."""
    if not Path("/proc/self/stat").exists():
        return {}
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        fields = _stat(int(entry))
        if fields is not None:
            parents[int(entry)], started[int(entry)] = int(fields[1]), fields[19]
    found: dict[int, str] = {}
    layer = {pid}
    while layer:
        layer = {child for child, parent in parents.items() if parent in layer} - found.keys()
        found |= {child: started[child] for child in layer}
    return found


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(") ")[2].split()


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False when nobody is left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_group(group: int, family: dict[int, str]) -> None:
    """Kill what is left of a process group, and those of ``family`` who left it and live on."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    for pid, start in family.items():
        fields = _stat(pid)
        if fields is not None and fields[19] == start:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def run_command(command: list[str], timeout: float) -> tuple[int | None, str, str]:
    """Run a command to its end; its exit code (None when it timed out), output and error output.

    Its whole process group is killed when the time is up.

    Raises:
        OSError: when it cannot be started.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    code: int | None
    try:
        output, errors = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        end_group(process.pid, descendants(process.pid))
        output, errors = process.communicate()
        code = None
    return code, output, errors
