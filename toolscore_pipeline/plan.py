"""The plan: every model file of ``sql/``, what it says of itself, and the order they are built in.

A model is one file, ``sql/<layer>/<name>.sql``: a header of comments (a sentence, then ``key:
value`` lines), and one SELECT. What a model depends on is read from its query, so there is no list
to keep; only a model whose rows Python computes names what they are computed from (``after:``).
Some relations are made of a folder instead of a file: ``checks.all`` and ``safety.all`` stack every
check and every finding, and ``grades.metrics`` puts every metric side by side.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import ToolscoreError, unknown_name

Kind = Literal["table", "incremental", "view", "ephemeral"]

LAYERS = (
    "settings",
    "raw",
    "evidence",
    "judgment",
    "work",
    "metrics",
    "scores",
    "safety",
    "checks",
    "grades",
    "receipts",
    "marts",
    "exports",
)
SCORING_LAYERS = ("work", "metrics", "scores", "safety", "checks", "grades")
KINDS = ("table", "incremental", "view", "ephemeral")

_PACKAGE = Path(__file__).parent
_COLUMN = re.compile(
    r"::(?P<type>[a-z0-9_\[\], ()]+?) as (?P<name>[a-z0-9_]+),?\s*--\s*(?P<comment>.+?)\s*$"
)
# Rows that Python computes stand in this schema while they are on their way.
STAGED = "staged"
_RELATION = re.compile(rf"\b(?:from|join)\s+((?:{'|'.join((*LAYERS, STAGED))})\.[a-z_0-9]+)\b")
_HEADER_KEY = re.compile(
    r"^(kind|grain|range|unit|null|source|key|after|guards|severity|mend):\s*(.*)$"
)


class PlanError(ToolscoreError):
    """A model file that breaks the form of the house, or models that depend on each other."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a model: its name, its DuckDB type and the sentence that documents it."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Model:
    """One relation of the warehouse and the query that makes it.

    Attributes:
        layer, name: the schema and the table.
        kind: ``table`` (rebuilt), ``incremental`` (rows are added), ``view`` or ``ephemeral``.
        description: the header's sentence.
        header: the other header lines by key (``grain``, ``range``, ``unit``, ``null``, ``source``,
            ``key``).
        query: the SELECT, comments and all.
        columns: the columns of its final SELECT, in order.
        depends_on: full names of the relations it reads, sorted; those that are no model too.
        path: its file; None for a relation made of a folder.
    """

    layer: str
    name: str
    kind: Kind
    description: str
    header: dict[str, str]
    query: str
    columns: tuple[Column, ...]
    depends_on: tuple[str, ...]
    path: Path | None = None
    code_version: str = field(default="")

    @property
    def full_name(self) -> str:
        """``layer.name``."""
        return f"{self.layer}.{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row of an incremental model."""
        return _named(self.header, "key")

    @property
    def column_names(self) -> tuple[str, ...]:
        """Its column names, in order."""
        return tuple(column.name for column in self.columns)


def _named(header: dict[str, str], key: str) -> tuple[str, ...]:
    """The names that a header line lists, separated by commas."""
    return tuple(part.strip() for part in header.get(key, "").split(",") if part.strip())


class Plan:
    """Every model, in an order in which each comes after what it reads."""

    def __init__(self, models: Iterable[Model]) -> None:
        by_name = {model.full_name: model for model in models}
        self.models: dict[str, Model] = {name: by_name[name] for name in _order(by_name)}

    def __getitem__(self, full_name: str) -> Model:
        if full_name not in self.models:
            raise PlanError(unknown_name("model", full_name, self.models))
        return self.models[full_name]

    def __iter__(self) -> Iterator[Model]:
        return iter(self.models.values())

    def __contains__(self, full_name: str) -> bool:
        return full_name in self.models

    def layer(self, *layers: str) -> list[Model]:
        """The models of these layers, in build order."""
        return [model for model in self if model.layer in layers]

    def upstream(self, targets: Iterable[str], within: Iterable[str] = LAYERS) -> list[Model]:
        """The targets and all they read, directly or not, inside some layers; in build order."""
        layers, wanted, todo = set(within), set(), list(targets)
        while todo:
            name = todo.pop()
            if name in wanted or name not in self.models or self.models[name].layer not in layers:
                continue
            wanted.add(name)
            todo.extend(self.models[name].depends_on)
        return [model for model in self if model.full_name in wanted]


def sql_root() -> Path:
    """The folder of SQL files: the checkout's ``sql`` when there is one, else the package's own."""
    checkout = _PACKAGE.parent / "sql"
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_sql"


