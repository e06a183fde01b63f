"""The ``credentials`` function for SQL: the findings of one call's arguments, as JSON."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from toolscore_pipeline.arrays import array_of
from toolscore_pipeline.credentials import TRUNCATED, CredentialFinding, find_credentials

# What is said when the scan itself broke: nothing was scanned, so nothing may be called clean.
_NOT_SCANNED = json.dumps([CredentialFinding("", TRUNCATED, "", truncated=True).to_dict()])


def credentials_json(args_json: str | None, args_raw: str | None) -> str:
    """The findings of :func:`find_credentials` as a JSON list; ``[]`` when there are none.

    ``args_json`` that is no JSON is scanned as text. Never raises: arguments that cannot be scanned
    give one ``truncated`` finding.
    """
    try:
        args = None
        if args_json is not None:
            try:
                args = json.loads(args_json)
            except (ValueError, RecursionError):
                args = args_json
        found = find_credentials(args, args_raw)
        if not found:
            return "[]"
        return json.dumps([finding.to_dict() for finding in found], ensure_ascii=False)
    except Exception:
        return _NOT_SCANNED


def credentials(args_json: pa.Array, args_raw: pa.Array) -> pa.Array:
    """The findings of each pair of argument texts (see :func:`credentials_json`)."""
    found = map(credentials_json, args_json.to_pylist(), args_raw.to_pylist())
    return array_of(list(found), pa.string())


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``credentials(args_json, args_raw)``, two texts to one, on a connection.

    Call it over distinct argument texts that pass the macro ``may_hold_credential``. Either
    argument may be null; the result never is.
    """
    connection.create_function(
        "credentials",
        credentials,
        ["VARCHAR", "VARCHAR"],
        "VARCHAR",
        type=ARROW,
        null_handling=SPECIAL,
    )
