"""Text from traces made fit to be shown: redacted, short, and unable to act on what shows it."""

from __future__ import annotations

import json
import re
from typing import Any

from toolscore_pipeline.credentials import redact_secrets

LONGEST = 300
"""Characters of one text; longer ones end in an ellipsis."""
_READ = 4096  # what is cut away before redaction lies far beyond what is shown

# Controls, line and paragraph separators, bidirectional and invisible formatting, lone surrogates.
# The joiners U+200C and U+200D stay: scripts and emoji need them, and they move nothing.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_SPACE = re.compile(r"[ \t\r\n]+")


def plain(text: str, limit: int = LONGEST) -> str:
    """One line of at most ``limit`` characters, redacted, with acting characters spelled out.

    White space collapses; a control or direction mark becomes its escape, such as ``\\u202e``.
    """
    text = redact_secrets(text[: limit + _READ])
    text = spell_out(_SPACE.sub(" ", text).strip(" "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def spell_out(text: str) -> str:
    """``text`` with every control, direction mark and invisible character as its escape."""
    return _ACTING.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def short_value(value: Any, limit: int = 100) -> str:
    """A value as short JSON text, made plain."""
    return plain(json.dumps(value, ensure_ascii=False, default=repr), limit)


def call_text(tool: str, args: Any, limit: int = 240) -> str:
    """A call as ``tool(name=value, ...)``, or ``tool(…)`` without known or checked arguments."""
    if not isinstance(args, dict):
        return f"{plain(tool, 80)}(…)"
    named = ", ".join(
        f"{plain(str(name), 40)}={short_value(value)}" for name, value in args.items()
    )
    return plain(f"{plain(tool, 80)}({named})", limit)


_MARKDOWN = re.compile(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[#+>=-])")

# What GitHub makes links of once the text is rendered, and pings people by. It undoes escapes and
# entities first, so that only a character in between helps; the one put there is invisible.
_REFERENCE = re.compile(r"@(?=[A-Za-z0-9])|#(?=[0-9])|\bgh-(?=[0-9])", re.IGNORECASE)
_BREAK = "&#8203;"


def markdown_text(text: str) -> str:
    """Plain text escaped for Markdown, also in a table cell.

    No markup, tag, mention, issue, formula or link is left. What cannot act, such as the underscore
    inside a name, stays as it is, so that the text can be searched for.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    text = _REFERENCE.sub(rf"\g<0>{_BREAK}", text)
    # GitHub links bare addresses too, but looks for them in the text as it is written.
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")


def csv_cell(value: Any) -> Any:
    """A value for a CSV cell: a number as it is, text so that no spreadsheet runs it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = plain(value if isinstance(value, str) else json.dumps(value), 2000)
        return "'" + text if text.startswith(("=", "+", "-", "@")) else text
    return value
