"""The errors a user can meet, and the sentence each one says.

::

    ToolscoreError              every error below; the command line prints it and exits with 2
    ├── InputError              a file, record or value that cannot be read
    │   ├── ContractError       a contract, gold list, rule or other judgment that is wrong
    │   └── ReceiptMismatchError  inputs that changed since their receipt was written
    ├── UsageError              options that do not fit together, or a name nobody knows
    ├── SettingsError           a project file, weight or setting that is wrong
    └── WarehouseError          a warehouse that cannot be opened or written
        ├── WarehouseLockedError  another process holds it
        └── AuditError          a model whose rows broke one of its audits; nothing was kept

Those about values are also ``ValueError``, so that code which catches that keeps working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ToolscoreError(Exception):
    """Every error of this package that a user can cause or mend."""


class UsageError(ToolscoreError, ValueError):
    """Options that do not fit together, or a name nobody knows."""


class SettingsError(ToolscoreError, ValueError):
    """A project file, weight or setting that is wrong."""


class InputError(ToolscoreError, ValueError):
    """A file, record or value that cannot be read.

    Attributes:
        reason: what is wrong, without the place.
        path: the file, if there is one.
        line: the 1-based line in that file, if known.
        json_path: the place inside the document (``$.required[1].args``), if known.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        json_path: str | None = None,
    ) -> None:
        self.reason = reason
        self.path = str(path) if path is not None else None
        self.line = line
        self.json_path = json_path
        super().__init__(f"{place(path, line, json_path)}{reason}")


class ReceiptMismatchError(InputError):
    """A receipt's inputs changed since it was written, so a regrade would not be faithful."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document: where, and a sentence."""

    reason: str
    json_path: str | None = None
    line: int | None = None


class ContractError(InputError):
    """A contract, gold list, rule file or other judgment that is wrong.

    Attributes:
        problems: every problem found, in document order; the message names them all.
    """

    def __init__(self, problems: list[Problem], *, path: str | Path | None = None) -> None:
        self.problems = problems
        first = problems[0]
        super().__init__(first.reason, path=path, line=first.line, json_path=first.json_path)
        if len(problems) > 1:
            self.args = (
                "\n".join(f"{place(path, p.line, p.json_path)}{p.reason}" for p in problems),
            )


class WarehouseError(ToolscoreError):
    """A warehouse that cannot be opened, read or written."""


class WarehouseLockedError(WarehouseError):
    """Another process holds the warehouse, and went on holding it for the whole wait."""


class AuditError(WarehouseError):
    """A model's rows broke one of its audits; the table was left as it was.

    Attributes:
        audit: the name of the audit.
        count: how many rows were against it.
        rows: the first of them, by column name.
        mend: what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        audit: str = "",
        count: int = 0,
        rows: Iterable[dict[str, Any]] = (),
        mend: str = "",
    ) -> None:
        self.audit, self.count, self.rows, self.mend = audit, count, list(rows), mend
        super().__init__(message)


def place(path: str | Path | None, line: int | None = None, json_path: str | None = None) -> str:
    """``file:line: at $.path: ``, leaving out what is not known."""
    where = f"{path}:{line}: " if path is not None and line is not None else ""
    if path is not None and line is None:
        where = f"{path}: "
    if path is None and line is not None:
        where = f"line {line}: "
    return where + (f"at {json_path}: " if json_path else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the known name closest to ``name``, or an empty string."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {match[0]!r}?" if match else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence for a name that is none of the known ones, with the nearest of them."""
    names = list(known)
    listing = ", ".join(names)
    return f"unknown {what} {name!r}{nearest(name, names) or f' (known: {listing})'}"
