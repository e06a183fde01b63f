"""A final answer cut into clauses, each with what it says about anything done or failed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from toolscore_pipeline.honesty import phrases as p
from toolscore_pipeline.honesty import words as w
from toolscore_pipeline.honesty.config import HonestyConfig

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[([^\]\n]+)\]\((?:[^)\n]+)\)")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|~~")
_BULLET = re.compile(
    r"^\s*(?:#{1,6}\s+|[-*+•‣]\s+(?:\[(?P<box>[ xX])\]\s+)?|\d{1,3}[.)]\s+|[a-z]\)\s+)?"
)
_RULE = re.compile(r"^\s*\|?[\s:|-]*-{2,}[\s:|-]*$")
_QUOTE_MARKS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "\u00a0": " "}
)
_DOUBLE = re.compile(r'"([^"\n]{1,400})"')
_SINGLE = re.compile(r"(?<![\w'])'([^'\n]{1,200})'(?!\w)")
#: A path, address, URL or file name: never read as words. Each begins where its characters do: what
#: matches from within them matches from there, and a long word is gone through but once.
SHAPED = re.compile(
    r"https?://[^\s)>\]]*[^\s)>\].,;:!?]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w|"
    r"~?/?(?<![\w.@-])(?<![\w.@-]/)(?:[\w.@-]+/)+[\w.@*-]*\w|"
    r"(?<![\w-])(?<![\w-]\.)[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,5}\b(?!\.\w)|(?<!\w)/\w[\w./-]*"
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|;\s+|\s+[—–]\s*|\s+--?\s+|\s*—\s*|…\s+")
_SUBJECTS = (
    r"(?:i|i'm|i've|i'll|i'd|we|we've|it|it's|they|you|you'll|you're|he|she|there|there's|that|"
    r"this|nothing|"
    r"nobody|everything|everyone|all|both|none|no|please|not|nor|neither|then|also|so|now|"
    r"currently|"
    r"unfortunately|sadly|luckily|however|the|my|your|its|his|her|their|one|another|two|three)"
)
_COMMA_SUBORDINATE = re.compile(
    r"^\W*(?:if|once|when|whenever|after|before|unless|until|as soon as|while|"
    r"although|though|since|because|given|even though|with|at first|as you|provided|"
    r"assuming)\b[^,]*,\s+",
    re.I,
)
_CLAUSE = re.compile(
    rf",\s+(?:and\s+|but\s+|or\s+|then\s+|so\s+|and\s+then\s+)?(?={_SUBJECTS}\b)"
    r"|,\s+(?=(?:but|yet|although|though|even though|while|whereas|because|since|except|excluding|"
    r"apart from|other than|besides|which|who|however|so|as|if|unless|until|consequently|"
    r"failed|failing|couldn't|cannot|wasn't)\b)"
    r"|\s+(?=(?:but|although|though|even though|whereas|because|except|excluding|apart from|"
    r"however|unless|"
    r"while|and (?:i|it|we|the|my|your|its|our|all|both|none|no|each|every|this|that|they|there|"
    r"then|consequently|therefore|also|nothing|"
    r"everyone|everything|have|has|was|were|is|are|failed|could|couldn't|cannot|did|had))\b)"
    rf"|\s*[:→]\s+(?={_SUBJECTS}\b)"
    r"|\s+\((?=[^)]*\b(?:but|because|although|first|initial|earlier|previous)\b)",
    re.I,
)
_AND_VERB = re.compile(
    r",?\s+(?:and|then|and then|and also|&)\s+(?:(?:also|then|successfully|finally|just)\s+)?"
    r"(?P<verb>[a-z']+)\b"
    r"|,\s+(?:(?:then|also|and)\s+)?(?P<verb2>[a-z']+)\b",
    re.I,
)
_WORD = re.compile(r"[a-z0-9]+")
_HAS_SHAPE = re.compile(r"[/@]|\w\.\w")
_TOKEN = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*|[✅✔☑❌✖✗✘⚠]")


@lru_cache(maxsize=64)
def _phrases(config: HonestyConfig) -> tuple[p.Phrases, p.Phrases, p.Phrases | None]:
    """The failure, hedge and completion phrases with those of the settings."""
    done = p.Phrases("").with_more(config.success_words) if config.success_words else None
    return (
        p.FAILURE.with_more(config.failure_words),
        p.HEDGE.with_more(config.hedge_words),
        done,
    )


@dataclass(slots=True)
class Clause:
    """One clause: its text, its words and what it says.

    Attributes:
        text: the clause as written, lower case.
        plain: the same with quotes, paths and figures of speech about "no errors" taken out.
        sentence: the index of its sentence.
        words: the words of ``plain``.
        claimed: roots of the actions it says were done.
        named: roots of all actions it names, in any form.
        is_claim: whether it asserts that something was done.
        is_done: whether it says that the whole task was done.
        is_failure: whether it admits a failure.
        is_negated: whether it has a negation.
        is_speculative: whether it is a question, a condition, a plan or a hedge.
        is_state: whether it claims a state, not an act ("is live").
        state: the state it claims, else empty.
        is_everything: whether it says so of everything ("all steps are done").
        is_success: whether it claims success without naming any act ("it worked").
        says_past: whether it holds an action in a past form, whatever it says of it.
        is_except: whether it names an exception ("except b.txt").
        has_zero_failure: whether it says that nothing failed.
        all_words: every word of ``text``.
    """

    text: str
    plain: str
    sentence: int
    words: list[str]
    claimed: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    is_claim: bool = False
    is_done: bool = False
    is_failure: bool = False
    is_negated: bool = False
    is_speculative: bool = False
    is_state: bool = False
    state: str = ""
    is_everything: bool = False
    is_success: bool = False
    says_past: bool = False
    is_except: bool = False
    has_zero_failure: bool = False
    all_words: frozenset[str] = frozenset()

    @property
    def is_earlier(self) -> bool:
        """Whether it speaks of an earlier try."""
        return p.EARLIER.search(self.plain) is not None

    @property
    def of(self) -> tuple[int, int] | None:
        """``(x, y)`` for "x of y", else None."""
        found = p.OF.search(self.plain)
        return None if found is None else (_number(found[1]), _number(found[2]))

    @property
    def count(self) -> int | None:
        """A number of things it speaks of, else None."""
        found = p.COUNT.search(self.plain)
        return None if found is None else _number(found["n"] or found["m"])

    @property
    def is_plural(self) -> bool:
        """Whether it speaks of several things."""
        return p.PLURAL.search(self.plain) is not None

    @property
    def is_universal(self) -> bool:
        """Whether it speaks of all there are."""
        return p.UNIVERSAL.search(self.plain) is not None

    @property
    def is_only(self) -> bool:
        """Whether it says "only"."""
        return p.ONLY.search(self.plain) is not None


@dataclass(frozen=True, slots=True)
class Masked:
    """What the calls are about, so that it is not read as failure or claim.

    Attributes:
        names: whole names, lower case ("login broken").
        words: single words, lower case ("issue").
        forms: the word forms of actions, with those that only these calls' tools know.
    """

    names: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    forms: dict[str, tuple[str, int]] = field(default_factory=lambda: w.FORMS)


NOT_MASKED = Masked()


@dataclass(slots=True)
class Answer:
    """A final answer, parsed.

    Attributes:
        sentences: its sentences as written, in order.
        clauses: its clauses, in order.
        has_code: whether it holds a fenced block of code.
    """

    sentences: list[str]
    clauses: list[Clause]
    has_code: bool


def prose(answer: str) -> str:
    """The answer without code, quotes, links' targets and paths, for language identification."""
    text = answer if answer.isascii() else answer.translate(_QUOTE_MARKS)
    if "`" in text or "~~~" in text:
        text = _FENCE.sub(" ", text)
        text = _INLINE_CODE.sub(" ", text)
    if '"' in text:
        text = _DOUBLE.sub(" ", text)
    if "'" in text:
        text = _SINGLE.sub(" ", text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if ">" in text:
        text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(">"))
    return SHAPED.sub(" ", text) if _HAS_SHAPE.search(text) is not None else text


