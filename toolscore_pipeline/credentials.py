"""Credentials in tool arguments: finding them, and redacting them where people read.

What a credential looks like is data (``data/credential_kinds.yaml``). A text is searched as it
stands, with its escapes decoded, with its look-alike characters folded and its invisible ones left
out, and inside base64 that shows a known beginning; whatever is found is placed in the original.
Every pattern is a literal beginning followed by bounded or single-class repeats, and no copy is
searched from a place already claimed, so the work is linear in the length of the text.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

MAX_CHARACTERS = 32 * 1024 * 1024
"""Characters scanned in one call's arguments; what lies beyond is reported as not scanned."""
MAX_FINDINGS = 10_000
"""Findings listed for one call's arguments; the list then ends with a ``truncated`` one."""
MAX_NESTING = 16
"""How many times JSON inside a string is decoded."""

TRUNCATED = "truncated"
"""The kind of the entry that says a limit was hit; it is no credential."""

_PEM_PREVIEW = "-----BEGIN … PRIVATE KEY-----"
_PEM_REACH = 64 * 1024  # a private key's END line is looked for this far; real keys are below 13 KB
_DATA_BODY = re.compile(r"\bdata:[^\s,;\"']{0,100}(?:;[^\s,;\"']{0,100}){0,5};base64,")
_DATA_CHARACTERS = re.compile(r"[A-Za-z0-9+/=_%-]*")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_TOKEN = "A-Za-z0-9_-"

# After a letter a token cannot begin, unless that letter ends an escape: a literal \n, or a colour
# sequence of a terminal. Other escapes are decoded first.
_BEGINS = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv0])"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=;\dm)|(?<=;\d\dm))"
)

# The characters of a token, as hexadecimal and as decimal codes: - 0-9 A-Z _ a-z.
_HEX_TOKEN = "(?:2[dD]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa])"
_DECIMAL_TOKEN = "(?:45|4[89]|5[0-7]|6[5-9]|7[0-9]|8[0-9]|90|95|9[7-9]|10[0-9]|11[0-9]|12[0-2])"
_ESCAPE = re.compile(
    r"\\{1,8}u[dD][89abAB][0-9a-fA-F]{2}\\{1,8}u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\{1,8}u[0-9a-fA-F]{4}|\\{1,8}x[0-9a-fA-F]{2}|%[0-7][0-9a-fA-F]"
    r"|&#0{0,4}[1-9][0-9]{0,5};|&#[xX]0{0,4}[1-9a-fA-F][0-9a-fA-F]{0,5};"
)


