"""Names: the words of a text whose capital letter shows one, and forms of the same name."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import Final

WORD: Final = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff])++(?:['’](?:[^\W\d_]|[\u0900-\u0dff])++)*")
_STARTERS: Final = frozenset('.!?…:;—–"“”„«»()[]¿¡•|\n。！？')
"""Signs after which a capital letter may only begin a sentence, a title or a quotation."""
_COMMON_TEXT: Final = """
a about after all also an and any are as at be because been before being but by can could dear did do does
each even ever every for from get had has have he her here him his how i if in into is it its just know
let like look made make many may me more most much must my no not now of off oh ok on one only or other
our out over own said say see she should so some such than that the their them then there these they
this those through to too two under up us use used very was way we well were what when where which while
who whose why will with would yes yet you your mom mum dad tv mr mrs ms
"""
COMMON: Final = frozenset(_COMMON_TEXT.split())
"""English words that prove nothing, and that capitals do not make a name."""
_OPENERS_TEXT: Final = """
air anybody anyone anything below blood both enough everybody everyone everything few fire food half heat
inside last least less light little most mother nature nearby never next nobody none nothing once others
outside part people perhaps rain several somebody someone something soon still today tomorrow tonight twice
water yesterday
"""
_NO_NAMES: Final = COMMON | frozenset(_OPENERS_TEXT.split())
"""These, and words that often begin a sentence before its verb."""
_VERBS_TEXT: Final = """
became began brought built came could did does fought found gave got grew had has invented kept knew led made
might ran said saw sent spoke stood told took thought was went won would wrote
"""
_VERBS: Final = frozenset(_VERBS_TEXT.split())
COMPARING: Final = frozenset({"like", "imagine", "picture", "pretend"})
"""English words before what is only compared or imagined."""
_IMAGINE: Final = COMPARING - {"like"}
_LIKE: Final = {
    "english": frozenset({"like", "dear", "hello", "hi", "hey", "welcome"}),
    "french": frozenset({"comme"}),
    "spanish": frozenset({"como"}),
    "portuguese": frozenset({"como"}),
    "italian": frozenset({"come"}),
    "dutch": frozenset({"zoals"}),
    "polish": frozenset({"jak"}),
    "russian": frozenset({"как"}),
}
"""Words before a name that is compared or greeted."""
_CAPITALISED_NOUNS: Final = frozenset({"german"})
"""Languages whose capital letters show no names."""
MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
WEEKDAYS: Final = frozenset(
    {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"},
)
_NATIONS_TEXT: Final = """
danes:denmark danish:denmark dutch:netherlands french:france irish:ireland scots:scotland scottish:scotland
swiss:switzerland welsh:wales
"""
_NATIONS: Final = dict(pair.split(":") for pair in _NATIONS_TEXT.split())
"""Nationalities whose beginning is not that of their country."""
_NATIONALITIES: Final = ("ish", "an", "on", "ese", "ic")
"""Endings of nationalities, without that of the plural."""
_PLURAL: Final = re.compile(r"[^aiuos]s$")
_MIN_PREFIX: Final = 4
_MIN_NATION: Final = 3
_LONGEST_ENDING: Final = 3


@dataclass(frozen=True)
class _Capital:
    """A word with a capital letter."""

    word: str
    """Without a possessive ending."""
    starts: bool
    """True if it may only begin something."""
    subject: bool
    """True if a verb, or what it owns, follows."""


def names(text: str, language: str = "english") -> list[str]:
    """Return the words whose capital letter shows a name: not those that may only begin a sentence.

    Nor those that are compared or greeted: "like Messi", "dear Explorer". Empty for scripts without capital
    letters, and for German, where every noun has one.
    """
    return list(dict.fromkeys(one.word for one in _capitals(text, language) if not one.starts))


def first_names(text: str) -> list[str]:
    """Return the words that begin an English sentence and may be names: subjects that are no usual openers.

    A plural is none, so "Flames leaped" has no name, and neither has "Slowly".
    """
    return [
        one.word
        for one in _capitals(text, "english")
        if one.starts
        and one.subject
        and not one.word.endswith(("ly", "ing"))
        and not _PLURAL.search(one.word)
    ]


def folded_name(word: str) -> str:
    """Return a word in lower case, without accents and a possessive ending."""
    letters = unicodedata.normalize("NFKD", without_possessive(word)).casefold()
    return "".join(char for char in letters if not unicodedata.combining(char))


@dataclass(frozen=True)
class Vocabulary:
    """The words of a text, folded."""

    words: frozenset[str]
    capitalised: frozenset[str]
    beginnings: Mapping[str, tuple[str, ...]]
    """The words by their first letters."""
    nations: frozenset[str]

    def has_name(self, word: str, language: str) -> bool:
        """Return whether a folded name, or a form of it, is among the words."""
        if word in self.words or _NATIONS.get(word) in self.nations or word in self.nations:
            return True
        return any(
            _is_same(word, other, language)
            or (language == "english" and other in self.capitalised and _is_nationality(word, other))
            for other in self.beginnings.get(word[:_MIN_NATION], ())
        )


@lru_cache(maxsize=64)
def vocabulary(text: str) -> Vocabulary:
    """Return the words of a text."""
    spellings = set(WORD.findall(unicodedata.normalize("NFKC", text)))
    words = frozenset(map(folded_name, spellings))
    capitalised = frozenset(folded_name(word) for word in spellings if word[0].isupper())
    beginnings: dict[str, tuple[str, ...]] = {
        start: tuple(group) for start, group in groupby(sorted(words), key=lambda word: word[:_MIN_NATION])
    }
    return Vocabulary(
        words, capitalised, beginnings, frozenset(_NATIONS.get(word, word) for word in capitalised)
    )


def _is_same(word: str, other: str, language: str) -> bool:
    """Return whether two words may be forms of one name: Earth and Earthly, Europe and European."""
    size = min(len(word), len(other))
    if size < _MIN_PREFIX or abs(len(word) - len(other)) > _LONGEST_ENDING:
        return False
    needed = max(_MIN_PREFIX, size - (1 if language == "english" else 2))
    return word[:needed] == other[:needed]


def _is_nationality(word: str, other: str) -> bool:
    """Return whether one of two names with the same beginning may be a nationality: Romans and Rome."""
    one, two = word.removesuffix("s"), other.removesuffix("s")
    return (
        min(len(one), len(two)) >= _MIN_PREFIX
        and abs(len(one) - len(two)) <= _LONGEST_ENDING
        and any(each.endswith(_NATIONALITIES) for each in (one, two))
    )


def without_possessive(word: str) -> str:
    """Return a word without 's."""
    return re.split("['’]", word, maxsplit=1)[0] if word[-2:].casefold() in {"'s", "’s"} else word


def _capitals(text: str, language: str) -> Iterator[_Capital]:
    if language in _CAPITALISED_NOUNS:
        return
    like = _LIKE.get(language, frozenset())
    words = [*WORD.finditer(text)]
    end, compared, imagined = -1, False, False
    for match, after in zip_longest(words, words[1:]):
        between = text[max(end, 0) : match.start()]
        starts = end < 0 or not _STARTERS.isdisjoint(between) or " -" in between
        end = match.end()
        if match[0].casefold() in MONTHS and text[end : end + 2].strip().isdigit():
            starts = False
        word = without_possessive(match[0])
        plain = re.split("['’]", word, maxsplit=1)[0].casefold()
        imagined = plain in _IMAGINE or (imagined and not between.strip())
        compared = compared and not starts
        if plain in like:
            compared = True
        elif not word[0].isupper() or len(word) == 1 or plain in _NO_NAMES:
            compared = compared and plain in {"a", "an", "the", "in", "at", "on"}
        elif not (compared or imagined):
            follows = after is not None and text[end : after.start()] == " " and after[0]
            verb = bool(follows) and (follows in _VERBS or str(follows).endswith("ed"))
            yield _Capital(word, starts, verb or word != match[0])
