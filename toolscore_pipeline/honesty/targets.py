"""What a call is about: its action, the thing it names, and the words that tell it from others."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolscore_pipeline.honesty import words as w
from toolscore_pipeline.honesty.config import CODE_TOOLS, NETWORK_TOOLS, HonestyConfig

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
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
_READ = frozenset(("read",))
_THINGS = frozenset(("issue", "problem", "incident"))
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


def _snake(tool: str) -> str:
    return _CAMEL.sub("_", tool).lower()


@lru_cache(maxsize=8192)
def tool_words(tool: str) -> tuple[str, ...]:
    """The words of a tool's name, lower case."""
    return tuple(part.lower() for part in _SPLIT.split(_CAMEL.sub("_", tool)) if part)


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """What a call does, by its tool and, of code and requests, by its arguments.

    Attributes:
        verb: the verb of the tool's name, if one is known.
        classes: the classes of its action.
        nouns: stems of the other words of the tool's name.
        is_reading: whether the call only looks at things.
        things: words that name what the tool works on and would be read as failures ("issue").
        has_own_verb: whether its verb is none that is known otherwise.
    """

    verb: str | None
    classes: frozenset[str]
    nouns: frozenset[str]
    is_reading: bool
    things: frozenset[str]
    has_own_verb: bool


class Target:
    """What a call is about.

    Attributes:
        values: ``(key, value)`` of the identifying arguments, as lower-case text, in order; None
            when the arguments were not recorded.
        action: what it does; calls of one tool share it.
        text: the arguments in lower case, but for content and options.
    """

    __slots__ = ("_tokens", "action", "text", "values")

    def __init__(
        self, values: tuple[tuple[str, str], ...] | None, action: Action, text: str
    ) -> None:
        self.values = values
        self.action = action
        self.text = text
        self._tokens: frozenset[str] | None = None

    @property
    def tokens(self) -> frozenset[str]:
        """The words of the text that tell it from others."""
        if self._tokens is None:
            self._tokens = frozenset(w.words_of(self.text)) - w.SMALL
        return self._tokens

    def may_have_stem(self, stem: str) -> bool:
        """Whether a token may have a stem: it begins with all but the last letter, or is known."""
        text = self.text
        return stem[:-1] in text or any(form in text for form in w.FORMS_OF.get(stem, ()))

    def tokens_among(self, words: frozenset[str]) -> Collection[str]:
        """Those of some words that are tokens; no small word may be among them."""
        # To look for a few words is faster than to cut the text, but not for each of thousands.
        if self._tokens is not None or len(words) > _FEW:
            return self.tokens & words
        text = self.text
        return [word for word in words if word in text and _has_word(text, word)]


def tokens_in(targets: list[Target], words: frozenset[str]) -> frozenset[str]:
    """Of some words, those that may be tokens of one of several targets."""
    if len(words) > _FEW:
        return words
    text = "\n".join([target.text for target in targets])
    return frozenset([word for word in words if word in text])