@dataclass(frozen=True, slots=True)
class CredentialFinding:
    """A credential in a call's arguments.

    Attributes:
        path: where it stands: ``headers.Authorization``, ``files[0].content``; empty for the
            arguments as a whole and for text that only the raw arguments hold. A credential in a
            key of the path is redacted.
        kind: one of :func:`credential_kinds`, or ``truncated``.
        preview: the first four and the last two characters; a fixed text for a private key.
        is_example: whether it is a documentation key (an AWS id that ends in EXAMPLE).
        in_key: whether it is an object's key; ``path`` is then the object's.
        inner_path: the place inside the JSON that the string at ``path`` holds; None without.
        truncated: whether this entry is no credential but says that a limit was hit, so that the
            rest was not scanned.
    """

    path: str
    kind: str
    preview: str
    is_example: bool = False
    in_key: bool = False
    inner_path: str | None = None
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The finding as a JSON object, every attribute a key."""
        return {
            "path": self.path,
            "kind": self.kind,
            "preview": self.preview,
            "is_example": self.is_example,
            "in_key": self.in_key,
            "inner_path": self.inner_path,
            "truncated": self.truncated,
        }


class _Span(NamedTuple):
    """A credential in a text: where it stands there, and the token as normalised."""

    start: int
    end: int
    kind: str
    token: str

    @property
    def preview(self) -> str:
        if self.kind == "private_key":
            return _PEM_PREVIEW
        return f"{self.token[:4]}…{self.token[-2:]}"

    @property
    def is_example(self) -> bool:
        return self.kind == "aws_access_key_id" and self.token.endswith("EXAMPLE")


class _Form(NamedTuple):
    """One form of a credential, compiled."""

    kind: str
    literals: tuple[str, ...]
    bounded: re.Pattern[str]  # what may stand before the token is checked
    bare: re.Pattern[str]  # the token alone, for places known to be a beginning
    prefilter: str
    condition: str


class _Kinds(NamedTuple):
    """The data file, compiled."""

    forms: tuple[_Form, ...]
    literals: tuple[str, ...]
    beginning: re.Pattern[str]
    pieces: frozenset[str]
    words: re.Pattern[str]
    encoded: re.Pattern[str]
    odd: re.Pattern[str]
    folds: dict[int, str]
    ignorable_ranges: tuple[tuple[int, int], ...]
    lookalike_ranges: tuple[tuple[int, int], ...]


# --- the data -----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _kinds() -> _Kinds:
    import yaml

    file = resources.files("toolscore_pipeline") / "data" / "credential_kinds.yaml"
    data = yaml.load(file.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    forms = tuple(
        _Form(
            kind=form["kind"],
            literals=tuple(form["literals"]),
            bounded=re.compile(_BEGINS + form["pattern"]),
            bare=re.compile(form["pattern"]),
            prefilter=form["prefilter"],
            condition=form["condition"],
        )
        for form in data["forms"]
    )
    literals = tuple(dict.fromkeys(literal for form in forms for literal in form.literals))
    ignorable = _ranges(data["ignorable"])
    lookalike = _ranges(data["lookalike"])
    punctuation = _ranges(data["punctuation"])
    folds = {code: "" for pair in ignorable for code in _span(pair)}
    for code in (code for pair in lookalike + punctuation for code in _span(pair)):
        folds[code] = unicodedata.normalize("NFKC", chr(code))
    one = [pair for pair in lookalike if all(len(folds[code]) == 1 for code in _span(pair))]
    many = [pair for pair in lookalike if pair not in one]
    return _Kinds(
        forms=forms,
        literals=literals,
        beginning=re.compile("|".join(re.escape(literal) for literal in literals)),
        pieces=frozenset(data["placeholder_pieces"]),
        words=re.compile(
            "|".join(f"{word}|{word.upper()}|{word.title()}" for word in data["placeholder_words"])
        ),
        encoded=re.compile(_base64_pattern(data["encoded_literals"])),
        odd=re.compile(
            f"[{_class(ignorable)}]+|[{_class(one)}{_class(punctuation)}]+|[{_class(many)}]"
        ),
        folds=folds,
        ignorable_ranges=tuple(ignorable),
        lookalike_ranges=tuple(lookalike),
    )


def credential_kinds() -> list[str]:
    """The kinds a finding may have, in the order of the data file."""
    return list(dict.fromkeys(form.kind for form in _kinds().forms))


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (item.split("-") for item in text.split())
    return [(int(pair[0], 16), int(pair[-1], 16)) for pair in pairs]


def _span(pair: tuple[int, int]) -> range:
    return range(pair[0], pair[1] + 1)


def _class(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _base64_parts(literal: str) -> list[str]:
    """Patterns of what every base64 text holding ``literal`` contains, one for each alignment."""
    data = literal.encode()
    parts = []
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        first, last = -(-8 * shift // 6), 8 * (shift + len(data)) // 6
        part = re.sub("([+/])", r"[\1]", text[first:last])
        parts.append(part)
    return parts


def _base64_pattern(literals: list[str]) -> str:
    """Matches base64 that holds one of ``literals``; a short part, which could be found in an
    ordinary word ("doc1"), only before more base64."""
    parts = list(dict.fromkeys(part for literal in literals for part in _base64_parts(literal)))
    short = "|".join(part for part in parts if len(part) <= 8)
    return f"(?:{short})[A-Za-z0-9+/]{{16}}|" + "|".join(part for part in parts if len(part) > 8)


# --- one text -----------------------------------------------------------------------------------


class _Copy:
    """A copy of a text with pieces replaced, which knows where its characters came from."""

    __slots__ = ("_ends", "_sizes", "_starts", "_there", "gaps", "text")

    def __init__(self, pattern: re.Pattern[str], replace: Callable[[str], str], text: str) -> None:
        self._starts = array("q")  # where a replacement stands in the copy,
        self._sizes = array("q")  # how long it is,
        self._there = array("q")  # and the piece it stands for
        self._ends = array("q")
        self.gaps = array("q")  # places in the copy where something was left out
        pieces: list[str] = []
        done = length = 0
        for match in pattern.finditer(text):
            start, end = match.span()
            new = replace(match.group())
            pieces.append(text[done:start])
            pieces.append(new)
            length += start - done
            if len(new) != end - start:
                self._starts.append(length)
                self._sizes.append(len(new))
                self._there.append(start)
                self._ends.append(end)
            if not new:
                self.gaps.append(length)
            length += len(new)
            done = end
        pieces.append(text[done:])
        self.text = "".join(pieces)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where ``[start, end)`` of the copy stands in the original."""
        return self._map(start, False), self._map(end - 1, True)

    def _map(self, index: int, is_end: bool) -> int:
        found = bisect_right(self._starts, index) - 1
        if found < 0:
            return index + is_end
        offset = index - self._starts[found] - self._sizes[found]
        if offset >= 0:
            return self._ends[found] + offset + is_end
        return self._ends[found] if is_end else self._there[found]


