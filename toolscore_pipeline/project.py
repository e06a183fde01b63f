"""The project file ``toolscore.yaml``: where runs come from and how they are judged."""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscore_pipeline import documents
from toolscore_pipeline.documents import Document, child_path
from toolscore_pipeline.errors import ContractError, InputError, Problem, UsageError, nearest
from toolscore_pipeline.hashing import canonical_json, file_sha256
from toolscore_pipeline.judgments import Judgment, compile_judgment
from toolscore_pipeline.loading import Source, check_source

if TYPE_CHECKING:
    from toolscore_pipeline.contract import Contract

PROJECT_FILE = "toolscore.yaml"


@dataclass(frozen=True)
class Grading:
    """How every contract of the project is applied.

    Attributes:
        strict: compare values type and all.
        weights: score weights laid over those of each contract; None leaves them.
        forbidden: a file of forbidden rules added to each contract's.
        honesty: a file of settings of the honesty checks.
        min_score: the passing score of gold lists; a contract names its own.
        require_completed: whether a required call missing or failed fails a run's outcome.
    """

    strict: bool = False
    weights: dict[str, float] | None = None
    forbidden: Path | None = None
    honesty: Path | None = None
    min_score: float | None = None
    require_completed: bool = False


@dataclass(frozen=True)
class ComparisonSettings:
    """One comparison of variants, as the project file asks for it."""

    name: str
    baseline: str | None = None
    k: int = 1
    min_n: int = 10
    alpha: float = 0.05
    source: str | None = None
    variant_key: str | None = None
    outcome: str = "graded"
    select: str | None = None
    objectives: list[str] = field(default_factory=list)
    protocol: Path | None = None


@dataclass(frozen=True)
class ExportSettings:
    """One export: its name, format (``aef``) and the file it is written to."""

    name: str
    format: str
    path: Path


@dataclass(frozen=True)
class Study:
    """An agent study that Dagster runs.

    Attributes:
        name: its name in the project; Dagster's asset is ``studies/<name>``.
        spec: the file of the study's spec.
        output: the JSON Lines file of its rows, one a run.
        allow_paid: whether models that cost money may be called.
        concurrency: runs of one arm at the same time, from 1.
    """

    name: str
    spec: Path
    output: Path
    allow_paid: bool = False
    concurrency: int = 1


@dataclass(frozen=True)
class Binding:
    """A judgment and the runs it applies to; a condition that is None holds for every run."""

    judgment: Judgment
    name: str
    path: str
    sha256: str
    task: str | None = None
    task_pattern: str | None = None
    variant: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Project:
    """A project file, read and checked; relative paths start at its folder.

    Attributes:
        root: the folder of the project file.
        file: the project file.
        warehouse: the warehouse file.
        sources: where runs come from.
        contracts: glob patterns of contract and gold files.
        grading: how they are applied.
        comparisons: what is compared.
        exports: what is written out.
        regrade_cron: when the whole is regraded by schedule; None never.
        studies: agent studies that Dagster runs.
    """

    root: Path
    file: Path
    warehouse: Path
    sources: list[Source]
    contracts: list[str]
    grading: Grading
    comparisons: list[ComparisonSettings]
    exports: list[ExportSettings]
    regrade_cron: str | None
    studies: list[Study]

    @property
    def published(self) -> Path:
        """The read-only copy of the warehouse that readers open."""
        return self.warehouse.with_name(f"{self.warehouse.stem}.published.duckdb")

    def bindings(self) -> list[Binding]:
        """Every contract of the project, compiled, with the runs it applies to.

        Raises:
            InputError: a pattern that matches no file, or a file that cannot be read.
            ContractError: everything that is wrong with a contract, with lines.
        """
        honesty = _load_honesty(self.grading.honesty)
        forbidden = _load_rules(self.grading.forbidden)
        bindings: list[Binding] = []
        for pattern in self.contracts:
            # Only the pattern is one: the project's folder may be called "a[1]".
            found = glob.glob(pattern, root_dir=self.root, recursive=True)
            paths = sorted(self.root / path for path in found)
            if not paths:
                raise InputError(f"contracts: {pattern!r} matches no file", path=self.file)
            for path in paths:
                bindings += _bind(self, path, forbidden, honesty)
        return bindings