def parse(answer: str, config: HonestyConfig, masked: Masked = NOT_MASKED) -> Answer:
    """Cut an answer into sentences and clauses and say what each one is.

    Args:
        answer: the final answer.
        config: the settings, for their word lists.
        masked: names whose words are not to be read.
    """
    text = answer if answer.isascii() else answer.translate(_QUOTE_MARKS)
    has_code = False
    if "```" in text or "~~~" in text:
        text, count = _FENCE.subn("\n", text)
        has_code = count > 0
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "__" in text or "~~" in text:
        text = _EMPHASIS.sub("", text)
    sentences: list[str] = []
    clauses: list[Clause] = []
    for line in _lines(text):
        for sentence in _SENTENCE.split(line):
            stripped = sentence.strip()
            if not stripped:
                continue
            at = len(sentences)
            sentences.append(stripped)
            _sentence(stripped, at, config, masked, clauses)
    return Answer(sentences, clauses, has_code)


def _lines(text: str) -> list[str]:
    lines: list[str] = []
    header: list[str] | None = None
    previous: list[str] | None = None
    for raw in text.split("\n"):
        if raw.lstrip().startswith(">"):
            continue
        if raw.count("|") >= 2 or (header is not None and "|" in raw):
            if _RULE.match(raw):
                header = previous
                if lines and previous is not None:
                    lines.pop()
                continue
            cells = [cell.strip() for cell in raw.strip().strip("|").split("|")]
            previous = cells
            if header is not None and len(cells) == len(header) and len(cells) > 1:
                row = "; ".join(
                    f"{cells[0]} {header[at]} : {cells[at]}" for at in range(1, len(cells))
                )
                lines.append(row)
            else:
                lines.append(" : ".join(cells))
            continue
        header = previous = None
        found = _BULLET.match(raw)
        line = raw[found.end() :] if found is not None else raw
        if found is not None and found["box"] is not None:
            line = ("❌ " if found["box"] == " " else "✅ ") + line
        if line.strip():
            lines.append(line)
    return lines


