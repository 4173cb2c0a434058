"""A lesson's student: age, interests, reading level with its arithmetic, and visual guidance."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from callsheet.state.figures import ORDINALS, SMALL, TENS
from callsheet.state.sentences import sentence_spans

_DEFAULT_LEVEL: Final = 6.5
"""Reading level for an unknown age: grades 6 to 7."""
_LEVELS: Final = ((6, 2.5), (9, 3.5), (12, 4.5), (15, 6.5))
"""Pairs of an age limit and the US school grade below it."""
_OLDEST_LEVEL: Final = 8.5
_STYLES: Final = (
    (3.0, "Very short sentences of everyday words with one idea each, like a picture book read aloud"),
    (4.0, "Short sentences of everyday words; each new word is explained at once by something familiar"),
    (5.5, "Short and middling sentences; new words are defined, causes are explained with because and so"),
    (7.5, "Sentences of ten to fifteen words; technical terms are used once they are defined"),
)
"""Pairs of a US school grade and what words below it read like."""
_OLDEST_STYLE: Final = "Clear sentences of any length; technical terms and abstract ideas, each defined once"
_OLDEST: Final = 120
_NUMBER: Final = re.compile(
    rf"(?P<digits>\d{{1,9}})|\b(?:(?P<tens>{'|'.join(TENS)})(?:[\s-]+(?P<unit>{'|'.join(SMALL[1:10])}))?"
    rf"|(?P<small>{'|'.join(sorted(SMALL, key=len, reverse=True))}))\b",
    re.IGNORECASE,
)
_GRADE: Final = re.compile(
    rf"\b(?:grade\s+(\d{{1,9}})|(\d{{1,9}})(?:st|nd|rd|th)[\s-]+grade|({'|'.join(ORDINALS)})[\s-]+grade)",
    re.IGNORECASE,
)
_GRADE_TO_AGE: Final = 5
_CHINESE: Final = re.compile(
    r"(?=[一二两三四五六七八九十])([一二两三四五六七八九]?)(十?)([一二三四五六七八九]?)(?=\s*[岁歲歳])"
)
_CHINESE_DIGITS: Final = "零一二三四五六七八九"
_SEPARATOR: Final = re.compile(
    r"(?:(?<![^\S\n])[^\S\n]+)?(?:[,;/&+\n]|\b(?:and|und|et|y|e|i|oraz|en)\b|、|，|和)\s*", re.IGNORECASE
)


class Student(BaseModel):
    """A student; all fields are optional."""

    model_config = ConfigDict(frozen=True)

    child_age: str | None = None
    """As written: "7", "12 years old", "seven"."""
    child_interest: str | None = None
    """As written; may name several interests."""
    learning_style: str | None = None
    """As written."""

    def with_news(
        self, child_age: str | None, child_interest: str | None, learning_style: str | None = None
    ) -> "Student":
        """Return the student with the given values; empty ones leave the old value."""
        return Student(
            child_age=child_age or self.child_age,
            child_interest=child_interest or self.child_interest,
            learning_style=learning_style or self.learning_style,
        )

    def kept(self) -> dict[str, str | None]:
        """Return the stored form, with the learning style only if it is set."""
        return self.model_dump(exclude=set() if self.learning_style else {"learning_style"})


def age(text: str | None) -> int | None:
    """Return the age in years that a text names, or None.

    The first number counts, in digits, English or Chinese words; five years are added to a school grade.
    """
    if not text:
        return None
    if (chinese := _CHINESE.search(text)) and any(chinese.groups()):
        return _chinese_number(*(part.replace("两", "二") for part in chinese.groups()))
    grade = _GRADE.search(text)
    if grade:
        figures, word = grade[1] or grade[2], grade[3]
        years = int(figures) if figures else ORDINALS.index(word.casefold()) + 1
        return _plausible(years + _GRADE_TO_AGE)
    match = _NUMBER.search(text)
    return _english_number(match) if match else None


def _english_number(match: re.Match[str]) -> int | None:
    if match["digits"]:
        return _plausible(int(match["digits"]))
    if match["small"]:
        return SMALL.index(match["small"].casefold())
    unit = SMALL.index(match["unit"].casefold()) if match["unit"] else 0
    return (TENS.index(match["tens"].casefold()) + 2) * 10 + unit


def level(text: str | None) -> tuple[float, list[str]]:
    """Return the reading level (US school grade) for an age as written, and a warning if it is a guess."""
    years = age(text)
    if years is None:
        warnings = [f"the age {text!r} is not clear, so the words are for grades 6 to 7"] if text else []
        return _DEFAULT_LEVEL, warnings
    return next((grade for below, grade in _LEVELS if years < below), _OLDEST_LEVEL), []


def reading_style(level_: float) -> str:
    """Return what words of a reading level (US school grade) read like."""
    return next((style for below, style in _STYLES if level_ < below), _OLDEST_STYLE)


def interests(text: str | None) -> list[str]:
    """Return the distinct interests in a text, in order."""
    parts = (part.strip(" .!") for part in _SEPARATOR.split(text or ""))
    return list({part.casefold(): part for part in parts if part}.values())


def _chinese_number(tens: str, ten: str, units: str) -> int:
    first = _CHINESE_DIGITS.index(tens) if tens else 1
    return first * 10 + (_CHINESE_DIGITS.index(units) if units else 0) if ten else first


def _plausible(years: int) -> int | None:
    return years if years <= _OLDEST else None


FORMULA: Final = "Flesch-Kincaid"
_WORD: Final = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")
_VOWELS: Final = re.compile(r"[aeiouy]+")
_SPLIT_VOWELS: Final = re.compile(
    r"i[aou](?!n|ge)|e[ou]s?$|(?<![qg])ua|uo|reat(?:e|in)|ier|[aeo]y(?:er|or)|oing|[yi]ing"
)
_SILENT: Final = re.compile(
    r"(?:(?:[^aeiouylrscxzgh]|[aeiouy][lr]|th)es|(?:[^aeiouydtlr]|[aeiouy][lr]{1,2})ed|(?:[^aeiouyl]|[aeiouy]l)e)$"
)
_SILENT_WITHIN: Final = re.compile(r"[^aeiouyl]e(?:ly|ments?|thing|one|times?|ty|teen|how|where)$")


def grade(text: str) -> float:
    """Return the school grade of an English text: 0.39 · words/sentence + 11.8 · syllables/word - 15.59.

    An empty text has grade 0. Syllables are counted by spelling, which is right for 97 % of words.
    """
    words = _WORD.findall(text)
    if not words:
        return 0.0
    count = max(1, len(sentence_spans(text, "english")))
    syllable_count = sum(syllables(word) for word in words)
    return round(0.39 * len(words) / count + 11.8 * syllable_count / len(words) - 15.59, 1)


def syllables(word: str) -> int:
    """Return the number of syllables of an English word, estimated from its spelling; at least 1."""
    letters = word.casefold().replace("’", "").replace("'", "")
    groups = len(_VOWELS.findall(letters)) + len(_SPLIT_VOWELS.findall(letters))
    return max(1, groups - bool(_SILENT.search(letters)) - bool(_SILENT_WITHIN.search(letters)))


Style = Literal["visual", "auditory", "reading", "hands-on"]
_GUIDANCE: Final[Mapping[str, Mapping[Style, str]]] = {
    "english": {
        "visual": "Show it in large, clear pictures and diagrams.",
        "auditory": "Let sounds and the voice carry it; keep the picture calm.",
        "reading": "Put the key words on the screen to read along.",
        "hands-on": "Show what the student can try with their own hands.",
    },
    "spanish": {
        "visual": "Muéstralo con imágenes y diagramas grandes y claros.",
        "auditory": "Deja que la voz y los sonidos lo cuenten; que la imagen sea tranquila.",
        "reading": "Pon las palabras clave en la pantalla para leerlas.",
        "hands-on": "Muestra lo que el alumno puede probar con sus propias manos.",
    },
    "german": {
        "visual": "Zeige es in großen, klaren Bildern und Schaubildern.",
        "auditory": "Lass Stimme und Klänge erzählen; das Bild bleibt ruhig.",
        "reading": "Blende die wichtigsten Wörter zum Mitlesen ein.",
        "hands-on": "Zeige, was man mit den eigenen Händen ausprobieren kann.",
    },
    "french": {
        "visual": "Montre-le avec de grandes images et des schémas clairs.",
        "auditory": "Laisse la voix et les sons raconter ; l'image reste calme.",
        "reading": "Affiche les mots clés à l'écran pour les lire.",
        "hands-on": "Montre ce que l'élève peut essayer de ses propres mains.",
    },
    "chinese": {
        "visual": "用大而清楚的图片和示意图来展示。",
        "auditory": "让声音来讲述，画面保持简单。",
        "reading": "把关键词放在屏幕上，方便跟读。",
        "hands-on": "展示学生可以亲手尝试的内容。",
    },
}
_LOWEST: Final = 1.0
_HIGHEST: Final = 12.0
"""Range of school grades after adjustment."""


def visual_guidance(learning_style: str | None, language: str = "english") -> str:
    """Return the visual guidance for a learning style, in English if `language` has none.

    A style that is described in other words is returned in these words; empty for None.
    """
    words = learning_style or ""
    table = _GUIDANCE.get(language, _GUIDANCE["english"])
    return next((text for style, text in table.items() if style == words.strip().casefold()), words)


def shifted_level(level: float, shift_by: int) -> float:
    """Return the grade `level` changed by `shift_by` grades, within the range."""
    return min(_HIGHEST, max(_LOWEST, level + shift_by))
