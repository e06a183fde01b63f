"""Looking for declared side effects, once, on the machine that has them.

A probe is evidence: it is taken when a trace is first evaluated and kept with the run; a regrade
reads it and never looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.contract import AlternativeGroup, Contract
from toolscore_pipeline.hashing import canonical_json

HTTP_SECONDS = 5.0
SQL_ROWS = 1_000_000
_LONGEST_FILE = 64 << 20


class Inconclusive(Exception):
    """A probe could not tell; the reason says why."""


def declared_effects(expected: Contract | Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The side effects that an expectation declares anywhere, once: (kind, what to look for)."""
    entries: list[Any] = list(expected.required if isinstance(expected, Contract) else expected)
    calls: list[Mapping[str, Any]] = []
    for entry in entries:
        if isinstance(entry, AlternativeGroup):
            calls += [call for option in entry.options for call in option]
        else:
            calls.append(entry)
    found: dict[bytes, tuple[str, Any]] = {}
    for call in calls:
        for kind, spec in (call.get("side_effects") or {}).items():
            found.setdefault(canonical_json([kind, spec]), (kind, spec))
    return list(found.values())


def probe(effects: Iterable[tuple[str, Any]], folder: str | Path = ".") -> list[dict[str, Any]]:
    """Look for side effects.

    Args:
        effects: (kind, what to look for) pairs:
            ``file_exists``: a path or a list of paths;
            ``file_contains``: ``{"path": ..., "text": ...}``;
            ``http_status``: ``{"url": ..., "status": 200}``, or a URL that must answer 200;
            ``sql_rows``: ``{"database": ..., "query": ..., "rows": n}`` or ``"min": n``, on a
            SQLite or DuckDB file, read-only.
        folder: what relative paths start from.

    Returns:
        One dict each: ``kind``, ``spec`` (as declared), ``status`` (``pass``, ``fail``, or
        ``unknown`` when the probe was inconclusive) and ``detail``.
    """
    return [_probe(kind, spec, Path(folder)) for kind, spec in effects]


def _probe(kind: str, spec: Any, folder: Path) -> dict[str, Any]:
    try:
        is_found, detail = _PROBES[kind](spec, folder)
        status = "pass" if is_found else "fail"
    except Inconclusive as reason:
        status, detail = "unknown", str(reason)
    except (KeyError, TypeError, ValueError, OSError) as error:
        status, detail = "unknown", f"the probe could not be made ({type(error).__name__})"
    return {"kind": kind, "spec": spec, "status": status, "detail": detail}


def _file_exists(spec: Any, folder: Path) -> tuple[bool, str]:
    paths = spec if isinstance(spec, list) else [spec]
    missing = sum(not (folder / str(path)).exists() for path in paths)
    return missing == 0, f"{len(paths) - missing} of {len(paths)} files are there"


def _file_contains(spec: Any, folder: Path) -> tuple[bool, str]:
    path, text = folder / str(spec["path"]), str(spec["text"])
    if not path.is_file():
        return False, "the file is not there"
    if path.stat().st_size > _LONGEST_FILE:
        raise Inconclusive("the file is too long to be read")
    is_found = text in path.read_text(encoding="utf-8", errors="replace")
    return is_found, "the text is there" if is_found else "the file does not hold the text"


def _http_status(spec: Any, folder: Path) -> tuple[bool, str]:
    import urllib.error
    import urllib.request

    url, wanted = (spec, 200) if isinstance(spec, str) else (spec["url"], spec.get("status", 200))
    if not str(url).startswith(("http://", "https://")):
        raise Inconclusive("only http and https can be asked")
    try:
        with urllib.request.urlopen(str(url), timeout=HTTP_SECONDS) as response:
            status = response.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        raise Inconclusive("the server did not answer") from None
    return status == wanted, f"the server answered {status}"


def _sql_rows(spec: Any, folder: Path) -> tuple[bool, str]:
    path, query = folder / str(spec["database"]), str(spec["query"])
    if not path.is_file():
        raise Inconclusive("the database is not there")
    with open(path, "rb") as file:
        is_sqlite = file.read(16).startswith(b"SQLite format 3")
    count = _count_sqlite(path, query) if is_sqlite else _count_duckdb(path, query)
    if "rows" in spec:
        return count == spec["rows"], f"the query found {count} rows"
    return count >= spec.get("min", 1), f"the query found {count} rows"


def _count_sqlite(path: Path, query: str) -> int:
    import sqlite3

    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        return len(connection.execute(query).fetchmany(SQL_ROWS))
    except sqlite3.Error:
        raise Inconclusive("the query failed") from None
    finally:
        connection.close()


def _count_duckdb(path: Path, query: str) -> int:
    import duckdb

    try:
        with connect(str(path), read_only=True) as connection:
            return len(connection.execute(query).fetchmany(SQL_ROWS))
    except duckdb.Error:
        raise Inconclusive("the query failed") from None


_PROBES: dict[str, Callable[[Any, Path], tuple[bool, str]]] = {
    "file_exists": _file_exists,
    "file_contains": _file_contains,
    "http_status": _http_status,
    "sql_rows": _sql_rows,
}
