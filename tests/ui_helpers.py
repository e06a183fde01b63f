"""``toolscore ui`` as a process, and how tests wait for it and ask it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolscore_pipeline.cli.ui import _end_with_parent

ROOT = Path(__file__).resolve().parent.parent
DONE = ("SUCCESS", "FAILURE", "CANCELED")

RUNS = """{ runsOrError { ... on Runs { results {
  runId status jobName assetSelection { path } startTime tags { key value } } } } }"""


def patience() -> float:
    """A minute, and as much longer as others keep this machine busy."""
    return 60 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_for(what: str, is_there: Callable[[], bool], seconds: float | None = None) -> float:
    """Wait until something is there; how long it took."""
    started, limit = time.monotonic(), seconds or patience()
    while not is_there():
        assert time.monotonic() - started < limit, f"{what}: not within {limit:.0f} seconds"
        time.sleep(0.3)
    return time.monotonic() - started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def graphql(address: str, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{address}/graphql",
        json.dumps({"query": query, "variables": variables or {}}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    assert "errors" not in answer, answer
    data: dict[str, Any] = answer["data"]
    return data


def processes_on(folder: Path) -> list[int]:
    """Processes that work in a folder, or were told of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = str(folder).encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if told:
            found.append(int(entry.name))
    return found


class UiProcess:
    """A running ``toolscore ui`` on the project of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = folder.parent / "ui.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "toolscore_pipeline", "ui", "--port", str(self.port)],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # also when the tests are killed
            )

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
        try:
            urllib.request.urlopen(f"{self.address}/server_info", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def runs(self) -> list[dict[str, Any]]:
        """Dagster's runs, the newest first."""
        found: list[dict[str, Any]] = graphql(self.address, RUNS)["runsOrError"]["results"]
        return found

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(60)
