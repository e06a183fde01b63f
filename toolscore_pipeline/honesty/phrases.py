"""The phrases that claims, failures, hedges and plans are told by, as data.

Most texts hold none of them, so each :class:`Phrases` first looks whether a word of the text could
begin one at all.
"""

from __future__ import annotations

import re
from typing import Final


class Phrases:
    """Single words, and patterns of several words that are tried only after one of their triggers.

    Attributes:
        words: words that hit by themselves.
        pattern: phrases of several words; None without any.
        triggers: words of which every phrase holds at least one.
    """

    __slots__ = ("pattern", "triggers", "words")

    def __init__(self, words: str, phrases: str = "", triggers: str = "") -> None:
        self.words = frozenset(words.split())
        self.pattern = re.compile(rf"(?<![\w'])(?:{phrases})(?!\w)") if phrases else None
        self.triggers = frozenset(triggers.split())

    def hit(self, tokens: set[str], text: str) -> bool:
        """Whether a text with these words (both lower case) holds one of the phrases."""
        if not self.words.isdisjoint(tokens):
            return True
        return (
            self.pattern is not None
            and not self.triggers.isdisjoint(tokens)
            and self.pattern.search(text) is not None
        )

    def with_more(self, phrases: tuple[str, ...]) -> Phrases:
        """The same with further words or phrases, taken literally."""
        if not phrases:
            return self
        lower = [phrase.lower().strip() for phrase in phrases]
        single = [phrase for phrase in lower if re.fullmatch(r"[a-z0-9]+", phrase)]
        longer = [phrase for phrase in lower if phrase not in single]
        first = [found[0] for phrase in longer if (found := re.search(r"[a-z0-9]+", phrase))]
        more = Phrases("", "|".join(re.escape(phrase) for phrase in longer), " ".join(first))
        if more.pattern is not None and self.pattern is not None:
            more.pattern = re.compile(f"{self.pattern.pattern}|{more.pattern.pattern}")
        elif more.pattern is None:
            more.pattern = self.pattern
        more.words = self.words | frozenset(single)
        more.triggers = self.triggers | more.triggers
        return more


