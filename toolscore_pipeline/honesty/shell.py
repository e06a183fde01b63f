"""What code does, statically: shell, SQL and Python text cut into effects on named things.

Nothing is run. The reading is coarse: each simple command or function call gives one
:class:`Effect` with the texts it names.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

_warnings_lock = threading.Lock()  # the filters of warnings are shared by all threads
_MAX_DEPTH = 4
_MAX_CODE = 50_000
_MAX_WRAPPERS = 50


@dataclass(slots=True)
class Effect:
    """One thing that code does.

    Attributes:
        kind: ``print`` (text for the output only), ``read``, ``copy`` (the sources of a copy),
            ``delete`` or ``write`` (any other effect, unknown commands too).
        names: the texts it names: paths, addresses, words.
        action: the words that say what it does (command and sub-command, or function name).
        folder: the folder it runs in, when a ``cd`` or a setting says so.
    """

    kind: str
    names: list[str]
    action: list[str] = field(default_factory=list)
    folder: str | None = None


@dataclass(slots=True)
class _Command:
    words: list[str]
    writes: list[str]
    heredoc: str | None
    inner: list[str]
    is_piped: bool


_PRINT = frozenset(
    "echo printf logger say true false : pwd sleep date clear exit return whoami hostname".split()
)
_READ = frozenset(
    "cat ls ll dir head tail less more grep egrep fgrep rg ag stat file wc diff cmp md5sum "
    "sha1sum sha256sum du df "
    "tree test [ [[ "
    "readlink realpath basename dirname which type env printenv ps id awk gawk sort uniq cut tr "
    "jq yq "
    "xxd hexdump od strings column nl bat fd locate lsof ping dig nslookup host get-content gc "
    "get-childitem gci "
    "get-item "
    "test-path select-string more tac zcat zless zgrep base64 cksum sum getfacl lsattr findmnt "
    "mount".split()
)
_DELETE = frozenset(
    "rm rmdir unlink shred truncate del erase rd remove-item ri srm trash trash-put wipe dropdb "
    "dropuser userdel "
    "groupdel".split()
)
_COPY = frozenset("cp scp rsync".split())
_REMOVING = frozenset(("--remove-source-files", "--delete", "--del", "--delete-after"))
_SUBCOMMAND_READ = frozenset(
    "log show diff status ls-files blame get describe logs ps inspect images ls list view cat "
    "info version help "
    "search top history config-view whoami explain plan validate check rev-parse".split()
)
_SUBCOMMAND_DELETE = frozenset(
    "rm delete remove destroy del drop uninstall purge prune clean rb terminate".split()
)
_MULTI = frozenset(
    "git kubectl docker podman aws gcloud az gh glab helm terraform npm yarn pip pip3 apt "
    "apt-get brew systemctl "
    "service "
    "heroku vercel fly redis-cli mongosh etcdctl vault consul nomad gsutil s3cmd rclone hub svn "
    "hg".split()
)
_WRAPPERS = frozenset(
    "sudo doas nohup time command exec builtin nice ionice setsid stdbuf unbuffer then do else "
    "if while until ! "
    "{ busybox".split()
)
_SHELLS = frozenset(
    "sh bash zsh dash ksh fish pwsh powershell cmd eval su script ssh watch parallel".split()
)
_PYTHONS = re.compile(r"(?:python|pypy|ipython)[\d.]*$")
_IN_PLACE = frozenset(("perl", "ruby"))  # they run code over files, and may change them
#: Their options in one word: code follows, files are changed where they are.
_CODE_OPTION = re.compile(r"-(?![IMmi])[A-Za-z0-9]*[eE]")
_IN_PLACE_OPTION = re.compile(r"-(?![IMmeE])[a-hj-zA-HJ-Z0-9]*i(?:\..*)?[a-z]?")
_CODERS = frozenset("node nodejs deno bun perl ruby php Rscript lua osascript".split())
_SQL_CLIENTS = frozenset(
    "psql mysql mariadb sqlite3 sqlite duckdb sqlcmd clickhouse-client bq cockroach".split()
)
_CURLS = frozenset("curl wget http https xh httpie".split())
_WRITING = frozenset("post put patch delete".split())
_ASSIGN = re.compile(r"^[A-Za-z_]\w*=")
_SQL_START = re.compile(
    r"^\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|insert|update|delete|create|drop|alter|truncate|"
    r"merge|replace|grant|"
    r"revoke|with|explain|show|describe|pragma|begin|call|copy|vacuum)\b(?=\s)",
    re.I | re.S,
)
_SQL_SHAPE = re.compile(
    r"\b(?:from|into|set|table|values|database|schema|view|index|where|select|user|role|"
    r"transaction|on)\b",
    re.I,
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")


def effects(
    text: str, *, hint: str = "", folder: str | None = None, depth: int = 0
) -> list[Effect]:
    """What a piece of code does.

    Args:
        text: the code.
        hint: ``python``, ``sql`` or ``shell`` when the tool's name says which; empty to guess.
        folder: the folder it runs in, when known.
        depth: how deep in other code it stands; too deep gives nothing.
    """
    if depth > _MAX_DEPTH or not text.strip():
        return []
    text = text[:_MAX_CODE]
    found: list[Effect]
    if hint != "python" and _is_sql(text):
        found = _sql(text)
    elif hint == "shell" or (hint == "" and _starts_with_command(text)):
        found = _shell(text, folder, depth)
    elif (tree := _python_tree(text, hint == "python")) is not None:
        found = _Python(depth, folder).run(tree)
    elif hint == "python" or _looks_like_code(text):
        found = _other_code(text)
    else:
        found = _shell(text, folder, depth)
    for hidden in _decoded(text):
        found.extend(effects(hidden, folder=folder, depth=depth + 1))
    return found


def _starts_with_command(text: str) -> bool:
    """Whether the first word is a well-known command with an argument as no code has it."""
    found = re.match(r"\s*(?:\S+/)?([\w.-]+)[ \t]+[-\w'\"./~$]", text)
    if found is None or re.match(r"\s*\w+\s+(?:=|\(|import\b|in\b)", text):
        return False
    name = found[1]
    known = (_PRINT, _READ, _DELETE, _MULTI, _WRAPPERS, _SHELLS, _CODERS, _SQL_CLIENTS, _CURLS)
    return any(name in names for names in known) or _PYTHONS.fullmatch(name) is not None


def _decoded(text: str) -> Iterator[str]:
    for token in _BASE64.findall(text):
        try:
            plain = base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        if plain.strip() and all(c.isprintable() or c in "\n\t\r" for c in plain):
            yield plain


def _is_sql(text: str) -> bool:
    return _SQL_START.match(text) is not None and _SQL_SHAPE.search(text) is not None


_SQL_STRING_ONLY = re.compile(r"^\s*select\s+'[^']*'\s*(?:as\s+\w+\s*)?$", re.I)


def _sql(text: str) -> list[Effect]:
    found = []
    bare = re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    for statement in _sql_statements(bare):
        verbs = re.findall(
            r"\b(select|insert|update|delete|create|drop|alter|truncate|merge|replace)\b",
            statement,
            re.I,
        )
        first = (statement.split() or [""])[0].lower()
        if first == "with":
            first = next((v.lower() for v in verbs if v.lower() != "select"), "select")
        if first in ("delete", "drop", "truncate", "revoke"):
            kind = "delete"
        elif first in ("select", "explain", "show", "describe", "pragma", "begin", "commit", "use"):
            kind = "print" if _SQL_STRING_ONLY.match(statement) else "read"
        else:
            kind = "write"
        found.append(
            Effect(
                kind,
                [*re.findall(r"'([^']*)'", statement), *re.findall(r"[\w.@/-]+", statement)],
                [first],
            )
        )
    return found


def _sql_statements(text: str) -> list[str]:
    parts = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^;'\"]|['\"])+", text)
    return [part for part in parts if part.strip()]


_CODE_SIGNS = re.compile(
    r"(?:\brequire\(|\bconsole\.\w+\(|=>|\bconst \w+ ?=|\blet \w+ ?=|"
    r"\bfunction\b.*\{|\bawait \w|\bfs\.\w+|\bnew \w+\(|"
    r"\bputs |\bFile\.\w+|\bimport \w|\bdef \w+\(|\bfetch\(|;\s*$.*\)\s*;)",
    re.S,
)


def _looks_like_code(text: str) -> bool:
    return _CODE_SIGNS.search(text) is not None


_OTHER_PRINT = re.compile(
    r"(?:console\.\w+|print|puts|printf|echo|p|logger\.\w+|log\.\w+|System\.out\.println?|"
    r"process\.stdout\.write)"
    r"\s*\(?(?:\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`)\s*\)?"
)
#: Texts in quotes of Perl and Ruby: ``q(x)``, ``qw{a b}``, ``%w[a b]``, ``<*.txt>``.
_OTHER_QUOTES = re.compile(
    r"(?:(?<![\w$@&])q[qw]?|%[qQwW]?)\s*"
    r"(?:\(([^()\n]*)\)|\{([^{}\n]*)\}|\[([^\[\]\n]*)\]|"
    r"/([^/\n]*)/|!([^!\n]*)!|\|([^|\n]*)\|)|(?<!<)<([^<>\n]+)>"
)
#: A file opened to be written, as in Perl: ``open(F, '>', 'x')`` and ``open F, ">x"``.
_OTHER_OPEN = re.compile(r"\bopen\b[^;\n]{0,80}?[\"'(]\s*\+?>|\bopen\b[^;\n]{0,80}?\+<")
_OTHER_DELETE = re.compile(
    r"\b(?:unlink(?:Sync)?|rm(?:Sync|dir|dirSync|tree)?|remove\w*|delete\w*|destroy\w*|drop\w*)\b",
    re.I,
)
_OTHER_WRITE = re.compile(
    r"\b(?:write\w*|append\w*|rename\w*|truncate\w*|exec\w*|spawn\w*|system|popen|post|put|patch|"
    r"move\w*|copy\w*|chmod\w*|"
    r"insert\w*|update\w*|send\w*|publish\w*|deploy\w*|create\w*)\b",
    re.I,
)


def _other_code(text: str, name: str = "") -> list[Effect]:
    """JavaScript and others, read as a whole: comments and printing taken out first.

    Args:
        text: the code.
        name: the command that runs it, if one does.
    """
    bare = re.sub(
        r"//[^\n]*|/\*.*?\*/|(?m:^[^\S\n]*#[^\n]*)", " ", text.replace("://", ":\0\0"), flags=re.S
    ).replace("\0\0", "//")
    bare = _OTHER_PRINT.sub(" ", bare)
    strings = [a or b or c for a, b, c in re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`", bare)]
    is_writing = _OTHER_WRITE.search(bare) is not None
    if name in _IN_PLACE:
        for groups in _OTHER_QUOTES.findall(bare):
            inner = "".join(groups)
            strings.extend(dict.fromkeys([inner, *inner.split()]))
        if _OTHER_OPEN.search(bare) is not None:
            is_writing = True
            strings = [string.lstrip("+<> ") for string in strings]
    kind = "delete" if _OTHER_DELETE.search(bare) else "write" if is_writing else "read"
    # Only from where a word begins: within one long word each letter would be tried in turn.
    calls = re.findall(r"(?<!\w)([A-Za-z_]\w*)\s*\(", bare)
    found = [Effect(kind, strings, [call.lower() for call in calls])]
    if re.search(r"\b(?:exec\w*|spawn\w*|system|popen)\b", bare):
        for string in strings:
            found.extend(_shell(string, None, 1))
    return found


# Shell ------------------------------------------------------------------------------------------


def _shell(text: str, folder: str | None, depth: int) -> list[Effect]:
    if depth > _MAX_DEPTH:
        return []
    found: list[Effect] = []
    variables: dict[str, str] = {}
    printed: list[str] = []
    for command in _commands(text):
        for inner in command.inner:
            found.extend(_shell(inner, folder, depth + 1))
        words = [_expand(word, variables) for word in command.words]
        while words and _ASSIGN.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        if len(words) >= 3 and words[0] == "for" and words[2] == "in":
            variables[words[1]] = " ".join(words[3:])
            continue
        words = _unwrap(words)
        writes = [_expand(word, variables) for word in command.writes]
        upstream = printed if command.is_piped else []
        for path in writes:
            found.append(Effect("write", [path], ["write"], folder))
        if not words:
            printed = upstream
            continue
        name = words[0].rsplit("/", 1)[-1]
        if name in ("cd", "pushd", "set-location", "chdir"):
            goal = next((word for word in words[1:] if not word.startswith("-")), None)
            if goal:
                folder = (
                    goal
                    if goal.startswith(("/", "~")) or folder is None
                    else f"{folder.rstrip('/')}/{goal}"
                )
            continue
        if name in ("export", "declare", "local", "set", "readonly"):
            for word in words[1:]:
                if _ASSIGN.match(word):
                    key, _, value = word.partition("=")
                    variables[key] = value
            continue
        found.extend(_simple(name, words, command, upstream, folder, depth))
        if name in _PRINT:
            printed = [word for word in words[1:] if not re.fullmatch(r"-\w+", word)]
        elif name in ("find", "fd", "ls", "git", "grep", "rg"):
            printed = [*upstream, *_found_paths(words)]
        else:
            printed = (
                upstream
                if name in ("tr", "sed", "cut", "sort", "base64", "rev", "cat", "head", "awk")
                else []
            )
    return found


def _found_paths(words: list[str]) -> list[str]:
    """Paths that a search names: its folders, each also joined to the name it looks for."""
    folders = [
        word
        for word in words[1:]
        if not word.startswith("-") and ("/" in word or word in (".", "~"))
    ]
    names = [
        words[at + 1]
        for at, word in enumerate(words[:-1])
        if word in ("-name", "-iname", "-path", "-wholename")
    ]
    joined = [f"{folder.rstrip('/')}/{name}" for folder in folders for name in names]
    return joined or [word for word in words[1:] if not word.startswith("-")]


def _simple(
    name: str,
    words: list[str],
    command: _Command,
    upstream: list[str],
    folder: str | None,
    depth: int,
) -> list[Effect]:
    rest = words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    if depth > _MAX_DEPTH:
        return [Effect("write", plain, [name], folder)]
    if name == "xargs":
        inner = _unwrap([word for word in rest if not re.fullmatch(r"-[\w{}]*|\{\}|-n\d*", word)])
        names = [word for text in upstream for word in text.split()]
        if not inner:
            return []
        return _simple(inner[0], [*inner, *names], command, [], folder, depth + 1)
    if name in _SHELLS:
        code = [word for word in rest if " " in word or word == rest[-1]] if rest else []
        if name in ("ssh", "eval", "watch", "parallel"):
            code = [" ".join(plain[1:] if name == "ssh" else plain)]
        elif "-c" not in rest and "/c" not in rest and "-Command" not in rest and name != "su":
            code = [] if plain else [*upstream]
            if plain:
                return [Effect("write", plain, [name], folder)]
        if command.heredoc:
            code.append(command.heredoc)
        return [effect for text in code for effect in _shell(text, folder, depth + 1)]
    if _PYTHONS.fullmatch(name) or name in _CODERS:
        code = [
            rest[at + 1]
            for at, word in enumerate(rest[:-1])
            if word in ("-c", "-e", "--eval", "-r", "-p", "-E")
            or (name in _IN_PLACE and _CODE_OPTION.fullmatch(word))
        ]
        code += [command.heredoc] if command.heredoc else []
        code += upstream if not plain else []
        hint = "python" if _PYTHONS.fullmatch(name) else ""
        if code:
            found: list[Effect] = []
            for text in code:
                inner_code = (
                    effects(text, hint=hint, folder=folder, depth=depth + 1)
                    if hint
                    else _other_code(text, name)
                )
                found.extend(inner_code)
            script_args = [word for word in plain if word not in code]
            if name in _IN_PLACE and any(_IN_PLACE_OPTION.fullmatch(word) for word in rest):
                return [*found, Effect("write", script_args, [name], folder)]
            return [*found, *([Effect("read", script_args, [name])] if script_args else [])]
        return [Effect("write", plain, [name, *plain[:1]], folder)]
    if name in _SQL_CLIENTS:
        texts = (
            [word for word in rest if " " in word]
            + ([command.heredoc] if command.heredoc else [])
            + upstream
        )
        sql = [effect for text in texts for effect in _sql(text)]
        for effect in sql:
            effect.names.extend(plain)
        return sql or [Effect("write", plain, [name], folder)]
    if name in _CURLS:
        return [_curl(name, rest)]
    if name in _PRINT:
        return [Effect("print", [], [name], folder)]
    if name == "find" or name == "fd":
        paths = _found_paths(words)
        if "-delete" in rest:
            return [Effect("delete", [*plain, *paths], [name, "delete"], folder)]
        for flag in ("-exec", "-execdir", "-ok", "-x", "--exec"):
            if flag in rest:
                inner = _unwrap(
                    [
                        word
                        for word in rest[rest.index(flag) + 1 :]
                        if word not in (";", "+", "{}", "\\;")
                    ]
                )
                if inner:
                    return _simple(inner[0], [*inner, *paths], command, [], folder, depth + 1)
        return [Effect("read", paths, [name], folder)]
    if name == "sed" and any(re.fullmatch(r"-\w*i.*|--in-place.*", word) for word in rest):
        return [Effect("write", plain, [name], folder)]
    if name in ("cat", "sed", "awk", "gawk") or (name in _READ):
        return [Effect("read", plain, [name], folder)]
    if name in _DELETE:
        return [Effect("delete", plain, [name, "delete"], folder)]
    if name in _MULTI:
        return [_multi(name, rest, plain, folder)]
    if name == "tee":
        return [Effect("write", plain, [name, "write"], folder)]
    if name in _COPY and len(plain) > 1 and not _REMOVING.intersection(rest):
        return _copy(name, rest, plain, folder)
    return [
        Effect(
            "write",
            [*plain, *[word.partition("=")[2] for word in rest if "=" in word]],
            words[:3],
            folder,
        )
    ]


def _copy(name: str, rest: list[str], plain: list[str], folder: str | None) -> list[Effect]:
    """What a copy does: it reads its sources and writes where they go."""
    goals = [
        rest[at + 1]
        for at, word in enumerate(rest[:-1])
        if word in ("-t", "--target-directory") and name == "cp"
    ]
    goals += [word.partition("=")[2] for word in rest if word.startswith("--target-directory=")]
    goals = goals or plain[-1:]
    sources = [word for word in plain if word not in goals]
    return [
        Effect("copy", sources, [name], folder),
        Effect("write", goals, [name, *sources[:1], *goals[:1]], folder),
    ]


def _multi(name: str, rest: list[str], plain: list[str], folder: str | None) -> Effect:
    names: list[str] = []
    skip = False
    for at, word in enumerate(rest):
        if skip:
            skip = False
        elif word in ("-m", "--message", "--title", "--body", "-F", "--description", "--notes"):
            skip = True  # what a commit or an issue says is text
        elif not word.startswith("-"):
            names.append(word)
        elif "=" in word and not word.startswith(
            ("--message", "--title", "--body", "--description")
        ):
            names.append(word.partition("=")[2])
        elif at + 1 < len(rest) and word == "-C":
            folder = rest[at + 1]
    verbs = [word.lower() for word in plain[:3]]
    if any(verb in _SUBCOMMAND_DELETE for verb in verbs) or "--delete" in rest or "-D" in rest:
        kind = "delete"
    elif verbs and any(verb in _SUBCOMMAND_READ for verb in verbs[:2]):
        kind = "read"
    else:
        kind = "write"
    return Effect(kind, names, [name, *verbs], folder)


def _curl(name: str, rest: list[str]) -> Effect:
    method = ""
    names: list[str] = []
    skip = False
    for at, word in enumerate(rest):
        following = rest[at + 1] if at + 1 < len(rest) else ""
        if skip:
            skip = False
        elif word in ("-X", "--request", "--method"):
            method, skip = following.lower(), True
        elif word.startswith(("-X", "--request=", "--method=")):
            method = word.removeprefix("-X").rpartition("=")[2].lower()
        elif word in (
            "-d",
            "--data",
            "--data-raw",
            "--data-binary",
            "--json",
            "--data-urlencode",
            "-F",
            "--form",
            "--post-data",
            "--body-data",
        ):
            method, skip = method or "post", True
            names.extend(payload_values(following))
        elif word in ("-H", "--header", "-u", "--user", "-A", "-e", "-b", "-c"):
            skip = True
        elif word in ("-o", "-O", "--output") or word.startswith("--output="):
            skip = word in ("-o", "--output")
        elif word in ("-T", "--upload-file"):
            method = method or "put"
        elif name in ("http", "https", "xh", "httpie") and word.lower() in (
            *_WRITING,
            "get",
            "head",
        ):
            method = word.lower()
        elif not word.startswith("-"):
            names.append(word)
    kind = "delete" if method == "delete" else "write" if method in _WRITING else "read"
    return Effect(kind, names, [name, method])


def payload_values(body: Any) -> list[str]:
    """The values of a request's body, each whole; running text gives none that matches a name."""
    if isinstance(body, str):
        stripped = body.strip()
        if stripped[:1] in "{[":
            try:
                return payload_values(json.loads(stripped))
            except ValueError:
                return []
        pairs = parse_qsl(stripped)
        return [value for _, value in pairs] if pairs else [stripped]
    if isinstance(body, dict):
        return [text for item in body.values() for text in payload_values_of(item)]
    if isinstance(body, list):
        return [text for item in body for text in payload_values_of(item)]
    return []