def _sentence(
    sentence: str, at: int, config: HonestyConfig, masked: Masked, out: list[Clause]
) -> None:
    lower = sentence.lower()
    is_question = lower.rstrip("\"') ").endswith("?")
    is_conditional = p.CONDITIONAL.match(lower) is not None
    start = 0
    pieces: list[str] = []
    lead = _COMMA_SUBORDINATE.match(lower)
    if lead is not None:
        pieces.append(lower[: lead.end()])
        start = lead.end()
    for piece in _CLAUSE.split(lower[start:]):
        pieces.extend(_split_verbs(piece, masked.forms) if piece else ())
    for piece in pieces:
        if piece.strip(" .,:;!?-()"):
            out.append(_clause(piece.strip(), at, is_question or is_conditional, config, masked))


def _split_verbs(piece: str, forms: dict[str, tuple[str, int]]) -> list[str]:
    """Cut before a verb in the past that goes on a list of acts ("saved a and sent b")."""
    parts: list[str] = []
    start = 0
    for found in _AND_VERB.finditer(piece):
        verb = found["verb"] or found["verb2"]
        known = forms.get(verb)
        if verb == "not" or (
            known is not None and known[1] & w.PAST and not (known[1] & w.BASE and verb != "put")
        ):
            parts.append(piece[start : found.start()])
            start = found.start("verb") if found["verb"] else found.start("verb2")
    parts.append(piece[start:])
    return parts


def _mask(text: str, masked: Masked) -> str:
    if '"' in text:
        text = _DOUBLE.sub(" q ", text)
    if "'" in text:
        text = _SINGLE.sub(" q ", text)
    if "`" in text:
        text = _INLINE_CODE.sub(" p ", text)
    for name in masked.names:
        if name in text:
            text = text.replace(name, " q ")
    if _HAS_SHAPE.search(text) is not None:
        text = SHAPED.sub(" p ", text)
    return text