@cache
def load_plan(root: Path | None = None) -> Plan:
    """Read every model file below ``root`` (default: the project's own) and order them.

    Raises:
        PlanError: a file without a header, a kind nobody knows, or a ring of dependencies.
    """
    root = root or sql_root()
    models = [read_model(path) for layer in LAYERS for path in sorted((root / layer).glob("*.sql"))]
    stacks = [
        _stack(models, "checks", "Every evidence check of every pair, one below the other."),
        _stack(models, "safety", "Every finding of every pair, one below the other."),
        _keep_metrics(models),
    ]
    return Plan(models + [model for model in stacks if model])


def macro_files(root: Path | None = None) -> list[Path]:
    """The files of ``sql/macros``, by name."""
    return sorted(((root or sql_root()) / "macros").glob("*.sql"))


@dataclass(frozen=True, slots=True)
class Audit:
    """One file of ``sql/audits``: a query that must return no rows.

    Attributes:
        name: the file's name, a claim about the rows.
        description: the header's sentence.
        guards: the model whose rows it is about.
        is_error: whether rows against it stop a build; else they are only a warning.
        mend: what to do when it has rows.
        query: the SELECT.
        depends_on: full names of the relations it reads, sorted.
    """

    name: str
    description: str
    guards: str
    is_error: bool
    mend: str
    query: str
    depends_on: tuple[str, ...]


@cache
def load_audits(root: Path | None = None) -> tuple[Audit, ...]:
    """Every audit, by name."""
    return tuple(
        _read_audit(path) for path in sorted(((root or sql_root()) / "audits").glob("*.sql"))
    )


def _read_audit(path: Path) -> Audit:
    text = path.read_text(encoding="utf-8")
    description, header = read_header(text)
    if "guards" not in header:
        raise PlanError(f"{path.name}: an audit says which model it guards")
    if "mend" not in header:
        raise PlanError(f"{path.name}: an audit says what to do when it has rows, after `mend:`")
    return Audit(
        name=path.stem,
        description=description,
        guards=header["guards"],
        is_error=header.get("severity", "error") == "error",
        mend=header["mend"],
        query=text,
        depends_on=read_dependencies(text),
    )


def read_model(path: Path) -> Model:
    """Read one model file."""
    text = path.read_text(encoding="utf-8")
    description, header = read_header(text)
    kind = header.get("kind", "")
    if kind not in KINDS:
        raise PlanError(f"{path.name}: {unknown_name('kind', kind, KINDS)}")
    layer, name = path.parent.name, path.stem
    return Model(
        layer=layer,
        name=name,
        kind=kind,  # type: ignore[arg-type]
        description=description,
        header=header,
        query=text.strip().rstrip(";"),
        columns=read_columns(text),
        depends_on=tuple(sorted({*read_dependencies(text), *_named(header, "after")})),
        path=path,
        code_version=sql_hash(text),
    )


def read_header(text: str) -> tuple[str, dict[str, str]]:
    """The sentence and the ``key: value`` lines of the comments that open a SQL file."""
    sentences: list[str] = []
    header: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        content = line.removeprefix("--").strip()
        if match := _HEADER_KEY.match(content):
            last = match[1]
            header[last] = match[2]
        elif last:
            header[last] += f" {content}"
        else:
            sentences.append(content)
    return " ".join(sentences), header


def read_columns(text: str) -> tuple[Column, ...]:
    """The columns of the final SELECT: each ends ``::type as name, -- comment``."""
    lines = text.splitlines()
    # The final SELECT is the last one that starts a line without indentation.
    start = max((i for i, line in enumerate(lines) if line.startswith("select")), default=0)
    return tuple(
        Column(match["name"], match["type"].strip(), match["comment"])
        for line in lines[start:]
        if (match := _COLUMN.search(line))
    )


def read_dependencies(text: str) -> tuple[str, ...]:
    """Full names of the relations a SELECT reads, sorted.

    Every file names them whole after FROM or JOIN, so the text tells; parsing it costs a hundred
    times more, and a test holds both against each other.
    """
    return tuple(sorted(set(_RELATION.findall(_without_strings(strip_comments(text))))))


def parse_dependencies(text: str) -> tuple[str, ...]:
    """The same by DuckDB's own parser, without the query's own steps."""
    with connect() as connection:
        row = connection.execute(
            "select json_serialize_sql($1)", [text.strip().rstrip(";")]
        ).fetchone()
    tree = json.loads(row[0] if row else "{}")
    if tree.get("error"):
        raise PlanError(str(tree.get("error_message")))
    found: set[str] = set()
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE" and node.get("schema_name"):
                found.add(f"{node['schema_name']}.{node['table_name']}")
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    return tuple(sorted(found))


