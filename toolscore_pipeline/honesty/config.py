"""Settings of the honesty checks: which run, and what is added to their words and tool patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from toolscore_pipeline.documents import Document, load_document
from toolscore_pipeline.errors import ContractError, Problem, unknown_name

_ENDINGS = (
    r"(?:[._\-](?:tool|run|runner|exec|execute|execution|executor|eval|interpreter|command|cmd|code|"
    r"script|query|repl|shell|session|cell|line|sandbox|use))*(?:_?\d+)?"
)
_SPACE = r"(?:.*(?:__|[./:]))?"  # a namespace before the name: "mcp__box__", "fs."
#: Tools that run code, as patterns for the whole name in lower case or snake case.
CODE_TOOLS: tuple[str, ...] = (
    (
        r"(?:.*[._\-/])?(?:shell|bash|zsh|exec|terminal|powershell|pwsh|python\d?|python_repl|ipython|"
        rf"jupyter|repl|subprocess|psql|sqlite|mysql|interpreter|ssh|sandbox){_ENDINGS}"
    ),
    (
        rf"{_SPACE}(?:sh|execute|console|command|cmd|node|nodejs|javascript|js|typescript|ruby|perl|"
        rf"php|eval|process|code|script|sql|notebook|computer){_ENDINGS}"
    ),
    (
        r"(?:.*[._\-/])?(?:run|exec|execute|eval|evaluate|start|spawn|invoke|interpret)"
        r"[._\-]?(?:in[._\-])?(?:the[._\-])?"
        r"(?:shell|bash|terminal|console|commands?|cmd|powershell|python\d?|node|javascript|js|ruby|"
        r"perl|code|scripts?|sql|query|process|notebook|cell|snippet|program)"
        r"(?:[._\-](?:command|cmd|code|script|query|cell|line|in_terminal))*"
    ),
)
#: Tools that make network requests; they count when the request writes.
NETWORK_TOOLS: tuple[str, ...] = (
    (
        rf"{_SPACE}(?:https?|fetch|curl|wget|rest|api|web|url|network|requests?)"
        r"(?:[._\-](?:request|requests|fetch|call|client|tool|get|post|put|patch|delete|send|api|url|"
        r"page))*"
    ),
    (
        r"(?:.*[._\-/])?(?:make|send|do|call|invoke)[._\-](?:https?|api|web|rest)"
        r"(?:[._\-]?(?:request|call|api))?"
    ),
)

CHECKS: tuple[str, ...] = ("claimed-success", "disclosure", "escape-hatch", "prompt-injection")


@dataclass(frozen=True, slots=True)
class HonestyConfig:
    """Which honesty checks run and what is added to their built-in words and patterns.

    A check that is switched off is left out of the result. Word lists and patterns are added to
    the built-in ones; nothing can be taken away from those.

    Attributes:
        claimed_success: run the claimed-success check.
        disclosure: run the disclosure check.
        escape_hatch: run the escape-hatch check.
        prompt_injection: run the prompt-injection check (when something was planted).
        success_words: further words or phrases that say a whole task was done ("shipshape").
        failure_words: further words or phrases that admit a failure ("conked out").
        hedge_words: further words or phrases that make a sentence no claim ("reportedly").
        refusal_words: further words or phrases in an error text that make it a refusal.
        warning_words: further words that mention a warning ("caveat").
        code_tools: further code-execution tools: regular expressions for the whole name, any case.
        network_tools: further tools that make network requests, likewise.
        target_keys: further argument names that identify what a call is about.
        content_keys: further argument names that are content or options.
    """

    claimed_success: bool = True
    disclosure: bool = True
    escape_hatch: bool = True
    prompt_injection: bool = True
    success_words: tuple[str, ...] = field(default=())
    failure_words: tuple[str, ...] = field(default=())
    hedge_words: tuple[str, ...] = field(default=())
    refusal_words: tuple[str, ...] = field(default=())
    warning_words: tuple[str, ...] = field(default=())
    code_tools: tuple[str, ...] = field(default=())
    network_tools: tuple[str, ...] = field(default=())
    target_keys: tuple[str, ...] = field(default=())
    content_keys: tuple[str, ...] = field(default=())
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Settings are the key of several caches that are asked for every answer.
        values = tuple(getattr(self, name) for name in _NAMES)
        object.__setattr__(self, "_hash", hash(values))

    def __hash__(self) -> int:
        return self._hash

    def to_dict(self) -> dict[str, Any]:
        """Every setting as JSON values, defaults included, ready to be hashed or stored."""
        values = {name: getattr(self, name) for name in _NAMES}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


_SWITCHES = ("claimed_success", "disclosure", "escape_hatch", "prompt_injection")
_PATTERNS = ("code_tools", "network_tools")
_NAMES = tuple(item.name for item in fields(HonestyConfig) if item.init)


def config_from_mapping(
    data: Any, *, path: str | Path | None = None, document: Document | None = None
) -> HonestyConfig:
    """Settings from parsed JSON or YAML; None and ``{}`` give the defaults.

    Args:
        data: the settings, as JSON values.
        path: what errors call the file.
        document: the document they came from, for the lines of problems.

    Raises:
        ContractError: naming every unknown key (with the nearest known one) and every value of the
            wrong type or pattern that does not compile.
    """
    if data is None:
        return HonestyConfig()
    if not isinstance(data, Mapping):
        raise ContractError(
            [Problem(f"honesty settings must be an object, got {type(data).__name__}", "$")],
            path=path,
        )
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = str(key).replace("-", "_")
        where = f"$.{key}"
        if name not in _NAMES:
            problems.append(Problem(unknown_name("honesty setting", str(key), _NAMES), where))
        elif name in _SWITCHES:
            if not isinstance(value, bool):
                problems.append(Problem(f"must be true or false, got {_kind(value)}", where))
            else:
                values[name] = value
        else:
            values[name] = tuple(_words(name, value, where, problems))
    if problems:
        located = document.locate(problems) if document is not None else problems
        raise ContractError(located, path=path)
    return HonestyConfig(**values)


def _words(name: str, value: Any, where: str, problems: list[Problem]) -> list[str]:
    if not isinstance(value, (list, tuple)):
        problems.append(Problem(f"must be a list of texts, got {_kind(value)}", where))
        return []
    good: list[str] = []
    for at, item in enumerate(value):
        if not isinstance(item, str) or not item.strip():
            problems.append(
                Problem(f"must be a text that is not empty, got {_kind(item)}", f"{where}[{at}]")
            )
            continue
        if name in _PATTERNS:
            try:
                re.compile(item)
            except re.error as error:
                problems.append(Problem(f"is no regular expression: {error}", f"{where}[{at}]"))
                continue
        good.append(item)
    return good


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "an empty text" if not value.strip() else "a text"
    return "null" if value is None else type(value).__name__


def load_honesty_config(path: str | Path) -> HonestyConfig:
    """Settings from a JSON or YAML file.

    Raises:
        InputError: when the file cannot be read or parsed.
        ContractError: as :func:`config_from_mapping`.
    """
    document = load_document(path)
    return config_from_mapping(document.value, path=path, document=document)
