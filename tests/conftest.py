"""What the tests share: hypothesis profiles, the reference library and the shared data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No deadline: two busy cores make any one example slow. The same examples are tried every time, so
# that a run either passes or fails for a reason in the change; HYPOTHESIS_PROFILE=search looks for
# new ones.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("same", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data beside the project; skips when it is not there."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared data folder beside the project is absent")
    return folder


@pytest.fixture(scope="session")
def oracle_python() -> Path:
    """The Python that has the reference library (`make oracle`); skips when it is not there.

    The variable TOOLSCORE_ORACLE_PYTHON names another one.
    """
    python = Path(os.environ.get("TOOLSCORE_ORACLE_PYTHON", ROOT / ".venv-oracle/bin/python"))
    if not python.is_file():
        pytest.skip("the reference library is not installed; run `make oracle`")
    return python


@pytest.fixture(autouse=True)
def wide_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed tables are 120 columns wide, whatever the surroundings say."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example project of `toolscore demo`, built; for reading only."""
    from toolscore_pipeline.cli import main

    folder = tmp_path_factory.mktemp("demo") / "toolscore-demo"
    assert main(["demo", str(folder), "--quiet"]) == 0
    return folder
