"""Which of the languages with a vocabulary a message is written in."""

import re
import unicodedata
from functools import lru_cache

from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.lexicon import own_words
from providers.offline.ad_creation.tongue import spoken
from providers.offline.lexicon import tokens

_SAMPLE_TOKENS = 80
_SCRIPTS = (("thai", re.compile(r"[\u0e00-\u0e7f]")), ("chinese", re.compile(r"[\u3400-\u9fff]")))
_HINT = 0.9
"""What the small words and letters of a language count, beside one for every word its vocabulary holds."""
_LETTERS = {
    "polish": "ąęłśźżćń",
    "czech": "ěřůďťň",
    "romanian": "ăâîșțşţ",
    "vietnamese": "đơưạảấầẩậắằẳặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "spanish": "ñ¿¡",
    "portuguese": "ãõç",
    "german": "äöüß",
    "french": "œêèîû",
}


@lru_cache(maxsize=1024)
def language_of(message: str, before: str = "english", ad: str = "") -> str:
    """Return the language of `message`; where its words do not tell, the one of the message before.

    Between languages that it may be in alike, the message before decides, then the language of the `ad`.
    """
    text = unicodedata.normalize("NFC", message)
    for name, script in _SCRIPTS:
        if script.search(text) and not _mostly_quoted(text, script):
            return name
    words = [token.word for token in tokens(text)[:_SAMPLE_TOKENS] if token.word.isalpha()]
    hint = spoken(text)
    low = text.lower()
    scores = {name: _score(name, words, hint, low) for name in WRITTEN if name not in {"thai", "chinese"}}
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return before
    tied = [name for name, score in scores.items() if score == best]
    return next((name for name in (before, ad) if name in tied), tied[0])


def _score(name: str, words: list[str], hint: str | None, low: str) -> float:
    lexicon = own_words(name)
    known = sum(lexicon.knows(word) for word in words)
    return (
        known
        + (_HINT if hint == name else 0.0)
        + (_HINT if any(char in low for char in _LETTERS.get(name, "")) else 0.0)
    )


def _mostly_quoted(text: str, script: re.Pattern[str]) -> bool:
    """Whether the script is only that of a few words among Latin ones: "say 'สวัสดี' at the start"."""
    letters = [char for char in text if char.isalpha() and char.isascii()]
    return len(letters) > 2 * len(script.findall(text))
