"""Every stored value of a warehouse, changed in turn: ``verify`` names a broken link for each.

The warehouse is copied into memory once; a value is changed there, the checks that concern its
table are made, and the table is put back.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.project_helpers import rebuild
from toolscore_pipeline import verify as verifying
from toolscore_pipeline.pipeline import is_staged
from toolscore_pipeline.plan import grader_version, load_plan
from toolscore_pipeline.project import Project, load_project
from toolscore_pipeline.runner import table_hash
from toolscore_pipeline.verify import Verification, verify

HELPDESK = Path(__file__).resolve().parent.parent / "examples" / "helpdesk"
PLAN = load_plan()
STORED = [m for m in PLAN if m.kind in ("table", "incremental") and m.layer != "work"]
TABLES = [model.full_name for model in STORED]
TYPES = {(m.full_name, column.name): column.type for m in STORED for column in m.columns}

#: What cannot be made again from sources, contracts and formulas (see docs/receipts.md): the
#: published copy alone shows that it was changed.
STANDING = {
    ("raw.documents", "modified_ns"),
    # Other versions of the reader may say the same of the same bytes: told as unchecked.
    ("raw.documents", "loader_version"),
    # Instants of the past, as they were when they were noted.
    ("marts.protocol_decisions", "decided_at"),
    ("marts.protocol_decisions", "first_run_at"),
}
#: Which rows are no history, where a table has both.
NEWEST = {
    "receipts.edition_bindings": "edition = 2",
    "marts.protocol_decisions": "is_current",
}
#: The rows that are history, and what cannot be made again of those: of an edition before the
#: newest, flips alone tell, and a binding that did not change its judgment flips nothing.
HISTORY = {
    "receipts.edition_bindings": [
        ("edition = 1 and name = 'change-address'", {"name", "task", "task_pattern"}),
        (
            "edition = 1 and name != 'change-address'",
            {"name", "task", "task_pattern", "variant", "source"},
        ),
    ],
    "marts.protocol_decisions": [
        ("not is_current", {"decided_at", "first_run_at", "decision_id", "decision"}),
    ],
}
#: The published copy is held against all but these: it tells when a file was last written.
TIMES_ONLY = {("raw.documents", "modified_ns")}


def make(folder: Path) -> Path:
    """The example project with something in every table: rejects, two editions, two protocols."""
    shutil.copytree(HELPDESK, folder)
    for name in ("baseline", "candidate"):
        path = folder / f"runs/{name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        # With a time in common, so that the decision's own times are there.
        rows = [json.loads(line) | {"warnings": ["odd"]} for line in lines[::4][:12]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with (folder / "runs/baseline.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"run_record_version": "1", "calls": [\n')
    contract = folder / "contracts/change-address.yaml"
    text = contract.read_text(encoding="utf-8")
    contract.write_text(
        text.replace(
            "{tool: find_customer}", "{tool: find_customer, side_effects: {file_exists: a}}"
        )
        + "forbidden: [{tool: delete_account, reason: never}]\n",
        encoding="utf-8",
    )
    rebuild(folder)
    contract.write_text(contract.read_text(encoding="utf-8").replace("Lisbon", "Porto"))
    protocol = folder / "protocols/adopt.yaml"
    protocol.write_text(protocol.read_text(encoding="utf-8").replace("min_runs: 20", "min_runs: 2"))
    rebuild(folder)
    return folder


class Copy(verifying._Store):
    """The warehouse in memory, with the file itself beside it to put tables back from."""

    def _attach(self, path: Path) -> None:
        literal = "'" + str(path).replace("'", "''") + "'"
        self.connection.execute("set threads = 1")  # many small queries: quicker alone
        self.connection.execute(f"attach {literal} as kept (read_only)")
        self.connection.execute("attach ':memory:' as stored")
        self.connection.execute("copy from database kept to stored")

    def put_back(self, table: str) -> None:
        # Not by deleting: its rows are to have the numbers they had.
        self.connection.execute(f"create or replace table stored.{table} as from kept.{table}")

    def hash(self, table: str) -> str:
        self.connection.execute("use stored")
        try:
            return table_hash(self.connection, PLAN[table])
        finally:
            self.connection.execute("use memory")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("rows") / "p")


@pytest.fixture(scope="module")
def project(folder: Path) -> Project:
    return load_project(folder / "toolscore.yaml")


@pytest.fixture(scope="module")
def store(project: Project) -> Iterator[Copy]:
    store = Copy(project.warehouse)
    with store:
        # Made once: what the engine gives now, and what Python decides.
        found = Verification("x", "warehouse")
        verifying._rescore_warehouse(found, store)
        verifying._verify_decisions(found, store)
        assert found.broken == []
        yield store


def test_the_warehouse_is_whole_and_has_something_in_every_table(folder, store):
    assert verify(folder, regrade=True).broken == []
    empty = [m.full_name for m in STORED if not store.rows(f"from stored.{m.full_name} limit 1")]
    assert empty == []


def checks_of(table: str, project: Project) -> Callable[[Verification, Copy], None]:
    """The part of a verification that concerns a table, without the published copy."""
    layer = table.split(".")[0]
    model = PLAN[table]

    def check(found: Verification, store: Copy) -> None:
        if layer in ("raw", "evidence"):
            verifying._verify_documents(found, store, project)
        elif table == "settings.grader" or layer == "receipts":
            verifying._verify_editions(found, store)
            verifying._verify_mart(found, store, PLAN["marts.flips"])
        elif layer == "settings" or table == "judgment.bindings":
            verifying._verify_bindings(found, store, project)
        elif layer == "judgment":
            verifying._verify_stored_judgments(found, store)
        elif layer == "grades":
            verifying._compare_output(found, store, grader_version(), table)
            if not found.broken:
                verifying._verify_grades(found, store)
        elif not is_staged(model):
            verifying._verify_mart(found, store, model)
        elif model.name.startswith("protocol_de"):
            verifying._verify_decisions(found, store)
        else:
            verifying._same_rows(
                found, store, "mart", table, f"stored.{table}", f"work.made_{model.name}",
                model.column_names,
            )  # fmt: skip

    return check


def other_character(character: str) -> str:
    return "y" if character == "x" else "x"


def variants(value: Any, kind: str) -> Iterator[Any]:
    """Other values than one, each as near to it as its type has them; NULL first."""
    yield None
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, float):
        yield math.nextafter(value, math.inf)
        yield math.nextafter(value, -math.inf)
    elif isinstance(value, datetime):
        yield value + timedelta(microseconds=1)
    elif isinstance(value, str):
        count = len(value)
        places = range(count) if count <= 40 else sorted({*range(0, count, count // 8), count - 1})
        for place in places:
            yield value[:place] + other_character(value[place]) + value[place + 1 :]
        yield value + " "
        yield "" if value else "x"
    elif isinstance(value, list):
        yield [*value, value[0] if value else FIRST_VALUES[kind][0]]
        for index, item in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            for other in list(variants(item, kind.removesuffix("[]")))[1:3]:
                yield [*value[:index], other, *value[index + 1 :]]
        yield value[::-1]


FIRST_VALUES: dict[str, Any] = {
    "varchar": "x", "boolean": True, "varchar[]": ["x"], "double": 0.5, "double[]": [0.5],
    "timestamptz": datetime.fromisoformat("2026-01-01T00:00:00+00:00"), "integer[]": [1],
}  # fmt: skip


def changes(store: Copy, table: str, column: str, which: str = "true") -> Iterator[tuple[int, Any]]:
    """Changes of one value: of a row that has one, and of a row that has none.

    The rows are the first by what they say: the order in which threads wrote them varies.
    """
    kind = TYPES[table, column]
    for there in ("is not null", "is null"):
        for row, value in store.rows(
            f"select rowid, {column} from stored.{table} as held"
            f" where {column} {there} and {which} order by held limit 1"
        ):
            if value is None:
                yield row, FIRST_VALUES.get(kind, 1)
            else:
                yield from ((row, other) for other in variants(value, kind) if other != value)


def change(store: Copy, table: str, column: str, row: int, value: Any) -> None:
    store.connection.execute(
        f"update stored.{table} set {column} = $1::{TYPES[table, column]} where rowid = $2",
        [value, row],
    )


def is_caught(store: Copy, check: Callable[[Verification, Copy], None]) -> bool:
    found = Verification("x", "warehouse")
    with verifying._again(found, "mart", "x"):
        check(found, store)
    return bool(found.broken)


def missed(store: Copy, project: Project, table: str, which: str) -> set[tuple[str, str]]:
    """The columns of rows of which a change slips through what the table is made from."""
    check = checks_of(table, project)
    found = set()
    for column in PLAN[table].column_names:
        seen: set[bool] = set()
        for row, value in changes(store, table, column, which):
            if (value is None) in seen:
                continue  # one of each kind: rows are compared whole
            seen.add(value is None)
            change(store, table, column, row, value)
            if not is_caught(store, check):
                found.add((table, column))
            store.put_back(table)
        assert seen, column
    return found


@pytest.mark.parametrize("table", TABLES)
def test_a_change_of_any_value_is_caught_by_what_it_is_made_from(store, project, table):
    assert not is_caught(store, checks_of(table, project))
    newest = NEWEST.get(table, "true")
    expected = {pair for pair in STANDING if pair[0] == table}
    assert missed(store, project, table, newest) == expected
    for which, columns in HISTORY.get(table, []):
        assert missed(store, project, table, which) == {(table, name) for name in columns}


@pytest.mark.parametrize("table", TABLES)
def test_every_character_and_last_place_shows_beside_the_published_copy(store, project, table):
    whole = store.hash(table)
    for column in PLAN[table].column_names:
        if (table, column) in TIMES_ONLY:
            continue
        # Nothing else is written in between: each change is rolled back.
        for row, value in list(changes(store, table, column)):
            store.connection.execute("begin")
            change(store, table, column, row, value)
            assert store.hash(table) != whole, (column, row, value)
            store.connection.execute("rollback")
    assert store.hash(table) == whole


@pytest.mark.parametrize("table", TABLES)
def test_rows_that_are_gone_doubled_or_exchanged_are_caught(store, project, table):
    check, whole = checks_of(table, project), store.hash(table)
    statements = [
        f"delete from stored.{table} where rowid = (select max(rowid) from stored.{table})",
        f"insert into stored.{table} from stored.{table} limit 1",
    ]
    for statement in statements:
        store.connection.execute(statement)
        assert store.hash(table) != whole, statement
        assert is_caught(store, check), statement
        store.put_back(table)
    kept = store.rows(f"select rowid, stored.* from stored.{table} as stored")
    for place, column in enumerate(PLAN[table].column_names, start=1):
        if (table, column) in TIMES_ONLY:
            continue
        first = kept[0]
        second = next((row for row in kept if row[place] != first[place]), None)
        if second is None:
            continue
        others = (first[1:place], first[place + 1 :]) != (second[1:place], second[place + 1 :])
        store.connection.execute("begin")
        change(store, table, column, first[0], second[place])
        change(store, table, column, second[0], first[place])
        # Two rows that differ in this column alone are the same two rows after it.
        assert (store.hash(table) != whole) == others, column
        store.connection.execute("rollback")