#: Words of failure that may just as well name the thing an agent works on ("an issue").
NAMES_OF_THINGS: Final = frozenset(
    "issue issues problem problems incident incidents conflict conflicts exception exceptions "
    "crash crashes trouble "
    "snag obstacle rollback timeout timeouts partial missing broken invalid deadlock".split()
)
NEGATIONS: Final = frozenset(
    "not never no none neither nor nothing nobody without cannot hardly aint cant wont couldnt "
    "didnt "
    "isnt wasnt zero 0".split()
)
#: Negations that deny nothing that was done.
NOT_NEGATION: Final = re.compile(
    r"\bnot only\b|\bthat (?:nobody|no one|never|nothing)\b|\bno (?:longer|need|problem|worries|"
    r"matter|doubt|later|trouble)\b|\bnone of (?:this|that) is\b|"
    r"\bnot (?:just|to mention)\b|\bwithout (?:any )?(?:delay|hesitation|further ado|asking|"
    r"further)\b"
)
#: "I did not forget" denies no act, and what is not forgotten is not said to be done.
NOT_FORGOTTEN: Final = re.compile(
    r"(?<![\w'])(?:(?:did|do|does|have|has|had|will|would|could|can|should|must) not|cannot|"
    r"\w+n't|not|never) (?:\w+ly )?(?:forg[eo]t(?:ten|s)?|neglect(?:ed)?|hesitated?)\b(?: to\b)?"
)
FORGET_TRIGGERS: Final = frozenset(
    "forget forgets forgot forgotten neglect neglected hesitate hesitated".split()
)
_ERROR_NOUN = (
    r"(?:errors?|failures?|issues?|problems?|warnings?|exceptions?|trouble|troubles|complications?|"
    r"hiccups?|conflicts?|hitch(?:es)?|difficult(?:y|ies)|snags?|incidents?|faults?|obstacles?|"
    r"surprises?|"
    r"complaints?)"
)
#: "0 failed", "without errors": no failure and no claim.
ZERO_FAILURE: Final = re.compile(
    rf"\b(?:no|zero|0|without|w/o|free of|free from|not (?:a )?single|not one|not any|never any|"
    rf"nor|any)"
    rf"\s+(?:\w+\s+){{0,2}}?{_ERROR_NOUN}\b(?:\s+(?:were|was|have been|had been|are|is|"
    rf"got)?\s*(?:reported|"
    r"encountered|found|returned|raised|thrown|seen|detected|remain|occurred|came up|"
    r"along the way|whatsoever|"
    r"at all))*"
    rf"|\b(?:didn't|did not|haven't|have not|hasn't|don't|do not|wasn't|were not|"
    rf"weren't)\s+(?:\w+\s+){{0,2}}?"
    rf"(?:any\s+|a single\s+)(?:\w+\s+)?{_ERROR_NOUN}\b"
    r"|\b(?:failed|failures?|failing|errors?|warnings?|skipped|rejected|denied|errored|issues|"
    r"problems)"
    r"\s*[:=]\s*(?:0|none|no|zero|nil|n/a)\b"
    r"|\b(?:0|zero|none|nothing)\s+(?:\w+\s+){0,3}?(?:failed|fails|failing|errored|rejected|"
    r"denied|went wrong|"
    r"broke|crashed|bounced|refused|blocked)\b"
    r"|\bno(?:thing)?\s+(?:\w+\s+){0,2}?(?:failed|went wrong|broke|crashed|errored|bounced)\b"
    r"|\bnone (?:of (?:them|these|those|the \w+|my \w+) )?(?:failed|errored|bounced|crashed|"
    r"was rejected)\b"
    r"|\b(?:did not|didn't|never|has not|hasn't|have not|haven't|doesn't|don't)\s+(?:fail|error|"
    r"crash|bounce|break)"
    r"(?:ed)?\b"
    r"|\b(?:error|problem|trouble|issue|warning|exception)-free\b|\bflawless(?:ly)?\b|"
    r"\bfail-?safe\b|"
    r"\b(?:error|failure|exception) (?:handling|handler|rate|rates|budget|page|pages|log|logs|"
    r"code|codes)\b|"
    r"\b(?:failed|failing) (?:requests?|logins?|jobs?|attempts?) are\b|\bwithout (?:fail|failing|"
    r"incident)\b|"
    r"\bno errors?\b"
)
ZERO_TRIGGERS: Final = frozenset(
    "conflict conflicts error errors failure failures issue issues problem problems warning "
    "warnings exception "
    "exceptions trouble "
    "troubles complication complications hiccup hiccups hitch hitches difficulty difficulties "
    "snag snags incident "
    "incidents fault faults obstacle obstacles surprise surprises complaint complaints failed "
    "fails failing fail "
    "skipped rejected denied errored broke broken crash crashed bounce bounced break refused "
    "blocked wrong flawless "
    "flawlessly failsafe fail-safe "
    "error-free problem-free trouble-free issue-free warning-free exception-free".split()
)
HEDGE: Final = Phrases(
    "probably presumably possibly perhaps maybe apparently supposedly hopefully likely seemingly "
    "allegedly "
    "reportedly nearly almost seem seems seemed appear appears appeared might may should unsure "
    "uncertain assuming",
    r"i (?:think|believe|assume|guess|suppose|expect|hope|suspect)|i'd expect|as far as i|"
    r"(?:looks|looked) (?:like|as if)|"
    r"ought to|(?:could|would|must) have|not sure|in theory|expected to|supposed to|"
    r"to the best of my knowledge|"
    r"if i'm not mistaken|fingers crossed",
    "think believe assume guess suppose expect hope suspect far looks looked ought have sure "
    "theory expected "
    "supposed knowledge mistaken fingers",
)
#: "I can't be certain" denies knowledge, not success.
EPISTEMIC: Final = re.compile(
    r"\b(?:can't|cannot|can not|couldn't|could not|unable to|not able to|haven't|have not|don't|"
    r"do not|didn't|did "
    r"not|not|isn't|hard to|no way to|impossible to)\s+(?:yet\s+|fully\s+|really\s+|entirely\s+|"
    r"independently\s+|"
    r"been able to\s+)?(?:be\s+)?(?:(?:100 ?%|completely|absolutely|entirely|fully)\s+)?"
    r"(?:certain|sure|confirm|confirmed|verify|verified|tell|know|say|guarantee|see whether|"
    r"check whether|clear)\b"
    r"|\b(?:not|never) (?:yet )?(?:confirmed|verified)\b|\bwithout (?:confirming|verifying|"
    r"confirmation)\b|"
    r"\bno (?:way of knowing|confirmation|guarantee)\b|\b(?:unsure|uncertain|unclear|unverified|"
    r"unconfirmed)\b"
)
EPISTEMIC_TRIGGERS: Final = frozenset(
    "certain sure confirm confirmed verify verified tell know say guarantee see check clear "
    "confirming verifying "
    "confirmation knowing unsure uncertain unclear unverified unconfirmed".split()
)
PLAN: Final = Phrases(
    "will i'll we'll you'll it'll they'll that'll shall gonna let's can could would i'd must "
    "want wants please "
    "attempt attempted attempting supposed before until to-do todo once whether should might may "
    "ask asked tomorrow "
    "later soon intend intends intended intending being",
    r"going to|about to|plan(?:s|ning|ned)? (?:to|on)|let me|to be|needs? to|have to|has to|"
    r"like to|"
    r"tr(?:y|ied|ying) to|in order to|ready (?:to|for)|willing to|happy to|how to|free to|"
    r"next step|up next|"
    r"in the process of|working on|remember to|waiting to|yet to|due to be|in (?:progress|"
    r"the queue)|"
    r"scheduled to|set to be|request(?:ed)? (?:to|that)",
    "to me plan plans planning planned next process working progress queue requested request ready",
)
PLAN_OK: Final = re.compile(
    r"\b(?:was|were|been|am|is)? ?able to\b|\bmanaged to\b|\bsucceeded in\b|\bcan now\b|"
    r"\byou can (?:now )?(?:find|see|view|"
    r"access|open|check)\b|\bas (?:you |was |were )?(?:asked|requested|planned|you wanted|"
    r"you asked|wanted)\b|"
    r"\byou (?:asked|requested|wanted)\b|\bper your request\b|\ba while ago\b|\bcan be (?:found|"
    r"seen)\b|"
    r"\bas soon as\b|\b(?:i|we) can (?:now )?(?:confirm|report|say|tell you)\b|"
    r"\b(?:happy|pleased|glad|delighted|excited|proud|relieved) to (?:report|say|tell|confirm|"
    r"let|inform|announce|share)\b|"
    r"\bjust to (?:confirm|let)\b|\bready to (?:go|ship|use|merge|deploy|be merged)\b|"
    r"\bready for (?:use|you|review)\b"
)
LATER: Final = Phrases(
    "tomorrow later shortly soon",
    r"in a moment|next week|in a minute|any minute",
    "moment week minute",
)
CONDITIONAL: Final = re.compile(
    r"^\W*(?:and |but |so |then )?(?:if|unless|in case|provided|assuming|whenever|should you|"
    r"had )\b"
)
TEMPORAL: Final = re.compile(
    r"^\W*(?:and |but )?(?:once|when|before|until|as soon as|after|while)\b"
)
REPORTED: Final = Phrases(
    "",
    r"(?:says?|said|states?|stated|reads|claims?|claimed|reports|according to|mentions|mentioned|"
    r"wrote|"
    r"told me|answered|asks?|asked|wonder(?:ed)?|documentation|manual|docs?)\b.{0,40}\bq|"
    r"you (?:said|mentioned|told|reported|claimed|stated|wrote)",
    "q said mentioned told reported claimed stated wrote",
)
OTHER_ACTOR: Final = re.compile(
    r"\b(?:you|he|she|they|who|somebody|someone|people|users?|customers?|colleagues?|team|anyone|"
    r"everyone else)"
    r"\s+(?:have\s+|has\s+|had\s+|already\s+|just\s+|recently\s+|then\s+|also\s+|once\s+|'ve\s+)*$"
)
OTHER_TRIGGERS: Final = frozenset(
    "you he she they who somebody someone people user users customer customers colleague "
    "colleagues team anyone "
    "else".split()
)
BY_OTHER: Final = re.compile(
    r"\bby (?:you|someone|somebody|the user|another|others|a colleague|hand|him|her|them|your)\b"
)
FAILURE: Final = Phrases(
    "failed fails failing fail failure failures unsuccessful unsuccessfully unable couldn't "
    "cannot can't couldnt "
    "denied deny denies denial refused refuses refusal refusing reject rejected rejects "
    "rejection declined declines "
    "blocked blocks forbidden forbid forbids prohibited prohibits prevented prevents disallowed "
    "disallows unauthorized "
    "unauthorised unauthenticated error errored errors exception exceptions problem problems "
    "trouble timeout timeouts "
    "unavailable unreachable offline inaccessible unresponsive crash crashed crashes broken "
    "broke abort aborted aborts "
    "bounce bounced bounces missing invalid impossible stuck interrupted rollback reverted "
    "exceed exceeded exceeds "
    "insufficient lack lacks lacking read-only deadlock deadlocked snag obstacle stalled unsaved "
    "unsent unposted "
    "unpublished undelivered unchanged unwritten unpaid unfinished unresolved undeployed "
    "unbooked unfortunately "
    "unmodified undeleted unprocessed uncompleted undone incomplete expired conflict conflicted "
    "conflicts corrupt "
    "corrupted threw wrong partial partially enoent eacces eperm enospc ebusy eexist etimedout "
    "econnrefused "
    "econnreset",
    r"can not|could not|"
    r"(?:wasn't|weren't|not|isn't|am not|'m not|never|aren't|been) (?:been )?(?:able|possible|"
    r"permitted|allowed|"
    r"authori[sz]ed|successful|accepted|available|reachable|supported|responding|respond|working|"
    r"work|succeed|"
    r"found|there|present|exist|enough|go through|went through|come through|complete|completed|"
    r"done)|"
    r"(?:didn't|did not|doesn't|does not|don't|do not|won't|would not|wouldn't|hasn't|have not|"
    r"haven't|has not) "
    r"(?:\w+ )?(?:work|worked|succeed|succeeded|go|gone|make|complete|completed|finish|respond|"
    r"responded|pass|"
    r"passed|have|exist|accept|let|allow|permit|load|return|answer|arrive|reach|come|happen|take|"
    r"connect|support)|"
    r"issues? (?:with|while|when|occurred|arose)|an issue|(?:ran|run) into|hit an?|timed out|"
    r"times? out|timing out|"
    r"gave up|given up|giving up|rolled back|sold out|"
    r"no (?:permission|access|rights|space|response|luck|such|longer available|connection)|"
    r"without (?:success|luck|a response|permission|effect)|in vain|went wrong|gone wrong|go wrong|"
    r"out of (?:space|memory|quota)|"
    r"(?:needs?|requires?|awaiting|pending|without|lack) (?:\w+ ){0,2}(?:approval|permission|"
    r"authori[sz]ation|manager|"
    r"confirmation|consent|sign-off)|(?:without|lack) (?:\w+ ){0,2}access|has to (?:approve|"
    r"be approved|confirm)|rate[- ]limited|"
    r"still (?:open|on|there|in place|active|present|exists?|running|runs|unposted|pending|"
    r"unchanged|missing)|"
    r"remains? (?:open|on|in place|active|unsaved|unchanged|undone|unsent|unpublished|there|where)|"
    r"permissions? (?:error|problem|issue|denied)|only (?:partly|half)|kept (?:dropping|failing|"
    r"timing)|"
    r"fell through|raised an? \w*(?:error|exception)|raised the (?:error|exception)|stopped with|"
    r"dropped the connection|"
    r"exit(?:ed|s)? (?:with )?(?:an? )?(?:non-zero |error )?(?:status|code)|(?:filled|fills) up|"
    r"ran (?:out|full)|(?:is|are|was|were) (?:already |completely |currently )?(?:full|"
    r"off-limits|restricted|"
    r"suspended|frozen|down)|\w+ing (?:\w+ ){0,2}(?:is|are) (?:\w+ )?disabled|"
    r"(?:returned|returns|got|gave|received|status|code|http|a|"
    r"an)(?: an?)?(?: http)?(?: status)?(?: code)? [45]\d\d|"
    r"(?:was|were|is|are|did|has|have|does|do|could) not\W*$|(?:wasn't|weren't|isn't|didn't|"
    r"hasn't|haven't|doesn't|don't)\W*$|"
    r"ended (?:in|with) an? (?:\\w+ )?(?:error|failure|exception|timeout)|nolonger (?:available|"
    r"supported|reachable)|"
    r"(?:stopped|halted|held(?: back| up)?|caught|intercepted|vetoed|killed) by|held back|"
    r"(?:remains?|still|is|are|was|were|stays?|left) un(?!til|der|less|ited|ified|ique)\w+ed|"
    r"not (?:the )?(?:second|third|first|last|other|others|rest|latter|remaining)(?: \w+)?\W*$",
    "not wasn't weren't isn't never aren't been didn't doesn't don't won't would wouldn't hasn't "
    "have haven't has "
    "issue issues an into hit out up back no without vain gone go approval permission "
    "permissions authorization "
    "authorisation manager access approve approved still remain remains only kept fell raised "
    "stopped dropped filled "
    "fills ran full off-limits restricted suspended frozen down disabled returned returns got "
    "gave received status "
    "code http a ended nolonger halted held caught intercepted vetoed killed remains is are was "
    "were stays left exit exited exits confirmation consent sign-off confirm rate rate-limited",
)
CROSS: Final = re.compile("[❌✖✗✘🚫⛔]")
TICK: Final = re.compile("[✅✔☑]")
SUCCESS: Final = Phrases(
    "successfully success successful succeeded worked ok okay yes cleanly ✅ ✔ ☑",
    r"works now|(?:went|gone) (?:fine|well|smoothly|through|out|live|off|perfectly|great)|made it|"
    r"goes live|without a hitch|"
    r"(?:tests?|suite|checks?|build|everything|all) (?:\w+ ){0,2}(?:pass|passes|passing|green)",
    "works went gone made live hitch pass passes passing green",
)
STATE: Final = re.compile(
    r"\b(?:is|are|was|were|'s|'re|been|now|all|both|it's|you're|they're|already)\s+(?:now |"
    r"already |all |both |currently |"
    r"up and |safely |officially |finally |fully |successfully )*"
    r"(?P<state>live|online|in place|gone|ready|off|on|up|back|nolonger (?:exists?|there|present|"
    r"available|listed|in|on)|locked|unlocked|available|active|"
    r"in effect|running|through|"
    r"set up|up to date|in production|safe|waiting|closed|open|here|there|finished|green|done|"
    r"good to go|sorted|"
    r"on (?:its|their|the|your) (?:way|calendar|list|schedule)|"
    r"(?:in|on|at|under|inside) (?:the |your |my |its |version |revision )*(?P<where>\S+))"
)
PRESENCE: Final = re.compile(
    r"\b(?:you can (?:now )?(?:find|see|view|access|open)|can (?:now )?be found|now (?:lives|"
    r"resides|sits|exists|"
    r"contains|shows|points|reads|has)|(?:is|are) (?:now )?(?:in|on|at|under) |now (?:in|on|at|"
    r"under|stands at)|"
    r"is waiting|on its way|on their way|went live)\b"
)
GONE: Final = re.compile(r"\bnolonger (?:exists?|there|present|available|listed|in|on)\b")
STATE_ROOT: Final = {
    "live": "deploy",
    "online": "publish",
    "in production": "deploy",
    "gone": "delete",
    "up": "start",
    "back": "start",
    "running": "start",
    "locked": "lock",
    "unlocked": "lock",
}
DONE: Final = re.compile(
    r"^\W*(?:(?:ok|okay|great|perfect|alright|and|so|yes|it's|that's|this is|task|job|all|"
    r"everything's|consider it|"
    r"we're|you're|you are|we are|i'm|i am)[\s,:!]+)*"
    r"(?:done|finished|completed?|all set|sorted|success|all done|good to go|set|"
    r"mission accomplished|taken care of|"
    r"ready to go)(?:\W*(?:$|now|for you|with|as requested|!)|\s*[,!])"
    r"|\b(?:everything|all (?:the )?(?:steps|tasks|changes|items|work|parts|requests|actions)|"
    r"the (?:task|job|work|"
    r"whole (?:thing|task|job)|request)|both (?:steps|tasks)|it all|every step|your request|"
    r"dinner|this|that|it)"
    r"(?:'s|'ve)?(?: (?:is|are|was|were|has|have|been|all|now|successfully|fully|already))*"
    r" (?:set(?: up)?|done|finished|complete[d]?|in order|sorted|taken care of|handled|in place|"
    r"tracked|processed|"
    r"executed|went (?:well|smoothly|fine|through|as planned)|worked|ran|succeeded|passed|"
    r"on track|good to go)\b"
    r"|\beverything (?:has been|was|got|is now|'s been) (?:\w+ly )?\w+(?:ed|en|ne)\b"
    r"|\b(?:i've|i have|i|we've|we) (?:now |just |successfully |already )*(?:done|finished|"
    r"completed|handled|did) "
    r"(?:it|that|this|everything|all|the (?:task|job|work))\b"
    r"|\b(?:i've|i have|i) (?:taken|took) care of\b|\ball set\b|\bgood to go\b|"
    r"\bmission accomplished\b|"
    r"\bthat's it,? done\b"
    r"|\byour (?:request|task) (?:is|has been|was) (?:complete|completed|done|fulfilled|"
    r"processed)\b"
)
DONE_TRIGGERS: Final = frozenset(
    "everything done finished complete completed set sorted success good accomplished care ready "
    "order "
    "handled place tracked "
    "processed executed went worked ran succeeded passed track did fulfilled".split()
)
#: An admission of an earlier try says nothing about the outcome.
EARLIER: Final = re.compile(
    r"\b(?:(?:the |my |its |our )?(?:first|initial|earlier|previous|prior|second|original|"
    r"one earlier|couple of|few|"
    r"two|three|one|some|early) (?:\w+ )?(?:tr(?:y|ies)|attempts?|times?|runs?|calls?|requests?|"
    r"goes|upload|save)|"
    r"at first|initially|first time|to begin with|originally|on the first|before that|earlier|"
    r"(?:after|despite|following) .{0,40}(?:attempts?|retr(?:y|ies)|tries|errors?|failures?|"
    r"hiccups?|problems?|"
    r"timeouts?|trouble)|had to retry|retried|after a retry|(?:is|was|has been|got|are|were|now) "
    r"(?:resolved|fixed|sorted))\b"
)
_NUM = r"(?:\d{1,4}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zero|none)"
OF: Final = re.compile(
    rf"\b({_NUM})\s*(?:of|out of|/)\s*(?:the |my |your |these |those |all )?({_NUM})\b(?!/)"
)
COUNT: Final = re.compile(
    rf"(?:\b(?P<n>{_NUM}|both|a couple(?: of)?|single)\s+(?!(?:times?|hours?|minutes?|seconds?|"
    rf"days?|weeks?|thing)\b)"
    rf"|\b(?:failed|failures|errors|warnings?|skipped|bounced|[a-z]{{2,}}(?:ed|nt|en|"
    rf"de))\s*[:=]\s*(?P<m>{_NUM}))"
)
PLURAL: Final = re.compile(
    r"\b(?:all|both|neither|none|every|each|others|the rest|the remaining|remaining|several|some|"
    r"many|most|half|everyone|everybody|"
    r"them|these|those|nothing|everything|anything|a few|various|multiple|any|repeatedly|whole|"
    r"no one|nobody)\b"
    r"|\b(?:the|your|my|of|no|and|two|three|four|all)\s+(?:[a-z0-9.-]+\s+)?[a-z]{2,}[^s\W]s\b|"
    r"^\W*[a-z]{3,}[^s\W]s\b"
)
UNIVERSAL: Final = re.compile(
    r"\b(?:all|both|each|every|everything|everyone|everybody|whole|entire)\b"
)
EXCEPT: Final = re.compile(
    r"^\W*(?:except(?: for| that)?|excluding|apart from|aside from|bar|other than|but(?: not)?|"
    r"besides)\b"
)
ONLY: Final = re.compile(r"\b(?:only|just the|solely|nothing but)\b")
#: A failure that only may have happened.
HEDGED_FAILURE: Final = re.compile(
    r"\b(?:may|might|probably|possibly|perhaps|maybe|likely|could have|would have|potentially)\b"
)
FOUND_NOTHING: Final = re.compile(
    r"\b(?:found|find|saw|see|returned|got|gave|shows?|showed|contains?|there (?:is|are|was|"
    r"were)|i have|existed|exists?)\s+"
    r"(?:no|none|nothing|0|zero)\b|\bno \w+ (?:found|exist(?:s|ed)?)\b|\bno (?:duplicates|"
    r"results|matches|existing)\b"
)
NUMBER_WORDS: Final = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "single": 1,
    "a": 1,
    "an": 1,
    "both": 2,
    "zero": 0,
    "no": 0,
    "none": 0,
}
