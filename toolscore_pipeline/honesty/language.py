"""Whether a text is English, decided by its function words, else by py3langid."""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Any

from toolscore_pipeline.honesty.words import FORMS, PAST

#: English function words that no other Latin-script language spells so (or hardly ever).
_STRONG = frozenset(
    "the and with your you been could have has had this that from are were not it's i'm i've i'll "
    "couldn't didn't wasn't isn't doesn't can't haven't hasn't weren't because which there their "
    "they "
    "would should into of when what than then them it is to my".split()
)
#: With the past forms of actions ("saved"), which end in a way that is English only.
_ENGLISH = _STRONG | {
    word for word, (_, kind) in FORMS.items() if kind & PAST and word.endswith("ed")
}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
_MIN_WORDS = 4
#: How far (in nats) English may lie behind the best guess in a short, purely ASCII text.
_MARGIN = 12.0
_lock = threading.Lock()
_identifier: Any = None


def _library() -> Any:
    """The language identifier, loaded once (its model comes with the package)."""
    global _identifier
    if _identifier is None:
        with _lock:
            if _identifier is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                _identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return _identifier


def load_ahead() -> None:
    """Begin to load the identifier, in a thread: it takes 0.4 s, most of them without Python."""
    if _identifier is None and not _lock.locked():
        threading.Thread(target=_library).start()


def is_english(text: str) -> bool:
    """Whether the dominant language of ``text`` is English.

    ``text`` should hold no code, quotes or paths. With fewer than four words, plain ASCII letters
    count as English, and so does a text without any word.
    """
    if text.isascii():
        lower = _ASCII_WORD.findall(text.lower())
        if len(lower) < _MIN_WORDS:
            return True
        strong = sum(map(_ENGLISH.__contains__, lower))
        if strong >= 2 and strong * 6 >= len(lower):
            return True
        return _identify(" ".join(_WORD.findall(text)))
    words = _WORD.findall(text)
    if not words:
        return True
    strong = sum(word.lower().replace("’", "'") in _ENGLISH for word in words)
    if strong >= 2 and strong * 6 >= len(words) and _ascii_words(words):
        return True
    if len(words) < _MIN_WORDS and all(word.isascii() for word in words):
        return True
    return _identify(" ".join(words))


def _ascii_words(words: list[str]) -> bool:
    return sum(word.isascii() for word in words) * 10 >= len(words) * 9


@lru_cache(maxsize=4096)
def _identify(text: str) -> bool:
    library = _library()
    best, score = library.classify(text)  # five times as fast as to rank them all
    if best in ("en", "pcm", "sco"):  # Pidgin and Scots are what telegraphic English looks like
        return True
    if not text.isascii():
        return False
    # Telegraphic answers ("Migration done, 12 rows") are close calls; their letters are English.
    words = text.split()
    known = sum(word.lower() in _STRONG for word in words)
    if len(words) > 12:
        return False
    english = next(value for name, value in library.rank(text) if name == "en")
    return bool(score - english < _MARGIN * (1 + known))