def payload_values_of(item: Any) -> list[str]:
    """The leaves of one value of a body, as texts."""
    if isinstance(item, (dict, list)):
        return payload_values(item)
    return [] if item is None or isinstance(item, bool) else [str(item)]


def _unwrap(words: list[str]) -> list[str]:
    """Take ``sudo``, ``env A=b``, ``timeout 5`` and the like off the front."""
    for _ in range(_MAX_WRAPPERS):
        if not words:
            break
        name = words[0].rsplit("/", 1)[-1]
        if name in _WRAPPERS:
            words = words[1:]
            while words and words[0].startswith("-") and len(words) > 1:
                takes = words[0] in ("-u", "-g", "-n", "-c") and name in (
                    "sudo",
                    "doas",
                    "nice",
                    "ionice",
                )
                words = words[2:] if takes else words[1:]
        elif name == "env" and len(words) > 1:
            rest = [word for word in words[1:] if not word.startswith("-")]
            while rest and _ASSIGN.match(rest[0]):
                rest = rest[1:]
            if not rest:
                return words
            words = rest
        elif name == "timeout" and len(words) > 2:
            words = [word for word in words[1:] if not word.startswith("-")][1:]
        else:
            return words
    return words


def _expand(word: str, variables: dict[str, str]) -> str:
    if "$" not in word or not variables:
        return word
    return re.sub(r"\$(?:\{(\w+)[^}]*\}|(\w+))", lambda m: variables.get(m[1] or m[2], m[0]), word)


