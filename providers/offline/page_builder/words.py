"""The words of a message: what they mean in its language, and what is a person's literal wording."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from providers.offline.lexicon import SPOKEN, Lexicon, Quote, entries, tokens
from state.colours import NAMES
from state.languages import detected

_HERE: Final = "page_builder"
_THAI: Final = re.compile(r"[\u0e00-\u0e7f]")
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
# What may be an address is looked at from its first character only, or long runs would take the square.
_LITERAL: Final = re.compile(
    r"“(?P<a>[^“”\n]{1,2000})[”“\"]|„(?P<b>[^„”“\"\n]{1,2000})[”“\"]|«(?P<c>[^«»\n]{1,2000})»|「(?P<d>[^「」\n]{1,2000})」"
    r"|\"(?P<e>[^\"\n]{1,2000})\"|(?<!\w)['‘](?P<f>[^\n]{1,400}?)['’](?!\w)"
    r"|(?P<g>https?://[^\s,;]+[^\s,;.!?])|(?<![\w.+-])(?P<h>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<i>#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})\b)|(?P<j>\b(?:rgb|hsl)a?\([^()]{5,40}\))"
)
_COLON: Final = re.compile(r"(?<!https)(?<!http)[:：]\s+(?P<rest>\S[^\n]*)$", re.MULTILINE)
_GIVES_WORDS: Final = ("verb.say", "verb.add", "verb.replace", "verb.change", "verb.put")
_HAS_WORDS: Final = frozenset({"kind.button", "kind.title", "kind.heading", "kind.link"})
"""Things after whose bare name and a colon comes what they are to say."""
_BESIDE: Final = ("small.", "kind.text", "prop.label", "nth.", "new.", "link.of")
_SHORT_ENDS: Final = re.compile(r"[.\s]+$")
_SHARED: Final = frozenset({"kind", "colour", "theme", "prop", "kit"})
"""Groups whose English words people use in other languages too."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A word, a phrase with a meaning, a sign, or literal wording; and where it stands in the message."""

    text: str
    """As it was written."""
    start: int
    end: int
    concepts: frozenset[str] = frozenset()
    quoted: bool = False

    def means(self, *names: str) -> bool:
        """Return whether it has one of these meanings; `verb.` stands for all that begin so."""
        return any(
            one == name or (name.endswith(".") and one.startswith(name))
            for one in self.concepts
            for name in names
        )

    @property
    def wording(self) -> bool:
        """Whether it is literal wording, and no colour or address."""
        return self.quoted and not self.text.startswith(("#", "rgb", "hsl", "http"))

    def names(self, group: str) -> list[str]:
        """Return the names of its meanings in a group."""
        return sorted(one.partition(".")[2] for one in self.concepts if one.startswith(f"{group}."))


def language_of(message: str, where: str = _HERE) -> str:
    """Return the language whose words, of the vocabulary of `where`, a message has most of; else English."""
    return _heard(message, (where,)) or "english"


def spoken(message: str) -> str | None:
    """Return the language a person is to be answered in; None where their message does not tell.

    Who writes in a language that is not listed is answered in English.
    """
    own = detected(_bare(message))
    return "english" if own and own not in SPOKEN else _heard(message, (_HERE, f"{_HERE}.briefs"))


def _bare(message: str) -> str:
    return _LITERAL.sub(" ", unicodedata.normalize("NFC", message))


def _heard(message: str, where: Sequence[str]) -> str | None:
    """Return the language most of whose words, of these vocabularies, are in a message; None without any."""
    bare = _bare(message)
    for name, script in (("thai", _THAI), ("chinese", _HAN)):
        if script.search(bare):
            return name
    heard = [token.word for token in tokens(bare) if token.word.isalpha()]
    latin = [name for name in SPOKEN if name not in {"thai", "chinese"}]
    scores = {
        name: sum(any(_own(name, one).knows(word) for one in where) for word in heard) for name in latin
    }
    best = max(scores, key=lambda name: (scores[name], name == "english"))
    return best if scores[best] else None


def pieces(message: str, language: str, *, kits: bool = False) -> list[Piece]:
    """Return the pieces of a message; `kits` reads "contact form" as one thing to add."""
    lexicon = _lexicon(language, kits=kits, exact=needs_accents(message, language))
    return marked(message, _literals(message, language), lexicon)