def find_project(start: str | Path | None = None) -> Path | None:
    """The project file in ``start`` (default: the current folder) or the nearest one above it."""
    folder = Path(start or ".").resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
    return None


def open_project(path: str | Path | None = None) -> Project:
    """The project at ``path`` (its file or folder), or the one found upward from here.

    Raises:
        UsageError: there is none.
    """
    if path is None:
        found = find_project()
        if found is None:
            raise UsageError(
                f"no {PROJECT_FILE} here or in a folder above; `toolscore init` writes one, and"
                " --project names one elsewhere"
            )
        return load_project(found)
    path = Path(path)
    return load_project(path / PROJECT_FILE if path.is_dir() else path)


def load_project(path: str | Path) -> Project:
    """Read a project file.

    Raises:
        InputError: it is missing or not YAML.
        ContractError: everything that is wrong in it, with lines and the nearest known names.
    """
    file = Path(path).resolve()
    document = documents.load_document(file)
    reader = _Reader(document)
    root = file.parent
    top = reader.mapping(document.value, "$", _TOP_KEYS)
    sources = [
        _read_source(reader, item, where, root)
        for item, where in reader.items(top.get("sources"), "$.sources")
    ]
    contracts = [
        text
        for item, where in reader.items(top.get("contracts"), "$.contracts")
        if (text := _read_contract_pattern(reader, item, where))
    ]
    names = [source.name for source in sources if source is not None]
    _refuse_twice(reader, "sources", names)
    comparisons = [
        _read_comparison(reader, item, where, root, names)
        for item, where in reader.items(top.get("comparisons"), "$.comparisons")
    ]
    exports = [
        _read_export(reader, item, where, root)
        for item, where in reader.items(top.get("exports"), "$.exports")
    ]
    # Of two comparisons of one name each would count the runs of both.
    _refuse_twice(reader, "comparisons", [one.name for one in comparisons if one])
    _refuse_twice(reader, "exports", [one.name for one in exports if one])
    regrade = reader.mapping(top.get("regrade", {}), "$.regrade", ("cron",))
    cron = reader.text(regrade, "cron", "$.regrade")
    if cron is not None and not _is_cron(cron):
        reason = f"expected the five fields of a cron schedule, such as '0 5 * * *', got {cron!r}"
        reader.problem(reason, "$.regrade.cron")
    warehouse = reader.text(top, "warehouse", "$") or "warehouse.duckdb"
    studies = _read_studies(reader, top.get("studies"), root)
    grading = _read_grading(reader, top.get("grading", {}), root)
    reader.finish()
    return Project(
        root=root,
        file=file,
        warehouse=root / warehouse,
        sources=[source for source in sources if source],
        contracts=contracts,
        grading=grading,
        comparisons=[comparison for comparison in comparisons if comparison],
        exports=[export for export in exports if export],
        regrade_cron=cron,
        studies=studies,
    )


def _refuse_twice(reader: _Reader, key: str, names: list[str]) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.problem(f"two {key} are named {name!r}", f"$.{key}")


# The fields of a cron schedule: the least and the greatest number, and names that stand for them.
_CRON_FIELDS = (
    (0, 59, ""),
    (0, 23, ""),
    (1, 31, ""),
    (1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    (0, 7, "sun mon tue wed thu fri sat"),
)
_CRON_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9]\d{0,3}))?", re.ASCII)


def _is_cron(text: str) -> bool:
    """Whether a text is five fields of lists, ranges and steps within what each may hold."""
    fields = text.lower().split()

    def holds(part: str, low: int, high: int, names: str) -> bool:
        found = _CRON_PART.fullmatch(part)
        if found is None:
            return False
        known = {name: low + number for number, name in enumerate(names.split())}
        ends = [
            known.get(end, int(end) if end.isdecimal() else -1)
            for end in found.group(1, 2)
            if end is not None
        ]
        return all(low <= end <= high for end in ends) and ends == sorted(ends)

    return len(fields) == len(_CRON_FIELDS) and all(
        holds(part, *limits)
        for field, limits in zip(fields, _CRON_FIELDS, strict=True)
        for part in field.split(",")
    )


