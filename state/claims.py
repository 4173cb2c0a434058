"""Claims that can be looked up: the figures and names of a text, and its words shared with another text.

Nothing here understands a text. A figure, a date or a name either occurs in the texts that are to support it
or does not; inflected names and figures in another spelling count as the same.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from callsheet.state.number_words import spelled_numbers

_FIGURE: Final = re.compile(r"\d++(?:[.,]\d++)*+")
_GROUPED: Final = re.compile(r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,4}(?!\d)")
"""Thousands parted by blanks."""
_WORD: Final = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff])++(?:['’](?:[^\W\d_]|[\u0900-\u0dff])++)*+")
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]++"
)
"""Scripts that are compared by pairs of characters: their words have no blanks, or short stems."""
_STARTERS: Final = frozenset('.!?…:;—–"“”„«»()[]¿¡•|\n。！？')
"""Signs after which a capital letter may only begin a sentence, a title or a quotation."""
_COMMON_TEXT: Final = """
a about after all also an and any are as at be because been before being but by can could did do does
each even ever every for from get had has have he her here him his how i if in into is it its just know
let like look made make many may me more most much must my no not now of off oh ok on one only or other
our out over own said say see she should so some such than that the their them then there these they
this those through to too two under up us use used very was way we well were what when where which while
who whose why will with would yes yet you your mom mum dad tv mr mrs ms
"""
_COMMON: Final = frozenset(_COMMON_TEXT.split())
"""English words that prove nothing, and that capitals do not make a name."""
MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
_CAPITALISED_NOUNS: Final = frozenset({"german"})
"""Languages whose capital letters show no names."""
_ROUND: Final = frozenset({100.0, 1e3, 1e6, 1e9, 1e12})
_LARGEST_USUAL: Final = 12
"""Number words up to here, as in "two main ideas", are no claims."""
_STEM: Final = 5
_MIN_WORD: Final = 3
_MIN_PREFIX: Final = 4
_LONGEST_ENDING: Final = 3
_MIN_SHARED: Final = 2


def figures(text: str) -> list[str]:
    """Return the numbers in a text as written; thousands may be grouped by commas or dots."""
    return _FIGURE.findall(text)


def number(figure: str) -> float | None:
    """Return a number as written in English: commas stand between thousands."""
    plain = figure.replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return None


def numbers(text: str) -> set[float]:
    """Return the values of the numbers in a text, read as English."""
    return {value for figure in figures(text) if (value := number(figure)) is not None}


def names(text: str, language: str = "english") -> list[str]:
    """Return the words whose capital letter shows a name: not those that may only begin a sentence.

    Empty for scripts without capital letters, and for German, where every noun has one.
    """
    if language in _CAPITALISED_NOUNS:
        return []
    result: dict[str, None] = {}
    end = -1
    for match in _WORD.finditer(text):
        between = text[max(end, 0) : match.start()]
        starts = end < 0 or not _STARTERS.isdisjoint(between) or " -" in between
        end = match.end()
        word = _without_possessive(match[0])
        plain = re.split("['’]", word, maxsplit=1)[0].casefold()
        if word[0].isupper() and not starts and plain not in _COMMON:
            result[word] = None
    return [*result]


def unsupported_claims(sentence: str, facts: Iterable[str], language: str = "english") -> list[str]:
    """Return the figures and names of a sentence that no fact has, as written; dates are both."""
    known = _known("\n".join(facts))
    wrong = [figure for figure in figures(sentence) if not _readings(figure) & known.numbers]
    if wrong:
        grouped = {
            part
            for each in _GROUPED.findall(sentence)
            if _join_groups(each) in known.numbers
            for part in figures(each)
        }
        wrong = [figure for figure in wrong if figure not in grouped]
    if language == "english":
        wrong = [*_wrong_figures(sentence, wrong, known), *_unknown_words(sentence, known)]
    lookup = (word for word in names(sentence, language) if not _is_known(word, known, language))
    return list(dict.fromkeys([*wrong, *lookup]))


def content(text: str) -> frozenset[str]:
    """Return the content of a text for comparison: stems of words, pairs of characters, years and amounts."""
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(text) for at in range(len(run) - 1)}
    words = (_without_possessive(word).casefold() for word in _WORD.findall(_UNSPACED.sub(" ", text)))
    stems = {_stem(word) for word in words if len(word) >= _MIN_WORD and word not in _COMMON}
    amounts = {f"{value:g}" for figure in figures(text) for value in _readings(figure) if value > 9}  # noqa: PLR2004
    return frozenset(pairs | stems | amounts)


def share(text: str, source: str) -> float:
    """Return the share of a text's content that a source has, from 0 to 1; 1 if it has none to compare."""
    own = content(text)
    return len(own & content(source)) / len(own) if own else 1.0


