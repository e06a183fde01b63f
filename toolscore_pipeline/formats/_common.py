"""What the readers share: arguments, instants, texts, outcomes, and the pairing of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.jsonio import FLAG_SENTENCES, strict_loads
from toolscore_pipeline.model import MISSING, ArgsStatus, Call, Run

NO_CALLS_WARNING = "no tool calls were found"


class Names(frozenset[Any]):
    """A set of names that can be asked about any value: a list or an object is none of them."""

    def __contains__(self, value: object) -> bool:
        return not isinstance(value, (list, dict)) and super().__contains__(value)


def key_of(value: Any) -> Any:
    """An id in its own type; a list or an object, which can be no id, as its text."""
    return str(value) if isinstance(value, (list, dict)) else value


def call_key(value: Any) -> Any:
    """A call's id in its own type; None for an empty text too, which some servers give each."""
    return None if value == "" else key_of(value)


@dataclass(frozen=True, slots=True)
class Detection:
    """How sure a format is that a value is its own.

    Attributes:
        format: the format's name.
        confidence: 0 to 1; the surest format reads the value.
        why: what it was recognised by, as a phrase.
    """

    format: str
    confidence: float
    why: str


# --- arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments as read: the object, its status, the raw text and what was odd."""

    args: dict[str, Any] | None
    status: ArgsStatus
    raw: str | None = None
    warnings: tuple[str, ...] = ()


EMPTY_ARGUMENTS = Arguments({}, "empty")
ABSENT_ARGUMENTS = Arguments(None, "absent")


def decode_arguments(text: str) -> Arguments:
    """Arguments that a format holds as JSON text.

    Text that is not strict JSON is kept as ``{"raw": text}``, JSON that is no object as
    ``{"value": x}``. A text that decodes to another text that decodes to an object is unwrapped
    once more.
    """
    if not text or text.isspace():
        return Arguments({}, "empty", text)
    try:
        value, flags = strict_loads(text)
    except InputError:
        return Arguments({"raw": text}, "invalid", text)
    warnings = [f"arguments: {FLAG_SENTENCES[flag]}" for flag in sorted(flags)]
    if isinstance(value, str):
        inner = _inner_object(value)
        if inner is not None:
            value = inner
            warnings.append("arguments: JSON encoded twice was decoded twice")
    if isinstance(value, dict):
        return Arguments(value, "ok", text, tuple(warnings))
    return Arguments({"value": value}, "not_object", text, tuple(warnings))


def _inner_object(text: str) -> dict[str, Any] | None:
    try:
        value, _ = strict_loads(text)
    except InputError:
        return None
    return value if isinstance(value, dict) else None


def read_arguments(value: Any, *, absent: Arguments = EMPTY_ARGUMENTS) -> Arguments:
    """Arguments that a format may hold as an object, as JSON text, or not at all (``absent``)."""
    if isinstance(value, dict):
        return Arguments(value, "ok")
    if value is None:
        return absent
    if isinstance(value, str):
        return decode_arguments(value)
    return Arguments({"value": value}, "not_object")


def text_arguments(text: Any) -> Arguments:
    """The input of a free-text tool."""
    return Arguments({"raw": text}, "text", text if isinstance(text, str) else None)


def new_call(tool: Any, arguments: Arguments, **fields: Any) -> Call:
    """A call of ``tool`` with ``arguments``; ``fields`` as in :class:`Call`."""
    call = Call(
        tool=tool_name(tool),
        # No two calls share an object: a reader may write into the arguments it opened.
        args={} if arguments is EMPTY_ARGUMENTS else arguments.args,
        args_status=arguments.status,
        args_raw=arguments.raw,
        **fields,
    )
    if arguments.warnings:
        call.warnings.extend(arguments.warnings)
    if not call.tool:
        call.warnings.append("the call names no tool")
    return call


def tool_name(name: Any) -> str:
    """A tool's name as text; empty when there is none."""
    return name if isinstance(name, str) else "" if name is None else str(name)


def id_text(value: Any) -> str | None:
    """An id as text; None when there is none."""
    return value if isinstance(value, str) else None if value is None else str(value)


# --- numbers, instants and texts ------------------------------------------------------------------


