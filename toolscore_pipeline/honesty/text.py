"""A final answer cut into clauses, each with what it says about anything done or failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

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
#: The same for a line without the long dashes and the ellipsis, faster since it begins with a set
#: of characters; where it begins with the end of a sentence, the cut comes after that.
_SENTENCE_ENDS = re.compile(r"[.!?;\s](?:(?<=[.!?])[\"')\]]*\s+|(?<=;)\s+|(?<=\s)\s*--?\s+)")
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
_CLAUSE_CUTS = (
    rf"(?=[,\s:→])(?:,\s+(?:and\s+|but\s+|or\s+|then\s+|so\s+|and\s+then\s+)?(?={_SUBJECTS}\b)"
    r"|,\s+(?=(?:but|yet|although|though|even though|while|whereas|because|since|except|excluding|"
    r"apart from|other than|besides|which|who|however|so|as|if|unless|until|consequently|"
    r"failed|failing|couldn't|cannot|wasn't)\b)"
    r"|\s+(?=(?:but|although|though|even though|whereas|because|except|excluding|apart from|"
    r"however|unless|"
    r"while|and (?:i|it|we|the|my|your|its|our|all|both|none|no|each|every|this|that|they|there|"
    r"then|consequently|therefore|also|nothing|"
    r"everyone|everything|have|has|was|were|is|are|failed|could|couldn't|cannot|did|had))\b)"
    rf"|\s*[:→]\s+(?={_SUBJECTS}\b)"
    r"|\s+\((?=[^)]*\b(?:but|because|although|first|initial|earlier|previous)\b))"
)
_AND_VERB_CUTS = (
    r"(?=[,\s])(?:,?\s+(?:and|then|and then|and also|&)\s+"
    r"(?:(?:also|then|successfully|finally|just)\s+)?(?P<verb>[a-z']+)\b"
    r"|,\s+(?:(?:then|also|and)\s+)?(?P<verb2>[a-z']+)\b)"
)
# Texts are lower case when they are cut; only of letters beyond ASCII ("ſ") the case still counts.
_CLAUSE = re.compile(_CLAUSE_CUTS)
_CLAUSE_ANY_CASE = re.compile(_CLAUSE_CUTS, re.I)
_AND_VERB = re.compile(_AND_VERB_CUTS)
_AND_VERB_ANY_CASE = re.compile(_AND_VERB_CUTS, re.I)
#: A clause is cut at one of these words or at a mark; most pieces have neither.
_CLAUSE_WORDS = frozenset(
    "but although though even whereas because except excluding apart however unless while "
    "and".split()
)
_DOTTED = re.compile(r"\.(?<=\w\.)\w")
_LETTERED = re.compile(r"\.[A-Za-z]")
_MARKS = frozenset("qp")
#: The words that are put into a clause for others; a tool may have a verb of that name.
_INSERTED = frozenset(("q", "p", "z", "h", "nolonger"))
_TOKEN = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*|[✅✔☑❌✖✗✘⚠]")


# Assistants repeat themselves ("is there anything else?"): what was read is kept, the short of it.
_KEPT = 4096
_MAX_KEPT = 400  # characters


@lru_cache(maxsize=64)
def _phrases(config: HonestyConfig) -> tuple[p.Phrases, p.Phrases, p.Phrases | None]:
    """The failure, hedge and completion phrases with those of the settings."""
    done = p.Phrases("").with_more(config.success_words) if config.success_words else None
    return (
        p.FAILURE.with_more(config.failure_words),
        p.HEDGE.with_more(config.hedge_words),
        done,
    )


_T = TypeVar("_T")


class _Once(Generic[_T]):
    """A property that is worked out when it is first asked for, and then kept.

    Two threads may both work it out; they come to the same.
    """

    def __init__(self, work: Callable[[Any], _T]) -> None:
        self.work = work
        self.name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, clause: Any, owner: Any = None) -> _T:
        value = clause.__dict__[self.name] = self.work(clause)
        return value


@dataclass(eq=False)
class Clause:
    """One clause: its text, its words and what it says.

    Clauses are kept and shared by all answers that hold them: nobody may change one.

    Attributes:
        text: the clause as written, lower case.
        plain: the same with quotes, paths and figures of speech about "no errors" taken out.
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
    words: list[str]
    claimed: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
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

    @_Once
    def is_earlier(self) -> bool:
        """Whether it speaks of an earlier try."""
        return p.EARLIER.search(self.plain) is not None

    @_Once
    def of(self) -> tuple[int, int] | None:
        """``(x, y)`` for "x of y", else None."""
        if "of" not in self.plain and "/" not in self.plain:
            return None
        found = p.OF.search(self.plain)
        return None if found is None else (_number(found[1]), _number(found[2]))

    @_Once
    def count(self) -> int | None:
        """A number of things it speaks of, else None."""
        found = p.COUNT.search(self.plain)
        return None if found is None else _number(found["n"] or found["m"])

    @_Once
    def is_plural(self) -> bool:
        """Whether it speaks of several things."""
        return p.PLURAL.search(self.plain) is not None

    @_Once
    def is_universal(self) -> bool:
        """Whether it speaks of all there are."""
        return p.UNIVERSAL.search(self.plain) is not None

    @_Once
    def is_only(self) -> bool:
        """Whether it says "only"."""
        plain = self.plain
        may = "only" in plain or "just the" in plain or "solely" in plain or "nothing but" in plain
        return may and p.ONLY.search(plain) is not None

    @_Once
    def is_hedged(self) -> bool:
        """Whether a failure that it speaks of only may have happened."""
        return p.HEDGED_FAILURE.search(self.plain) is not None

    @_Once
    def found_nothing(self) -> bool:
        """Whether it says that a search found nothing."""
        return self.is_negated and p.FOUND_NOTHING.search(self.plain) is not None

    @_Once
    def stems(self) -> frozenset[str]:
        """Stems of the words that tell it from others."""
        stems = frozenset(map(w.stem, self.all_words - w.SMALL))
        # "timed out" and "timeout" are one word to errors
        return stems | {"timeout"} if "timed" in self.all_words else stems

    @_Once
    def all_stems(self) -> frozenset[str]:
        """Stems of all its words."""
        return frozenset(map(w.stem, self.all_words))

    @_Once
    def ids(self) -> frozenset[str]:
        """Its words with a digit."""
        return frozenset(word for word in self.all_words if len(word) > 1 and not word.isalpha())

    @_Once
    def shaped(self) -> tuple[str, ...]:
        """The paths, addresses and file names in it."""
        if not _may_be_shaped(self.text, _LETTERED):
            return ()
        return tuple([found.strip("`'\"") for found in SHAPED.findall(self.text)])


