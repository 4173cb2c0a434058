"""Sentences of a text, by punctuation alone, and the English words and phrases of the lessons."""

import re
import tomllib
from importlib.resources import files
from typing import Any, Final

ENGLISH: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("english.toml").read_text("utf-8"))
_ABBREVIATIONS: Final = ("Mr", "Mrs", "Ms", "Dr", "St", "No", "vs", "e.g", "i.e", "etc", "approx", "[A-HJ-Z]")
_NO_ABBREVIATION: Final = "".join(rf"(?<!\b{each})" for each in _ABBREVIATIONS)
_END: Final = re.compile(rf"{_NO_ABBREVIATION}[.!?…]+[\"'”’»)\]]*(?=\s+[^\sa-z])|[。！？।؟]+[”」』）]*|\n+")
_LIST_MARK: Final = re.compile(r"\s*(?:(?:[-*•‣–]|\(?\d{1,3}[.)])\s+)?")
_PIECE: Final = re.compile(r"\S.{0,900}(?=\s|$)|\S.{0,900}", re.DOTALL)
"""A sentence, or a part of a text without sentence ends."""


def spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of every sentence. A line break ends one; a list item's mark is left out."""
    bounds: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        begin = next(_LIST_MARK.finditer(text, start, end)).end()
        stop = start + len(text[start:end].rstrip())
        bounds += [piece.span() for piece in _PIECE.finditer(text, begin, max(begin, stop))]
        start = end
    return bounds


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in spans(text)]
