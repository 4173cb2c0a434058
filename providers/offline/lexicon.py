"""Words of people mapped to concepts, per language, from a workflow's `vocabulary/<language>.toml`.

A concept is `group.name` ("verb.add", "noun.music", "quality.calm"). A phrase in the data is one or more
words; a word that ends in `*` stands for every word that begins so, and "nimm … raus" for both with other
words between them. Matching ignores case and diacritics,
takes the longest phrase, and forgives one wrong letter in words the vocabulary does not hold.
Every step is linear in the length of the text, so no input can make it slow.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

SPOKEN = (
    "english", "thai", "indonesian", "polish", "spanish",
    "portuguese", "vietnamese", "czech", "romanian", "chinese",
)  # fmt: skip
"""Languages that every workflow has a vocabulary file for; one may have more."""
MAX_TOKENS = 600
"""Tokens of a message that are read; what comes after is not understood, and the reply says so."""
_WIDE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_LETTERS = rf"[^\W\d_{_WIDE}]+"
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)*|[{_WIDE}]|{_LETTERS}(?:['’]{_LETTERS})*|\n|[^\w\s]")
SPELLED_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
"""How umlauts are typed where a keyboard has none."""
_PLAIN = str.maketrans({"ł": "l", "đ": "d", "ø": "o", "ß": "ss", "’": "'"})
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_MIN_STEM = 2
_MIN_TYPO = 5
MIN_SWAPPED = 4
"""Letters of a word in which two that were swapped are put right."""
_MAX_PHRASE = 24
_GAP = "…"
_ELIDED = re.compile(r"^(?:[ldjmtsnc]|qu)['’](?=[^\W\d_])")
"""French, where an article or a pronoun loses its vowel: "l'effet" is "effet"."""
_MAX_GAP = 14
"""Tokens that may stand between the two parts of a phrase with a gap."""
_TWO = 2


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, sign or quotation, and where it stands in the text it was read from."""

    word: str
    """Folded; a quotation is empty, a line break is a line break."""
    start: int
    end: int
    exact: str = ""
    """In lower case with its diacritics, which tell Vietnamese words apart."""
    quoted: bool = False
    """`start` to `end` is a person's literal wording."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A concept and the tokens `first` up to (not including) `last` that express it."""

    concept: str
    first: int
    last: int


@dataclass
class _Node:
    words: dict[str, "_Node"] = field(default_factory=dict)
    stems: dict[str, "_Node"] = field(default_factory=dict)
    concepts: list[str] = field(default_factory=list)


def fold(text: str) -> str:
    """Return `text` in lower case without diacritics; Thai and Chinese signs stay as they are."""
    lowered = text.casefold().translate(_PLAIN)
    if lowered.isascii():
        return lowered
    parts = unicodedata.normalize("NFD", lowered)
    return "".join(char for char in parts if not "\u0300" <= char <= "\u036f")


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation in a text: `start` to `end` with its marks, `first` to `last` without."""

    start: int
    end: int
    first: int
    last: int


def tokens(text: str, quotes: Sequence[Quote] = ()) -> tuple[Token, ...]:
    """Return the tokens of `text`, at most `MAX_TOKENS`; each of `quotes`, in order, is one token."""
    result: list[Token] = []
    at = 0
    stop = Quote(len(text), len(text), 0, 0)
    for quote in (*quotes, stop):
        for match in _TOKEN.finditer(text, at, quote.start):
            if len(result) >= MAX_TOKENS:
                return tuple(result)
            word = match.group()
            result.append(Token(fold(word), match.start(), match.end(), word.casefold()))
        if quote is not stop:
            result.append(Token("", quote.first, quote.last, quoted=True))
        at = quote.end
    return tuple(result[:MAX_TOKENS])


class Lexicon:
    """The phrases of one language."""

    def __init__(
        self,
        entries: Iterable[tuple[str, str]],
        borrowed: Iterable[tuple[str, str]] = (),
        *,
        exact: bool = False,
        elided: bool = False,
    ) -> None:
        self._exact = exact
        self._elided = elided
        self._root = _Node()
        self._words: set[str] = set()
        self._stems: set[str] = set()
        self._near: dict[str, list[str]] = {}
        self._around: dict[str, list[tuple[list[str], list[str], str]]] = {}
        """Phrases with a gap by their first word: what stands before it, behind it, and the concept."""
        for concept, phrase in entries:
            self._add(concept, phrase)
        self._index_typos()
        # A word of another language is no misspelling of one: "gente" is not "gentle".
        for concept, phrase in borrowed:
            self._add(concept, phrase)

    def _add(self, concept: str, phrase: str) -> None:
        if _GAP in phrase:
            begin, end = (self._phrase_words(part) for part in phrase.split(_GAP))
            self._words.update(begin, end)
            self._around.setdefault(begin[0], []).append((begin, end, concept))
            return
        node = self._root
        for word in self._phrase_words(phrase):
            stem = word.endswith("*")
            key = word.rstrip("*")
            (self._stems if stem else self._words).add(key)
            node = (node.stems if stem else node.words).setdefault(key, _Node())
        # Words that only must not be taken for a misspelling carry no meaning.
        if concept != "skip.known" and concept not in node.concepts:
            node.concepts.append(concept)

    def _phrase_words(self, phrase: str) -> list[str]:
        return [self._bare(word) for word in _phrase_words(phrase, exact=self._exact)]

    def _index_typos(self) -> None:
        for word in self._words:
            if len(word) >= MIN_SWAPPED and word.isalpha():
                for key in {word, *_deletions(word)}:
                    self._near.setdefault(key, []).append(word)

    def knows(self, word: str) -> bool:
        """Return whether `word` (folded) occurs in a phrase as it stands."""
        bare = self._bare(word)
        return bare in self._words or any(bare[:n] in self._stems for n in range(_MIN_STEM, len(bare) + 1))

    def _bare(self, word: str) -> str:
        return _ELIDED.sub("", word) if self._elided else word

    def spelled(self, word: str) -> str:
        """Return the vocabulary's word that `word` misspells by one letter, else `word`."""
        if not MIN_SWAPPED <= len(word) <= _MAX_PHRASE or not word.isalpha() or self.knows(word):
            return word
        keys = (word, *_deletions(word))
        found = (near for key in keys for near in self._near.get(key, ()) if _one_slip(word, near))
        return next(found, word)

    def marks(self, spoken: Sequence[Token]) -> tuple[Mark, ...]:
        """Return the concepts in `spoken`, longest phrase first at each place, in order."""
        heard = (token.exact if self._exact else token.word for token in spoken)
        words = [
            "" if token.quoted else self.spelled(self._bare(word))
            for token, word in zip(spoken, heard, strict=True)
        ]
        result: list[Mark] = []
        at = 0
        while at < len(words):
            concepts, last = self._longest(words, at)
            result.extend(Mark(concept, at, last) for concept in concepts)
            at = last
        return self._with_gaps(result, words) if self._around else tuple(result)

    def _with_gaps(self, marks: Sequence[Mark], words: Sequence[str]) -> tuple[Mark, ...]:
        """Return the marks with those of phrases around others in place of what their parts mean alone."""
        found: list[Mark] = []
        for at, word in enumerate(words):
            reach = range(at + 1, min(at + _MAX_GAP, len(words)))
            stop = next((place for place in reach if words[place] in self._around), reach.stop)
            hits = [
                (place, -len(end), place + len(end), at + len(begin), concept)
                for begin, end, concept in self._around.get(word, ())
                for place in range(at + len(begin), stop)
                if [*words[at : at + len(begin)], *words[place : place + len(end)]] == [*begin, *end]
            ]
            if hits:
                place, _, last, behind, concept = min(hits)
                found += [Mark(concept, at, behind), Mark(concept, place, last)]
        taken = {place for mark in found for place in range(mark.first, mark.last)}
        kept = [mark for mark in marks if taken.isdisjoint(range(mark.first, mark.last))]
        return tuple(sorted([*kept, *found], key=lambda mark: mark.first))

    def _longest(self, words: Sequence[str], at: int) -> tuple[Sequence[str], int]:
        best: tuple[Sequence[str], int] = ((), at + 1)
        open_nodes = [self._root]
        for place in range(at, min(at + _MAX_PHRASE, len(words))):
            open_nodes = [after for node in open_nodes for after in _steps(node, words[place])]
            if not open_nodes:
                break
            concepts = tuple(dict.fromkeys(concept for node in open_nodes for concept in node.concepts))
            if concepts:
                best = (concepts, place + 1)
        return best