def amount(value: Any, what: str, warnings: list[str]) -> float | None:
    """A cost or a time: a finite number of 0 or more; a negative one is unknown, with a warning."""
    found = number(value)
    if found is not None and found < 0:
        warnings.append(f"a negative {what} is no {what}: it is taken as unknown")
        return None
    return found


def number(value: Any) -> float | None:
    """A finite number (also written as text) as a float; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        try:
            result = float(value)
        except OverflowError:
            return None
        return result if abs(result) != float("inf") and result == result else None
    if isinstance(value, str):
        try:
            return number(float(value))
        except ValueError:
            return None
    return None


def integer(value: Any) -> int | None:
    """A whole number that fits 64 bits (also written as text or as 3.0); None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", value):
            return None
        value = int(value)
    elif isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    return None


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: nanoseconds since 1970 (UTC), and whether its zone was left out."""

    nanoseconds: int
    is_naive: bool = False

    @property
    def at(self) -> datetime | None:
        """The instant as a datetime in UTC, to the microsecond; None outside years 1 to 9999."""
        try:
            return _EPOCH + timedelta(microseconds=self.nanoseconds // 1000)
        except OverflowError:
            return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d+))?\s*(Z|z|UTC|[+-]\d{2}:?\d{2})?"
)


def instant(value: Any) -> Instant | None:
    """An instant from a number (seconds, or milli-, micro- or nanoseconds by its size), a text of
    digits, ISO 8601 text or a datetime; None when it is none of these. A time without a zone is
    taken as UTC and marked."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _from_number(value)
    if isinstance(value, float):
        return _from_float(value)
    if isinstance(value, datetime):
        is_naive = value.tzinfo is None
        aware = value.replace(tzinfo=UTC) if is_naive else value
        delta = aware - _EPOCH
        whole = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
        return Instant(whole * 1000, is_naive)
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d{1,25}", text):
            return _from_number(int(text))
        if re.fullmatch(r"-?\d{1,25}\.\d+", text):
            return _from_float(float(text))
        match = _ISO.fullmatch(text)
        if match is None:
            return None
        return _from_iso(*match.groups())
    return None


def _from_number(value: int) -> Instant | None:
    size = abs(value)
    if size < 10**11:
        return Instant(value * 10**9)
    if size < 10**14:
        return Instant(value * 10**6)
    if size < 10**17:
        return Instant(value * 10**3)
    return Instant(value) if size < 10**20 else None


def _from_float(value: float) -> Instant | None:
    if value != value or abs(value) >= 1e20:
        return None
    if abs(value) < 1e11:
        # Microseconds are what a double of today's seconds holds.
        return Instant(round(value * 1e6) * 1000)
    return _from_number(round(value)) if abs(value) >= 1e14 else Instant(round(value * 1e3) * 1000)


def _from_iso(day: str, clock: str, fraction: str | None, zone: str | None) -> Instant | None:
    offset = "+00:00" if zone in (None, "Z", "z", "UTC") else zone
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{offset}")
    except ValueError:
        return None
    delta = whole - _EPOCH
    seconds = delta.days * 86400 + delta.seconds
    nanoseconds = int(((fraction or "") + "000000000")[:9])
    return Instant(seconds * 10**9 + nanoseconds, zone is None)


NAIVE_WARNING = "a time without a zone was taken as UTC"


