"""Words that mean something to the rules, from the data files beside this one.

A cue is a phrase in any language, matched word by word. A word that ends in `*` may go on (inflection), one
that begins with it may end a longer word (German compounds); umlauts may be spelled with an "e".
Hyphens count as spaces. Cues in scripts without spaces match anywhere.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from providers.offline.lexicon import SPELLED_OUT

_HERE = Path(__file__).parent
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"(?:(?![\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff])[^\W_])+(?:'[^\W_]+)*|[:,+&/%@：]")
_CUE_WORD = re.compile(r"\*?[^\W_]+(?:'[^\W_]+)*\*?|[:,+&/%@：]")
_LATIN = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
CAPITAL = "A-Z" + "".join(chr(code) for code in _LATIN if chr(code).isupper())
"""Latin capitals, for a character class of a pattern."""
DATED = (
    r"(?i:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|ledna|února|března|dubna|května|června|července|srpna|září|října|listopadu|prosince)\b"
)
"""A German or Czech month after "31.", which ends no sentence."""
GOES_ON = (
    r"(?:(?:dass|weil|damit|wenn|wo|denn|um|aber|sondern|und)\s"
    r"|(?:die|der|das|dem|den|deren|denen|dessen|was|wer)\s(?:[^,.!?\n]{1,80}\s)?"
    r"(?:[a-zäöüß]+(?:t|n)|mag|muss|will|kann|war|tue)(?=\s*(?:[,.!?\n]|$)))"
)
"""A German clause that leans on the one before its comma."""
GOOD_TO_KNOW = "Gut zu wissen, "
"""Before a German "dass …", whose verb stands last."""
_ELIDED = re.compile(r"(?:[ldjn]|qu)'(?=[^\W\d_]{2})")
_COMPOUND = 2
"""Letters of a compound, at least, before its last part."""
_BRACKETS = re.compile(r"[{}\[\]<>\\|^~]")
_UNSAID = {"Cc", "Cf", "Cs", "Co", "Cn", "So", "Sk"}
"""Unicode categories nobody can say: controls, bidirectional marks, surrogates, pictures."""


@cache
def data(name: str) -> Mapping[str, Any]:
    """Return the parsed TOML data file `name` ("tones", "phrasebooks/thai")."""
    with (_HERE / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def clean(text: str) -> str:
    """Return `text` in NFC without what cannot be said: controls, direction marks, pictures."""
    normal = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\t", " "))
    kept = "".join(
        char if char == "\n" or unicodedata.category(char) not in _UNSAID else " " for char in normal
    )
    return re.sub(r" {2,}", " ", _BRACKETS.sub("", kept)).strip()


def folded(text: str) -> str:
    """Return `text` for matching: lower case and straight apostrophes, character for character."""
    lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    return lower.replace("’", "'").replace("`", "'")


@dataclass(frozen=True)
class Mention:
    """Where a text speaks of a concept."""

    start: int
    end: int
    concept: str


@cache
def small_words(key: str) -> frozenset[str]:
    """Return one set of words the rules look past."""
    return frozenset(data("cues/small_words")[key])


class Lexicon:
    """Cues of many concepts, found in one walk over a text, however many cues there are."""

    def __init__(self, cues: Mapping[str, Iterable[str]]) -> None:
        self._exact: dict[str, list[tuple[list[str], str]]] = {}
        self._stems: dict[str, list[tuple[list[str], str]]] = {}
        self._ends: dict[str, list[tuple[list[str], str]]] = {}
        self._unspaced: dict[str, list[tuple[str, str]]] = {}
        for concept, phrases in cues.items():
            for phrase in phrases:
                for spelling in dict.fromkeys((folded(phrase), folded(phrase).translate(SPELLED_OUT))):
                    self._add(spelling, concept)

    def _add(self, phrase: str, concept: str) -> None:
        if _UNSPACED.search(phrase):
            bare = phrase.replace("*", "")
            self._unspaced.setdefault(bare[0], []).append((bare, concept))
            return
        head, *rest = [_ELIDED.sub("", word) for word in _CUE_WORD.findall(phrase)]
        table = self._ends if head[0] == "*" else self._stems if head.endswith("*") else self._exact
        table.setdefault(head.strip("*"), []).append((rest, concept))

    def mentions(self, text: str) -> list[Mention]:
        """Return every mention in `text`, in order; where two begin together the longer comes first."""
        low = folded(text)
        words = [_unelided(match) for match in _WORD.finditer(low)]
        hits = [hit for index in range(len(words)) for hit in self._at(words, index)]
        hits += [
            Mention(position, position + len(phrase), concept)
            for position, char in enumerate(low)
            for phrase, concept in self._unspaced.get(char, ())
            if low.startswith(phrase, position)
        ]
        return sorted(hits, key=lambda hit: (hit.start, -hit.end))

    def _at(self, words: Sequence[tuple[str, int, int]], index: int) -> Iterator[Mention]:
        word, start, _ = words[index]
        entries = list(self._exact.get(word, ()))
        for length in range(2, len(word) + 1):
            entries += self._stems.get(word[:length], ())
        for begin in range(_COMPOUND, len(word) - 1):
            entries += self._ends.get(word[begin:], ())
        for rest, concept in entries:
            following = words[index + 1 : index + 1 + len(rest)]
            if len(following) == len(rest) and all(map(_same, rest, (after for after, _, _ in following))):
                yield Mention(start, words[index + len(rest)][2], concept)


def _unelided(match: re.Match[str]) -> tuple[str, int, int]:
    """Return a word and where it stands, without a French article that lost its vowel ("l'école")."""
    elided = _ELIDED.match(match.group())
    begin = elided.end() if elided else 0
    return match.group()[begin:], match.start() + begin, match.end()


def _same(cue: str, word: str) -> bool:
    return word.startswith(cue[:-1]) if cue.endswith("*") else word == cue


@cache
def lexicon(name: str) -> Lexicon:
    """Return the lexicon of data file `name`: its entries `concept = ["cue", …]`."""
    return Lexicon({key: cues for key, cues in data(name).items() if isinstance(cues, list)})


@lru_cache(maxsize=1024)
def mentions(name: str, text: str) -> tuple[Mention, ...]:
    """Return every mention in `text` of a concept of data file `name`, in order."""
    return tuple(lexicon(name).mentions(text))


def mention(name: str, concept: str, text: str) -> Mention | None:
    """Return the first mention of one concept, or None."""
    return next((hit for hit in mentions(name, text) if hit.concept == concept), None)


def has(name: str, concept: str, text: str) -> bool:
    """Whether `text` speaks of one concept of data file `name`."""
    return mention(name, concept, text) is not None


def found(name: str, text: str) -> list[str]:
    """Return the concepts of data file `name` that `text` speaks of, in the order of their first mention."""
    return list(dict.fromkeys(hit.concept for hit in mentions(name, text)))
