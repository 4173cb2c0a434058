"""Which language a text is written in, by its script, its small words and its letters."""

import re
from collections import Counter
from functools import cache

from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.wording import data, folded

_SAMPLE_CHARS = 2000
"""How much of a long text is looked at."""
_SCRIPTS = (
    ("japanese", re.compile(r"[\u3040-\u30ff]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
    ("chinese", re.compile(r"[\u3400-\u9fff]")),
    ("korean", re.compile(r"[\uac00-\ud7af]")),
    ("ukrainian", re.compile(r"[іїєґ]")),
    ("russian", re.compile(r"[\u0400-\u04ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
    ("hindi", re.compile(r"[\u0900-\u097f]")),
)
_SCRIPT_SHARE = 0.25
"""Share of the letters that settles it; a wide script needs fewer letters than the brand names within it."""
_LETTER_SCORE = 1.5
_SINGLE_SCORE = 0.4
"""What a word of one letter counts; many languages share those."""
_ENOUGH = 1.0
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def spoken(text: str) -> str | None:
    """Return the language of `text` by its English name, or None when too little speaks for any.

    "english" needs English words: a bare name such as "Zen" is None.
    """
    low = folded(text[:_SAMPLE_CHARS])
    letters = sum(char.isalpha() for char in low)
    if not letters:
        return None
    for name, script in _SCRIPTS:
        if len(script.findall(low)) / letters >= _SCRIPT_SHARE:
            return name
    return _latin(low)


def _latin(low: str) -> str | None:
    words, letters = Counter(_WORD.findall(low)), Counter(low)
    scores: dict[str, float] = {}
    for name, (small, marks) in _profiles().items():
        said = sum(min(words[word], 3) * (1 if len(word) > 1 else _SINGLE_SCORE) for word in small)
        score = said + _LETTER_SCORE * sum(min(letters[mark], 2) for mark in marks)
        if score >= _ENOUGH:
            scores[name] = score
    if not scores:
        return None
    return max(scores, key=lambda name: scores[name])


@cache
def _profiles() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    return {
        name: (frozenset(entry["words"]) | _trades().get(name, frozenset()), frozenset(entry["letters"]))
        for name, entry in data("cues/tongues").items()
    }


@cache
def _trades() -> dict[str, frozenset[str]]:
    """Return the names of trades that only one language has ("kawiarnia"), by language."""
    spoken_by: dict[str, set[str]] = {}
    for entry in data("cues/kinds").values():
        for name, noun in zip(WRITTEN, entry["nouns"], strict=True):
            for word in _WORD.findall(folded(noun)):
                spoken_by.setdefault(word, set()).add(name)
    return {
        name: frozenset(word for word, names in spoken_by.items() if names == {name} and len(word) > _TELLING)
        for name in WRITTEN
    }


_TELLING = 4
