"""Claims that can be looked up: the figures and names of a text, and its words shared with another text.

Nothing here understands a text. A figure, a date or a name either occurs in the texts that are to support it
or does not; rounded numbers, inflected names and other spellings count as the same. What may occur in a form
that is not recognised, such as a number in words or an abbreviation, is doubtful, not wrong.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from callsheet.state.figures import (
    all_numbers,
    figure_values,
    figures,
    is_scaled,
    readings,
    unproven_figures,
    unproven_numbers,
)
from callsheet.state.names import (
    COMMON,
    MONTHS,
    WEEKDAYS,
    WORD,
    first_names,
    folded_name,
    names,
    vocabulary,
    without_possessive,
)

_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]++"
)
"""Scripts that are compared by pairs of characters: their words have no blanks, or short stems."""
_IN_WORDS: Final = 20
"""Numbers up to here are often written in words."""
_LARGE: Final = 1000
"""Numbers from here on are never written in words, but for round ones."""
_STEM: Final = 5
_MIN_WORD: Final = 3
_MIN_SHARED: Final = 2


@dataclass(frozen=True)
class Evidence:
    """Texts that are to support a sentence."""

    passages: tuple[str, ...]
    """The texts that the sentence repeats."""
    known: tuple[str, ...] = ()
    """More texts whose figures and names it may use."""
    named: tuple[str, ...] = ()
    """More texts whose names alone it may use."""
    language: str = "english"
    """The sentence's."""
    same_language: bool = True
    """False if the texts are in another language, so that only digits can be compared."""

    @property
    def numbers(self) -> frozenset[float]:
        """The numbers that a sentence may use."""
        return frozenset().union(*map(all_numbers, (*self.passages, *self.known)))


@dataclass(frozen=True)
class Unproven:
    """Figures and names that no text supports, as written."""

    wrong: tuple[str, ...]
    doubtful: tuple[str, ...]
    """Those that a text may have in a form that is not recognised."""


def unproven_claims(sentence: str, evidence: Evidence) -> Unproven:
    """Return the figures and names of a sentence that its texts do not have; dates are both."""
    sentence = unicodedata.normalize("NFKC", sentence)
    wrong, doubtful = _unproven_numbers(sentence, evidence)
    if evidence.same_language:
        sure, unsure = _unproven_names(sentence, evidence)
        wrong, doubtful = [*wrong, *sure], [*doubtful, *unsure]
    return Unproven(tuple(dict.fromkeys(wrong)), tuple(dict.fromkeys(doubtful)))


def content(text: str) -> frozenset[str]:
    """Return the content of a text for comparison: stems of words, pairs of characters, years and amounts."""
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(text) for at in range(len(run) - 1)}
    words = (without_possessive(word).casefold() for word in WORD.findall(_UNSPACED.sub(" ", text)))
    stems = {_stem(word) for word in words if len(word) >= _MIN_WORD and word not in COMMON}
    amounts = {f"{value:g}" for figure in figures(text) for value in readings(figure) if value > 9}  # noqa: PLR2004
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


def _unproven_numbers(sentence: str, evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return the numbers that are wrong, and those that are doubtful."""
    known = evidence.numbers
    if evidence.language == "english" and evidence.same_language:
        return unproven_numbers(sentence, known), []
    amounts = {value for text in evidence.passages for value in figure_values(text)}
    in_words = bool(evidence.passages) and max(amounts, default=0) <= _IN_WORDS
    limit = _LARGE if in_words else _IN_WORDS + 1
    unproven = [one for one in unproven_figures(sentence, known) if not is_scaled(one, known)]
    doubtful = [one for one in unproven if max(readings(one)) < limit]
    return [one for one in unproven if one not in doubtful], doubtful


def _unproven_names(sentence: str, evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return the names that are wrong, and those that are doubtful."""
    language = evidence.language
    texts = [vocabulary(text) for text in (*evidence.passages, *evidence.known, *evidence.named)]
    months = {month for at, month in enumerate(MONTHS, 1) if at in evidence.numbers}

    def is_known(name: str) -> bool:
        word = folded_name(name)
        return word in months or any(text.has_name(word, language) for text in texts)

    unproven = [name for name in names(sentence, language) if not is_known(name)]
    doubtful = [name for name in unproven if name.isupper() or name.casefold() in WEEKDAYS]
    first = first_names(sentence) if language == "english" else []
    return (
        [name for name in unproven if name not in doubtful],
        [*doubtful, *(name for name in first if not is_known(name))],
    )


def _stem(word: str) -> str:
    return (word[:-1] if len(word) > _MIN_WORD and word.endswith("s") else word)[:_STEM]
