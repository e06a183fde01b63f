"""``toolscore ui``: Dagster on a project, with all state in one folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, write_text
from toolscore_pipeline.errors import UsageError

STATE_FOLDER = ".toolscore"
NEWER_NAME = "Function `dev_command` is superseded"

# No telemetry, no pop-ups, one step at a time on the one warehouse file, every log in one place; in
# the terminal stands what steps say, while each event of the engine is in the UI.
INSTANCE = """\
telemetry: {{enabled: false}}
nux: {{enabled: false}}
python_logs: {{python_log_level: INFO}}
storage: {{sqlite: {{base_dir: {history}}}}}
compute_logs:
  module: dagster._core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config: {{base_dir: {logs}}}
local_artifact_storage:
  module: dagster._core.storage.root
  class: LocalArtifactStorage
  config: {{base_dir: {artifacts}}}
concurrency:
  pools: {{default_limit: 1, granularity: op}}
run_coordinator:
  module: dagster._core.run_coordinator
  class: QueuedRunCoordinator
  config: {{dequeue_interval_seconds: 1}}
"""


def prepare_state(root: Path) -> Path:
    """Make the state folder of a project, with Dagster's settings in it; returns the folder."""
    import yaml

    home = root / STATE_FOLDER / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    places = {
        name: yaml.safe_dump(str(home / name)).splitlines()[0]
        for name in ("history", "logs", "artifacts")
    }
    write_text(home / "dagster.yaml", INSTANCE.format(**places))
    return home


def command(
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen on, on 127.0.0.1.")] = 3000,
) -> None:
    """Open the project in Dagster, on 127.0.0.1, until interrupted."""
    from toolscore_pipeline.project import open_project

    opened = open_project(project)
    home = prepare_state(opened.root)
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "TOOLSCORE_PROJECT": str(opened.file),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        # That `dg dev` is the newer name of what is started here is no news for who looks at runs.
        "PYTHONWARNINGS": ",".join(
            filter(None, (os.environ.get("PYTHONWARNINGS"), f"ignore:{NEWER_NAME}"))
        ),
        # A machine that sleeps or stalls for half a minute would lose the code for good otherwise.
        "DAGSTER_GRPC_PROXY_HEARTBEAT_TTL_SECONDS": str(24 * 60 * 60),
    }
    arguments = [
        sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port),
        "--module-name", "toolscore_pipeline.definitions",
        # Every look of a sensor would be a line here; the UI shows them all.
        "--log-level", "warning",
    ]  # fmt: skip
    console().print(
        f"Dagster on {opened.file}: http://127.0.0.1:{port}"
        " (there in some ten seconds; stop with Ctrl-C)"
    )
    raise typer.Exit(run_until_stopped(arguments, environment, opened.root))


def run_until_stopped(arguments: list[str], environment: dict[str, str], folder: Path) -> int:
    """Run a command in a process group of its own, and end the whole group when it is stopped."""
    try:
        process = subprocess.Popen(
            arguments,
            env=environment,
            cwd=folder,
            start_new_session=True,
            preexec_fn=_as_child,
        )
    except OSError as error:
        raise UsageError(f"cannot start {arguments[0]}: {error.strerror}") from None

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, stop)
    try:
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        # Who asks a second time is impatient: the children end at once, and none is left behind.
        hurried = {
            number: signal.signal(number, lambda *_: _signal_group(process, signal.SIGKILL))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        _end_group(process)
        signal.signal(signal.SIGINT, hurried[signal.SIGINT])
        signal.signal(signal.SIGTERM, former)


def _as_child() -> None:
    """Let this process be interrupted, also where a shell's ``&`` has it ignore that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _end_with_parent()


def _end_with_parent() -> None:
    """Have the system stop this process when its parent is killed outright; Linux only."""
    if sys.platform != "linux":
        return
    import ctypes

    set_parent_death_signal = 1
    with suppress(OSError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started: asked first, then told, then killed."""
    for number, seconds in ((signal.SIGINT, 15), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        if not _signal_group(process, number):
            break
        limit = time.monotonic() + seconds
        # Signal 0 only asks whether anyone is there; a run being written up ends after its parent.
        while _signal_group(process, 0) and time.monotonic() < limit:
            process.poll()
            time.sleep(0.05)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to a process group; whether there is anyone in it."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
