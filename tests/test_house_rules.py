"""The rules of the house, which no reader should have to check by eye.

Every rule is a function from a text to the sentences about what breaks it, so that each can be
shown to catch what it forbids.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from toolscore_pipeline.cli import verbs
from toolscore_pipeline.plan import (
    KINDS,
    LAYERS,
    load_plan,
    macro_files,
    read_columns,
    read_header,
    strip_comments,
)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "toolscore_pipeline"
SQL = ROOT / "sql"
MODEL_FILES = [path for layer in LAYERS for path in sorted((SQL / layer).glob("*.sql"))]
AUDIT_FILES = sorted((SQL / "audits").glob("*.sql"))
DAGSTER_MODULES = {"components.py", "definitions.py", "study_component.py"}
# Packages that cost too much to load with the library: each is imported where it is used.
HEAVY = (
    "anthropic",
    "dagster",
    "jsonschema",
    "matplotlib",
    "mcp",
    "openai",
    "scipy",
    "statsmodels",
)
# A setting keeps the name that users write.
SETTING_COLUMNS = {"require_completed"}


def by_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def project_files() -> list[Path]:
    """The files of the project: what git tracks, else all but hidden and generated ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [
            ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()
        ]
    skipped = re.compile(r"(^|/)(\.(?!ci/)[^/]*|__pycache__|build|dist)(/|$)")
    return [p for p in ROOT.rglob("*") if p.is_file() and not skipped.search(by_path(p))]


# --- SQL -----------------------------------------------------------------------------------------


def header_problems(text: str, layer: str) -> list[str]:
    """What a model's header lacks."""
    sentence, header = read_header(text)
    problems = []
    if not re.match(r"[A-Z].*\.$", sentence):
        problems.append("the header starts with no sentence that ends in a full stop")
    if header.get("kind") not in KINDS:
        problems.append(f"kind is none of {', '.join(KINDS)}")
    wanted = ["grain", "null", "source", *(["key"] if header.get("kind") == "incremental" else [])]
    problems += [f"the header has no {key}:" for key in wanted if not header.get(key)]
    if layer == "metrics" and not header.keys() & {"range", "unit"}:
        problems.append("a metric says its range: or its unit:")
    return problems


def select_problems(text: str) -> list[str]:
    """What is wrong with a model's final SELECT: a column not cast, not named or not explained."""
    with duckdb.connect(":memory:") as connection:
        row = connection.execute("select json_serialize_sql($1)", [text]).fetchone()
    tree = json.loads(row[0]) if row else {}
    problems, names = [], []
    for node in final_selects(tree["statements"][0]["node"]):
        for item in node["select_list"]:
            if item["class"] == "STAR":
                problems.append("the final select has a star")
            elif item["class"] != "CAST" or not item["alias"]:
                problems.append(f"{item['alias'] or 'a column'} is not of the form ::type as name")
            else:
                names.append(item["alias"])
    commented = {column.name for column in read_columns(text) if len(column.comment) > 2}
    problems += [f"column {name} has no comment" for name in names if name not in commented]
    return problems