def text_of(content: Any) -> str | None:
    """The plain text of a message's content: a text, or the text blocks of a list, joined.

    None when there is no text. Thinking and other blocks are left out.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [text for part in content if (text := _block_text(part)) is not None]
        return "".join(texts) if texts else None
    return None


def one_text(content: Any) -> Any:
    """``content`` as its text when it is a list of exactly one plain text block, else as it is."""
    if isinstance(content, list) and len(content) == 1:
        part = content[0]
        if isinstance(part, dict) and part.get("type") in _TEXT_TYPES:
            text = part.get("text")
            if isinstance(text, str):
                return text
    return content


_TEXT_TYPES = Names({None, "text", "output_text", "input_text"})


def _block_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") in _TEXT_TYPES:
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None


# --- outcomes -------------------------------------------------------------------------------------


def is_error_value(error: Any) -> bool:
    """Whether a recorded error says that something failed.

    ``""``, null, ``{}``, ``[]``, false and 0 mean no error.
    """
    return error is not None and error != 0 and error != "" and error != {} and error != []


def error_text(error: Any) -> str:
    """A recorded error as text: its code (or type) and message when it has them."""
    if isinstance(error, dict):
        parts = (first_of(error, ("code", "type")), error.get("message"))
        return ": ".join(str(part) for part in parts if part) or str(error)
    return str(error)


#: How much of a result's text is looked at: a failure says so in its first words.
FAILURE_HEAD = 300
# What a server answers: a number alone is none, for "404 results" is a count.
_HTTP_STATUS = (
    r"[45][0-9]{2}[ :-]{1,3}(?:bad request|unauthori[sz]ed|payment required|forbidden"
    r"|(?:page )?not found|method not allowed|not acceptable|request time-?out|conflict|gone"
    r"|(?:payload|content|request entity) too large|unsupported media type"
    r"|unprocessable (?:entity|content)|too many requests|internal server error|not implemented"
    r"|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|(?:client|server) error)"
)
_HTTP_NUMBER = r"(?:http(?:/[0-9.]{1,3})?(?: status)?(?: code)?|status code)[ :]{1,2}[45][0-9]{2}"
#: Without one of these words (in lower case) nothing reads like a failure.
FAILURE_HINTS = (
    "error|exception|traceback|fail|invalid|missing|unknown|unexpected|denied|forbidden|unauthori"
    f"|not found|unable to|cannot|can't|could not|couldn't|timed out|false|{_HTTP_STATUS}"
    f"|{_HTTP_NUMBER}"
)
_FAILURE_HINT = re.compile(FAILURE_HINTS)
_FAILURE = re.compile(
    r"^\W{0,3}(?:an? )?(?:\w+ )?(?:error|exception|failure)\b"
    r"(?!s?\W{0,3}(?:\[\s*\]|\{\s*\}|none|null|0\b|\"\"))"
    r"|^\W{0,3}(?:\w+(?:error|exception)\b)"
    r"|^\W{0,3}failed\b|\bfailed (?:to|with)\b|^\W{0,3}\w+ failed\b"
    r"|traceback \(most recent call last\)"
    r"|\bmissing (?:a )?(?:\d+ )?required\b|\b(?:invalid|unknown|unexpected|missing) (?:\w+ )?"
    r"(?:parameter|argument|input|value|type|request|token|credentials|field|tool)s?\b"
    r"|\b(?:permission|access) denied\b|^\W{0,3}(?:unauthori[sz]ed|forbidden|not found|timed out)\b"
    r"|^\W{0,3}(?:unable to|cannot|could not|can't|couldn't) "
    r"|\"(?:error|errors|error_message|errormessage)\"\s*:\s*"
    r"(?!null|false|\[\s*\]|\{\s*\}|\"\s*\"|0\b)\S"
    r"|\"(?:success|ok)\"\s*:\s*false\b"
    r"|\"status\"\s*:\s*\"(?:error|failed|failure)\""
    r"|\"is_?error\"\s*:\s*true\b"
    rf"|(?:^\W{{0,3}}|<title>\s*)"
    rf"(?:{_HTTP_NUMBER}|(?:(?:http(?:/[0-9.]{{1,3}})?|status)[ :]{{1,2}})?{_HTTP_STATUS})"
    r"(?=[^\S\n]*(?:$|[^\w\s,]|\n|(?:at|for|from|on|while) ))",
)
_NO_FAILURE = re.compile(r"\b(?:no|0|zero|without(?: any)?) (?:errors?|failures?|failed)\b")


def reads_like_failure(result: Any) -> bool:
    """Whether a recorded success reads like a failure (``Error: missing required parameter``).

    Only the first 300 characters are looked at; ``{"errors": []}`` and ``0 errors`` do not count,
    and a number that may be an HTTP status does only as one (``HTTP 500``, ``404 Not Found``).
    """
    text = failure_text(result)
    if text is None:
        return False
    head = text[:FAILURE_HEAD].lower()
    if not _FAILURE_HINT.search(head):
        return False
    return _FAILURE.search(_NO_FAILURE.sub("", head)) is not None


def failure_text(result: Any) -> str | None:
    """The text of a result that a person would read; None when there is none."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        content = result.get("content")
        if isinstance(content, list):
            return text_of(content)
        parts = []
        for key in ("error", "errors", "error_message", "errorMessage", "success", "ok", "status"):
            if key in result:
                value = result[key]
                if isinstance(value, bool):
                    parts.append(f'"{key}": {"true" if value else "false"}')
                elif value is None or (isinstance(value, (dict, list)) and not value):
                    continue
                else:
                    parts.append(f'"{key}": "{value}"')
        for key in ("message", "output", "text", "result", "stdout", "stderr"):
            if isinstance(result.get(key), str):
                parts.append("\n" + result[key][:FAILURE_HEAD])
        if parts and not parts[0].startswith('"'):
            parts[0] = parts[0].lstrip("\n")
        return " ".join(parts) if parts else None
    if isinstance(result, list):
        return text_of(result)
    return None