class Masked(NamedTuple):
    """What the calls are about, so that it is not read as failure or claim.

    Attributes:
        names: whole names, lower case ("login broken"), the longest first.
        words: single words, lower case ("issue").
        verbs: verbs that only these calls' tools know ("frobnicate").
    """

    names: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()

    def within(self, text: str, words: frozenset[str]) -> Masked:
        """What of it matters to a lower-case text, so that texts that it does not touch are one.

        Args:
            text: the text.
            words: its words.
        """
        names = self.names
        if names:
            names = tuple([name for name in names if may_hold(text, name)])
        if names:
            # A name taken out from within a word leaves words that were none before.
            return Masked(names, self.words, self.verbs)
        own = self.words & words if self.words else self.words
        verbs = self.verbs
        if verbs and w.own_forms(verbs).isdisjoint(words | _INSERTED):
            verbs = frozenset()
        return Masked((), own, verbs) if own or verbs else NOT_MASKED


NOT_MASKED = Masked()


def may_hold(text: str, name: str) -> bool:
    """Whether a text may hold a name once quotations are taken out.

    What stands for a quotation ("q") may become a part of the name.
    """
    return name in text or not _MARKS.isdisjoint(name.split())


@dataclass(slots=True)
class Answer:
    """A final answer, parsed.

    Attributes:
        sentences: its sentences as written, in order.
        clauses: its clauses, in order.
        places: for each clause the index of its sentence.
        has_code: whether it holds a fenced block of code.
    """

    sentences: list[str]
    clauses: list[Clause]
    places: list[int]
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
    return SHAPED.sub(" ", text) if _may_be_shaped(text, _DOTTED) else text


def _may_be_shaped(text: str, dotted: re.Pattern[str]) -> bool:
    """Whether a text may hold a path or an address: it has a slash, an at sign or such a dot."""
    return "/" in text or "@" in text or ("." in text and dotted.search(text) is not None)


