"""``toolscore init``: write a commented project file with a contract to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, write_text
from toolscore_pipeline.errors import UsageError

PROJECT = """\
# A project: where runs come from, how they are judged, what is compared and written out.
# Paths are relative to this file. `toolscore build` brings everything up to date.
warehouse: warehouse.duckdb

# A source is a glob of trace files (any format, gzip and zstd too), of run rows (JSON Lines),
# or a DuckDB query in a file that yields the run-row columns (task, variant, calls, ...).
sources:
  - name: traces
    path: "traces/**/*.json*"
    format: auto
    variant: "{parent}"                              # the folder names the variant
    task: '^(?P<task>.+?)(?:[-_.]r?\\d+)?$'           # the file name, without its number, the task
  # - {name: studies, path: "runs/*.jsonl"}
  # - {name: lake, query: sources/lake.sql}

# A contract or gold list applies to the task of its `task` key, else to that named like its file.
contracts:
  - {path: "contracts/*.yaml"}

# Laid over every contract.
grading:
  strict: false
  # weights: {required_call_recall: 0.3}
  # forbidden: forbidden.yaml
  # honesty: honesty.yaml

# comparisons:
#   - {name: models, baseline: main, k: 3, min_n: 10, protocol: protocols/adopt.yaml}

# exports:
#   - {name: aef, format: aef, path: exports/records.jsonl}

# regrade: {cron: "0 5 * * *"}
"""

CONTRACT = """\
# What a run of the task `book-flight` must, may and must not do.
contract_version: 2
description: Book a flight to Lisbon. Checking the weather is fine; cancelling is not.
required:
  - {tool: search_flights, args: {destination: LIS, date: {$regex: "^2026-12-"}}}
  - id: book                        # any one of these will do
    alternatives:
      - [{tool: book_flight, args: {flight_id: {$regex: '^FL-\\d+$'}}}]
      - [{tool: reserve_seat, args: {flight_id: {$regex: '^FL-\\d+$'}}}]
optional:
  - {tool: get_weather}
forbidden:
  - {tool: cancel_booking, reason: never cancel an existing booking}
min_score: 0.9
"""

TRACE = """\
{
  "calls": [
    {"tool": "search_flights", "args": {"destination": "LIS", "date": "2026-12-05"},
     "result": ["FL-204"]},
    {"tool": "get_weather", "args": {"city": "Lisbon"}, "result": "mild"},
    {"tool": "book_flight", "args": {"flight_id": "FL-204"}, "result": {"booking": "B-1"}}
  ],
  "final_answer": "I booked flight FL-204 to Lisbon."
}
"""

FILES = {
    "toolscore.yaml": PROJECT,
    "contracts/book-flight.yaml": CONTRACT,
    "traces/main/book-flight-1.json": TRACE,
}


def command(
    folder: Annotated[Path, typer.Argument(help="Where to start the project.")] = Path(),
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Start a project: a commented toolscore.yaml, one contract and one trace."""
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        raise UsageError(f"{folder / taken[0]} exists already; nothing was written")
    out = console(quiet=quiet)
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        out.print(f"wrote {path}")
    out.print(
        f"next: cd {folder} && toolscore build" if str(folder) != "." else "next: toolscore build"
    )
