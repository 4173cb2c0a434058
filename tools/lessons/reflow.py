"""Turns pasted text and text of PDFs into paragraphs, the same for the same words."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_INVISIBLE: Final = re.compile("[\u00ad\u200b\u200c\u2060\ufeff\x00-\x08\x0b\x0e-\x1f]")
_BLANKS: Final = re.compile("[ \t\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_CELLS: Final = re.compile(r"\s{3,}|\t+")
_COLUMNS: Final = re.compile(r"\s{3,}|\t+|\|")
_LEAST_ROWS: Final = 3
"""Rows of a table at least, with its heading."""
_NAME_CHARS: Final = 60
"""Characters of a heading row that name a table."""
_MARK: Final = re.compile(r"(?:[-*•‣◦·–▪■●○►✓➢]|\(?\d{1,3}[.)])\s+\S")
_STOPS: Final = re.compile(r"[.!?…:;。！？।؟][\"'”’»)\]]*$")
_HYPHEN: Final = re.compile(r"(?<![^\W\d_])([^\W\d_]++)-$")
_WORD: Final = re.compile(r"[^\W\d_]++(?:-[^\W\d_]++)*+")
_HALVES: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[ \t]{0,9}\n[ \t]{0,9}[^\W\d_]++")
"""The halves of a word at the end of a line, which say nothing about how the text spells it."""
_RANGE: Final = re.compile(r"\d[–-]$")
_NO_BLANKS: Final = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]")
"""Scripts whose words are not parted by blanks: Thai, Lao, Khmer, Chinese, Japanese."""
_FORMS: Final = re.compile("[\u2f00-\u2fd5\ufb00-\ufdfb\ufe70-\ufefc\uff66-\uff9f]+")
"""Letters as drawn: ligatures, joined Arabic letters, radicals of Chinese characters."""
_SOFT_HYPHEN: Final = re.compile("\u00ad[ \t]{0,9}\n[ \t]{0,9}")
_SUSPENDED: Final = frozenset({"and", "or", "und", "oder", "bis", "y", "o", "e", "et", "ou"})
"""Words after a hyphen that stands for a word: `Nord- und Südufer`."""
_FIRST_HALVES: Final = frozenset(
    (
        *(
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "twenty",
            "thirty",
            "forty",
        ),
        *("fifty", "sixty", "seventy", "eighty", "ninety", "half", "ill", "long", "self", "well"),
    )
)
"""English words that are the first halves of words with a hyphen, unless an ending follows."""
_ENDINGS: Final = frozenset(
    ("age", "ed", "er", "est", "fold", "ful", "ing", "ish", "less", "ly", "ness", "some", "teen", "th", "ty")
)
_RUN_ON: Final = re.compile(r"(?<=[^\W\d_]{3}[,;])(?=[^\W\d_]{3})")
"""A comma without a blank: `active,not`; scripts without blanks have other commas."""
_HEADING_WORDS: Final = 10
_SHORT_LINE: Final = 30
_FULL_LINE: Final = 0.8
"""A sentence that ends on a line shorter than this share of the longest ends its paragraph."""


def reflow(raw: str) -> str:
    """Return the text as paragraphs of one line each, with blank lines between them.

    Lines of a paragraph and hyphenated words are joined; headings, list items and cells of a row stay alone.
    Clean text stays as it is.
    """
    text = unicodedata.normalize("NFC", raw.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n"))
    text = _FORMS.sub(lambda forms: unicodedata.normalize("NFKC", forms[0]), text)
    text = _INVISIBLE.sub("", _SOFT_HYPHEN.sub("", text))
    words = frozenset(word.casefold() for word in _WORD.findall(_HALVES.sub(" ", text)))
    blocks = re.split(r"\n[ \t\u00a0]*\n", text)
    paragraphs = (paragraph for block in blocks for paragraph in _paragraphs(block, words))
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def table_warnings(raw: str) -> tuple[str, ...]:
    """Return a warning for each table of a raw text: its rows are no sentences, and so no facts."""
    rows: list[list[str]] = []
    warnings: list[str] = []
    for line in (*(line for line in raw.splitlines() if any(map(str.isalnum, line))), ""):
        cells = _row(line)
        if cells:
            rows.append(cells)
            continue
        if len(rows) >= _LEAST_ROWS:
            table = f"the table “{', '.join(rows[0])[:_NAME_CHARS]}”"
            remedy = "write what matters as sentences, or add it as a fact of your own"
            warnings.append(f"{len(rows)} rows of {table} are not offered as facts; {remedy}")
        rows = []
    return tuple(warnings)


def _row(line: str) -> list[str]:
    """Return the cells of a table's row; [] for any other line."""
    if _MARK.match(line.strip()):
        return []
    cells = [cell.strip() for cell in _COLUMNS.split(line) if any(map(str.isalnum, cell))]
    short = all(len(cell.split()) <= _HEADING_WORDS and not _STOPS.search(cell) for cell in cells)
    return cells if short and len(cells) > 1 else []


