"""Functions for DuckDB that SQL cannot express, one module per subject.

Every module of this package has ``register(connection)``; :func:`register_all` finds them, so a new
module needs no list to be edited. All functions take and return Arrow arrays, may be called from
several threads at once, and never raise for the data of one row.
"""

from __future__ import annotations

import importlib
import pkgutil

import duckdb


def register_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the functions of every module of this package on a connection, once."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        importlib.import_module(f"{__name__}.{module.name}").register(connection)
