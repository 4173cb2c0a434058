"""Words in a text that was made: named, denied, or only meant, which a judge decides."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from callsheet.state.claims import content

_CLAUSE: Final = re.compile(r"[,;.:!?()\n]|\bbut\b|\band\b", re.IGNORECASE)
_DENIALS: Final = frozenset(
    {"not", "no", "non", "never", "without", "nothing", "neither", "nor", "avoid", "less", "isn't", "don't"}
)
_REACH: Final = 3
"""Words before a description that may deny it: "not at all upbeat"."""
_NUMBER_WORDS: Final = {
    "spanish": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce veint treint "
    "cuarenta cincuenta sesenta setenta ochenta noventa cien",
    "german": "null eins zwei zwo drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig",
    "portuguese": "zero dois duas três quatro cinco seis sete oito nove dez vinte trinta cem",
    "french": "zéro deux trois quatre cinq six sept huit neuf dix onze douze vingt trente cent",
    "polish": "zero jeden jedna dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć sto",
    "indonesian": "nol kosong satu dua tiga empat lima enam tujuh delapan sembilan puluh belas ratus",
    "thai": "ศูนย์ หนึ่ง สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ ร้อย",
}
"""Beginnings of number words, those of digits first."""
_PER_WORD: Final = 3
"""Most digits that one number word stands for."""
_MARKS: Final = ".,;:!?¡¿…\"'()–-"
_UNSPACED_CHARS: Final = 20
"""Characters for each word from which a text is taken for one without blanks."""
_LOOKS: Final = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " "})


def plain(text: str) -> str:
    """Return a text with single blanks and plain quotation marks."""
    return " ".join(text.translate(_LOOKS).split())


def fold(text: str) -> str:
    """Return a text for comparison: lower case, single blanks, plain quotation marks."""
    return plain(text).casefold()


def replace_all(text: str, replacements: Mapping[str, str]) -> str:
    """Return a text with words replaced."""
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


def affirms(text: str, word: str) -> bool | None:
    """Return whether a description names a word, False if it only denies it, None if it lacks it."""
    clauses = [fold(clause) for clause in _CLAUSE.split(text)]
    places = [
        clause[:at]
        for clause in clauses
        for at in range(len(clause))
        if clause.startswith(fold(word), at) and not clause[:at][-1:].isalnum()
    ]
    return any(not _denies(before) for before in places) if places else None


def affirms_any(text: str, words: Sequence[str]) -> bool | None:
    """Return whether a description names one of the words, False if it only denies some, None for none."""
    verdicts = [affirms(text, word) for word in words]
    if True in verdicts:
        return True
    return False if False in verdicts else None


def _denies(before: str) -> bool:
    words = before.replace("-", " ").split()[-_REACH:]
    return not _DENIALS.isdisjoint(words)


def word_variety(text: str) -> float:
    """Return the share of distinct words among the words of a text, from 0 to 1; filler repeats itself.

    In a script without blanks the words are pairs of characters.
    """
    words = [word.strip(_MARKS) for word in fold(text).split()]
    if len(words) * _UNSPACED_CHARS < len(text):
        joined = "".join(words)
        words = [joined[at : at + 2] for at in range(len(joined) - 1)]
    words = [word for word in words if word]
    return len({*words}) / len(words) if words else 0.0


def shares_content(text: str, others: Sequence[str]) -> bool:
    """Return whether a text has a word, or an amount, in common with others."""
    return bool(content(text) & content("\n".join(others)))


def may_spell(text: str, figure: str, language: str) -> bool:
    """Return whether a text has enough number words to say a figure; True for a language without a list."""
    words = _NUMBER_WORDS.get(language)
    if words is None:
        return True
    folded = fold(text)
    parts = folded.split()
    starts = tuple(words.split())
    count = (
        sum(folded.count(one) for one in starts)
        if language == "thai"
        else sum(word.startswith(starts) for word in parts)
    )
    return count * _PER_WORD >= sum(map(str.isdigit, figure))