def _decode_escape(text: str) -> str:
    """The character an escape stands for, or the escape itself when it stands for none."""
    if text[0] == "%":
        return chr(int(text[1:], 16))
    if text[0] == "&":
        digits = text[2:-1]
        code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else text
    codes = re.findall(r"[ux]([0-9a-fA-F]+)", text)
    if len(codes) == 2:
        high, low = (int(code, 16) for code in codes)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    return chr(int(codes[0], 16))


def _fold_odd(text: str) -> str:
    """Nothing for invisible characters, the plain form of look-alikes."""
    return text.translate(_kinds().folds)


def _is_random(tail: str, kinds: _Kinds) -> bool:
    """Whether what follows ``sk-`` looks random rather than written by a person."""
    if not _is_mixed(tail):
        return False
    if "T3BlbkFJ" in tail and len(tail) >= 40:  # stands in the middle of OpenAI's keys
        return True
    if len(tail) >= 80 and re.match(r"ant-[a-z]+\d\d-", tail):
        return True
    for run in tail.split("-"):
        if len(run) < 20 or _is_placeholder(run, kinds):
            continue
        if _is_mixed(run) or not re.fullmatch(r"_*(?:[A-Z]?[a-z]{2,}+_*)+", run):
            return True
    return False


def _is_mixed(text: str) -> bool:
    return (
        re.search("[0-9]", text) is not None
        and re.search("[a-z]", text) is not None
        and re.search("[A-Z]", text) is not None
    )


def _is_placeholder(tail: str, kinds: _Kinds) -> bool:
    """Whether the part after the kind's beginning was written to be replaced."""
    if kinds.words.search(tail):
        return True
    pieces = [piece for piece in re.split(r"[-_]+", tail) if piece]
    if all(len(set(piece)) == 1 for piece in pieces):
        return True
    longest = max((len(run) for run in re.findall(r"x{8,}|X{8,}|0{8,}", tail)), default=0)
    return 2 * longest >= len(tail) or any(piece.lower() in kinds.pieces for piece in pieces)


# Text that stands where a private key's body would.
_PEM_PLACEHOLDER = re.compile(
    r"(?:\s|\\{1,8}[nr]){0,8}(?:\.{3}|…|\*{3}|[xX]{4}"
    r"|[<\[{]{0,2}(?i:your|redacted|insert|placeholder|key here|example))"
)


def _accept(form: _Form, token: str, text: str, end: int, kinds: _Kinds) -> bool:
    """Whether what matched a form is a credential: as random as it must be, and no placeholder."""
    if form.condition == "pem":
        return _PEM_PLACEHOLDER.match(text, end) is None
    literal = next(literal for literal in form.literals if token.startswith(literal))
    if form.condition == "random":
        return _is_random(token[3:], kinds)
    tail = token[len(literal) :]
    if form.condition == "digit" and re.search("[0-9]", tail) is None:
        return False
    if form.kind == "aws_access_key_id" and tail.endswith("EXAMPLE"):
        return len(set(tail[:-7])) > 1 and kinds.words.search(tail[:-7]) is None
    return not _is_placeholder(tail, kinds)