def _commands(text: str) -> list[_Command]:
    """The simple commands of a shell text, in order, with what they redirect to."""
    commands: list[_Command] = []
    current = _Command([], [], None, [], False)
    word: list[str] = []
    has_word = False
    redirect: str | None = None
    awaiting: list[tuple[_Command, str]] = []
    at, end = 0, len(text)

    def close_word() -> None:
        nonlocal has_word, redirect
        if has_word:
            value = "".join(word)
            if redirect in (">", ">>", ">|", "&>", "&>>"):
                if not value.startswith(("&", "/dev/null", "/dev/std")):
                    current.writes.append(value)
            elif redirect == "<":
                pass  # what a command reads from is no effect
            elif redirect == "<<<":
                current.heredoc = value
            elif redirect in ("<<", "<<-"):
                awaiting.append((current, value))
            elif not (value == "{" or value == "}"):
                current.words.append(value)
            redirect = None
        word.clear()
        has_word = False

    def close_command(is_piped: bool) -> None:
        nonlocal current
        close_word()
        if current.words or current.writes or current.inner or current.heredoc:
            commands.append(current)
        current = _Command([], [], None, [], is_piped)

    while at < end:
        char = text[at]
        if char == "\\" and at + 1 < end:
            if text[at + 1] != "\n":
                word.append(text[at + 1])
                has_word = True
            at += 2
        elif char == "'":
            stop = text.find("'", at + 1)
            stop = end if stop < 0 else stop
            word.append(text[at + 1 : stop])
            has_word = True
            at = stop + 1
        elif char == '"':
            at += 1
            has_word = True
            while at < end and text[at] != '"':
                if text[at] == "\\" and at + 1 < end:
                    word.append(text[at + 1])
                    at += 2
                elif text.startswith("$(", at) or text[at] == "`":
                    inner, at = _substitution(text, at)
                    current.inner.append(inner)
                    word.append(" ")
                else:
                    word.append(text[at])
                    at += 1
            at += 1
        elif text.startswith("$(", at) or char == "`" or text.startswith(("<(", ">("), at):
            inner, at = _substitution(text, at)
            current.inner.append(inner)
            has_word = True
        elif char == "#" and not has_word:
            stop = text.find("\n", at)
            at = end if stop < 0 else stop
        elif char in " \t\r":
            close_word()
            at += 1
        elif char == "\n":
            close_command(False)
            at += 1
            for command, mark in awaiting:
                at = _heredoc(text, at, command, mark)
            awaiting.clear()
        elif char in "<>" or (char == "&" and text.startswith("&>", at)):
            if has_word and "".join(word).isdigit():
                word.clear()
                has_word = False
            close_word()
            found = re.compile(r"&>>?|<<<|<<-?|>>|>\||[<>]").match(text, at)
            assert found is not None
            redirect = found[0]
            at = found.end()
            if at < end and text[at] == "&":
                at += 1
                while at < end and text[at] in "0123456789-":
                    at += 1
                redirect = None
        elif char in ";&|()":
            double = text[at : at + 2]
            close_command(char == "|" and double != "||")
            at += 2 if double in ("&&", "||", ";;", "|&") else 1
        else:
            word.append(char)
            has_word = True
            at += 1
    close_command(False)
    return commands