_FEW = 32
_WORD_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def _has_word(text: str, word: str) -> bool:
    """Whether a word stands in a text by itself."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if (
            text[at - 1 : at] not in _WORD_CHARACTERS
            and text[end : end + 1] not in _WORD_CHARACTERS
        ):
            return True
        at = text.find(word, at + 1)
    return False


def leaves(value: Any) -> list[tuple[str, Any]]:
    """``(nearest key, leaf)`` for every leaf of a JSON value but null, in order."""
    found: list[tuple[str, Any]] = []
    _leaves(value, "", found)
    return found


def _leaves(value: Any, key: str, found: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if type(item) is str:  # most are
                found.append((str(name), item))
            else:
                _leaves(item, str(name), found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if type(item) is str:
                found.append((key, item))
            else:
                _leaves(item, key, found)
    elif value is not None:
        found.append((key, value))


class _Keys(dict[str, tuple[str, str, bool]]):
    """By key: in snake case, ``target``, ``content`` or ``spare``, and whether it may hold SQL."""

    def __init__(self, config: HonestyConfig) -> None:
        super().__init__()
        self.identifying, self.content = _key_patterns(config)

    def __missing__(self, key: str) -> tuple[str, str, bool]:
        name = _CAMEL.sub("_", key).replace("-", "_").lower()
        kind = "spare"
        if self.content.fullmatch(name) is not None:
            kind = "content"
        elif self.identifying.fullmatch(name) is not None:
            kind = "target"
        if len(self) > _MAX_KNOWN:
            self.clear()
        found = self[key] = (name, kind, _SQL_KEY.fullmatch(name) is not None)
        return found


class _Tools(dict[str, tuple[Action, str]]):
    """By tool: its action, and ``code`` or ``network`` for one that runs code or makes requests."""

    def __init__(self, config: HonestyConfig) -> None:
        super().__init__()
        self.patterns = tuple(zip(("code", "network"), _tool_patterns(config), strict=True))

    def __missing__(self, tool: str) -> tuple[Action, str]:
        snake = _snake(tool)
        kinds = [
            kind
            for kind, pattern in self.patterns
            if pattern.fullmatch(tool) is not None or pattern.fullmatch(snake) is not None
        ]
        if len(self) > _MAX_KNOWN:
            self.clear()
        found = self[tool] = (_tool(tool), kinds[0] if kinds else "")
        return found


_MAX_KNOWN = 8192


@lru_cache(maxsize=64)
def _known(config: HonestyConfig) -> tuple[_Tools, _Keys]:
    """What settings make of tools and keys, kept: there are few of each, asked for again."""
    return _Tools(config), _Keys(config)


def tool_kind(tool: str, config: HonestyConfig) -> str:
    """By its name: ``code`` for a tool that runs code, ``network`` for one that makes requests."""
    return _known(config)[0][tool][1]


_NESTED = frozenset((dict, list))


def _target_values(
    args: Any, keys: _Keys
) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, str]]]:
    """The identifying arguments of a call, as ``(key, lower-case text)``, and the spare ones.

    Without an identifying key, the spare ones identify: short values that are no content or option.
    An SQL text stands for its verb and tables.
    """
    if not args:
        return (), []
    chosen: list[tuple[str, str]] = []
    spare: list[tuple[str, str]] = []
    is_flat = isinstance(args, dict) and _NESTED.isdisjoint(map(type, args.values()))
    for key, leaf in args.items() if is_flat else leaves(args):
        if leaf is None or isinstance(leaf, bool):
            continue
        name, kind, may_be_sql = keys[key]
        if kind == "content" and not may_be_sql:
            continue
        if isinstance(leaf, str):
            text = leaf
            if may_be_sql and len(leaf) > 6:
                sql = _SQL.match(leaf)
                if sql is not None and (table := _SQL_TABLE.findall(leaf)):
                    chosen.append(("sql", sql["verb"].lower()))
                    chosen.extend(("table", found.lower()) for found in table)
                    continue
        else:
            text = str(leaf)
        if kind == "target":
            chosen.append((name, text.strip().lower()))
        elif kind == "spare" and len(text) <= 200:
            spare.append((name, text.strip().lower()))
    return tuple(chosen or spare), spare


def _tool(tool: str) -> Action:
    tokens = tool_words(tool)
    verb, classes = w.tool_action(list(tokens))
    if verb is None and tokens:
        own = tool_words(re.split(r"__|[./:]", tool)[-1])
        verb = own[0] if own else tokens[0]
    return _action(verb, classes, frozenset(w.stem(token) for token in tokens if token != verb))


@lru_cache(maxsize=8192)
def _action(verb: str | None, classes: frozenset[str], nouns: frozenset[str]) -> Action:
    """One object for equal actions, so that they are told apart by identity."""
    things = [form for thing in _THINGS & nouns for form in (thing, thing + "s")]
    return Action(
        verb,
        classes,
        nouns,
        is_reading=classes == _READ or verb in w.READING,
        things=frozenset(things),
        has_own_verb=bool(verb) and verb not in w.FORMS,
    )


def describe(tool: str, args: Any, config: HonestyConfig) -> Target:
    """What a call of ``tool`` with ``args`` (None when not recorded) is about."""
    tools, keys = _known(config)
    action, kind = tools[tool]
    if args is None:
        return Target(None, action, "")
    if kind and isinstance(args, dict):
        action = _by_arguments(action, kind, args)
    values, spare = _target_values(args, keys)
    texts = [text for _, text in values]
    if len(values) != len(spare) or values != tuple(spare):
        texts.extend([text for _, text in spare])
    return Target(values, action, " ".join(texts))


def _by_arguments(action: Action, kind: str, args: dict[str, Any]) -> Action:
    """The action of code or a request, which its arguments say more of than the tool's name."""
    classes = action.classes
    if kind == "code":
        more = _command_classes(args)
    else:
        method = str(args.get("method", args.get("verb", ""))).lower()
        more = set(_METHOD_CLASS.get(method, ()))
        if method in _METHOD_CLASS:
            classes = frozenset()
    if not more:
        return action
    classes = classes | more
    if "read" not in more:
        classes = classes - _READ
    return _action(action.verb, classes, action.nouns)


def _command_classes(args: dict[str, Any]) -> set[str]:
    classes: set[str] = set()
    for _, leaf in leaves(args):
        if not isinstance(leaf, str):
            continue
        sql = _SQL.match(leaf)
        if sql is not None:
            classes.add(_SQL_CLASS[sql["verb"].lower()])
            continue
        command = w.words_of(leaf[:400].lower())[:60]
        for word, following in zip(command, [*command[1:], ""], strict=False):
            if word in _COMMAND_CLASS:
                if word in _UMBRELLAS and following in w.CLASSES:
                    continue  # "npm test" installs nothing
                classes.add(_COMMAND_CLASS[word])
            elif word in w.CLASSES and w.FORMS[word][1] & w.BASE:
                classes.update(w.CLASSES[word])
    return classes
