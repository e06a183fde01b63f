"""Pages that are made while the site is built: from the README, the code and the SQL.

They are never written into the tree, so they cannot lag behind what they describe.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import toolscore_pipeline
from toolscore_pipeline import project
from toolscore_pipeline.catalog_docs import OWN, read_macros
from toolscore_pipeline.cli import verbs
from toolscore_pipeline.plan import LAYERS, Model, load_plan

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are made."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def pages() -> dict[str, str]:
    """Every page that is made, by its path below docs/."""
    return {
        "index.md": start(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "reference/commands.md": command_page(),
        "reference/macros.md": macro_page(),
        "reference/project-file.md": project_page(),
        "reference/python.md": python_page(),
        "reference/schemas.md": schema_page(),
        "reference/tables.md": table_page(),
    }


def start() -> str:
    """The README, with its links as seen from inside docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", text)


# --- commands -------------------------------------------------------------------------------------


def command_page() -> str:
    """Every command with its arguments and options, as Typer knows them."""
    import typer

    lines = ["# Options of every command", ""]
    lines += [
        "`toolscore COMMAND --help` prints the same. Exit codes: [commands](../commands.md).",
        "",
    ]
    for verb in verbs():
        module = importlib.import_module(f"toolscore_pipeline.cli.{verb.replace('-', '_')}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer()
            app.command()(module.command)
        command: Any = typer.main.get_command(app)
        inner = getattr(command, "commands", None)
        for name, one in sorted(inner.items()) if inner else [("", command)]:
            lines += _command(f"toolscore {verb} {name}".rstrip(), one)
    return "\n".join(lines)


def _command(name: str, command: Any) -> Iterator[str]:
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    options = [p for p in options if not p.name.endswith("_completion")]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *map(_metavar, arguments), *(["[OPTIONS]"] if options else [])])
    yield from (f"## {name}", "", _cell(inspect.cleandoc(command.help or "")), "")
    yield from ("```text", usage, "```", "")
    rows = [(f"`{_metavar(p)}`", _cell(getattr(p, "help", "") or ""), "") for p in arguments]
    for option in options:
        spelled = ", ".join([*option.opts, *option.secondary_opts])
        default = option.default
        is_told = default not in (None, "", (), False, []) and not callable(default)
        rows.append((f"`{spelled}`", _cell(option.help or ""), f"`{default}`" if is_told else ""))
    if rows:
        yield from _table(("option", "what it does", "default"), rows)


def _metavar(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


# --- the project file -----------------------------------------------------------------------------


def project_page() -> str:
    """The keys of toolscore.yaml, by section, as the reader of project files knows them."""
    sections = {
        "The file": project._TOP_KEYS,
        "sources": project._SOURCE_KEYS,
        "grading": project._GRADING_KEYS,
        "comparisons": project._COMPARISON_KEYS,
        "exports": project._EXPORT_KEYS,
        "studies": project._STUDY_KEYS,
    }
    lines = ["# Keys of the project file", ""]
    lines += [
        "What they mean and an example: [projects](../projects.md). Any other key is refused.",
        "",
    ]
    for title, keys in sections.items():
        lines += [f"## {title}", "", ", ".join(f"`{key}`" for key in keys), ""]
    for kind in (project.Grading, project.ComparisonSettings):
        lines += [f"## Defaults of {kind.__name__}", "", *_docstring(kind), ""]
        fields = [(f"`{n}`", f"`{f.default!r}`") for n, f in kind.__dataclass_fields__.items()]
        lines += _table(("key", "default"), [f for f in fields if "MISSING" not in f[1]])
    return "\n".join(lines)


# --- Python ---------------------------------------------------------------------------------------


def python_page() -> str:
    """The names of the package's front with their signatures and docstrings."""
    lines = ["# Python", "", "What `from toolscore_pipeline import ...` gives.", ""]
    for name in toolscore_pipeline.__all__:
        value = getattr(toolscore_pipeline, name)
        if name.startswith("__"):
            continue
        lines += [f"## {name}", ""]
        if callable(value) and not inspect.isclass(value):
            lines += ["```python", f"{name}{inspect.signature(value)}", "```", ""]
        lines += [*_docstring(value if callable(value) else type(value)), ""]
        if inspect.isclass(value):
            for method, member in sorted(vars(value).items()):
                text = inspect.getdoc(member) if not method.startswith("_") else None
                if text and (callable(member) or isinstance(member, property)):
                    lines += [f"**`{method}`** {_cell(text.splitlines()[0])}", ""]
    return "\n".join(lines)


def _docstring(value: Any) -> Iterator[str]:
    """A docstring as Markdown: sections become headings in bold, their entries list items."""
    for line in (inspect.getdoc(value) or "").splitlines():
        text = line.replace("``", "`").replace(":class:", "").replace(":func:", "")
        if re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):", text):
            yield from ("", f"**{text[:-1]}**", "")
        elif match := re.match(r"    ([\w*, .]+): (.*)", text):
            yield f"- `{match[1]}`: {_plain(match[2])}"
        elif line.startswith("        "):
            yield f"  {_plain(text.strip())}"
        else:
            yield _plain(text.strip()) if text.strip() else ""


