"""What a call is about: its action, the thing it names, and the words that tell it from others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolscore_pipeline.honesty import words as w
from toolscore_pipeline.honesty.config import CODE_TOOLS, NETWORK_TOOLS, HonestyConfig

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
_WORDS = re.compile(r"[a-z0-9]+")
_SQL = re.compile(
    r"^\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:with\b.*?\)\s*)?(?P<verb>select|insert|update|delete|"
    r"create|drop|alter|"
    r"truncate|merge|replace|grant|revoke)\b",
    re.I | re.S,
)
_SQL_TABLE = re.compile(
    r"\b(?:from|into|update|table|join|view|index)\s+(?:if\s+(?:not\s+)?exists\s+|"
    r"only\s+)?[\"`\[]?([\w.]+)",
    re.I,
)
_SQL_KEY = re.compile(
    r"(?:.*_)?(?:sql|query|queries|statements?|stmt|command|cmd|code|script|q|raw|input)"
)
_SQL_CLASS = {
    "select": "read",
    "insert": "write",
    "update": "update",
    "delete": "delete",
    "create": "write",
    "drop": "delete",
    "alter": "update",
    "truncate": "delete",
    "merge": "update",
    "replace": "update",
    "grant": "approve",
    "revoke": "delete",
}
_COMMAND_CLASS = {
    "rm": "delete",
    "rmdir": "delete",
    "unlink": "delete",
    "shred": "delete",
    "mv": "move",
    "cp": "copy",
    "rsync": "copy",
    "scp": "copy",
    "mkdir": "write",
    "touch": "write",
    "tee": "write",
    "cat": "read",
    "ls": "read",
    "head": "read",
    "tail": "read",
    "grep": "read",
    "find": "read",
    "curl": "download",
    "wget": "download",
    "pytest": "test",
    "make": "build",
    "mail": "send",
    "sendmail": "send",
    "pip": "install",
    "npm": "install",
    "apt": "install",
    "chmod": "update",
    "chown": "update",
    "ln": "connect",
    "kill": "stop",
    "systemctl": "run",
    "git": "push",
    "docker": "run",
    "kubectl": "deploy",
    "sed": "update",
    "psql": "run",
}
_UMBRELLAS = frozenset("git npm pip apt docker kubectl make systemctl yarn".split())
_METHOD_CLASS = {
    "post": ("write", "send", "update"),
    "put": ("update", "write"),
    "patch": ("update",),
    "delete": ("delete",),
    "get": ("read",),
    "head": ("read",),
}


@lru_cache(maxsize=64)
def _key_patterns(config: HonestyConfig) -> tuple[re.Pattern[str], re.Pattern[str]]:
    def joined(builtin: str, extra: tuple[str, ...]) -> re.Pattern[str]:
        return re.compile("|".join([builtin, *(re.escape(key.lower()) for key in extra)]))

    return joined(w.TARGET_KEYS, config.target_keys), joined(w.CONTENT_KEYS, config.content_keys)


@lru_cache(maxsize=64)
def _tool_patterns(config: HonestyConfig) -> tuple[re.Pattern[str], re.Pattern[str]]:
    code = re.compile("|".join(f"(?:{p})" for p in (*CODE_TOOLS, *config.code_tools)), re.I)
    network = re.compile(
        "|".join(f"(?:{p})" for p in (*NETWORK_TOOLS, *config.network_tools)), re.I
    )
    return code, network


@lru_cache(maxsize=8192)
def is_code_tool(tool: str, config: HonestyConfig) -> bool:
    """Whether the tool runs code, by its name."""
    pattern = _tool_patterns(config)[0]
    return pattern.fullmatch(tool) is not None or pattern.fullmatch(_snake(tool)) is not None


@lru_cache(maxsize=8192)
def is_network_tool(tool: str, config: HonestyConfig) -> bool:
    """Whether the tool makes network requests, by its name."""
    pattern = _tool_patterns(config)[1]
    return pattern.fullmatch(tool) is not None or pattern.fullmatch(_snake(tool)) is not None


def _snake(tool: str) -> str:
    return _CAMEL.sub("_", tool).lower()


@lru_cache(maxsize=8192)
def tool_words(tool: str) -> tuple[str, ...]:
    """The words of a tool's name, lower case."""
    return tuple(part.lower() for part in _SPLIT.split(_CAMEL.sub("_", tool)) if part)