def _steps(node: _Node, word: str) -> Iterator[_Node]:
    exact = node.words.get(word)
    if exact is not None:
        yield exact
    if node.stems and word:
        for n in range(min(len(word), _MAX_PHRASE), _MIN_STEM - 1, -1):
            stem = node.stems.get(word[:n])
            if stem is not None:
                yield stem
                return


def _phrase_words(phrase: str, *, exact: bool) -> list[str]:
    result: list[str] = []
    for part in phrase.split():
        spoken = [match.group() for match in _TOKEN.finditer(part.rstrip("*"))]
        words = [word.casefold() if exact else fold(word) for word in spoken]
        if part.endswith("*") and words:
            words[-1] += "*"
        result += words
    return result


def _deletions(word: str) -> list[str]:
    return [word[:i] + word[i + 1 :] for i in range(len(word))]


def _one_slip(typed: str, meant: str) -> bool:
    """Whether `typed` is `meant` with two letters swapped, one left out, added or hit next door."""
    if len(typed) == len(meant):
        wrong = [i for i in range(len(typed)) if typed[i] != meant[i]]
        if len(wrong) == 1:
            return len(meant) >= _MIN_TYPO and _beside(typed[wrong[0]], meant[wrong[0]])
        swapped = len(wrong) == _TWO and wrong[1] == wrong[0] + 1
        return swapped and typed[wrong[0]] + typed[wrong[1]] == meant[wrong[1]] + meant[wrong[0]]
    longer, shorter = (typed, meant) if len(typed) > len(meant) else (meant, typed)
    return len(meant) >= _MIN_TYPO and typed[0] == meant[0] and shorter in _deletions(longer)


def _beside(one: str, other: str) -> bool:
    for row, letters in enumerate(_ROWS):
        if one in letters:
            reach = slice(max(0, letters.index(one) - 1), letters.index(one) + 2)
            return any(other in line[reach] for line in _ROWS[max(0, row - 1) : row + 2])
    return False


@cache
def entries(workflow: str, language: str) -> tuple[tuple[str, str], ...]:
    """Return (concept, phrase) for every phrase of a workflow's vocabulary in one language."""
    folder = files(f"providers.offline.{workflow}").joinpath("vocabulary")
    text = folder.joinpath(f"{language}.toml").read_text("utf-8")
    return tuple(
        (f"{group}.{name}", spelling)
        for group, names in tomllib.loads(text).items()
        for name, phrases in names.items()
        for phrase in phrases
        for spelling in dict.fromkeys((phrase, phrase.translate(SPELLED_OUT)))
    )