def final_selects(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The SELECT that gives a query its columns, or the first one of a union."""
    if node["type"] == "SET_OPERATION_NODE":
        yield from final_selects(node["children"][0] if node.get("children") else node["left"])
    else:
        yield node


def naming_problems(text: str) -> list[str]:
    """Columns whose name and type do not go together."""
    problems = []
    for column in read_columns(text):
        name, kind = column.name, column.type
        if column.name in SETTING_COLUMNS:
            continue
        if (kind == "boolean") != name.startswith(("is_", "has_")):
            problems.append(f"{name} is {kind}: is_* and has_* are the booleans")
        if kind.startswith("timestamp") != name.endswith("_at"):
            problems.append(f"{name} is {kind}: *_at are the timestamps")
        if name.endswith("_count") and kind not in ("integer", "bigint"):
            problems.append(f"{name} is {kind}: counts are integers")
        if name.endswith(("_rate", "_seconds", "_usd")) and kind != "double":
            problems.append(f"{name} is {kind}: rates, seconds and dollars are doubles")
    return problems


def case_problems(text: str) -> list[str]:
    """Words in capitals outside of comments and quotes."""
    bare = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "''", strip_comments(text))
    return [f"{word} is not in lower case" for word in re.findall(r"\b\w*[A-Z]\w*\b", bare)]


@pytest.mark.parametrize("path", MODEL_FILES, ids=by_path)
def test_a_model_says_what_it_is_and_what_each_column_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    problems = header_problems(text, path.parent.name) + select_problems(text)
    problems += naming_problems(text) + case_problems(text)
    assert not problems, "\n".join([by_path(path), *problems])


@pytest.mark.parametrize("path", [*macro_files(), *AUDIT_FILES], ids=by_path)
def test_a_macro_or_audit_starts_with_a_sentence(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"[A-Z].*\.$", read_header(text)[0]), "no sentence at the top"


def test_every_model_and_audit_has_a_test() -> None:
    tests = [
        ROOT / "tests/sql" / path.parent.name / f"{path.stem}.yaml"
        for path in [*MODEL_FILES, *AUDIT_FILES]
    ]
    assert [by_path(test) for test in tests if not test.is_file()] == []


def test_every_sql_folder_is_a_layer() -> None:
    folders = {path.name for path in SQL.iterdir() if path.is_dir()}
    assert folders <= {*LAYERS, "macros", "audits"}


GOOD_MODEL = """-- Calls of every run.
-- kind: incremental
-- key: run_id
-- grain: one row per run
-- range: 0 and up
-- null: never
-- source: Toolscore, calls
with calls as (
    select run_id from evidence.calls
)

select
    run_id::varchar as run_id,        -- the run it belongs to
    count(*)::integer as call_count,  -- calls of the run
from calls
group by all
"""


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("-- Calls of every run.", "-- calls", "no sentence"),
        ("kind: incremental", "kind: eternal", "kind is none of"),
        ("-- grain: one row per run\n", "", "no grain:"),
        ("-- null: never\n", "", "no null:"),
        ("-- source: Toolscore, calls\n", "", "no source:"),
        ("-- key: run_id\n", "", "no key:"),
        ("-- range: 0 and up\n", "", "range: or its unit:"),
        ("run_id::varchar as run_id,        --", "*,  --", "has a star"),
        ("count(*)::integer as call_count", "count(*) as call_count", "call_count is not of"),
        ("::integer as call_count,  -- calls of the run", "::integer as call_count,", "no comment"),
        ("::integer as call_count", "::double as call_count", "counts are integers"),
        ("::integer as call_count", "::boolean as failed", "failed is boolean"),
        ("::integer as call_count", "::integer as ended_at", "*_at are the timestamps"),
        ("::integer as call_count", "::integer as error_rate", "rates, seconds"),
        ("select run_id from", "SELECT run_id from", "SELECT is not in lower case"),
    ],
)
def test_each_rule_for_models_catches_what_it_forbids(good: str, bad: str, problem: str) -> None:
    assert good in GOOD_MODEL

    def problems(text: str) -> list[str]:
        found = header_problems(text, "metrics") + select_problems(text)
        return found + naming_problems(text) + case_problems(text)

    assert problems(GOOD_MODEL) == []
    found = problems(GOOD_MODEL.replace(good, bad))
    assert any(problem in sentence for sentence in found), found


# --- Documentation -------------------------------------------------------------------------------


def documented_names() -> Iterator[tuple[str, str]]:
    """What has to be named in docs/: (kind, name)."""
    plan = load_plan()
    for layer in ("metrics", "checks", "safety", "marts", "exports"):
        for path in sorted((SQL / layer).glob("*.sql")):
            yield plan[f"{layer}.{path.stem}"].layer, path.stem
    for path in sorted((PACKAGE / "formats").glob("*.py")):
        if not path.stem.startswith("_"):
            yield "format", path.stem
    for verb in verbs():
        yield "command", f"toolscore {verb}"


def is_documented(name: str, docs: str) -> bool:
    """Whether a name stands in a text, with any of the ways to join its words."""
    return re.search(rf"\b{name.replace('_', '[-_ ]')}\b", docs, re.IGNORECASE) is not None


def test_every_model_format_and_command_is_documented() -> None:
    docs = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").rglob("*.md")))
    assert [
        (kind, name) for kind, name in documented_names() if not is_documented(name, docs)
    ] == []


def test_a_name_inside_a_longer_word_is_no_documentation() -> None:
    assert is_documented("call_errors", "the check call-errors fails when")
    assert not is_documented("cost", "the costume is on")


# --- Python --------------------------------------------------------------------------------------


def imported_packages(text: str) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_only_the_modules_made_for_it_import_dagster() -> None:
    importers = {
        by_path(path)
        for path in PACKAGE.rglob("*.py")
        if "dagster" in imported_packages(path.read_text(encoding="utf-8"))
        and not (path.parent == PACKAGE and path.name in DAGSTER_MODULES)
    }
    assert not importers


def test_one_module_opens_databases() -> None:
    opening = [
        by_path(path)
        for path in PACKAGE.rglob("*.py")
        if "duckdb.connect(" in path.read_text(encoding="utf-8")
    ]
    assert opening == ["toolscore_pipeline/connecting.py"]


def test_importing_the_library_loads_nothing_heavy() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "import toolscore_pipeline as package\n"
        "for module in pkgutil.walk_packages(package.__path__, 'toolscore_pipeline.'):\n"
        f"    if module.name.split('.', 1)[1] + '.py' not in {DAGSTER_MODULES!r}"
        " and not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


SHARE_STYLES = r"\d %(?![\w}])|\} %[\"'<;, ]|:[+]?\.\d%\}"


def test_shares_are_printed_by_one_function() -> None:
    problems = [
        f"{by_path(path)}: {match[0]}"
        for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html")])
        for match in re.finditer(SHARE_STYLES, path.read_text(encoding="utf-8"))
    ]
    assert not problems, "\n".join(problems)


def test_other_styles_of_shares_are_found() -> None:
    for text in ("58.3 %", 'f"{rate:.1f} %"', 'f"{rate:.1%}"', 'f"{change:+.1%}"'):
        assert re.search(SHARE_STYLES, text), text
    for text in ('f"{percent(rate)}"', "{% if x %}", "58.3%", "4 %w"):
        assert not re.search(SHARE_STYLES, text), text


# --- Every file ----------------------------------------------------------------------------------

# The brackets keep these patterns from finding themselves.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~])/(?:root|work)/",
    "an address of a package index": r"index[-]url|py[p]i\.org|files[.]pythonhosted",
    "a note that something is not done": r"\b(?:T[O]DO|F[I]XME|X[X]X)\b",
}
MACHINE_FOLDERS = r"(?<![\w.~])/(?:tmp|var|home|Users)/\w"


def forbidden_problems(text: str, *, is_code: bool) -> list[str]:
    """What a text holds that no file of the project may."""
    rules = FORBIDDEN | ({"an absolute path": MACHINE_FOLDERS} if is_code else {})
    return [f"{what}: {m[0]}" for what, rule in rules.items() for m in re.finditer(rule, text)]


def test_no_file_names_a_machine_an_index_or_something_undone() -> None:
    problems = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        is_code = path.suffix in (".py", ".sql", ".toml") and "tests" not in path.parts
        problems += [f"{by_path(path)}: {p}" for p in forbidden_problems(text, is_code=is_code)]
    assert not problems, "\n".join(problems)


def absolute(*parts: str) -> str:
    return "/" + "/".join(parts)


def test_forbidden_words_are_found() -> None:
    for text in (
        absolute("root", "x"),
        f"open('{absolute('work', 'x')}')",
        "".join(("# TO", "DO: later")),
    ):
        assert forbidden_problems(text, is_code=False), text
    assert forbidden_problems(absolute("tmp", "x"), is_code=True)
    assert not forbidden_problems(absolute("tmp", "x"), is_code=False)
    assert not forbidden_problems(f"see ..{absolute('work', 'plan')}", is_code=True)