def states(sentence: str, concept: str, details: str) -> bool:
    """Return whether a sentence has content of a fact: a word of its concept, or two of its details."""
    topic, rest = content(concept), content(details)
    own = content(sentence)
    if not topic | rest:
        return True
    return bool(own & topic) or len(own & rest) >= min(_MIN_SHARED, len(rest)) > 0


@dataclass(frozen=True)
class _Known:
    """The claims that texts support."""

    numbers: frozenset[float]
    words: frozenset[str]
    """Folded."""


@lru_cache(maxsize=16)
def _known(text: str) -> _Known:
    values = {value for figure in figures(text) for value in _readings(figure)}
    values |= {joined for each in _GROUPED.findall(text) if (joined := _join_groups(each)) is not None}
    values |= {value for each in spelled_numbers(text) for value in each}
    words = frozenset(_without_possessive(word).casefold() for word in _WORD.findall(text))
    return _Known(frozenset(values), words)


def _readings(figure: str) -> frozenset[float]:
    """Return the values that a figure may have: 1,500 is fifteen hundred or one and a half."""
    english, european = number(figure), _european(figure)
    values = {value for value in (english, european) if value is not None}
    return frozenset(values or {float(part) for part in re.split(r"[.,]", figure)})


def _european(figure: str) -> float | None:
    """Return a number with dots between thousands and a decimal comma; None if it is none."""
    integer, comma, decimals = figure.partition(",")
    first, *groups = integer.split(".")
    if "," in decimals or "." in decimals or any(len(group) != 3 for group in groups):  # noqa: PLR2004
        return None
    return float(f"{first}{''.join(groups)}{'.' * bool(comma)}{decimals}")


def _join_groups(grouped: str) -> float:
    return float("".join(_FIGURE.findall(grouped)))


def _wrong_figures(sentence: str, wrong: Sequence[str], known: _Known) -> Iterator[str]:
    """Yield the figures that are wrong even as part of a spelled number, such as 1.5 million."""
    proven = [values for values in spelled_numbers(sentence) if values & known.numbers]
    scaled = {value / scale for values in proven for value in values for scale in (1e3, 1e6, 1e9, 1e12)}
    yield from (figure for figure in wrong if not _readings(figure) & scaled)


def _unknown_words(sentence: str, known: _Known) -> Iterator[str]:
    """Yield spelled numbers that no fact has; small and round ones are no claims."""
    plain = {value for figure in figures(sentence) for value in _readings(figure)}
    for values in spelled_numbers(sentence):
        usual = any(value <= _LARGEST_USUAL or value in _ROUND or value in plain for value in values)
        if not usual and not values & known.numbers:
            yield f"{max(values):,.10g}"


def _is_known(name: str, known: _Known, language: str) -> bool:
    word = name.casefold()
    if word in known.words or any(_same(word, other, language) for other in known.words):
        return True
    return word in MONTHS and float(MONTHS.index(word) + 1) in known.numbers


def _same(word: str, other: str, language: str) -> bool:
    """Return whether two words may be forms of one name: Earth and Earthly, Europe and European."""
    size = min(len(word), len(other))
    if size < _MIN_PREFIX or abs(len(word) - len(other)) > _LONGEST_ENDING:
        return False
    needed = max(_MIN_PREFIX, size - (1 if language == "english" else 2))
    return word[:needed] == other[:needed]


def _stem(word: str) -> str:
    return (word[:-1] if len(word) > _MIN_WORD and word.endswith("s") else word)[:_STEM]


def _without_possessive(word: str) -> str:
    return re.split("['’]", word, maxsplit=1)[0] if word[-2:].casefold() in {"'s", "’s"} else word
