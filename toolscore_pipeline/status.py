"""What a warehouse holds, read from its published copy."""

from __future__ import annotations

from typing import Any

import duckdb

from toolscore_pipeline.project import Project
from toolscore_pipeline.warehouse import Warehouse

_SOURCES = """
with sources as (
    select distinct source from raw.documents
    union
    select distinct source from evidence.runs
),
documents as (
    select source, count(*) as documents, sum(reject_count) as rejects
    from raw.documents group by all
),
runs as (select source, count(*) as runs from evidence.runs group by all),
grades as (
    select
        source,
        count(*) as graded,
        count(*) filter (where outcome = 'pass') as pass,
        count(*) filter (where outcome = 'fail') as fail,
        count(*) filter (where outcome = 'error') as error,
        count(*) filter (where outcome = 'unknown') as unknown,
    from marts.latest_grades group by all
)
select
    source,
    coalesce(documents, 0)::bigint as documents,
    coalesce(runs, 0)::bigint as runs,
    coalesce(rejects, 0)::bigint as rejects,
    coalesce(graded, 0)::bigint as graded,
    coalesce(pass, 0)::bigint as pass,
    coalesce(fail, 0)::bigint as fail,
    coalesce(error, 0)::bigint as error,
    coalesce(unknown, 0)::bigint as unknown,
from sources
left join documents using (source)
left join runs using (source)
left join grades using (source)
order by source
"""

_CONTRACTS = """
select
    contract,
    count(*)::bigint as runs,
    round(avg(score), 4) as mean_score,
    round(count(*) filter (where outcome = 'pass') / count(*), 4) as pass_rate,
from marts.latest_grades
group by all
order by contract
"""

_DECISIONS = """
select comparison, decision
from marts.protocol_decisions
qualify row_number() over (partition by comparison order by decided_at desc) = 1
order by comparison
"""


def read_status(project: Project) -> dict[str, Any]:
    """A JSON-safe report on a project's warehouse.

    Returns:
        ``project``, ``warehouse``, ``bytes``, ``sources`` (a row per source: documents, runs,
        records set aside, graded runs and their outcomes), ``contracts`` (runs, mean score, pass
        rate), ``decisions`` (the newest per comparison) and ``notes``.

    Raises:
        WarehouseError: nothing has been published yet.
    """
    warehouse = Warehouse(project.warehouse)
    with warehouse.read() as connection:
        sources = read_sources(connection)
        contracts = _rows(connection, _CONTRACTS)
        decisions = _rows(connection, _DECISIONS)
    ungraded = sum(row["runs"] - row["graded"] for row in sources)
    notes = []
    if ungraded:
        notes.append(f"{ungraded} runs have no contract that applies to them")
    rejected = sum(row["rejects"] for row in sources)
    if rejected:
        notes.append(f"{rejected} records were set aside; see raw.rejects")
    return {
        "project": str(project.file),
        "warehouse": str(project.warehouse),
        "published": str(warehouse.published),
        "bytes": project.warehouse.stat().st_size if project.warehouse.is_file() else 0,
        "sources": sources,
        "contracts": contracts,
        "decisions": decisions,
        "notes": notes,
    }


def read_sources(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """A row for each source: documents, runs, records set aside, graded runs and their outcomes."""
    return _rows(connection, _SOURCES)


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    result = connection.execute(query)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