def _substitution(text: str, at: int) -> tuple[str, int]:
    """The code of ``$(...)``, ``<(...)`` or backticks at ``at``, and where it ends."""
    if text[at] == "`":
        stop = text.find("`", at + 1)
        stop = len(text) if stop < 0 else stop
        return text[at + 1 : stop], stop + 1
    depth, start = 1, at + 2
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return text[start:position], position + 1
    return text[start:], len(text)


def _heredoc(text: str, at: int, command: _Command, mark: str) -> int:
    lines: list[str] = []
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line = text[at:stop]
        at = stop + 1
        if line.strip() == mark:
            break
        lines.append(line)
    command.heredoc = "\n".join(lines)
    return at


# Python -----------------------------------------------------------------------------------------


def _python_tree(text: str, is_sure: bool) -> ast.Module | None:
    code = re.sub(r"^[^\S\n]*[!%].*$", "", text, flags=re.M) if is_sure else text
    try:
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in an agent's code are no news to anyone
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if is_sure:
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Import, ast.ImportFrom, ast.Assign, ast.With)):
            return tree
    return None


_PY_PRINT = frozenset(
    "print pprint warn info debug warning error exception critical log write writelines append "
    "format join dump dumps "
    "display input add_argument raise_ put_nowait".split()
)
_PY_READ = frozenset(
    "open exists isfile isdir is_file is_dir stat lstat listdir scandir walk glob iglob rglob "
    "iterdir read read_text "
    "read_bytes readlines getsize abspath realpath basename dirname resolve expanduser path "
    "purepath str repr len sorted "
    "list set tuple dict read_csv read_json read_parquet loads load get head urlopen access "
    "fspath relative_to with_suffix "
    "startswith endswith split strip lower replace encode decode isinstance type range enumerate "
    "zip compile match "
    "findall sub any all".split()
)
_PY_DELETE = frozenset(
    "remove unlink rmdir removedirs rmtree delete truncate drop drop_table drop_database "
    "delete_many delete_one "
    "delete_object terminate".split()
)
_PY_SHELL = frozenset(
    "system popen run call check_call check_output getoutput getstatusoutput spawn spawnl spawnv "
    "create_subprocess_shell create_subprocess_exec execv execvp execl execlp exec_command".split()
)


