"""Keeps keys and environment values out of rows, logs and errors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

KEY_NAMES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable that holds each provider's key."""

MIN_LENGTH = 6
"""Shorter values are left alone: replacing ``1`` or ``true`` would garble every text."""

_CREDENTIAL_OPTION = re.compile(
    r"(?i)^(--?[\w-]*(?:key|token|secret|password|passwd|credential|auth)[\w-]*)(=|$)"
)
_CREDENTIAL_HEADER = re.compile(r"(?i)^([\w-]*(?:authorization|key|token|cookie)[\w-]*\s*:\s*).+$")
_SENSITIVE_NAME = re.compile(r"(?i)key|token|secret|passw|credential|auth|cookie")


class Scrubber:
    """Replaces known secret values in texts by the name they are known under.

    Args:
        values: secret values by name; short ones are ignored.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._shown: dict[str, str] = {}
        for name, value in (values or {}).items():
            self.add(name, value)

    def add(self, name: str, value: str, shown: str | None = None) -> None:
        """Know one more value, in each of the ways it may be written.

        Args:
            name: what it is called.
            value: the value; it is ignored when it is short.
            shown: what stands for it; None is the name in brackets.
        """
        text = value.strip()
        if len(text) < MIN_LENGTH:
            return
        as_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        for form in {text, quote(text, safe=""), unquote(text), repr(text)[1:-1], *as_json}:
            self._shown.setdefault(form, shown or f"[{name}]")

    def text(self, text: str) -> str:
        """The text with each known value replaced by what stands for it."""
        for value in sorted(self._shown, key=len, reverse=True):
            if value in text:
                text = text.replace(value, self._shown[value])
        return text

    def value(self, value: Any) -> Any:
        """A JSON value with every text in it scrubbed, keys too."""
        if not self._shown:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value


def provider_keys(names: Iterable[str] = ()) -> dict[str, str]:
    """The keys set in this process by variable name: the providers' and the ones named."""
    wanted = [*KEY_NAMES.values(), "ANTHROPIC_AUTH_TOKEN", *names]
    return {name: os.environ[name] for name in wanted if os.environ.get(name)}


def clean_url(url: str) -> str:
    """A URL without user, password, fragment and the values of its query."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if ":" in host:
            host = f"[{host}]"
        netloc = host if parts.port is None else f"{host}:{parts.port}"
    except ValueError:
        return "(a URL that cannot be read)"
    query = "&".join(f"{pair.partition('=')[0]}=..." for pair in parts.query.split("&") if pair)
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def clean_command(command: Iterable[str]) -> list[str]:
    """Command words with the values of credential options, headers and URLs left out."""
    cleaned: list[str] = []
    hide_next = False
    for word in command:
        if hide_next and not word.startswith("-"):
            cleaned.append("...")
            hide_next = False
            continue
        option = _CREDENTIAL_OPTION.match(word)
        hide_next = option is not None and option.group(2) == ""
        if option is not None and option.group(2):
            cleaned.append(f"{option.group(1)}=...")
        elif header := _CREDENTIAL_HEADER.match(word):
            cleaned.append(f"{header.group(1)}...")
        elif "://" in word:
            cleaned.append(clean_url(word))
        elif "=" in word and _SENSITIVE_NAME.search(word.partition("=")[0]):
            cleaned.append(f"{word.partition('=')[0]}=...")
        else:
            cleaned.append(word)
    return cleaned


def url_secrets(url: str) -> dict[str, str]:
    """The secret parts of a URL by a name for each: user, password and query values."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return {"URL": url}
    found = {"URL user": parts.username or "", "URL password": parts.password or ""}
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        found[f"URL {name}"] = value
    return {name: value for name, value in found.items() if value}