def _search(text: str, gaps: array[int] | None = None) -> list[_Span]:
    """The credentials of a text as it stands; ``gaps`` are more places where one may begin."""
    kinds = _kinds()
    present = {literal for literal in kinds.literals if literal in text}
    if not present:
        return []
    bodies = _data_bodies(text)
    spans: list[_Span] = []
    for form in kinds.forms:
        if present.isdisjoint(form.literals):
            continue
        found = list(form.bounded.finditer(text))
        if gaps:
            found += _search_gaps(form, text, gaps, kinds)
        for match in found:
            start, end = match.span()
            if form.condition != "pem" and _is_inside(start, bodies):
                continue
            if _accept(form, match.group(), text, end, kinds):
                spans.append(_Span(start, end, form.kind, match.group()))
    return _without_overlaps(spans)


def _search_gaps(
    form: _Form, text: str, gaps: array[int], kinds: _Kinds
) -> Iterator[re.Match[str]]:
    done = 0
    for gap in gaps:
        # A match is never searched again from its middle: that is what keeps this linear.
        if gap < done or not text[gap - 1 : gap].isalnum() or not kinds.beginning.match(text, gap):
            continue
        if match := form.bare.match(text, gap):
            done = match.end()
            yield match


def _data_bodies(text: str) -> list[tuple[int, int]]:
    """Where the base64 bodies of ``data:`` URIs stand."""
    if ";base64," not in text:
        return []
    bodies = []
    position = 0
    while match := _DATA_BODY.search(text, position):
        body = _DATA_CHARACTERS.match(text, match.end())
        position = body.end() if body else match.end()
        bodies.append((match.end(), position))
    return bodies


def _is_inside(index: int, bodies: list[tuple[int, int]]) -> bool:
    found = bisect_right(bodies, index, key=lambda body: body[0]) - 1
    return found >= 0 and index < bodies[found][1]


def _without_overlaps(spans: list[_Span]) -> list[_Span]:
    """Spans in text order; where two overlap the one listed first stays."""
    kept: list[_Span] = []
    starts: list[int] = []
    for span in spans:
        at = bisect_left(starts, span.start)
        if at and kept[at - 1].end > span.start:
            continue
        if at < len(kept) and kept[at].start < span.end:
            continue
        kept.insert(at, span)
        starts.insert(at, span.start)
    return kept


def _search_base64(text: str) -> list[_Span]:
    """Credentials inside base64 that shows one of the known beginnings."""
    kinds = _kinds()
    if not kinds.encoded.search(text):
        return []
    bodies = _data_bodies(text)
    spans = []
    for run in _BASE64_RUN.finditer(text):
        encoded = run.group()
        if not kinds.encoded.search(encoded):
            continue
        is_body = _is_inside(run.start(), bodies)
        encoded = encoded.replace("-", "+").replace("_", "/")
        for shift in range(4):  # a prefix such as id_ may have put the run out of step
            whole = len(encoded) - (len(encoded) - shift) % 4
            decoded = base64.b64decode(encoded[shift:whole]).decode("latin-1")
            rest = encoded[whole:]
            if len(rest) > 1:
                decoded += base64.b64decode(rest + "=" * (4 - len(rest))).decode("latin-1")
            found = [span for span in _search(decoded) if span.kind == "private_key" or not is_body]
            if found:
                spans += [span._replace(start=run.start(), end=run.end()) for span in found[:1]]
                break
    return spans