@dataclass(frozen=True, slots=True)
class Target:
    """What a call is about.

    Attributes:
        values: ``(key, value)`` of the identifying arguments, as lower-case text, in order; None
            when the arguments were not recorded.
        verb: the verb of the tool's name, if one is known.
        classes: the classes of its action.
        nouns: stems of the other words of the tool's name.
        tokens: words of the arguments, but for content and options.
    """

    values: tuple[tuple[str, str], ...] | None
    verb: str | None
    classes: frozenset[str]
    nouns: frozenset[str]
    tokens: frozenset[str]

    @property
    def is_reading(self) -> bool:
        """Whether the call only looks at things."""
        return self.classes == frozenset(("read",)) or self.verb in w.READING


def scalars(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """``(nearest key, leaf)`` for every leaf of a JSON value, in order."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from scalars(item, str(name), depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from scalars(item, key, depth + 1)
    elif value is not None:
        yield key, value


@lru_cache(maxsize=8192)
def _key_kind(key: str, config: HonestyConfig) -> tuple[str, str]:
    """The key in snake case, and whether it is ``target``, ``content`` or ``spare``."""
    name = _CAMEL.sub("_", key).replace("-", "_").lower()
    identifying, content = _key_patterns(config)
    if content.fullmatch(name) is not None:
        return name, "content"
    return name, "target" if identifying.fullmatch(name) is not None else "spare"


def target_values(
    args: Any, config: HonestyConfig
) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, str]]]:
    """The identifying arguments of a call, as ``(key, lower-case text)``, and the spare ones.

    Without an identifying key, the spare ones identify: short values that are no content or option.
    An SQL text stands for its verb and tables.
    """
    if not args:
        return (), []
    chosen: list[tuple[str, str]] = []
    spare: list[tuple[str, str]] = []
    is_flat = isinstance(args, dict) and not any(isinstance(v, (dict, list)) for v in args.values())
    for key, leaf in args.items() if is_flat else scalars(args):
        if leaf is None or isinstance(leaf, bool):
            continue
        text = leaf if isinstance(leaf, str) else str(leaf)
        name, kind = _key_kind(key, config)
        if isinstance(leaf, str) and len(leaf) > 6 and _SQL_KEY.fullmatch(name) is not None:
            sql = _SQL.match(leaf)
            if sql is not None and (table := _SQL_TABLE.findall(leaf)):
                chosen.append(("sql", sql["verb"].lower()))
                chosen.extend(("table", found.lower()) for found in table)
                continue
        if kind == "target":
            chosen.append((name, text.strip().lower()))
        elif kind == "spare" and len(text) <= 200:
            spare.append((name, text.strip().lower()))
    return tuple(chosen or spare), spare


@lru_cache(maxsize=8192)
def _tool(tool: str) -> tuple[str | None, frozenset[str], frozenset[str]]:
    """The verb of a tool's name, its classes, and the stems of the other words."""
    tokens = tool_words(tool)
    verb, classes = w.tool_action(list(tokens))
    if verb is None and tokens:
        own = tool_words(re.split(r"__|[./:]", tool)[-1])
        verb = own[0] if own else tokens[0]
    return verb, classes, frozenset(w.stem(token) for token in tokens if token != verb)


def describe(tool: str, args: Any, config: HonestyConfig) -> Target:
    """What a call of ``tool`` with ``args`` (None when not recorded) is about."""
    verb, classes, nouns = _tool(tool)
    if isinstance(args, dict):
        more: set[str] = set()
        if is_code_tool(tool, config):
            more = _command_classes(args)
        elif is_network_tool(tool, config):
            method = str(args.get("method", args.get("verb", ""))).lower()
            more = set(_METHOD_CLASS.get(method, ()))
            if method in _METHOD_CLASS:
                classes = frozenset()
        if more:
            classes = classes | more
            if "read" not in more:
                classes = classes - {"read"}
    values, spare = (None, []) if args is None else target_values(args, config)
    words: set[str] = set()
    for text in {text for _, text in (*(values or ()), *spare)}:
        words.update(_WORDS.findall(text))
    tokens = frozenset(word for word in words if len(word) > 1) - w.STOP
    return Target(values, verb, classes, nouns, tokens)


def _command_classes(args: dict[str, Any]) -> set[str]:
    classes: set[str] = set()
    for _, leaf in scalars(args):
        if not isinstance(leaf, str):
            continue
        sql = _SQL.match(leaf)
        if sql is not None:
            classes.add(_SQL_CLASS[sql["verb"].lower()])
            continue
        command = _WORDS.findall(leaf[:400].lower())[:60]
        for word, following in zip(command, [*command[1:], ""], strict=False):
            if word in _COMMAND_CLASS:
                if word in _UMBRELLAS and following in w.CLASSES:
                    continue  # "npm test" installs nothing
                classes.add(_COMMAND_CLASS[word])
            elif word in w.CLASSES and w.FORMS[word][1] & w.BASE:
                classes.update(w.CLASSES[word])
    return classes