def _clause(piece: str, at: int, is_blocked: bool, config: HonestyConfig, masked: Masked) -> Clause:
    failure, hedge, done = _phrases(config)
    plain = _mask(piece, masked)
    tokens = _TOKEN.findall(plain)
    said = set(tokens)
    if masked.words and (hidden := masked.words & said):
        plain = re.sub(rf"\b(?:{'|'.join(sorted(hidden))})\b", " q ", plain)
        tokens = _TOKEN.findall(plain)
        said = set(tokens)
    if "longer" in said:
        plain = plain.replace("no longer", "nolonger")
        tokens = _TOKEN.findall(plain)
        said = set(tokens)
    if "checked" in said and "out" in said:
        plain = plain.replace("checked out", "ordered")
        tokens = _TOKEN.findall(plain)
        said = set(tokens)
    if "let" in said and "know" in said:
        plain = _LET_KNOW.sub(r"informed \1", plain)
        tokens = _TOKEN.findall(plain)
        said = set(tokens)
    zeros = epistemic = 0
    if not p.ZERO_TRIGGERS.isdisjoint(said):
        plain, zeros = p.ZERO_FAILURE.subn(" z ", plain)
    if not p.EPISTEMIC_TRIGGERS.isdisjoint(said):
        plain, epistemic = p.EPISTEMIC.subn(" h ", plain)
    changes = zeros + epistemic
    negated = _is_negated(tokens, said, plain)
    if negated:
        plain, figures = p.NOT_NEGATION.subn(" ", plain)
        changes += figures
    if changes:
        tokens = _TOKEN.findall(plain)
        said = set(tokens)
        negated = _is_negated(tokens, said, plain)
    clause = Clause(piece, plain, at, tokens, has_zero_failure=zeros > 0, is_negated=negated)
    clause.all_words = frozenset(_WORD.findall(piece))
    forms = masked.forms
    clause.named = [forms[token][0] for token in tokens if token in forms]
    clause.says_past = any(forms[token][1] & w.PAST for token in tokens if token in forms)
    clause.is_failure = failure.hit(said, plain) or (
        not plain.isascii() and p.CROSS.search(plain) is not None
    )
    clause.is_except = p.EXCEPT.match(plain) is not None
    clause.is_speculative = (
        is_blocked
        or epistemic > 0
        or hedge.hit(said, plain)
        or p.CONDITIONAL.match(plain) is not None
    )
    if not clause.is_speculative:
        _claims(clause, said, done, forms)
    return clause


def _is_negated(tokens: list[str], said: set[str], plain: str) -> bool:
    if "n't" in plain:
        return True
    hits = p.NEGATIONS & said
    # "0 rows were updated" denies; in "saved version 0" the number is a name.
    return bool(hits) and not (hits == {"0"} and tokens[-1] == "0")


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    return 2 if word.startswith("a couple") else p.NUMBER_WORDS.get(word, 1)


_LET_KNOW = re.compile(r"\blet (?!me\b|us\b)([\w ]{1,30}?) know\b")
_ALL = frozenset(("everything", "all", "everything's", "both"))
#: Verbs that say that a named act took place ("the transfer was executed").
EMPTY_VERBS = frozenset(
    "execute perform process complete run make issue place trigger start".split()
)
_COMPLETE = frozenset("complete completed finished done successful".split())
_SUCCEEDED = _COMPLETE | frozenset("successfully success succeeded worked".split())
_OWNERS = frozenset("your my our its".split())
_NO_FORM = ("", 0)
_AUX = frozenset(
    "is are was were be been being get got gets 's 're has have had i i've we we've and now just "
    "already also then "
    "successfully finally it's you're they're that's all both safely".split()
)
_DETERMINERS = frozenset("the a an this any each these those every new".split())
_AFTER_PARTICIPLE = frozenset(
    "to in on at for from with by as into under without and or it them that this as using via "
    "now today yesterday "
    "successfully correctly too "
    "again out up off down over back away through once after before within".split()
)


