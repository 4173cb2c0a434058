"""A text as sentences with their places: headings and what is only the page's furniture told apart."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import sentencex

from providers.offline.fact_narration.cues import Cues
from state.languages import find

_BLOCK = re.compile(r"[^\n]+(?:\n(?!\n)[^\n]+)*")
_MARK = re.compile(r"(?:[-*•‣◦·–]|\(?\d{1,3}[.)]|[a-z]\))\s+")
_ENDS = re.compile(r"[.!?…。！？।؟:;][\"'”’»)\]]*$")
_PART = re.compile(r"\S(?:.*?[.!?。！？>}](?=\s|$)|.*$)", re.DOTALL)
_THAI_PART = re.compile(r"\S+(?:[ ](?=\d)\S+|(?<=\d)[ ]\S+)*")
_HEADING_WORDS = 12
_LIST_ITEM_WORDS = 4
_THAI_CLAUSE = 25
"""Letters that a Thai clause has at least; a shorter one belongs to its neighbour."""


@dataclass(frozen=True)
class Sentence:
    """One sentence where it stands."""

    text: str
    start: int
    """Characters from the beginning of the material."""
    paragraph: int

    @property
    def end(self) -> int:
        """One past its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Material:
    """A text taken apart."""

    sentences: tuple[Sentence, ...]
    headings: tuple[str, ...]
    orders: int
    """Sentences left out because they speak to a model instead of teaching."""


def taken_apart(text: str, cues: Cues) -> Material:
    """Return the sentences and headings of a text; furniture of pages and orders to a model are left out."""
    sentences: list[Sentence] = []
    headings: list[str] = []
    orders = 0
    for number, block in enumerate(_BLOCK.finditer(text)):
        if _is_heading(block[0]):
            headings += [] if cues.noise.search(block[0]) else [block[0].strip()]
            continue
        for sentence in _sentences(block[0], block.start(), number, cues.language):
            pieces = list(_without_orders(sentence, cues))
            orders += pieces != [sentence]
            sentences += [piece for piece in pieces if _teaches(piece.text, cues)]
    return Material(tuple(sentences), tuple(headings), orders)


def _without_orders(sentence: Sentence, cues: Cues) -> Iterator[Sentence]:
    """Yield the sentence, or those of its parts that do not speak to a model."""
    if not cues.orders.search(sentence.text):
        yield sentence
        return
    for part in _PART.finditer(sentence.text):
        if not cues.orders.search(part[0]):
            yield Sentence(part[0].strip(), sentence.start + part.start(), sentence.paragraph)


def _is_heading(block: str) -> bool:
    if _MARK.match(block):
        return False
    words = block.split()
    if len(words) > _HEADING_WORDS or "\n" in block.strip():
        return False
    if not _ENDS.search(block.strip()):
        return len(words) < _HEADING_WORDS and len(block) < 90  # noqa: PLR2004 -- characters of a line
    # "Geometrical Ratio of Increase." stands alone, and its words begin with capitals.
    long = [word for word in words if len(word) > 3 and word[0].isalpha()]  # noqa: PLR2004
    return (
        len(words) > 1 and bool(long) and all(word[0].isupper() for word in long[:-1]) and _few_small(words)
    )


def _few_small(words: list[str]) -> bool:
    return sum(word[0].islower() for word in words) * 2 <= len(words)


def _sentences(block: str, at: int, number: int, language: str) -> Iterator[Sentence]:
    for begin, end in _bounds(block, language):
        blank = len(block[begin:end]) - len(block[begin:end].lstrip())
        mark = _MARK.match(block, begin + blank)
        start = mark.end() if mark else begin + blank
        text = block[start:end].rstrip()
        if text:
            yield Sentence(text, at + start, number)


def _bounds(block: str, language: str) -> Iterator[tuple[int, int]]:
    if language == "thai":
        yield from _thai_bounds(block)
        return
    spoken = find(language)
    for one in sentencex.get_sentence_boundaries(spoken.code if spoken else "en", block):
        yield one["start_index"], one["end_index"]


def _thai_bounds(block: str) -> Iterator[tuple[int, int]]:
    # Thai has no full stop: a blank ends a clause, unless a figure stands beside it.
    begin = None
    for part in _THAI_PART.finditer(block):
        begin = part.start() if begin is None else begin
        if part.end() - begin >= _THAI_CLAUSE:
            yield begin, part.end()
            begin = None
    if begin is not None:
        yield begin, len(block)


def _teaches(text: str, cues: Cues) -> bool:
    if cues.noise.search(text) or text.rstrip("\"'”’»)").endswith(("?", "？", "؟", ":")):
        return False
    letters = sum(char.isalpha() for char in text)
    if letters * 2 < len(text.replace(" ", "")):
        return False
    spaced = len(text.split()) >= _LIST_ITEM_WORDS
    spoken = find(cues.language)
    return letters >= 8 if spoken and spoken.unit == "character" else spaced  # noqa: PLR2004 -- letters