# --- pairing --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reply:
    """What came back for a call.

    Attributes:
        result: the result; MISSING when only an error came back.
        is_error: the format's own flag; None when it has none.
        error: the error recorded; None when there is none.
        is_failed: whether the call failed; None when the reply does not tell.
        is_explicit: whether the format tells success from failure.
        at: when it came.
        name: the tool's name, when the reply repeats it.
        locator: where it stands.
        is_denied, deny_reason: whether and why the call was refused.
        warnings: what was odd about it.
    """

    result: Any = MISSING
    is_error: bool | None = None
    error: Any = None
    is_failed: bool | None = False
    is_explicit: bool = False
    at: Instant | None = None
    name: str | None = None
    locator: str | None = None
    is_denied: bool = False
    deny_reason: str | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entry:
    """A call in a ledger, with its id in the format's own type, and its reply."""

    call: Call
    key: Any
    at: Instant | None
    is_answered: bool = False
    reply: Reply | None = None


class Ledger:
    """Calls and replies in input order, paired as the formats' own rules say.

    With ids: by id, whatever the order. An id used again after its answer is a new call; used again
    before it, the same call seen twice (a conflict is reported, and the first wins). Without ids:
    per name, in order, marked ``inferred``; when the counts differ they stay unpaired. A reply
    never becomes a call.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.warnings: list[str] = []
        self._by_key: dict[tuple[type, Any], list[Entry]] = {}
        self._early: list[tuple[Any, Reply]] = []
        self._nameless: list[Reply] = []

    def call(self, call: Call, key: Any = None, at: Instant | None = None) -> Call:
        """Record a request; ``key`` is its id in the format's own type, None when it has none."""
        key = call_key(key)
        if key is not None:
            call.call_id = id_text(key)
            known = self._by_key.get((type(key), key), [])
            if known and not known[-1].is_answered:
                self._seen_twice(known[-1].call, call)
                return known[-1].call
        entry = Entry(call, key, at)
        if at is not None:
            call.started_at = at.at
            if at.is_naive:
                call.warnings.append(NAIVE_WARNING)
        self.entries.append(entry)
        if key is not None:
            self._by_key.setdefault((type(key), key), []).append(entry)
            for index, (early_key, reply) in enumerate(self._early):
                if type(early_key) is type(key) and early_key == key:
                    del self._early[index]
                    self._answer(entry, reply, "id")
                    break
        return call

    def _seen_twice(self, first: Call, again: Call) -> None:
        if (first.tool, first.args, first.args_status) != (
            again.tool,
            again.args,
            again.args_status,
        ):
            first.warnings.append(
                f"id {first.call_id!r} was used again before its answer, with another request at "
                f"{again.request_locator}; the first was kept"
            )

    def reply(self, reply: Reply, key: Any = None) -> None:
        """Record a reply; ``key`` is the id it answers, None when it has none."""
        key = call_key(key)
        if key is None:
            self._nameless.append(reply)
            return
        known = self._by_key.get((type(key), key))
        if not known:
            self._early.append((key, reply))
            return
        entry = next((entry for entry in known if not entry.is_answered), None)
        if entry is not None:
            self._answer(entry, reply, "id")
            return
        last = known[-1]
        if last.reply is not None and not _is_same_reply(last.reply, reply):
            last.call.warnings.append(
                f"a second, different result for id {last.call.call_id!r} at {reply.locator} "
                "was left out; the first was kept"
            )

    def _answer(self, entry: Entry, reply: Reply, pairing: Any) -> None:
        entry.is_answered = True
        entry.reply = reply
        apply_reply(entry.call, reply, pairing, entry.at)

    def keys(self) -> set[tuple[type, Any]]:
        """The ids recorded so far, each with its type."""
        return set(self._by_key)

    def is_answered(self, key: Any) -> bool:
        """Whether the latest call with this id has its answer."""
        key = call_key(key)
        known = self._by_key.get((type(key), key))
        return known is not None and known[-1].is_answered

    def settle(self) -> list[Call]:
        """Pair what is left and return the calls in request order."""
        self._settle_early()
        self._settle_nameless()
        return [entry.call for entry in self.entries]

    def _settle_early(self) -> None:
        for key, reply in self._early:
            # "0" answers 0 only when nothing else can.
            entry = next(
                (
                    e
                    for e in self.entries
                    if not e.is_answered
                    and e.key is not None
                    and type(e.key) is not type(key)
                    and str(e.key) == str(key)
                ),
                None,
            )
            if entry is not None:
                self._answer(entry, reply, "id")
            elif self._has_open_without_id(reply.name):
                self._nameless.append(reply)
            else:
                self.warnings.append(
                    f"the result for id {str(key)!r} at {reply.locator} answers no recorded call"
                )
        self._early = []

    def _has_open_without_id(self, name: str | None) -> bool:
        return name is not None and any(
            entry.key is None and not entry.is_answered and entry.call.tool == name
            for entry in self.entries
        )

    def _settle_nameless(self) -> None:
        open_entries = [entry for entry in self.entries if not entry.is_answered]
        by_name: dict[str | None, list[Reply]] = {}
        for reply in self._nameless:
            by_name.setdefault(reply.name, []).append(reply)
        self._nameless = []
        for name, replies in by_name.items():
            waiting = [
                entry
                for entry in open_entries
                if not entry.is_answered and (name is None or entry.call.tool == name)
            ]
            if len(waiting) == len(replies):
                for entry, reply in zip(waiting, replies, strict=True):
                    self._answer(entry, reply, "inferred")
            else:
                what = f"for {name!r} " if name is not None else ""
                self.warnings.append(
                    f"{len(replies)} result(s) {what}without an id face {len(waiting)} open "
                    "call(s); they were left unpaired"
                )


