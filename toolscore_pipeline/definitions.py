"""What Dagster loads: the assets of ``assets/``, on the project of ``TOOLSCORE_PROJECT``.

Without that variable the project file is looked for upward from the current folder; a checkout
without one shows its example project.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import dagster as dg

from toolscore_pipeline.components import ProjectResource, project_file

_PACKAGE = Path(__file__).parent


def assets_folder() -> Path:
    """The folder of asset definitions: the checkout's when there is one, else the package's."""
    checkout = _PACKAGE.parent / "assets"
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_assets"


def _assets_module() -> ModuleType:
    """The asset folder as the module ``assets``, wherever it lies."""
    folder = assets_folder()
    spec = importlib.util.spec_from_file_location(
        "assets", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no asset definitions in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["assets"] = module
    spec.loader.exec_module(module)
    return module


def build() -> dg.Definitions:
    """Every asset, check, schedule and sensor of the project."""
    with warnings.catch_warnings():
        # What Dagster calls new is locked to a version and tested; it need not be said each time.
        for category in (dg.BetaWarning, dg.PreviewWarning):
            warnings.simplefilter("ignore", category)
        return _build()


def _build() -> dg.Definitions:
    folder = assets_folder()
    tree = dg.ComponentTree.from_module(_assets_module(), project_root=folder.parent)
    return dg.Definitions.merge(
        tree.build_defs(),
        dg.Definitions(
            resources={"project": ProjectResource(file=str(project_file()))},
            executor=dg.in_process_executor,
        ),
    )


defs = build()