def _spans(text: str) -> list[_Span]:
    """Every credential of a text, placed in the text as given, in order."""
    if len(text) < 12:
        return []
    spans = _search(text)
    spans += _search_base64(text)
    unescaped = _Copy(_ESCAPE, _decode_escape, text) if _has_escape(text) else None
    if unescaped is not None:
        spans += [_moved(span, unescaped) for span in _search(unescaped.text)]
    for outer in (None, unescaped):
        before = outer.text if outer is not None else text
        if before.isascii() or not _shows_literal(before):
            continue
        folded = _Copy(_kinds().odd, _fold_odd, before)
        for span in _search(folded.text, folded.gaps):
            span = _moved(span, folded)
            spans.append(_moved(span, outer) if outer is not None else span)
    return spans if len(spans) < 2 else _merged(spans)


def _shows_literal(text: str) -> bool:
    """Whether folding changes a text, and one of the known beginnings is in it then."""
    folded = _fold_odd(text)
    return folded != text and any(literal in folded for literal in _kinds().literals)


def _has_escape(text: str) -> bool:
    return ("\\" in text or "%" in text or "&#" in text) and _ESCAPE.search(text) is not None


def _moved(span: _Span, copy: _Copy) -> _Span:
    start, end = copy.place(span.start, span.end)
    return span._replace(start=start, end=end)


def _merged(spans: list[_Span]) -> list[_Span]:
    """Spans in text order, overlapping ones (one token seen in several copies) made one."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            # A copy shows more of a token that something invisible cuts short in the original.
            longer = span if len(span.token) > len(last.token) else last
            merged[-1] = longer._replace(start=last.start, end=max(last.end, span.end))
        else:
            merged.append(span)
    return merged


# --- arguments ----------------------------------------------------------------------------------


class _Scan:
    """One walk over a call's arguments, with what it may still read and list."""

    def __init__(self) -> None:
        self.left = MAX_CHARACTERS
        self.findings: list[CredentialFinding] = []
        self.tokens: Counter[tuple[str, str]] = Counter()
        self.is_truncated = False
        self.truncated_path = ""

    def text(self, text: str, path: str) -> list[_Span]:
        """The credentials of a text, within what may still be read."""
        if len(text) > self.left:
            self.truncate(path)
            text = text[: self.left]
        self.left -= len(text)
        return _spans(text)

    def truncate(self, path: str) -> None:
        if not self.is_truncated:
            self.is_truncated = True
            self.truncated_path = path

    def add(self, span: _Span, path: str, inner_path: str | None, in_key: bool) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            self.truncate(path)
            return
        self.tokens[span.kind, span.token] += 1
        self.findings.append(
            CredentialFinding(
                path=path,
                kind=span.kind,
                preview=span.preview,
                is_example=span.is_example,
                in_key=in_key,
                inner_path=inner_path,
            )
        )

    def walk(self, value: Any, outer: str | None = None, prefix: str = "", depth: int = 0) -> None:
        """Scans a value; ``outer`` is the path of the string that held it, when one did."""
        stack: list[tuple[Any, str]] = [(value, prefix)]
        while stack:
            item, path = stack.pop()
            if isinstance(item, str):
                self.string(item, path, outer, depth)
            elif isinstance(item, dict):
                children = []
                for key, child in item.items():
                    name = key if isinstance(key, str) else str(key)
                    spans = self.text(name, path)
                    for span in spans:
                        self.place(span, path, outer, in_key=True)
                    shown = _replace(name, spans) if spans else name
                    children.append((child, f"{path}.{shown}" if path else shown))
                stack.extend(reversed(children))
            elif isinstance(item, (list, tuple)):
                stack.extend(
                    (item[index], f"{path}[{index}]") for index in range(len(item) - 1, -1, -1)
                )
            elif isinstance(item, (bytes, bytearray)):
                self.string(bytes(item).decode("latin-1"), path, outer, depth)

    def place(self, span: _Span, path: str, outer: str | None, in_key: bool = False) -> None:
        if outer is None:
            self.add(span, path, None, in_key)
        else:
            self.add(span, outer, path, in_key)

    def string(self, text: str, path: str, outer: str | None, depth: int) -> None:
        """Scans a string, and first the JSON it may hold: that gives the more exact place."""
        spans = self.text(text, path if outer is None else outer)
        inner: Counter[tuple[str, str]] = Counter()
        if (spans or _has_escape(text)) and text.lstrip()[:1] in ("{", "[", '"'):
            if depth >= MAX_NESTING:
                self.truncate(path if outer is None else outer)
            elif (nested := _load(text)) is not _NOT_JSON:
                before = self.tokens.copy()
                if outer is None:
                    self.walk(nested, path, "", depth + 1)
                else:
                    self.walk(nested, outer, path, depth + 1)
                inner = self.tokens - before
        for span in spans:
            if inner[span.kind, span.token] > 0:
                inner[span.kind, span.token] -= 1
            else:
                self.place(span, path, outer)