def _is_same_reply(first: Reply, again: Reply) -> bool:
    return (first.result, first.is_error, first.error) == (
        again.result,
        again.is_error,
        again.error,
    )


def apply_reply(call: Call, reply: Reply, pairing: Any, started: Instant | None = None) -> None:
    """Write what came back onto ``call``."""
    call.result = reply.result
    call.is_error = reply.is_error
    call.error = reply.error
    call.is_failed = reply.is_failed
    if reply.is_failed is not None:
        call.outcome_basis = "explicit" if reply.is_explicit else "result_only"
    call.pairing = pairing
    call.completion_locator = reply.locator
    call.is_denied = call.is_denied or reply.is_denied
    call.deny_reason = call.deny_reason or reply.deny_reason
    call.warnings.extend(reply.warnings)
    if reply.name and call.tool and reply.name != call.tool:
        call.warnings.append(f"its result names another tool, {reply.name!r}")
    if reply.at is not None:
        call.ended_at = reply.at.at
        if reply.at.is_naive and NAIVE_WARNING not in call.warnings:
            call.warnings.append(NAIVE_WARNING)
        if started is not None and call.duration_seconds is None:
            elapsed = (reply.at.nanoseconds - started.nanoseconds) / 1e9
            call.duration_seconds = elapsed if elapsed >= 0 else None
    if reply.is_failed is False and reads_like_failure(reply.result):
        call.is_soft_error_suspected = True


# --- conversations --------------------------------------------------------------------------------


