"""Printing: tables for people, JSON for programs, and nothing else where JSON was asked for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console


def console(*, quiet: bool = False, stderr: bool = False) -> Console:
    """A console on standard output: colours on a terminal, else plain text; silent when quiet."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    given = int(columns) if columns.isdecimal() else 0
    return Console(
        file=stream,
        quiet=quiet,
        highlight=False,
        soft_wrap=False,
        width=None if stream.isatty() else given or 120,
        markup=False,
        emoji=False,
    )


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str | None = None,
    null: str = "",
    widths: Sequence[int] | None = None,
) -> Any:
    """A rich table; numbers are aligned right, None is an empty cell or what ``null`` says.

    Columns are as wide as ``widths`` says, in characters, or as rich finds.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    made = Table(title=title, box=box.SQUARE if sys.stdout.isatty() else box.ASCII)
    for index, name in enumerate(columns):
        values = [row[index] for row in rows if row[index] is not None]
        numeric = bool(values) and all(isinstance(value, (int, float)) for value in values)
        made.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            width=widths[index] if widths else None,
        )
    for row in rows:
        made.add_row(*(Text(null if value is None else str(value)) for value in row))
    return made


def column_widths(
    columns: Sequence[str], cells: Sequence[Sequence[Any]], room: int, *, whole: int | None = None
) -> list[int] | None:
    """How wide each column of a table is, in characters; None when the table is too wide.

    The widest columns give way first, and none so far that a number or a word of its name breaks;
    the column at ``whole`` does not give way at all.
    """
    from rich.cells import cell_len

    widths, least = [], []
    for index, name in enumerate(columns):
        values = [row[index] for row in cells]
        lines = [line for value in values for line in str(value).split("\n")]
        widths.append(max(cell_len(line) for line in [name, *lines]))
        unbroken = [str(value) for value in values if not isinstance(value, str)]
        least.append(max(cell_len(text) for text in ["", *name.split(), *unbroken]))
    if whole is not None:
        least[whole] = widths[whole]
    room -= 3 * len(columns) + 1
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def takes_output(**targets: Path | str | None) -> bool:
    """Whether one of several options (by name) is ``-``: then nothing else goes to the output.

    Raises:
        UsageError: more than one of them is.
    """
    taken = [f"--{name}" for name, target in targets.items() if str(target) == "-"]
    if len(taken) > 1:
        raise UsageError(f"{' and '.join(taken)} both write to standard output; give one a file")
    return bool(taken)


def write_json(target: str, value: Any) -> None:
    """Write a JSON report to a path, or to standard output for ``-``; a file is replaced whole."""
    write_text(Path(target), json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file aside and rename it into place; ``-`` is standard output.

    Raises:
        InputError: its folder does not exist or cannot be written.
    """
    if str(path) == "-":
        sys.stdout.write(text)
        return
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """What :func:`write_text` does, for bytes."""
    if path.is_dir():
        raise InputError("cannot be written: it is a folder", path=path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None


def append_text(path: str, text: str) -> None:
    """Add a report to a job summary; one that cannot be written fails no command."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print(f"note: GITHUB_STEP_SUMMARY cannot be written: {error.strerror}", file=sys.stderr)
