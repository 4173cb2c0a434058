"""The sentences of a text, in any language: one rule for the whole product.

`sentencex` knows the abbreviations and marks of many languages. A line break ends a sentence, too.
"""

import re
from collections.abc import Iterator
from typing import Final

import sentencex

from callsheet.state.languages import detect, find

_BLANK: Final = re.compile(r"\s")
_LINE: Final = re.compile(r"[^\n]+")
_ORDINAL: Final = re.compile(r"(?:^|\s)\d{1,2}\.\s*$")
_LAST_WORD: Final = re.compile(r"(?:^|[\s('’\"«„])(\w{1,8})\.\s*$")
_FIRST_WORD: Final = re.compile(r"\w{1,30}")
_ABBREVIATIONS: Final = {
    "de": frozenset(["inkl", "exkl", "zzgl", "ggf", "evtl", "tel", "nr"]),
    "en": frozenset(["tel", "approx"]),
    "es": frozenset(["tel", "núm", "art"]),
    "fr": frozenset(["m", "mm", "tél", "art", "av", "env"]),
    "pl": frozenset(["tel", "nr"]),
}
"""Abbreviations, beyond those of `sentencex`, that a capital or a number may follow."""
_MISSED: Final = re.compile(r"(?<=[.!?…])\s+(?=[<{])|(?:(?<=…)|(?<=\bOK\.))\s+(?=[^\W\d_a-zß-ÿ])")
"""Ends before a tag or an object, and after an ellipsis or OK before a capital."""
_PANIC: Final = "PanicException"
_PLAIN_END: Final = re.compile(r"(?<=[.!?…。！？]\s)")
"""Places after a mark that ends a sentence and a blank."""
_END_CHARS: Final = 20
"""Characters of a sentence's end that are looked at."""
_GERMAN: Final = """
januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert
jahrhunderts jahrhunderten jh jahrtausend jahrtausends tag tages woche monat jahr jahres lebensjahr geburtstag
klasse platz mal auflage stock etage kapitel band teil weltkrieg runde spieltag
"""
_ORDINAL_NOUNS: Final = {
    "de": frozenset(_GERMAN.split()),
}
"""Nouns after an ordinal number that is written with a dot, where nouns or names of months have capitals."""


def split_sentences(text: str, language: str = "") -> list[str]:
    """Return the sentences with their punctuation; an empty language is detected."""
    return [text[start:end] for start, end in sentence_spans(text, language)]


ASKING: Final = ("?", "？", "؟", "ไหม", "มั้ย", "吗", "呢")
"""Marks and words with which a sentence asks."""
_QUOTED: Final = re.compile(
    r"https?://\S+|\"[^\"]{0,500}\"|[“„][^“”]{0,500}[“”]|«[^«»]{0,500}»|「[^「」]{0,500}」"
    r"|(?<!\w)['‘][^'‘’\n]{0,300}['’](?!\w)"
)
"""Addresses, and words of others."""
_CLOSING: Final = " \t\n.*_)”\"'»"


def has_question(text: str) -> bool:
    """Return whether a text asks, by its marks outside of quotes and addresses."""
    return any(mark in _QUOTED.sub(" ", text) for mark in ASKING)


def is_question(text: str) -> bool:
    """Return whether a text is questions alone, by the marks at the ends of its sentences."""
    sentences = split_sentences(_QUOTED.sub(" ", text))
    return bool(sentences) and all(one.rstrip(_CLOSING).endswith(ASKING) for one in sentences)


def sentence_spans(text: str, language: str = "") -> list[tuple[int, int]]:
    """Return the start and end of every sentence, without the blanks around it."""
    name = language or detect(text) or "english"
    known = find(name)
    code = known.code if known else "en"
    bounds: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        for start, end in _pieces(line[0], code):
            piece = line[0][start:end]
            begin = line.start() + start + len(piece) - len(piece.lstrip())
            stop = line.start() + start + len(piece.rstrip())
            if begin < stop:
                bounds.append((begin, stop))
    return bounds


def _pieces(line: str, code: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences of one line as they are joined again where an abbreviation was taken for an end."""
    start = end = 0
    for piece in _segments(line, code):
        if start < end and not _continues(line[max(start, end - _END_CHARS) : end], piece, code):
            yield start, end
            start = end
        end += len(piece)
    yield start, end


def _library_segments(line: str, code: str) -> list[str]:
    """Return the segments of `sentencex`; where its code in Rust panics, a cut after each mark at an end."""
    try:
        # It panics at some blanks of several bytes.
        return list(sentencex.segment(code, _BLANK.sub(" ", line)))
    except BaseException as error:
        # The class of a panic has no name to import, and is no `Exception`.
        if type(error).__name__ != _PANIC:
            raise
        return _PLAIN_END.split(line)


def _segments(line: str, code: str) -> Iterator[str]:
    for piece in _library_segments(line, code):
        start = 0
        for end in _MISSED.finditer(piece):
            yield piece[start : end.end()]
            start = end.end()
        yield piece[start:]


def _continues(before: str, after: str, code: str) -> bool:
    """Return whether the piece `after` goes on with the sentence that `before` only seemed to end."""
    if (word := _LAST_WORD.search(before)) and word[1].casefold() in _ABBREVIATIONS.get(code, ()):
        return True
    if not _ORDINAL.search(before):
        return False
    first = _FIRST_WORD.match(after)
    return bool(first and (first[0].casefold() in _ORDINAL_NOUNS.get(code, ()) or first[0][0].islower()))