_NOT_JSON = object()


def _load(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _NOT_JSON
    return value if isinstance(value, (dict, list, str)) else _NOT_JSON


def find_credentials(args: Any, raw: str | None = None) -> list[CredentialFinding]:
    """The credentials in a call's arguments.

    Scans every string and every key at any depth, JSON inside strings, and ``raw``, the text the
    arguments were decoded from: a token that stands there only (a duplicate key drops one) is
    reported with an empty path, one that was decoded as well is reported once.

    Args:
        args: the arguments: usually an object, but any value will do; None when there are none.
        raw: the arguments' own text, when the format held text.

    Returns:
        Findings in the order of the arguments, each occurrence its own. When a limit was hit
        (:data:`MAX_CHARACTERS`, :data:`MAX_FINDINGS`, :data:`MAX_NESTING`), the last entry has
        ``truncated`` set and kind ``truncated``: without other findings the answer is then
        unknown, not clean.
    """
    scan = _Scan()
    scan.walk(args)
    if raw is not None:
        seen = scan.tokens.copy()
        for span in scan.text(raw, ""):
            if seen[span.kind, span.token] > 0:
                seen[span.kind, span.token] -= 1
            else:
                scan.add(span, "", None, False)
    if scan.is_truncated:
        scan.findings.append(CredentialFinding(scan.truncated_path, TRUNCATED, "", truncated=True))
    return scan.findings


# --- redaction ----------------------------------------------------------------------------------


def redact_secrets(text: str) -> str:
    """``text`` with every credential replaced by ``[REDACTED kind: preview]``.

    A private key is replaced from its BEGIN line to its END line (or to the end of its body).
    Placeholders stay; documentation keys do not.
    """
    spans = _spans(text)
    return _replace(text, spans) if spans else text


def _replace(text: str, spans: list[_Span]) -> str:
    pieces: list[str] = []
    ends: list[int] | None = None
    done = 0
    for span in spans:
        if span.start < done:
            continue
        end = span.end
        if span.kind == "private_key":
            if ends is None:
                ends = [match.end() for match in _PEM_END.finditer(text)]
            end = _pem_end(text, end, ends)
        pieces.append(text[done : span.start])
        pieces.append(f"[REDACTED {span.kind}: {span.preview}]")
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


_PEM_END = re.compile(r"-----END[^-\r\n]{0,60}-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\{1,8}[nr]|%[0-9A-Fa-f]{2})*+")


def _pem_end(text: str, start: int, ends: list[int]) -> int:
    """Where the private key whose BEGIN line ends at ``start`` ends itself."""
    found = bisect_right(ends, start)
    if found < len(ends) and ends[found] - start <= _PEM_REACH:
        return ends[found]
    body = _PEM_BODY.match(text, start)
    return body.end() if body else start


def redact_value(value: Any) -> Any:
    """``value`` with the credentials of every string and key redacted, at any depth.

    Objects, lists and tuples are copied, strings and bytes that hold a credential become redacted
    text, everything else is returned as it is. Keys that become equal get a number.
    """
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, dict):
        redacted: dict[Any, Any] = {}
        for key, item in value.items():
            name = redact_secrets(key) if isinstance(key, str) else key
            count = 2
            while name in redacted:
                name, count = f"{redact_secrets(key)} ({count})", count + 1
            redacted[name] = redact_value(item)
        return redacted
    if isinstance(value, list):
        return [redact_value(item) for item in value]
    if isinstance(value, tuple):
        return tuple(redact_value(item) for item in value)
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value).decode("latin-1")
        redacted_text = redact_secrets(text)
        return value if redacted_text == text else redacted_text
    return value