_TOP_KEYS = (
    "warehouse",
    "sources",
    "contracts",
    "grading",
    "comparisons",
    "exports",
    "regrade",
    "studies",
)
_SOURCE_KEYS = ("name", "path", "query", "format", "variant", "task")
_GRADING_KEYS = ("strict", "weights", "forbidden", "honesty", "min_score", "require_completed")
_COMPARISON_KEYS = (
    "name",
    "baseline",
    "k",
    "min_n",
    "alpha",
    "source",
    "variant_key",
    "outcome",
    "select",
    "objectives",
    "protocol",
)
_EXPORT_KEYS = ("name", "format", "path")
_STUDY_KEYS = ("name", "spec", "output", "allow_paid", "concurrency")
# A name that becomes part of an asset's key.
_KEY_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class _Reader:
    """Collects every problem of a document instead of stopping at the first."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def problem(self, reason: str, where: str) -> None:
        self.problems.append(Problem(reason, where))

    def finish(self) -> None:
        if self.problems:
            raise ContractError(self.document.locate(self.problems), path=self.document.path)

    def mapping(self, value: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(f"expected a mapping with {', '.join(known)}, got {_kind(value)}", where)
            return {}
        for key in value:
            if key not in known:
                hint = nearest(str(key), known) or f" (known: {', '.join(known)})"
                self.problem(f"unknown key {key!r}{hint}", child_path(where, str(key)))
        return value

    def items(self, value: Any, where: str) -> list[tuple[Any, str]]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(f"expected a list, got {_kind(value)}", where)
            return []
        return [(item, child_path(where, index)) for index, item in enumerate(value)]

    def _typed(
        self, value: Mapping[str, Any], key: str, where: str, what: str, fits: Callable[[Any], bool]
    ) -> Any:
        found = value.get(key)
        if found is None:
            return None
        if not fits(found):
            self.problem(f"expected {what}, got {_kind(found)}", child_path(where, key))
            return None
        return found

    def text(self, value: Mapping[str, Any], key: str, where: str) -> str | None:
        found: str | None = self._typed(
            value, key, where, "a text", lambda found: isinstance(found, str) and found != ""
        )
        return found

    def flag(self, value: Mapping[str, Any], key: str, where: str, default: bool = False) -> bool:
        found = self._typed(
            value, key, where, "true or false", lambda found: isinstance(found, bool)
        )
        return default if found is None else bool(found)

    def count(self, value: Mapping[str, Any], key: str, where: str, default: int) -> int:
        found = self._typed(
            value,
            key,
            where,
            "a whole number from 1",
            lambda found: isinstance(found, int) and not isinstance(found, bool) and found >= 1,
        )
        return default if found is None else int(found)

    def share(self, value: Mapping[str, Any], key: str, where: str) -> float | None:
        found = self._typed(
            value,
            key,
            where,
            "a number from 0 to 1",
            lambda found: (
                isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found <= 1
            ),
        )
        return None if found is None else float(found)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names: dict[type, str] = {
        bool: "true or false",
        dict: "a mapping",
        list: "a list",
        str: "a text",
    }
    return names.get(type(value), f"the number {value}")


def _read_source(reader: _Reader, item: Any, where: str, root: Path) -> Source | None:
    found = reader.mapping(item, where, _SOURCE_KEYS)
    name = reader.text(found, "name", where)
    path, query = reader.text(found, "path", where), reader.text(found, "query", where)
    if name is None:
        reader.problem("a source needs a name", where)
    if (path is None) == (query is None):
        reader.problem("a source needs a path or a query, and only one of them", where)
        return None
    text = None
    if query is not None:
        file = root / query
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            hint = "; 'query' names a file with the SQL in it" if " " in query else ""
            reader.problem(
                f"cannot read the query file {query}: {_why(error)}{hint}", f"{where}.query"
            )
            return None
    source = Source(
        name=name or "",
        path=path,
        query=text,
        format=reader.text(found, "format", where) or "auto",
        variant=reader.text(found, "variant", where),
        task=reader.text(found, "task", where),
        root=root,
    )
    try:
        check_source(source)
    except UsageError as error:
        reader.problem(str(error), where)
    return source


def _why(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else "it is not UTF-8"


def _read_contract_pattern(reader: _Reader, item: Any, where: str) -> str | None:
    if isinstance(item, str):
        return item
    return reader.text(reader.mapping(item, where, ("path",)), "path", where)


def _read_grading(reader: _Reader, value: Any, root: Path) -> Grading:
    where = "$.grading"
    found = reader.mapping(value, where, _GRADING_KEYS)
    weights = found.get("weights")
    if weights is not None:
        from toolscore_pipeline.contract import normalize_weights

        try:
            normalize_weights(weights)
        except ValueError as error:
            reader.problem(str(getattr(error, "reason", error)), f"{where}.weights")
            weights = None
    paths: dict[str, Path | None] = {}
    for key in ("forbidden", "honesty"):
        name = reader.text(found, key, where)
        paths[key] = root / name if name else None
        if name and not (root / name).is_file():
            reader.problem(f"the file {name} does not exist", f"{where}.{key}")
    return Grading(
        strict=reader.flag(found, "strict", where),
        weights=weights,
        forbidden=paths["forbidden"],
        honesty=paths["honesty"],
        min_score=reader.share(found, "min_score", where),
        require_completed=reader.flag(found, "require_completed", where),
    )


def _read_comparison(
    reader: _Reader, item: Any, where: str, root: Path, sources: list[str]
) -> ComparisonSettings | None:
    found = reader.mapping(item, where, _COMPARISON_KEYS)
    name = reader.text(found, "name", where)
    if name is None:
        reader.problem("a comparison needs a name", where)
        return None
    source = reader.text(found, "source", where)
    if source is not None and source not in sources:
        reader.problem(f"unknown source {source!r}{nearest(source, sources)}", f"{where}.source")
    outcome = reader.text(found, "outcome", where) or "graded"
    if outcome not in ("graded", "recorded"):
        reader.problem(f"expected graded or recorded, got {outcome!r}", f"{where}.outcome")
    select = reader.text(found, "select", where)
    policies = ("lexicographic", "weighted", "pareto")
    if select is not None and select not in policies:
        reader.problem(f"unknown policy {select!r}{nearest(select, policies)}", f"{where}.select")
    alpha = reader.share(found, "alpha", where)
    if alpha in (0, 1):
        reader.problem(f"expected a number between 0 and 1, got {alpha:g}", f"{where}.alpha")
    objectives = [
        str(entry) for entry, _ in reader.items(found.get("objectives"), f"{where}.objectives")
    ]
    for index, objective in enumerate(objectives):
        from toolscore_pipeline.stats.select import parse_objective

        try:
            parse_objective(objective)
        except UsageError as error:
            reader.problem(str(error), f"{where}.objectives[{index}]")
    protocol = reader.text(found, "protocol", where)
    if protocol and not (root / protocol).is_file():
        reader.problem(f"the file {protocol} does not exist", f"{where}.protocol")
    return ComparisonSettings(
        name=name,
        baseline=reader.text(found, "baseline", where),
        k=reader.count(found, "k", where, 1),
        min_n=reader.count(found, "min_n", where, 10),
        alpha=0.05 if alpha is None else alpha,
        source=source,
        variant_key=reader.text(found, "variant_key", where),
        outcome=outcome,
        select=select,
        objectives=objectives,
        protocol=root / protocol if protocol else None,
    )


def _no_key(name: str) -> str:
    return f"expected a name of letters, digits and any of . _ -, got {name!r}"


def _read_export(reader: _Reader, item: Any, where: str, root: Path) -> ExportSettings | None:
    found = reader.mapping(item, where, _EXPORT_KEYS)
    name, path = reader.text(found, "name", where), reader.text(found, "path", where)
    kind = reader.text(found, "format", where) or "aef"
    if kind != "aef":
        reader.problem(f"unknown export format {kind!r} (known: aef)", f"{where}.format")
    if name is not None and _KEY_NAME.fullmatch(name) is None:
        reader.problem(_no_key(name), f"{where}.name")
    if path is None:
        reader.problem("an export needs a path", where)
        return None
    return ExportSettings(name=name or kind, format=kind, path=root / path)


def _read_studies(reader: _Reader, value: Any, root: Path) -> list[Study]:
    studies: list[Study] = []
    for item, where in reader.items(value, "$.studies"):
        study = _read_study(reader, item, where, root)
        if study is None:
            continue
        for other in studies:
            if other.name == study.name:
                reader.problem(f"two studies are named {study.name!r}", f"{where}.name")
            if other.output.resolve() == study.output.resolve():
                reason = f"the study {other.name!r} writes this file already"
                reader.problem(reason, f"{where}.output")
        studies.append(study)
    return studies


def _read_study(reader: _Reader, item: Any, where: str, root: Path) -> Study | None:
    found = reader.mapping(item, where, _STUDY_KEYS)
    name, spec, output = (reader.text(found, key, where) for key in ("name", "spec", "output"))
    missing = [key for key in ("name", "spec", "output") if found.get(key) is None]
    if missing and (item is None or isinstance(item, dict)):
        reader.problem(f"a study needs a name, a spec and an output; no {missing[0]} here", where)
    if name is not None and _KEY_NAME.fullmatch(name) is None:
        reader.problem(_no_key(name), f"{where}.name")
    if spec is not None and not (root / spec).is_file():
        folder = (root / spec).parent
        names = [path.name for kind in ("yaml", "yml", "json") for path in folder.glob(f"*.{kind}")]
        hint = nearest((root / spec).name, names)
        reader.problem(f"the file {spec} does not exist{hint}", f"{where}.spec")
    if output is not None and not output.endswith(".jsonl"):
        reader.problem(f"expected a file named *.jsonl, got {output!r}", f"{where}.output")
    allow_paid = reader.flag(found, "allow_paid", where)
    concurrency = reader.count(found, "concurrency", where, 1)
    if name is None or spec is None or output is None:
        return None
    return Study(name, root / spec, root / output, allow_paid, concurrency)


def _load_honesty(path: Path | None) -> Any:
    if path is None:
        return None
    from toolscore_pipeline.honesty import load_honesty_config

    return load_honesty_config(path)


def _load_rules(path: Path | None) -> list[dict[str, Any]] | None:
    if path is None:
        return None
    from toolscore_pipeline.contract import load_forbidden_rules

    return load_forbidden_rules(path)


def _bind(
    project: Project, path: Path, forbidden: list[dict[str, Any]] | None, honesty: Any
) -> list[Binding]:
    from toolscore_pipeline.contract import expected_from_document

    document = documents.load_document(path)
    expected: Contract | list[dict[str, Any]] = expected_from_document(document)
    # Read already: what is wrong about them has been told.
    conditions: Mapping[str, Any] = document.value if isinstance(document.value, dict) else {}
    grading = project.grading
    weights = grading.weights
    declared = getattr(expected, "weights", None)
    if weights is not None and declared is not None:
        weights = {**declared, **weights}
    has_min_score = isinstance(document.value, dict) and "min_score" in document.value
    judgment = compile_judgment(
        expected,
        weights=weights,
        strict=grading.strict,
        forbidden=forbidden,
        honesty=honesty,
        min_score=None if has_min_score else grading.min_score,
        require_completed=grading.require_completed,
    )
    sha256, _ = file_sha256(path)
    name = path.name.split(".")[0]
    tasks = conditions.get("task", name)
    return [
        Binding(
            judgment=judgment,
            name=name,
            path=path.relative_to(project.root).as_posix()
            if path.is_relative_to(project.root)
            else str(path),
            sha256=sha256,
            task=task if not _is_glob(task) else None,
            task_pattern=None if not _is_glob(task) or task == "*" else _glob_regex(task),
            variant=conditions.get("variant"),
            source=conditions.get("source"),
        )
        for task in (tasks if isinstance(tasks, list) else [tasks])
    ]


def _is_glob(task: str) -> bool:
    return any(character in task for character in "*?[")


def _glob_regex(task: str) -> str:
    """The RE2 form of a shell pattern; ``fnmatch`` writes anchors that RE2 spells otherwise."""
    pattern = fnmatch.translate(task)
    return pattern.removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")


def objectives_json(comparison: ComparisonSettings) -> str:
    """The objectives of a comparison as canonical JSON."""
    return canonical_json(comparison.objectives).decode()