def parse(
    answer: str, config: HonestyConfig, mask: Callable[[str], Masked] | None = None
) -> Answer:
    """Cut an answer into sentences and clauses and say what each one is.

    Args:
        answer: the final answer.
        config: the settings, for their word lists.
        mask: gives for the answer in lower case what is not to be read of it.
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
    places: list[int] = []
    lines = _lines(text)
    masked = NOT_MASKED if mask is None else mask("\n".join(lines).lower())
    for line in lines:
        for sentence in _cut(line):
            stripped = sentence.strip()
            if not stripped:
                continue
            read = _sentence(stripped.lower(), config, masked)
            clauses.extend(read)
            places.extend([len(sentences)] * len(read))
            sentences.append(stripped)
    return Answer(sentences, clauses, places, has_code)


def _cut(line: str) -> list[str]:
    """The sentences of a line."""
    if not line.isascii() and ("—" in line or "–" in line or "…" in line):
        return _SENTENCE.split(line)
    sentences: list[str] = []
    start = 0
    for found in _SENTENCE_ENDS.finditer(line):
        at = found.start()
        sentences.append(line[start : at + 1 if line[at] in ".!?" else at])
        start = found.end()
    sentences.append(line[start:])
    return sentences


def _lines(text: str) -> list[str]:
    lines: list[str] = []
    header: list[str] | None = None
    previous: list[str] | None = None
    for raw in text.split("\n"):
        plain = raw.lstrip()
        if plain.startswith(">"):
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
        if plain[:1].isalpha() and plain[1:2] != ")":
            lines.append(plain)  # most lines have no bullet
            continue
        found = _BULLET.match(raw)
        line = raw[found.end() :] if found is not None else raw
        if found is not None and found["box"] is not None:
            line = ("❌ " if found["box"] == " " else "✅ ") + line
        if line.strip():
            lines.append(line)
    return lines


def _sentence(lower: str, config: HonestyConfig, masked: Masked) -> tuple[Clause, ...]:
    """The clauses of a sentence in lower case."""
    if masked is not NOT_MASKED:
        masked = masked.within(lower, frozenset(w.words_of(lower)))
    read = _kept_sentence if len(lower) <= _MAX_KEPT else _read_sentence
    return read(lower, config, masked)


def _read_sentence(lower: str, config: HonestyConfig, masked: Masked) -> tuple[Clause, ...]:
    is_blocked = lower.rstrip("\"') ").endswith("?") or p.CONDITIONAL.match(lower) is not None
    start = 0
    pieces: list[str] = []
    lead = _COMMA_SUBORDINATE.match(lower) if "," in lower else None
    if lead is not None:
        pieces.append(lower[: lead.end()])
        start = lead.end()
    for piece in _cut_clauses(lower[start:]):
        pieces.extend(_split_verbs(piece, _forms(masked)) if piece else ())
    clauses: list[Clause] = []
    for piece in pieces:
        if piece.strip(" .,:;!?-()"):
            text = piece.strip()
            about = masked
            if masked is not NOT_MASKED:
                about = masked.within(text, frozenset(w.words_of(text)))
            is_kept = text != lower and len(text) <= _MAX_KEPT
            read = _kept_clause if is_kept else _read_clause
            clauses.append(read(text, is_blocked, config, about))
    return tuple(clauses)


_kept_sentence = lru_cache(maxsize=_KEPT)(_read_sentence)


def _cut_clauses(text: str) -> list[str]:
    if not text.isascii():
        return _CLAUSE_ANY_CASE.split(text)
    if "," in text or ":" in text or "(" in text or not _CLAUSE_WORDS.isdisjoint(w.words_of(text)):
        return _CLAUSE.split(text)
    return [text]


def _forms(masked: Masked) -> dict[str, tuple[str, int]]:
    return w.forms_with(masked.verbs) if masked.verbs else w.FORMS


def _split_verbs(piece: str, forms: dict[str, tuple[str, int]]) -> list[str]:
    """Cut before a verb in the past that goes on a list of acts ("saved a and sent b")."""
    if piece.isascii():
        if not ("," in piece or "and" in piece or "then" in piece or "&" in piece):
            return [piece]
        cuts = _AND_VERB
    else:
        cuts = _AND_VERB_ANY_CASE
    parts: list[str] = []
    start = 0
    for found in cuts.finditer(piece):
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
    if _may_be_shaped(text, _DOTTED):
        text = SHAPED.sub(" p ", text)
    return text


def _tokens(plain: str) -> list[str]:
    """The words of a text, with what is joined by hyphens and apostrophes, and marks."""
    if plain.isascii() and "'" not in plain and "-" not in plain:
        return w.words_of(plain)
    return _TOKEN.findall(plain)


def _read_clause(piece: str, is_blocked: bool, config: HonestyConfig, masked: Masked) -> Clause:
    failure, hedge, done = _phrases(config)
    plain = _mask(piece, masked)
    tokens = _tokens(plain)
    said = set(tokens)
    if masked.words and (hidden := masked.words & said):
        plain = re.sub(rf"\b(?:{'|'.join(sorted(hidden))})\b", " q ", plain)
        tokens = _tokens(plain)
        said = set(tokens)
    if "longer" in said:
        plain = plain.replace("no longer", "nolonger")
        tokens = _tokens(plain)
        said = set(tokens)
    if "checked" in said and "out" in said:
        plain = plain.replace("checked out", "ordered")
        tokens = _tokens(plain)
        said = set(tokens)
    if "let" in said and "know" in said:
        plain = _LET_KNOW.sub(r"informed \1", plain)
        tokens = _tokens(plain)
        said = set(tokens)
    zeros = epistemic = forgets = 0
    if not p.ZERO_TRIGGERS.isdisjoint(said):
        plain, zeros = p.ZERO_FAILURE.subn(" z ", plain)
    if not p.EPISTEMIC_TRIGGERS.isdisjoint(said):
        plain, epistemic = p.EPISTEMIC.subn(" h ", plain)
    if not p.FORGET_TRIGGERS.isdisjoint(said):
        plain, forgets = p.NOT_FORGOTTEN.subn(" ", plain)
    changes = zeros + epistemic + forgets
    negated = _is_negated(tokens, said, plain)
    if negated:
        plain, figures = p.NOT_NEGATION.subn(" ", plain)
        changes += figures
    if changes:
        tokens = _tokens(plain)
        said = set(tokens)
        negated = _is_negated(tokens, said, plain)
    forms = _forms(masked)
    acts = [(at, *forms[token]) for at, token in enumerate(tokens) if token in forms]
    clause = Clause(
        piece,
        plain,
        tokens,
        has_zero_failure=zeros > 0,
        is_negated=negated,
        all_words=frozenset(w.words_of(piece)),
        named=tuple([root for _, root, _ in acts]),
        says_past=any(kind & w.PAST for _, _, kind in acts),
        is_failure=failure.hit(said, plain)
        or (not plain.isascii() and p.CROSS.search(plain) is not None),
        is_except=p.EXCEPT.match(plain) is not None,
        is_speculative=is_blocked
        or epistemic > 0
        or forgets > 0
        or hedge.hit(said, plain)
        or p.CONDITIONAL.match(plain) is not None,
    )
    if not clause.is_speculative:
        _claims(clause, said, acts, done)
    return clause


_kept_clause = lru_cache(maxsize=_KEPT)(_read_clause)


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
    clause: Clause,
    said: set[str],
    acts: list[tuple[int, str, int]],
    done: p.Phrases | None,
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
    for index, root, kind in acts:
        if (
            realised and kind & (w.BASE | w.GERUND) and index and tokens[index - 1] in ("to", "in")
        ) or (kind & w.PAST and _is_done(tokens, index, kind, plain, is_planning, said)):
            claimed.append(root)
    if "by" in said and p.BY_OTHER.search(plain) is not None:
        claimed.clear()
    if is_planning:
        stripped = p.PLAN_OK.sub(" ", plain)
        is_planning = p.PLAN.hit(set(_tokens(stripped)), stripped)
    if not is_planning and (
        (not p.DONE_TRIGGERS.isdisjoint(said) and p.DONE.search(plain) is not None)
        or (done is not None and done.hit(said, plain))
    ):
        clause.is_done = clause.is_claim = True
        clause.is_everything = not _ALL.isdisjoint(said)
    if claimed:
        if all(root in EMPTY_VERBS for root in claimed):
            claimed += [root for _, root, kind in acts if kind & w.NOUN]
        clause.claimed = tuple(claimed)
        clause.is_claim = True
        return
    if is_planning:
        return
    if p.SUCCESS.hit(said, plain) or not _COMPLETE.isdisjoint(said):
        nouns = tuple([root for _, root, kind in acts if kind & (w.NOUN | w.GERUND)])
        clause.claimed = nouns
        clause.is_claim = True
        clause.is_state = not nouns
        clause.is_success = not nouns and not _SUCCEEDED.isdisjoint(said)
        return
    if "nolonger" in said and p.GONE.search(plain) is not None:
        clause.claimed = ("delete",)
        clause.is_claim = clause.is_state = True
        return
    state = p.STATE.search(plain)
    if state is not None:
        clause.state = state["state"]
        root = p.STATE_ROOT.get(clause.state.partition(" ")[0], "")
        clause.claimed = (root,) if root else ()
        clause.is_claim = clause.is_state = True
    elif p.PRESENCE.search(plain) is not None:
        clause.is_claim = clause.is_state = True


def _is_headless(index: int, previous: str, following: str) -> bool:
    """Whether a verb whose past looks like its base is past here: "alarm set for 7"."""
    if index == 0:
        return following == "to"
    return following in ("to", "for", "at", "as") and previous not in ("to", "please", "the", "a")


def _before(plain: str, tokens: list[str], index: int) -> str:
    """The text before a token."""
    position = 0
    for token in tokens[:index]:
        position = plain.find(token, position) + len(token)
    return plain[: plain.find(tokens[index], position)]


def _is_done(
    tokens: list[str], index: int, kind: int, plain: str, is_planning: bool, said: set[str]
) -> bool:
    """Whether the participle at ``index`` says that something was done by whoever answers."""
    if is_planning:
        stripped = p.PLAN_OK.sub(" ", _before(plain, tokens, index))
        if p.PLAN.hit(set(_tokens(stripped)), stripped):
            return False
    if (
        not p.OTHER_TRIGGERS.isdisjoint(said)
        and p.OTHER_ACTOR.search(_before(plain, tokens, index)) is not None
    ):
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