def _without_strings(text: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", text)


def normalise_sql(text: str) -> str:
    """A query without comments and with white space folded: what it computes, not how it reads."""
    return " ".join(strip_comments(text).split())


def strip_comments(text: str) -> str:
    """SQL without its ``--`` comments; a ``--`` inside quotes stays."""
    return re.sub(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|--[^\n]*", lambda m: m[1] or "", text)


def sql_hash(text: str) -> str:
    """The SHA-256 of a query's normalised text: a comment does not change it, a formula does."""
    return hashlib.sha256(normalise_sql(text).encode()).hexdigest()


@cache
def grader_version(root: Path | None = None) -> str:
    """A hash over the SQL of the scoring layers, the macros and the functions they call.

    Grades made under one version are comparable digit by digit; a comment does not change it.
    """
    root = root or sql_root()
    parts = [
        f"{m.full_name} {m.code_version}"
        for m in load_plan(root)
        if m.layer in SCORING_LAYERS and m.path
    ]
    parts += [
        f"{path.name} {sql_hash(path.read_text(encoding='utf-8'))}" for path in macro_files(root)
    ]
    for source in scoring_sources():
        parts.append(f"{source.name} {hashlib.sha256(source.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def scoring_sources() -> list[Path]:
    """The Python files whose code decides scores: the functions SQL calls and what they rest on."""
    names = ("matchers.py", "pairing.py", "credentials.py", "honesty.py")
    files = [_PACKAGE / name for name in names] + sorted((_PACKAGE / "udfs").glob("*.py"))
    files += sorted((_PACKAGE / "honesty").glob("*")) + sorted((_PACKAGE / "data").glob("*"))
    return [path for path in files if path.is_file()]


def _stack(models: list[Model], layer: str, description: str) -> Model | None:
    """``<layer>.all``: the rows of every model of a layer with the columns most of them share."""
    members = [model for model in models if model.layer == layer]
    if not members:
        return None
    shapes = [model.column_names for model in members]
    shape = max(shapes, key=shapes.count)
    members = [model for model in members if model.column_names == shape]
    query = " union all ".join(f"select {', '.join(shape)} from {m.full_name}" for m in members)
    return Model(
        layer=layer,
        name="all",
        kind="ephemeral",
        description=description,
        header={"grain": members[0].header.get("grain", "")},
        query=query,
        columns=members[0].columns,
        depends_on=tuple(sorted(model.full_name for model in members)),
        code_version=sql_hash(query),
    )


def _keep_metrics(models: list[Model]) -> Model | None:
    """``grades.metrics``: the columns of every metric, side by side, of the best combination."""
    metrics = [model for model in models if model.layer == "metrics"]
    if not metrics:
        return None
    ids = ("run_id", "judgment_id", "grader_version")
    keys = ("pair_id", "case_id", "combination_id")
    columns = [
        Column("run_id", "varchar", "the run"),
        Column("judgment_id", "varchar", "the judgment it was held against"),
        Column("grader_version", "varchar", "the version of the formulas"),
    ]
    selected, joins = list(ids), []
    for metric in metrics:
        own = [column for column in metric.columns if column.name not in keys]
        columns += own
        selected += [f"{metric.name}.{column.name}" for column in own]
        shared = ", ".join(key for key in keys if key in metric.column_names)
        joins.append(f"left join {metric.full_name} as {metric.name} using ({shared})")
    query = (
        f"select {', '.join(selected)} from work.pairs as pairs"
        " inner join work.pair_cases as pair_cases using (pair_id)"
        f" inner join scores.winners as winners using (case_id) {' '.join(joins)}"
        " cross join settings.grader"
    )
    return Model(
        layer="grades",
        name="metrics",
        kind="incremental",
        description="Every metric of every grade, for the combination that won.",
        header={
            "key": ", ".join(ids),
            "grain": "one row per run, judgment and grader version",
            "null": "what a metric cannot tell: there is nothing to count, or it was not recorded",
        },
        query=query,
        columns=tuple(columns),
        depends_on=tuple(
            sorted(
                {
                    "scores.winners",
                    "work.pairs",
                    "work.pair_cases",
                    "settings.grader",
                    *(model.full_name for model in metrics),
                }
            )
        ),
        code_version=sql_hash(query),
    )


def _order(models: dict[str, Model]) -> list[str]:
    """Model names so that each comes after those it reads; layers and names break ties."""
    done: list[str] = []
    state: dict[str, str] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if state.get(name) == "done" or name not in models:
            return
        if state.get(name) == "open":
            ring = " -> ".join([*trail[trail.index(name) :], name])
            raise PlanError(f"models depend on each other in a ring: {ring}")
        state[name] = "open"
        for dependency in models[name].depends_on:
            visit(dependency, (*trail, name))
        state[name] = "done"
        done.append(name)

    for name in sorted(models, key=lambda n: (LAYERS.index(models[n].layer), n)):
        visit(name, ())
    return done