def _paragraphs(block: str, words: frozenset[str]) -> Iterator[str]:
    lines = [line for raw in block.split("\n") for line in _cells(raw)]
    widest = max((len(line) for line in lines), default=0)
    # Joined once: growing a string line by line would copy it each time.
    pieces: list[str] = []
    for number, line in enumerate(lines):
        _append(pieces, line, words)
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if not after or _ends_paragraph(line, after, widest, alone=len(pieces) == 1):
            yield _normalize_spaces("".join(pieces))
            pieces = []


def _cells(raw: str) -> Iterator[str]:
    """Yield a line, or its short cells."""
    cells = [cell for cell in _CELLS.split(raw.strip()) if cell]
    short = all(len(cell.split()) <= _HEADING_WORDS and not _STOPS.search(cell) for cell in cells)
    if len(cells) > 1 and short:
        yield from cells
    elif raw.strip():
        yield raw.strip()


def _append(pieces: list[str], line: str, words: frozenset[str]) -> None:
    first = _HYPHEN.search(pieces[-1]) if pieces else None
    second = _WORD.match(line)
    if first and second and line[:1].islower() and second[0] not in _SUSPENDED:
        if not _keeps_hyphen(first[1].casefold(), second[0].casefold(), words):
            pieces[-1] = pieces[-1][:-1]
        pieces.append(line)
    elif pieces and (
        (_RANGE.search(pieces[-1]) and line[:1].isdigit())
        or (_NO_BLANKS.match(pieces[-1][-1:]) and _NO_BLANKS.match(line))
    ):
        pieces.append(line)
    else:
        pieces.append(f" {line}" if pieces else line)


def _keeps_hyphen(first: str, second: str, words: frozenset[str]) -> bool:
    """Return False for the halves of one word ("open-", "ing"), as the rest of the text spells it."""
    if f"{first}-{second}" in words or f"{first}{second}" in words:
        return f"{first}-{second}" in words
    return (first in words and second in words) or (first in _FIRST_HALVES and second not in _ENDINGS)


def _ends_paragraph(line: str, after: str, widest: int, *, alone: bool) -> bool:
    """Return True if a paragraph ends with this line although no blank line follows."""
    if _MARK.match(after):
        return True
    begins = after[:1].isupper() or not after[:1].isalpha()
    if _STOPS.search(line):
        return begins and len(line) < _FULL_LINE * widest
    short = len(line.split()) <= _HEADING_WORDS and len(line) < max(_FULL_LINE * widest, _SHORT_LINE)
    heading = alone and short and not _MARK.match(line)
    return heading and begins and line[:1].isupper() and not line.endswith((",", "-"))


def _normalize_spaces(text: str) -> str:
    text = re.sub(r"(?<=[^\W_]) ([.,])(?=\s|$)", r"\1", _BLANKS.sub(" ", text))
    return _RUN_ON.sub(" ", text).strip()
