"""The built wheel works on its own: in a fresh environment and an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
needs_command = pytest.mark.skipif(
    not (ROOT / "toolscore_pipeline/cli/__init__.py").is_file(), reason="there is no command yet"
)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without the checkout on its path; returns what it prints."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "DAGSTER_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel, and the dependencies of this one."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin/python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "-qq"),
        *("--no-deps", "--no-index", "--no-compile", wheel),
        cwd=folder.parent,
    )
    site = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder.parent
    )
    # The dependencies come from here. The .pth of the editable install is not read there: Python
    # reads such files only in its own folders, not in those that a .pth adds.
    sites = [entry for entry in sys.path if entry.endswith("site-packages")]
    (Path(site.strip()) / "dependencies.pth").write_text("\n".join(sites) + "\n")
    return folder / "bin"


def test_the_wheel_holds_every_model_and_definition(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (("sql", "_sql"), ("assets", "_assets")):
        files = [p for p in (ROOT / folder).rglob("*") if p.suffix in (".sql", ".yaml", ".py")]
        missing = [
            path.relative_to(ROOT).as_posix()
            for path in files
            if f"toolscore_pipeline/{inside}/{path.relative_to(ROOT / folder).as_posix()}"
            not in names
        ]
        assert not missing
    assert "toolscore_pipeline/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_the_wheel_uses_its_own_models_not_those_of_a_checkout(
    installed: Path, tmp_path: Path
) -> None:
    program = (
        "from toolscore_pipeline.plan import load_plan, sql_root, grader_version\n"
        "print(sql_root())\nprint(len(load_plan().models), grader_version())"
    )
    root, summary = run(installed / "python", "-c", program, cwd=tmp_path).splitlines()
    assert Path(root).is_relative_to(installed.parent)
    from toolscore_pipeline.plan import grader_version, load_plan

    assert summary == f"{len(load_plan().models)} {grader_version()}"


@needs_command
def test_the_command_explains_itself(installed: Path, tmp_path: Path) -> None:
    text = run(installed / "toolscore", "--help", cwd=tmp_path)
    for command in ("build", "compare", "demo", "eval", "export", "init", "sql", "status"):
        assert command in text
    assert not list(tmp_path.iterdir()), "asking for help leaves files"


@needs_command
@pytest.mark.slow
def test_the_demo_runs_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    text = run(installed / "toolscore", "demo", cwd=tmp_path)
    assert "graded" in text
    assert list(tmp_path.rglob("*.duckdb")), "the demo leaves a warehouse to look at"