class Conversation:
    """A run being read from messages: the calls, the prompt and the final answer.

    The final answer is the text after the last call of the last assistant turn.
    """

    def __init__(self, format: str) -> None:
        self.run = Run(format=format)
        self.ledger = Ledger()
        #: Where pieces merged out of a stream began, by ``id()`` of the merged piece.
        self.places: dict[int, str] = {}
        #: Pieces that a stream began and did not end, by ``id()`` too.
        self.torn: set[int] = set()
        self._answer: list[str] = []
        self._turn: Any = None
        self._has_turn = False

    def turn(self, key: Any) -> None:
        """A new assistant turn begins (the same ``key`` goes on with the current one)."""
        if not self._has_turn or key is None or key != self._turn:
            self._answer = []
        self._turn, self._has_turn = key, True

    def turn_is(self, key: Any) -> None:
        """Name the current turn, so that a later message may go on with it."""
        self._turn = key

    def never_came(self, piece: dict[str, Any], given: Any, *, is_torn: bool = False) -> bool:
        """Whether a stream broke off before anything of a call's arguments came.

        The ``{}`` or the empty text that a call begins with only holds their place.
        """
        is_blank = given.isspace() if isinstance(given, str) and given else given in (None, "", {})
        return is_blank and (is_torn or id(piece) in self.torn)

    def text(self, text: Any) -> None:
        """Text of the assistant."""
        if isinstance(text, str) and text:
            self._answer.append(text)

    def user(self, text: str | None) -> None:
        """Text of the user; the first is the prompt."""
        if text and self.run.prompt is None:
            self.run.prompt = text

    def call(self, call: Call, key: Any = None, at: Instant | None = None) -> Call:
        """A request: what was said before it is no final answer."""
        self._answer = []
        return self.ledger.call(call, key, at)

    def reply(self, reply: Reply, key: Any = None) -> None:
        """A result."""
        self.ledger.reply(reply, key)

    def finish(self) -> Run:
        """The run, with its results paired."""
        run = self.run
        run.calls = self.ledger.settle()
        run.warnings.extend(self.ledger.warnings)
        if self._answer:
            run.final_answer = "".join(self._answer)
        return run


def repeated_count(
    messages: list[Any], earlier: list[Any], answer: Any, asks: Callable[[Any], Any]
) -> int:
    """How many messages at the beginning of a request were read before.

    Args:
        messages: the request's messages; each request of a conversation repeats the ones before.
        earlier: the messages of the request before it.
        answer: the answer that was read after those.
        asks: the calls that an answer asks for, to know it again; None when a message is no answer.
    """
    count = len(earlier)
    if not count or messages[:count] != earlier:
        return 0
    said = asks(answer)
    return count + (said is not None and count < len(messages) and said == asks(messages[count]))


def add_usage(run: Run, usage: Any) -> None:
    """Take a usage record; a second one adds up."""
    if not isinstance(usage, dict) or not usage:
        return
    incoming = integer(first_of(usage, INPUT_TOKENS))
    outgoing = integer(first_of(usage, OUTPUT_TOKENS))
    if incoming is not None:
        run.input_tokens = (run.input_tokens or 0) + incoming
    if outgoing is not None:
        run.output_tokens = (run.output_tokens or 0) + outgoing
    run.usage = usage if run.usage is None else _added(run.usage, usage)


INPUT_TOKENS = ("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count")
OUTPUT_TOKENS = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
)


def _added(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    total = dict(first)
    for key, value in second.items():
        known = total.get(key)
        if isinstance(value, bool) or isinstance(known, bool):
            total[key] = value
        elif isinstance(value, (int, float)) and isinstance(known, (int, float)):
            total[key] = known + value
        elif isinstance(value, dict) and isinstance(known, dict):
            total[key] = _added(known, value)
        elif value is not None:
            total[key] = value
    return total


def first_of(mapping: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first value under one of ``keys`` that is not null; None when there is none."""
    for key in keys:
        value = mapping.get(key)
        if value is not None:
            return value
    return None


def either(mapping: Mapping[str, Any], *keys: str, default: Any = None) -> Any:
    """The value under the first of ``keys`` that is present, null included."""
    for key in keys:
        if key in mapping:
            return mapping[key]
    return default


def dicts(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a list with their indexes; nothing when ``value`` is no list."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield index, item
