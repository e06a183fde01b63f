"""The prompt of ``toolscore sql``: history, queries over several lines, completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.cli.output import console
from toolscore_pipeline.errors import ToolscoreError, WarehouseError, unknown_name

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from toolscore_pipeline.warehouse import Warehouse

HELP = """\
A query ends with a semicolon and may take several lines. Tab completes.
  .tables [SCHEMA]   tables and views, with what they hold
  .describe NAME     columns of a table or view, with what they hold
  .macros            functions that the warehouse brings along
  .help              this
  .quit              leave (so does Ctrl-D); Ctrl-C drops the line"""
COMMANDS = (".tables", ".describe", ".macros", ".help", ".quit", ".exit")
_WORD = re.compile(r"[.\w]*$")
_NAMED = re.compile(r"\b(?:from|join)\s+([a-z_]\w*\.[a-z_]\w*)(?:\s+(?:as\s+)?([a-z_]\w*))?", re.I)
_KEYWORDS = (
    "select from where group by order by having limit offset join left inner on using as with and"
    " or not in is null like between case when then else end distinct union all except intersect"
    " qualify over partition filter exists desc asc describe summarize explain values cast"
    " count sum avg min max median round coalesce unnest list any_value string_agg"
).split()


@dataclass(frozen=True, slots=True)
class Names:
    """What completion knows of a warehouse.

    Attributes:
        columns: column names by full table name, in order.
        descriptions: what a table holds, by its full name.
        macros: names of macros.
    """

    columns: dict[str, list[str]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    macros: list[str] = field(default_factory=list)

    @property
    def schemas(self) -> list[str]:
        """The schemas, sorted."""
        return sorted({name.partition(".")[0] for name in self.columns})


def read_names(warehouse: Warehouse) -> Names:
    """The tables, columns and macros of the published copy.

    Raises:
        ToolscoreError: there is none, or it carries no documentation yet.
    """
    from toolscore_pipeline.asking import ask

    columns: dict[str, list[str]] = {}
    for table, column in ask(
        warehouse,
        "select schema_name || '.' || table_name, column_name from docs.columns order by all",
        limit=None,
    ).rows:
        columns.setdefault(table, []).append(column)
    tables = ask(
        warehouse,
        "select schema_name || '.' || table_name, description from docs.tables",
        limit=None,
    )
    macros = ask(warehouse, "select macro_name from docs.macros", limit=None)
    return Names(columns, dict(tables.rows), [name for (name,) in macros.rows])


def completions(names: Names, text: str) -> Iterator[tuple[str, int, str]]:
    """What may follow a text: (completion, how many characters it replaces, what it is)."""
    start = text.lstrip()
    word = _WORD.search(text)
    typed = (word[0] if word else "").lower()
    if start.startswith("."):
        command, space, _ = start.partition(" ")
        if not space:
            yield from (
                (name, len(start), "command") for name in COMMANDS if name.startswith(start)
            )
        elif command == ".describe":
            yield from _starting(typed, names.columns, "table")
        elif command == ".tables":
            yield from _starting(typed, names.schemas, "schema")
        return
    aliases = {alias.lower(): table.lower() for table, alias in _NAMED.findall(text) if alias}
    owner, dot, part = typed.rpartition(".")
    if dot:
        table = aliases.get(owner, owner)
        if owner in names.schemas:
            yield from _starting(typed, names.columns, "table")
        for column in names.columns.get(table, ()):
            if column.startswith(part):
                yield column, len(part), f"column of {table}"
        return
    seen: set[str] = set()
    for table, _ in _NAMED.findall(text):
        for column in names.columns.get(table.lower(), ()):
            if column.startswith(typed) and column not in seen:
                seen.add(column)
                yield column, len(typed), f"column of {table}"
    yield from _starting(typed, names.schemas, "schema")
    if typed:
        yield from _starting(typed, names.columns, "table", anywhere=True)
        yield from _starting(typed, names.macros, "macro")
        yield from _starting(typed, _KEYWORDS, "keyword")


def _starting(
    typed: str, known: Iterable[str], kind: str, *, anywhere: bool = False
) -> Iterator[tuple[str, int, str]]:
    for name in known:
        if name.startswith(typed) or (anywhere and name.partition(".")[2].startswith(typed)):
            yield name, len(typed), kind


def run_prompt(
    warehouse: Warehouse,
    show: Callable[[str], None],
    *,
    folder: Path,
    input: Input | None = None,
    output: Output | None = None,
) -> None:
    """Ask for queries and show their answers until the end of input.

    Args:
        warehouse: whose published copy is asked.
        show: asks and prints; its errors are printed and do not end the prompt.
        folder: the project's folder; the history is kept in its ``.toolscore``.
        input, output: the terminal; tests give others.

    Raises:
        WarehouseError: nothing has been published yet.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    if not warehouse.published.is_file():
        raise WarehouseError(
            f"{warehouse.published}: no warehouse has been published yet; run toolscore build"
        )
    out = console()
    try:
        names = read_names(warehouse)
    except ToolscoreError:
        names = Names()  # a copy that an earlier version published

    class NameCompleter(Completer):
        def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
            for text, replaced, kind in completions(names, document.text_before_cursor):
                yield Completion(text, start_position=-replaced, display_meta=kind)

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if not text or text.endswith(";") or text.startswith("."):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("tab")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        found = list(completions(names, buffer.document.text_before_cursor))
        if len(found) == 1:
            text, replaced, _ = found[0]
            buffer.delete_before_cursor(replaced)
            buffer.insert_text(text)
        elif buffer.complete_state:
            buffer.complete_next()
        elif found:
            buffer.start_completion(select_first=False)

    history = folder / ".toolscore" / "sql_history"
    history.parent.mkdir(exist_ok=True)
    history.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(
        "sql> ",
        multiline=True,
        prompt_continuation="...> ",
        history=FileHistory(str(history)),
        completer=NameCompleter(),
        complete_while_typing=False,
        key_bindings=bindings,
        input=input,
        output=output,
    )
    out.print(f"{warehouse.published.name}: read-only. .help tells more, .quit leaves.")
    while True:
        try:
            text = session.prompt().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            if text in (".quit", ".exit"):
                return
            if text.startswith("."):
                _command(text, names, show, out.print)
            elif text.strip("; \n"):
                show(text)
        except ToolscoreError as error:
            out.print(f"error: {error}")
        except KeyboardInterrupt:
            out.print("interrupted")