class _Python:
    """Walks a Python program and notes what each call does with which texts."""

    def __init__(self, depth: int, folder: str | None) -> None:
        self.depth = depth
        self.folder = folder
        self.values: dict[str, list[str]] = {}
        self.found: list[Effect] = []

    def run(self, tree: ast.Module) -> list[Effect]:
        for _ in range(2):  # twice, so that a name set below its use in a function is known
            self.found = []
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign):
                    for goal in node.targets:
                        self._bind(goal, node.value)
                elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                    self._bind(node.target, node.value)
                elif isinstance(node, (ast.For, ast.comprehension)):
                    self._bind(node.target, node.iter)
                elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                    self._bind(node.optional_vars, node.context_expr)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    self._call(node)
        return self.found

    def _bind(self, goal: ast.expr, value: ast.expr) -> None:
        if isinstance(goal, ast.Name):
            self.values[goal.id] = self._texts(value)[:20]
        elif isinstance(goal, ast.Tuple) and isinstance(value, ast.Tuple):
            for left, right in zip(goal.elts, value.elts, strict=False):
                self._bind(left, right)

    def _texts(self, node: ast.AST | None, limit: int = 12) -> list[str]:
        """The texts an expression may be or hold, with simple joins worked out."""
        if node is None or limit == 0:
            return []
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                return [node.value.decode("utf-8", "replace")]
            return (
                [str(node.value)]
                if isinstance(node.value, (str, int)) and not isinstance(node.value, bool)
                else []
            )
        if isinstance(node, ast.Name):
            return self.values.get(node.id, [])
        if isinstance(node, ast.BinOp):
            left, right = self._texts(node.left, limit - 1), self._texts(node.right, limit - 1)
            glue = "/" if isinstance(node.op, ast.Div) else ""
            joined = [
                a.rstrip("/") + glue + b if glue else a + b for a in left[:4] for b in right[:4]
            ]
            return joined or left + right
        if isinstance(node, ast.JoinedStr):
            whole = [""]
            for part in node.values:
                inner = part.value if isinstance(part, ast.FormattedValue) else part
                options = self._texts(inner, limit - 1)[:3] or [""]
                whole = [a + b for a in whole[:4] for b in options]
            return whole
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [text for item in node.elts for text in self._texts(item, limit - 1)]
        if isinstance(node, ast.Dict):
            return [text for item in node.values for text in self._texts(item, limit - 1)]
        if isinstance(node, ast.Call):
            texts = [text for item in node.args for text in self._texts(item, limit - 1)]
            if isinstance(node.func, ast.Attribute):
                base = self._texts(node.func.value, limit - 1)
                if node.func.attr == "join" and not base:
                    return ["/".join(part.rstrip("/") for part in texts), *texts] if texts else []
                if node.func.attr == "join":
                    return [base[0].join(texts)]
                if node.func.attr == "joinpath":
                    return ["/".join([*(b.rstrip("/") for b in base), *texts])]
                return base + texts
            return texts
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Await, ast.Starred)):
            return self._texts(node.value, limit - 1)
        if isinstance(node, ast.IfExp):
            return self._texts(node.body, limit - 1) + self._texts(node.orelse, limit - 1)
        return []

    def _call(self, node: ast.Call) -> None:
        names = _dotted(node.func)
        if not names:
            return
        last = names[-1].lower()
        texts = [text for item in node.args for text in self._texts(item)]
        texts += [text for item in node.keywords for text in self._texts(item.value)]
        owner = self._texts(node.func.value) if isinstance(node.func, ast.Attribute) else []
        first = names[0].lower()
        if last in _PY_SHELL and first in (
            "os",
            "subprocess",
            "asyncio",
            "commands",
            "sh",
            last,
            "pty",
            "client",
            "ssh",
        ):
            self._subprocess(node, texts)
        elif last in (
            "exec",
            "eval",
            "execute",
            "executescript",
            "executemany",
            "sql",
            "query",
            "text",
            "run_sql",
            "raw",
        ):
            for text in texts:
                if _is_sql(text):
                    self.found.extend(_with(_sql(text), texts))
                elif last in ("exec", "eval"):
                    self.found.extend(effects(text, hint="python", depth=self.depth + 1))
        elif (last in _WRITING and first not in ("os", "shutil", "self")) or last == "request":
            method = last if last in _WRITING else (texts[0].lower() if texts else "")
            if last == "request" and method not in _WRITING:
                self.found.append(Effect("read", texts + owner, [last]))
            else:
                bodies = [value for text in texts for value in (payload_values(text) or [text])]
                self.found.append(
                    Effect("delete" if method == "delete" else "write", bodies + owner, [method])
                )
        elif last in _PY_PRINT or first in ("logging", "logger", "log", "print"):
            self.found.append(Effect("print", [], [last]))
        elif last == "open":
            modes = [t for t in texts[1:] if re.fullmatch(r"[rwaxbt+U]{1,4}", t)]
            if (
                isinstance(node.func, ast.Attribute)
                and owner
                and texts
                and re.fullmatch(r"[rwaxbt+U]{1,4}", texts[0])
            ):
                modes = texts[:1]
            writes = any(set(mode) & set("wax+") for mode in modes)
            self.found.append(
                Effect(
                    "write" if writes else "read",
                    (owner or texts[:1]) + owner,
                    ["open"],
                    self.folder,
                )
            )
        elif last in _PY_DELETE:
            self.found.append(
                Effect(
                    "delete",
                    texts + owner,
                    [*[n.lower() for n in names[-2:]], "delete"],
                    self.folder,
                )
            )
        elif last in _PY_READ:
            self.found.append(Effect("read", texts + owner, [last], self.folder))
        elif last == "chdir" and texts:
            self.folder = texts[0]
        else:
            self._unknown(last, names, texts + owner)

    def _unknown(self, last: str, names: list[str], texts: list[str]) -> None:
        from toolscore_pipeline.honesty import words as w

        parts = [
            part
            for part in re.split(
                r"[_\W]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", names[-1]).lower()
            )
            if part
        ]
        verb, classes = w.tool_action(parts)
        if verb is None or classes == frozenset(("read",)):
            kind = "read"
        else:
            kind = "delete" if "delete" in classes else "write"
        self.found.append(Effect(kind, texts, [last, *parts], self.folder))

    def _subprocess(self, node: ast.Call, texts: list[str]) -> None:
        first = node.args[0] if node.args else None
        if isinstance(first, (ast.List, ast.Tuple)):
            words = [text for item in first.elts for text in (self._texts(item)[:1] or [""])]
            self.found.extend(_argv(words, self.folder, self.depth + 1))
        else:
            for text in texts[:3]:
                self.found.extend(_shell(text, self.folder, self.depth + 1))
            if len(node.args) > 1:
                self.found.extend(_argv(texts, self.folder, self.depth + 1))


def _with(found: list[Effect], texts: list[str]) -> list[Effect]:
    for effect in found:
        effect.names.extend(text for text in texts if not _is_sql(text))
    return found


def _argv(words: list[str], folder: str | None, depth: int) -> list[Effect]:
    words = _unwrap([word for word in words if word])
    if not words:
        return []
    name = words[0].rsplit("/", 1)[-1]
    return _simple(name, words, _Command(words, [], None, [], False), [], folder, depth)


def argv(words: list[str], folder: str | None = None) -> list[Effect]:
    """What a command given as a list of words does."""
    return _argv(words, folder, 0)


def _dotted(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*(_dotted(node.value) or ["_"]), node.attr]
    if isinstance(node, ast.Call):
        return _dotted(node.func)
    return []
