"""The ``toolscore`` command: one module per verb, found by discovery.

A verb's module has a function ``command`` (or, for a group of verbs, a Typer ``app``) and may name
itself with ``NAME``; otherwise the verb is the module's name. Only the module of the verb that was
asked for is imported, so that starting up stays fast.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any

from toolscore_pipeline.errors import ToolscoreError, nearest

# Modules of this package that are no verbs.
_HELPERS = ("output", "options")
EXIT_GATE, EXIT_USAGE, EXIT_BUDGET = 1, 2, 3
_LONGEST_LINE = 10_000


def verbs() -> list[str]:
    """The verbs, sorted: the modules of this package, with dashes for underscores."""
    modules = pkgutil.iter_modules(__path__)
    return sorted(
        module.name.replace("_", "-")
        for module in modules
        if module.name not in _HELPERS and not module.name.startswith("_")
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    0 done; 1 a gate failed; 2 bad usage or input; 3 a budget stopped the study.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(arguments)
    except ToolscoreError as error:
        _print_error(str(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away; what it did not want is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        _print_error(f"{place}{error.strerror or error}")
        return EXIT_USAGE
    except Exception as error:
        # DuckDB's own class is not imported for this: most commands do without it.
        if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryException":
            raise
        _print_error(f"more memory is needed: {str(error).partition(chr(10))[0] or 'none is left'}")
        return EXIT_USAGE


def _print_error(text: str) -> None:
    """Print an error, a line for each problem: no credential of a file, no control character."""
    from toolscore_pipeline.reports.safe import plain

    lines = [plain(line, _LONGEST_LINE) for line in text.splitlines()]
    print("error: " + "\n".join(lines), file=sys.stderr)


def _run(arguments: list[str]) -> int:
    known = verbs()
    verb = next((a for a in arguments if not a.startswith("-")), None)
    if "--version" in arguments and verb is None:
        from toolscore_pipeline import __version__

        print(f"toolscore-pipeline {__version__}")
        return 0
    if verb is not None and verb not in known:
        hint = nearest(verb, known) or f" (known: {', '.join(known)})"
        print(f"error: unknown command {verb!r}{hint}", file=sys.stderr)
        return EXIT_USAGE
    # Help without a verb lists them all; otherwise one module is enough.
    return _call(known if verb is None else [verb], arguments)


def _call(wanted: list[str], arguments: list[str]) -> int:
    import typer

    # Older Typers raise Click's own errors, newer ones those of a copy: this is the base of either.
    bad_usage: Any = typer.BadParameter.__mro__[2]
    app = typer.Typer(
        name="toolscore",
        help="Grade recorded agent runs, compare variants and prove both.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for verb in wanted:
        module = importlib.import_module(f"{__name__}.{verb.replace('-', '_')}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=verb)
        else:
            app.command(getattr(module, "NAME", verb))(module.command)
    try:
        result = typer.main.get_command(app).main(
            args=arguments, prog_name="toolscore", standalone_mode=False
        )
    except typer.Exit as stop:
        return stop.exit_code
    except SystemExit:  # how Click answers a broken pipe
        raise BrokenPipeError from None
    except typer.Abort:
        print("interrupted", file=sys.stderr)
        return 130
    except bad_usage as error:
        # Asked for nothing, Click raises the help as an error.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(("" if is_help else "error: ") + error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    return result if isinstance(result, int) else 0


def _root() -> None:
    """Grade recorded agent runs, compare variants and prove both."""