# --- SQL ------------------------------------------------------------------------------------------


def table_page() -> str:
    """Every model of every layer: what it holds, what a row is, its columns."""
    plan = load_plan()
    lines = ["# Tables and columns", ""]
    lines += [
        "Every model of `sql/`, in the order of the data. Ephemeral ones are steps of grading; the",
        "others stand in the warehouse and in its published copy, where `docs.tables` and",
        "`docs.columns` say the same ([asking in SQL](../sql.md)).",
        "",
    ]
    for layer in LAYERS:
        lines += [f"## {layer}", ""]
        for model in plan.layer(layer):
            lines += _model(model)
    lines += ["## docs", ""]
    for relation in OWN:
        lines += [f"### {relation.schema}.{relation.name}", "", _cell(relation.description), ""]
        lines += _table(
            ("column", "type", "what it holds"),
            [(f"`{c.name}`", f"`{c.type}`", _cell(c.comment)) for c in relation.columns],
        )
    return "\n".join(lines)


def _model(model: Model) -> Iterator[str]:
    yield from (f"### {model.full_name}", "", _cell(model.description), "")
    told = {"kind": model.kind, **model.header}
    for key in ("kind", "grain", "key", "range", "unit", "null", "source"):
        if told.get(key):
            yield f"- {key}: {_cell(told[key])}"
    yield ""
    yield from _table(
        ("column", "type", "what it holds"),
        [(f"`{c.name}`", f"`{c.type}`", _cell(c.comment)) for c in model.columns],
    )


def macro_page() -> str:
    """Every macro with its parameters, meaning and example."""
    lines = ["# Functions in SQL", ""]
    lines += ["Macros that the published copy brings along; `docs.macros` lists them there.", ""]
    for macro in read_macros():
        lines += [
            f"## {macro.name}",
            "",
            "```sql-signature",
            f"{macro.name}({', '.join(macro.parameters)})",
            "```",
            "",
        ]
        lines += [_cell(macro.description), ""]
        if macro.example:
            lines += [f"`{macro.example}` is `{macro.result}`.", ""]
    return "\n".join(lines).replace("```sql-signature", "```sql")


def schema_page() -> str:
    """The JSON Schemas that come with the package."""
    rows = []
    for path in sorted((ROOT / "toolscore_pipeline/schemas").glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        told = schema.get("description") or schema.get("title") or ""
        rows.append(
            (f"`{path.name}`", _cell(told), ", ".join(f"`{k}`" for k in schema.get("required", [])))
        )
    lines = [
        "# Schemas",
        "",
        "JSON Schemas of what is read and written, in `toolscore_pipeline/schemas`.",
        "",
    ]
    return "\n".join([*lines, *_table(("schema", "of what", "required"), rows)])


# --- Markdown -------------------------------------------------------------------------------------


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(heads)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _cell(text: str) -> str:
    """The same for the cell of a table."""
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """A text of the code as Markdown: in one line, with nothing taken for markup."""
    text = " ".join(text.split())
    parts = re.split(r"(`[^`]*`)", text.replace("``", "`"))
    safe = [p if p.startswith("`") else re.sub(r"([\\*_\[\]<>])", r"\\\1", p) for p in parts]
    return "".join(safe)