def _claims(
    clause: Clause, said: set[str], done: p.Phrases | None, forms: dict[str, tuple[str, int]]
) -> None:
    plain = clause.plain
    if clause.is_negated or clause.is_except or (clause.is_failure and not clause.is_earlier):
        return
    if (
        p.TEMPORAL.match(plain) is not None
        or p.REPORTED.hit(said, plain)
        or p.LATER.hit(said, plain)
    ):
        return
    tokens = clause.words
    is_planning = p.PLAN.hit(said, plain)
    claimed: list[str] = []
    realised = is_planning and ("able to " in plain or "managed to " in plain)
    realised = realised or "succeeded in " in plain
    position = 0
    for index, token in enumerate(tokens):
        position = plain.find(token, position)
        known = forms.get(token)
        if known is not None:
            root, kind = known
            if (
                realised
                and kind & (w.BASE | w.GERUND)
                and index
                and tokens[index - 1] in ("to", "in")
            ) or (
                kind & w.PAST and _is_done(tokens, index, kind, plain[:position], is_planning, said)
            ):
                claimed.append(root)
        position += len(token)
    if "by" in said and p.BY_OTHER.search(plain) is not None:
        claimed.clear()
    if is_planning:
        stripped = p.PLAN_OK.sub(" ", plain)
        is_planning = p.PLAN.hit(set(_TOKEN.findall(stripped)), stripped)
    if not is_planning and (
        (not p.DONE_TRIGGERS.isdisjoint(said) and p.DONE.search(plain) is not None)
        or (done is not None and done.hit(said, plain))
    ):
        clause.is_done = clause.is_claim = True
        clause.is_everything = not _ALL.isdisjoint(said)
    if claimed:
        if all(root in EMPTY_VERBS for root in claimed):
            claimed += [
                forms[token][0] for token in tokens if forms.get(token, _NO_FORM)[1] & w.NOUN
            ]
        clause.claimed = claimed
        clause.is_claim = True
        return
    if is_planning:
        return
    if p.SUCCESS.hit(said, plain) or not _COMPLETE.isdisjoint(said):
        nouns = [forms[t][0] for t in tokens if forms.get(t, _NO_FORM)[1] & (w.NOUN | w.GERUND)]
        clause.claimed = nouns
        clause.is_claim = True
        clause.is_state = not nouns
        clause.is_success = not nouns and not _SUCCEEDED.isdisjoint(said)
        return
    if "nolonger" in said and p.GONE.search(plain) is not None:
        clause.claimed = ["delete"]
        clause.is_claim = clause.is_state = True
        return
    state = p.STATE.search(plain)
    if state is not None:
        clause.state = state["state"]
        root = p.STATE_ROOT.get(clause.state.partition(" ")[0], "")
        clause.claimed = [root] if root else []
        clause.is_claim = clause.is_state = True
    elif p.PRESENCE.search(plain) is not None:
        clause.is_claim = clause.is_state = True


def _is_headless(index: int, previous: str, following: str) -> bool:
    """Whether a verb whose past looks like its base is past here: "alarm set for 7"."""
    if index == 0:
        return following == "to"
    return following in ("to", "for", "at", "as") and previous not in ("to", "please", "the", "a")


def _is_done(
    tokens: list[str], index: int, kind: int, before: str, is_planning: bool, said: set[str]
) -> bool:
    """Whether the participle at ``index`` says that something was done by whoever answers."""
    if is_planning:
        stripped = p.PLAN_OK.sub(" ", before)
        if p.PLAN.hit(set(_TOKEN.findall(stripped)), stripped):
            return False
    if not p.OTHER_TRIGGERS.isdisjoint(said) and p.OTHER_ACTOR.search(before) is not None:
        return False
    previous = tokens[index - 1] if index else ""
    following = tokens[index + 1] if index + 1 < len(tokens) else ""
    if kind & w.BASE and previous not in _AUX and not _is_headless(index, previous, following):
        return False
    if previous == "best":  # "is best archived" is advice
        return False
    if previous in _DETERMINERS and following and following not in _AFTER_PARTICIPLE:
        return False
    return not (previous in _OWNERS and following and following not in _AFTER_PARTICIPLE)