def needs_accents(message: str, language: str) -> bool:
    """Return whether words are told apart by their accents; who writes without any is understood, too."""
    return language == "vietnamese" and not message.isascii()


def quotations(message: str) -> list[Quote]:
    """Return what is quoted in a message, addresses, and colours in figures."""
    return [_quote(match) for match in _LITERAL.finditer(message)]


def marked(message: str, literals: Sequence[Quote], lexicon: Lexicon) -> list[Piece]:
    """Return the pieces of a message with the meanings `lexicon` gives them."""
    spoken = tokens(message, literals)
    ends: dict[int, int] = {}
    meanings: dict[int, set[str]] = {}
    for mark in lexicon.marks(spoken):
        ends[mark.first] = mark.last
        meanings.setdefault(mark.first, set()).add(mark.concept)
    found: list[Piece] = []
    at = 0
    while at < len(spoken):
        last = ends.get(at, at + 1)
        first, final = spoken[at], spoken[last - 1]
        concepts = frozenset(meanings.get(at, ()))
        found.append(Piece(message[first.start : final.end], first.start, final.end, concepts, first.quoted))
        at = last
    return found


def _literals(message: str, language: str) -> list[Quote]:
    """What people want word for word: quotations, addresses, colours in figures, what follows a colon."""
    quotes = quotations(message)
    for match in _COLON.finditer(message):
        inside = any(quote.start <= match.start() < quote.end for quote in quotes)
        if not inside and _gives_words(message[: match.start()], match["rest"], language):
            kept = [quote for quote in quotes if quote.end <= match.start()]
            end = match.end("rest")
            words = [quote for quote in quotes if quote.start == match.start("rest") and quote.end == end]
            return [*kept, *(words or [Quote(match.start(), end, match.start("rest"), end)])]
    return quotes


def _gives_words(lead: str, rest: str, language: str) -> bool:
    """Whether what follows a colon is wording, not a further order."""
    lexicon = _lexicon(language, kits=False, exact=False)
    asked = {mark.concept for mark in lexicon.marks(tokens(lead))}
    told = {mark.concept for mark in lexicon.marks(tokens(rest)[:2])}
    orders = any(one.startswith("verb.") for one in told) or any(one.startswith("colour.") for one in told)
    named = bool(asked & _HAS_WORDS) and all(one in _HAS_WORDS or one.startswith(_BESIDE) for one in asked)
    return (bool(asked & {*_GIVES_WORDS}) or named) and not orders and not rest.startswith("#")


def _quote(match: re.Match[str]) -> Quote:
    name = next(name for name in "abcdefghij" if match[name] is not None)
    return Quote(match.start(), match.end(), match.start(name), match.end(name))


@cache
def _lexicon(language: str, *, kits: bool, exact: bool) -> Lexicon:
    own = _entries(language)
    borrowed = () if language == "english" else (one for one in _entries("english") if _borrowed(one))
    every = (*own, *borrowed, *_colours())
    return Lexicon((one for one in every if kits or not one[0].startswith("kit.")), exact=exact)


@cache
def _own(language: str, where: str) -> Lexicon:
    return Lexicon(entries(where, language))


def _entries(language: str) -> tuple[tuple[str, str], ...]:
    return entries(_HERE, language)


def _borrowed(entry: tuple[str, str]) -> bool:
    return entry[0].partition(".")[0] in _SHARED and len(entry[1]) > 3  # noqa: PLR2004 -- shorter ones are other words elsewhere


def _colours() -> Iterable[tuple[str, str]]:
    return ((f"colour.{name}", name) for name in NAMES)


def stems(text: str) -> frozenset[str]:
    """Return the words of a text without their endings, folded; signs of Thai and Chinese one by one."""
    return frozenset(stem(token.word) for token in tokens(text) if token.word and token.word[0].isalnum())


def stem(word: str) -> str:
    """Return a word without an English ending: pricing, prices and price are one."""
    for ending in ("ings", "ing", "ies", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 -- what is left must still be a word
            return word[: -len(ending)]
    return word


def tidy(text: str) -> str:
    """Return wording without the spaces and the full stop around it."""
    return _SHORT_ENDS.sub("", text.strip(" \t,"))


def runs(items: Sequence[Piece], *names: str) -> Iterator[tuple[int, Piece]]:
    """Yield the pieces with one of these meanings, each with its place."""
    return ((place, one) for place, one in enumerate(items) if one.means(*names))
