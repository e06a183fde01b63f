"""Trace formats: recognising them and reading them into runs.

Every module in this package whose name does not begin with an underscore is one format and says:

``NAME``
    its name, as ``--format`` takes it.
``detect(value)``
    a :class:`Detection`, or None when the value is not its own.
``read(value)``
    the runs in the value, each with the place where it stands.
``is_fragment(record)`` (optional)
    whether a JSON Lines record is only a part of a run, as one message or one span is.

Adding a format is adding a file; nothing lists them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from toolscore_pipeline.errors import InputError, UsageError, unknown_name
from toolscore_pipeline.formats._common import NO_CALLS_WARNING, Detection
from toolscore_pipeline.jsonio import MAX_DEPTH, find_non_json, without_surrogates
from toolscore_pipeline.model import Run

__all__ = [
    "NO_CALLS_WARNING",
    "Detection",
    "detect",
    "formats",
    "is_fragment",
    "read_value",
    "to_plain",
]

AUTO = "auto"
#: Names that other tools use for the same formats.
ALIASES = {"custom": "plain"}
#: From this confidence on a format is more than one of those that a value may be in.
_CLEAR = 0.5


class Format(Protocol):
    """What a format's module holds."""

    NAME: str

    def detect(self, value: Any) -> Detection | None:
        """How sure the format is of ``value``; None when it is not its own."""

    def read(self, value: Any) -> Iterable[Run]:
        """The runs in ``value``."""


@functools.cache
def formats() -> dict[str, Format]:
    """Every format by name, in order of name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            loaded = cast(Format, importlib.import_module(f"{__name__}.{module.name}"))
            found[loaded.NAME] = loaded
    return dict(sorted(found.items()))


def detect(value: Any) -> list[Detection]:
    """The formats that ``value`` may be in, the surest first."""
    found = [hit for module in formats().values() if (hit := module.detect(value)) is not None]
    return sorted(found, key=lambda hit: (-hit.confidence, hit.format))


def choose(value: Any, format: str = AUTO) -> Detection:
    """The one format to read ``value`` in.

    Args:
        value: parsed JSON.
        format: a format's name, or ``auto`` to recognise it.

    Raises:
        UsageError: when there is no such format.
        InputError: when no format, or more than one equally well, fits.
    """
    format = ALIASES.get(format, format)
    if format != AUTO:
        if format not in formats():
            raise UsageError(unknown_name("trace format", format, [AUTO, *formats()]))
        return Detection(format, 1.0, "it was asked for")
    found = detect(value)
    if not found:
        raise InputError(
            f"no trace format recognises {_shape(value)}; "
            f"name one with --format ({', '.join(formats())})"
        )
    if len(found) > 1 and found[0].confidence == found[1].confidence:
        tied = [hit for hit in found if hit.confidence == found[0].confidence]
        reasons = "; ".join(f"{hit.format}: {hit.why}" for hit in tied)
        raise InputError(f"{len(tied)} trace formats fit ({reasons}); name one with --format")
    return found[0]


def read_value(
    value: Any,
    format: str = AUTO,
    *,
    is_strict_json: bool = False,
    file: Path | None = None,
) -> list[Run]:
    """The runs in a parsed JSON value or an SDK's object.

    Args:
        value: parsed JSON, an object with ``model_dump()``, or lists and objects of those.
        format: a format's name, or ``auto``.
        is_strict_json: the value came out of strict JSON, so it needs no conversion or check.
        file: the document's file, for formats that name other files (receipts).

    Returns:
        The runs in input order; never empty.

    Raises:
        UsageError: when there is no format of that name.
        InputError: when no format or several fit, when the value holds NaN or an infinity, when its
            format finds nothing to read, or when it is plainly in another format than asked for.
    """
    if not is_strict_json:
        try:
            value, _ = without_surrogates(to_plain(value))
        except RecursionError:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels") from None
        for path, number in find_non_json(value):
            raise InputError(f"{number} is no JSON number", json_path=path)
    chosen = choose(value, format)
    module: Any = formats()[chosen.format]
    # Only a receipt names another file.
    reads_files = getattr(module, "READS_FILES", False)
    runs: list[Run] = list(module.read(value, file) if reads_files else module.read(value))
    if not runs:
        raise InputError(f"nothing to read as {chosen.format} in {_shape(value)}")
    if format != AUTO and value and not any(run.calls or run.status == "error" for run in runs):
        _check_fit(value, module)
    for run in runs:
        if not run.calls and run.status != "error":
            run.warnings.append(NO_CALLS_WARNING)
    return runs


def _check_fit(value: Any, module: Format) -> None:
    """Refuse a value without calls in the format asked for that is plainly in another one.

    A gate would find nothing wrong with it, for the calls are where the format does not look.
    """
    if module.detect(value) is not None:
        return
    others = [hit for hit in detect(value) if hit.confidence >= _CLEAR]
    if others:
        raise InputError(
            f"nothing in it reads as {module.NAME}; it looks like {others[0].format} "
            f"({others[0].why})"
        )


def is_fragment(record: Any) -> bool:
    """Whether a JSON Lines record is a part of a run (a message, an event, a span), not a run."""
    return any(
        module.is_fragment(record)
        for module in formats().values()
        if hasattr(module, "is_fragment")
    )


def to_plain(value: Any) -> Any:
    """``value`` with SDK objects (anything with ``model_dump()``) as plain lists and objects."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return to_plain(_dumped(dump))
    return value


def _dumped(dump: Any) -> Any:
    try:
        return dump(mode="json", warnings=False)
    except (TypeError, ValueError):
        return dump()


def _shape(value: Any) -> str:
    """A few words on what a value looks like, without its contents."""
    if isinstance(value, dict):
        from toolscore_pipeline.credentials import redact_secrets

        keys = ", ".join(repr(redact_secrets(str(key)[:200])[:40]) for key in list(value)[:5])
        more = ", ..." if len(value) > 5 else ""
        return f"an object with the keys {keys}{more}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list whose first item is {_shape(value[0])}" if value else "an empty list"
    return "null" if value is None else f"a {type(value).__name__}"