def _command(
    text: str, names: Names, show: Callable[[str], None], tell: Callable[[str], None]
) -> None:
    command, _, argument = text.rstrip(";").partition(" ")
    argument = argument.strip().lower()
    if command == ".help":
        tell(HELP)
    elif command == ".tables":
        if argument and argument not in names.schemas:
            raise ToolscoreError(unknown_name("schema", argument, names.schemas))
        # Only a name that is known is put into the query.
        condition = f" where schema_name = '{argument}'" if argument else ""
        show(
            "select schema_name || '.' || table_name as name, kind, row_count as rows, description"
            f" from docs.tables{condition}"
        )
    elif command == ".describe":
        if argument not in names.columns:
            raise ToolscoreError(unknown_name("table", argument, names.columns))
        schema, _, table = argument.partition(".")
        tell(names.descriptions.get(argument, ""))
        show(
            "select column_name, column_type, description from docs.columns"
            f" where schema_name = '{schema}' and table_name = '{table}' order by column_position"
        )
    elif command == ".macros":
        show(
            "select macro_name || '(' || array_to_string(parameters, ', ') || ')' as macro,"
            " description, example, result from docs.macros where topic = 'statistics'"
        )
    else:
        raise ToolscoreError(unknown_name("command", command, COMMANDS))