# --- the prefilter for SQL ----------------------------------------------------------------------


def prefilter_pattern() -> str:
    """The RE2 pattern that matches every text in which :func:`find_credentials` may find something.

    It holds what each form begins with, the base64 of those beginnings, escapes that stand for a
    token's characters, and look-alike or invisible characters where they could be part of a token.
    """
    kinds = _kinds()
    invisible = _re2_class(kinds.ignorable_ranges)
    alike = _re2_class(_coarse(kinds.lookalike_ranges))
    few = f"[{_TOKEN}]{{0,3}}[{alike}]"
    parts = [form.prefilter for form in kinds.forms]
    parts += [
        kinds.encoded.pattern,
        rf"\\u00{_HEX_TOKEN}",
        rf"\\u(?:{_hex_units(kinds)})",
        rf"\\x{_HEX_TOKEN}",
        f"%{_HEX_TOKEN}",
        f"&#0*{_DECIMAL_TOKEN};",
        f"&#[xX]0*{_HEX_TOKEN};",
        # An invisible character matters between two characters of a token.
        f"[{_TOKEN}{alike}][{invisible}]+[{_TOKEN}{alike}]",
        # A token has at least 20 characters. So a look-alike in it has four plain ones before or
        # after it, or belongs to a chain of four look-alikes with at most three plain ones between.
        f"[{_TOKEN}]{{4}}[{alike}]",
        f"[{alike}](?:[{_TOKEN}]{{4}}|{few * 3})",
        # The dashes of a BEGIN line are fewer than that.
        r"[\x{FE63}\x{FF0D}]",
    ]
    return "|".join(dict.fromkeys(parts))


def _coarse(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Fewer ranges that cover the given ones; what a look-alike stands beside decides anyway.

    The compatibility forms from U+FE00 on are kept apart: ordinary Chinese punctuation is there.
    """
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first - merged[-1][1] <= 0x40 and not 0xFE00 <= first < 0x10000:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _re2_class(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(
        rf"\x{{{first:X}}}" if first == last else rf"\x{{{first:X}}}-\x{{{last:X}}}"
        for first, last in ranges
    )


def _hex_units(kinds: _Kinds) -> str:
    """The ``\\u`` escapes (UTF-16 units) of look-alike and invisible characters, as a pattern."""
    by_tail: dict[str, list[str]] = {}
    by_head: dict[str, str] = {}
    high: dict[str, None] = {}
    for pair in kinds.ignorable_ranges + kinds.lookalike_ranges:
        for code in _span(pair):
            if code < 0x10000:
                unit = f"{code:04X}"
                by_head[unit[:3]] = by_head.get(unit[:3], "") + unit[3]
            else:
                high[f"{0xD7C0 + (code >> 10):04X}"] = None
    for head, tails in sorted(by_head.items()):
        by_tail.setdefault(tails, []).append(head)
    units = [
        f"(?:{'|'.join(map(_any_case, heads))})[{_any_case_class(tails)}]"
        for tails, heads in by_tail.items()
    ]
    # Most emoji share two of the high halves with look-alikes: there the low half decides.
    for unit in high:
        low = {"D83C": r"\\+u[dD][dD][2-9]", "D83E": r"\\+u[dD][fF][fF]"}.get(unit, "")
        units.append(_any_case(unit) + low)
    return "|".join(units)


def _any_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.lower()}]" if digit.isalpha() else digit for digit in digits)


def _any_case_class(digits: str) -> str:
    return "".join(f"{digit}{digit.lower()}" if digit.isalpha() else digit for digit in digits)


def prefilter_sql() -> str:
    """The text of ``sql/macros/credentials.sql``, made from the data file."""
    pattern = prefilter_pattern().replace("'", "''")
    return f"""\
-- Whether an argument text may hold a credential: true for every text in which one can be found.
-- Made by toolscore_pipeline.credentials.prefilter_sql() from data/credential_kinds.yaml.
create or replace macro may_hold_credential(argument_text) as regexp_matches(
    argument_text,
    '{pattern}' -- noqa: LT05
);
"""
