"""Lines of a PDF's page in the order in which they are read, by where their letters stand."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

CELL_GAP: Final = 0.9
"""A gap of this many letter heights separates columns or cells."""
STOPS: Final = (".", "!", "?", "…", ":", ";", "”", '"', "。", "！", "？", "؟")
RTL: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_PARAGRAPH_GAP: Final = 1.4
"""A gap of this many usual gaps separates paragraphs."""
_STRETCHED: Final = 1.6
"""Gaps of a line set to both margins are less than so many times as wide as each other."""
_WIDEST_BLANK: Final = 2.5
_WORD_GAP: Final = 0.2
_OVERLAP: Final = 0.3
_TOUCHES: Final = 0.35
_SAME_LINE: Final = 0.25
_MAX_RISE: Final = 0.65
_ROW: Final = 0.6
"""Parts of a row differ in height by less than this share of the letters' height."""
_SHIFT: Final = 0.12
"""Least rise of a small exponent, in heights of a letter."""
_SMALL: Final = 0.9
_FAR: Final = 3.0
_INITIAL: Final = 1.8
_INITIAL_GAP: Final = 1.5
_OTHER_SIZE: Final = 0.15
_INDENT: Final = (0.8, 4.0)
_COLUMN_ROWS: Final = 3
_PROSE_WORDS: Final = 4
_FLOW: Final = 0.25
"""Least share of lines that continue the line before, if a column is one."""
_LINE_NUMBERS: Final = 4
_ALMOST_ALL: Final = 0.8
_SHORT_WORD: Final = 2
_INTERLEAVED: Final = "columns written row by row"
_COLUMNS: Final = "columns"
_UNCLEAR: Final = "columns or cells"
_MARK: Final = re.compile(r"(?:[-*•‣◦·–▪■●○►✓➢]|\(?\d{1,3}[.)]|\(?[a-z][.)])")
_WORD: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
"""A word; two characters of Chinese or Japanese count as one."""
_LEADERS: Final = re.compile(r"\s{0,9}(?:[.·_…]\s?){4,}+")
_EXPONENT: Final = re.compile(r"[-−–+]?\d{1,4}|\d{0,2}[-−–+]|[ni]")
_NOTE_MARK: Final = re.compile(r"[*†‡§¶]{1,3}|\[\w{1,4}\]|\d{1,3}(?:[,–-]\s?\d{1,3}){1,4}")
_WORD_END: Final = re.compile(r"(?<![^\W\d_α-ωΑ-Ω])[^\W\d_α-ωΑ-Ω]*+$")
_ROMAN: Final = re.compile(r"[IVXLC]+")
_LONG_UNITS: Final = frozenset({"sec", "min", "mol", "rad", "sin", "cos", "tan", "log"})
_RAISED_SIGNS: Final = str.maketrans("0123456789-−–+ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁻⁺ⁿⁱ")
_LOWERED_SIGNS: Final = str.maketrans("0123456789-−–+", "₀₁₂₃₄₅₆₇₈₉₋₋₋₊")


class TextSpan(NamedTuple):
    """Characters of one text object without a wide gap, in points from the lower left corner."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    line: int
    """PDFium's number of the line, by which text from right to left is kept together."""
    space: float = math.inf
    """Narrowest gap between two of its words."""


@dataclass(frozen=True)
class PageLine:
    """A line, or a part of a line beside others."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    order: int
    """Place in the order of the file."""
    space: float
    """Narrowest gap between two of its words, infinite for one word."""
    is_row: bool = False
    """A row of a table or of contents, which is no part of a paragraph."""


class PageLayout(NamedTuple):
    """Lines of a page."""

    lines: list[PageLine]
    doubtful: bool
    """The order of its text is not certain."""


def body_size(spans: Sequence[TextSpan]) -> float:
    """Return the size of most of the text."""
    sizes = Counter[float]()
    for span in spans:
        sizes[round(span.size, 1)] += len(span.text)
    return sizes.most_common(1)[0][0] if sizes else 1.0


SpanGroup = list[TextSpan]
"""Spans of one line that follow each other without a wide gap."""


def group_spans(spans: Sequence[TextSpan]) -> list[SpanGroup]:
    """Return the spans in groups of one line, in the order of the file."""
    groups: list[SpanGroup] = []
    for span in spans:
        if groups and _continues(groups[-1], span):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _continues(group: SpanGroup, span: TextSpan) -> bool:
    last = group[-1]
    if last.line == span.line and (RTL.search(last.text) or RTL.search(span.text)):
        return True
    size = max(last.size, span.size)
    gap, rise = (span.x0 - last.x1) / size, (span.y - last.y) / size
    if not -_OVERLAP <= gap <= CELL_GAP or _is_initial(last, span.size) or abs(rise) > _MAX_RISE:
        return False
    return abs(rise) <= _SAME_LINE or gap <= _TOUCHES


def raw_text(group: SpanGroup) -> str:
    """Return the text of a group, exponents and marks as they are."""
    return "".join(span.text for span in group).strip()


def main_span(group: SpanGroup) -> TextSpan:
    """Return the longest span of the largest size."""
    largest = max(span.size for span in group if span.text.strip())
    return max((span for span in group if span.size > _SMALL * largest), key=lambda span: len(span.text))


def layout(groups: Sequence[SpanGroup]) -> PageLayout:
    """Return the lines of a page in the order in which they are read."""
    body = body_size([span for group in groups for span in group])
    notes = frozenset(
        group[0].text.strip() for group in groups if len(group) > 1 and group[0].size < _SMALL * group[1].size
    )
    rows = _rows(_without_line_numbers(_with_initials(groups, body)), notes)
    doubts: list[str] = []
    lines = _read(rows, doubts)
    written = sorted(lines, key=lambda line: line.order)
    if _INTERLEAVED not in doubts and not _jumps_up(written):
        return PageLayout(written, _UNCLEAR in doubts)
    return PageLayout(lines, _UNCLEAR in doubts or (_COLUMNS in doubts and _INTERLEAVED not in doubts))


def _jumps_up(lines: Sequence[PageLine]) -> bool:
    """Return True if a line stands above the one before it in the file, and not beside it."""
    edges = {max((line.y for line in lines), default=0.0), min((line.y for line in lines), default=0.0)}
    return any(
        after.y > before.y + before.size / 2 and after.x0 < before.x1 and before.x0 < after.x1
        for before, after in pairwise(line for line in lines if line.y not in edges)
    )


def _with_initials(groups: Sequence[SpanGroup], body: float) -> list[SpanGroup]:
    """Return the groups with each large initial at the beginning of the line beside it."""
    kept = [list(group) for group in groups]
    for initial in [group for group in kept if len(group) == 1 and _is_initial(group[0], body)]:
        letter = initial[0]
        near = [
            group
            for group in kept
            if group is not initial
            and -letter.size / 4 < group[0].x0 - letter.x1 < _INITIAL_GAP * body
            and -body / 3 < group[0].y - letter.y < letter.size
        ]
        if near:
            first = max(near, key=lambda group: group[0].y)
            blank = " " if _is_word(letter.text.strip(), raw_text(first), groups) else ""
            first[0] = first[0]._replace(text=letter.text.strip() + blank + first[0].text.lstrip())
            kept.remove(initial)
    return kept


def _is_initial(span: TextSpan, size: float) -> bool:
    text = span.text.strip(" “\"'‘")
    return len(text) == 1 and text.isalpha() and span.size >= _INITIAL * size


def _is_word(letter: str, following: str, groups: Sequence[SpanGroup]) -> bool:
    """Return True if the letter is a word, since what follows it is a word elsewhere on the page."""
    word = re.match(r"\w*", following)
    words = {one.casefold() for group in groups for one in re.findall(r"\w+", raw_text(group))[1:]}
    return letter in {"A", "I", "O"} and bool(word) and word[0].casefold() in words  # type: ignore[index]


def _without_line_numbers(groups: Sequence[SpanGroup]) -> list[SpanGroup]:
    """Return the groups without numbers beside the text that count its lines."""
    texts = [group for group in groups if len(raw_text(group).split()) >= _PROSE_WORDS]
    numbers = [group for group in groups if re.fullmatch(r"\d{1,4}", raw_text(group))]
    if not texts or len(numbers) < _LINE_NUMBERS:
        return list(groups)
    left, right = min(group[0].x0 for group in texts), max(group[-1].x1 for group in texts)
    dropped: set[int] = set()
    for side in (
        [one for one in numbers if one[-1].x1 <= left],
        [one for one in numbers if one[0].x0 >= right],
    ):
        column = sorted(side, key=lambda group: -group[0].y)
        values = [int(raw_text(group)) for group in column]
        steps = Counter(after - before for before, after in pairwise(values))
        step, times = steps.most_common(1)[0] if steps else (0, 0)
        counts = len(column) >= _LINE_NUMBERS and step > 0 and times >= _ALMOST_ALL * (len(column) - 1)
        if counts and (step in {5, 10} or _are_lines(column, texts)):
            dropped |= {id(group) for group in column}
    return [group for group in groups if id(group) not in dropped]


def _are_lines(numbers: Sequence[SpanGroup], texts: Sequence[SpanGroup]) -> bool:
    """Return True if the numbers stand beside lines of sentences, not beside entries."""
    near = [
        raw_text(text)[0].islower()
        for number in numbers
        for text in texts
        if abs(text[0].y - number[0].y) < text[0].size / 2
    ]
    return sum(near) >= _FLOW * len(numbers)


def _rows(groups: Sequence[SpanGroup], notes: frozenset[str]) -> list[list[PageLine]]:
    """Return the rows of a page from above, each with its parts from left to right."""
    rows: list[list[tuple[int, SpanGroup]]] = []
    places = [main_span(group) for group in groups]
    for order in sorted(range(len(groups)), key=lambda index: -places[index].y):
        group, place = groups[order], places[order]
        row = rows[-1] if rows else []
        near = row and places[row[0][0]].y - place.y < _ROW * max(place.size, places[row[0][0]].size)
        if near and all(_is_disjoint(group, other) for _, other in row):
            row.append((order, group))
        else:
            rows.append([(order, group)])
    return [_parts(sorted(row, key=lambda part: part[1][0].x0), notes) for row in rows]


def _is_disjoint(group: SpanGroup, other: SpanGroup) -> bool:
    slack = _TOUCHES * max(group[0].size, other[0].size)
    (a0, a1), (b0, b1) = _extent(group), _extent(other)
    return a1 <= b0 + slack or b1 <= a0 + slack


def _extent(group: SpanGroup) -> tuple[float, float]:
    return min(span.x0 for span in group), max(span.x1 for span in group)


def _parts(row: Sequence[tuple[int, SpanGroup]], notes: frozenset[str]) -> list[PageLine]:
    """Return the parts of a row; groups that touch are one part."""
    parts: list[tuple[int, SpanGroup]] = []
    for order, group in row:
        gap = (_extent(group)[0] - _extent(parts[-1][1])[1]) / group[0].size if parts else math.inf
        if gap < _TOUCHES or (gap < CELL_GAP and abs(order - parts[-1][0]) == 1):
            parts[-1] = (min(order, parts[-1][0]), [*parts[-1][1], *group])
        else:
            parts.append((order, group))
    return _without_stretches([line for order, group in parts if (line := _line(order, group, notes)).text])


def _without_stretches(parts: Sequence[PageLine]) -> list[PageLine]:
    """Return the parts; words of a line that is set to both margins are one part, not cells."""
    runs: list[list[PageLine]] = []
    for part in parts:
        follows = runs and part.order - runs[-1][-1].order == 1
        if follows and part.x0 - runs[-1][-1].x1 < _WIDEST_BLANK * part.size:
            runs[-1].append(part)
        else:
            runs.append([part])
    lines: list[PageLine] = []
    for run in runs:
        words = sum(part.text[:1].islower() for part in run)
        if len(run) > 1 and 2 * words >= len(run) and _is_stretched(run):
            text = " ".join(part.text for part in run)
            lines.append(replace(run[0], text=text, x1=run[-1].x1, space=min(part.space for part in run)))
        else:
            lines += run
    return lines


def _is_stretched(row: Sequence[PageLine]) -> bool:
    """Return True if the gaps of a row are like those between the words of its parts."""
    gaps = [(b.x0 - a.x1) / a.size for a, b in pairwise(row)]
    spaces = [part.space / part.size for part in row if part.space < math.inf]
    is_known = len(gaps) > 1 or (gaps and spaces)
    return bool(is_known) and max(gaps) < min(_STRETCHED * min([*gaps, *spaces]), _WIDEST_BLANK)


def _line(order: int, group: SpanGroup, notes: frozenset[str]) -> PageLine:
    main = main_span(group)
    text, runs = "", _runs(group, main)
    for number, (shift, words) in enumerate(runs):
        after = runs[number + 1][1] if number + 1 < len(runs) else ""
        if shift > 0:
            text = _add_raised(text, words.strip(), after, notes)
        elif shift < 0 and re.search(r"\w$", text):
            text += words.translate(_LOWERED_SIGNS)
        else:
            text += words
    blanks = [after.x0 - before.x1 for before, after in pairwise(group)]
    spaces = [blank for blank in blanks if blank > _WORD_GAP * main.size]
    space = min([*spaces, *(span.space for span in group)])
    text, leaders = _LEADERS.subn(" … ", " ".join(text.split()))
    return PageLine(text.strip(), *_extent(group), main.y, main.size, order, space, is_row=bool(leaders))


def _runs(group: SpanGroup, main: TextSpan) -> list[tuple[int, str]]:
    """Return the text of a group in pieces that are raised (1), lowered (-1) or on the line (0)."""
    runs: list[tuple[int, str]] = []
    for number, span in enumerate(group):
        rise = (span.y - main.y) / main.size
        least = _SHIFT if span.size < _SMALL * main.size else 2 * _SHIFT
        shift = (rise > least) - (rise < -least)
        before = group[number - 1] if number else span
        blank = " " if number and span.x0 - before.x1 > _WORD_GAP * main.size else ""
        if runs and runs[-1][0] == shift:
            runs[-1] = (shift, runs[-1][1] + blank + span.text)
        else:
            runs.append((shift, blank + span.text))
    return runs


def _add_raised(text: str, mark: str, after: str, notes: frozenset[str]) -> str:
    """Return the text with a raised mark as an exponent or as letters, or without the mark of a footnote."""
    if mark.isdigit() and after.startswith(("/", "⁄")):
        return f"{text} {mark}" if text[-1:].isdigit() else text + mark
    if mark.isdigit() and not text[-1:].strip() and after[:1].isupper() and mark not in notes:
        return text + mark.translate(_RAISED_SIGNS)  # an isotope
    base = text.rstrip()  # PDFium may add a blank before an exponent
    if _NOTE_MARK.fullmatch(mark) or (mark in notes and not base.endswith("10")):
        return text
    word = _WORD_END.search(base)
    letters = word[0] if word else ""
    is_short = len(letters) <= _SHORT_WORD
    if _EXPONENT.fullmatch(mark):
        is_base = base[-1:].isalnum() and (is_short or letters in _LONG_UNITS)
        is_bracket = len(mark) == 1 and bool(re.search(r"\w[)\]]$", base))
        is_exponent = is_base or is_bracket or not mark.isdigit()
        return base + mark.translate(_RAISED_SIGNS) if is_exponent else text
    is_note = len(mark) == 1 and mark.islower() and not is_short and not _ROMAN.fullmatch(letters)
    return text if is_note else text + mark


def _read(rows: Sequence[list[PageLine]], doubts: list[str]) -> list[PageLine]:
    """Return the lines of rows column by column; `doubts` receives what was seen of columns."""
    lines: list[PageLine] = []
    at = 0
    while at < len(rows):
        end, gutter = _block(rows, at)
        sides = [
            [
                side
                for row in rows[at:end]
                if (side := [part for part in row if (part.x0 >= gutter) == is_right])
            ]
            for is_right in (False, True)
        ]
        kind = _kind(*sides) if end - at >= _COLUMN_ROWS else ""
        doubts += [kind] if kind else []
        if kind in {_COLUMNS, _INTERLEAVED}:
            is_rtl = bool(RTL.search(sides[1][0][0].text))
            for half in reversed(sides) if is_rtl else sides:
                lines += _read(half, doubts)
            at = end
        else:
            lines.append(_join_row(rows, at))
            at += 1
    return lines


def _block(rows: Sequence[list[PageLine]], at: int) -> tuple[int, float]:
    """Return the end of the longest block of rows from here that one gutter parts, and its right edge."""
    best = (at, 0.0, 0)
    for left, right in pairwise(rows[at]):
        low, high, end, both = left.x1, right.x0, at + 1, 1
        for row in rows[at + 1 :]:
            sides = [part.x0 >= (low + high) / 2 for part in row]
            edges = [
                max([low, *(part.x1 for part, is_right in zip(row, sides, strict=True) if not is_right)]),
                min([high, *(part.x0 for part, is_right in zip(row, sides, strict=True) if is_right)]),
            ]
            is_far = rows[end - 1][0].y - row[0].y > _FAR * row[0].size
            if is_far or edges[1] - edges[0] < CELL_GAP / 2 * row[0].size:
                break
            low, high = edges
            both += len(set(sides)) - 1
            end += 1
        if both > best[2]:
            best = (end, high, both)
    return (best[0], best[1]) if best[2] >= _COLUMN_ROWS else (at, 0.0)


def _kind(left: Sequence[list[PageLine]], right: Sequence[list[PageLine]]) -> str:
    """Return the kind of two sides: columns, either, or none if they are cells."""
    texts = [[" ".join(part.text for part in row) for row in side] for side in (left, right)]
    length = min(statistics.median(len(_WORD.findall(text)) for text in side) for side in texts)
    order = sorted(
        (part.order, number) for number, side in enumerate((left, right)) for row in side for part in row
    )
    switches = sum(before[1] != after[1] for before, after in pairwise(order))
    written_apart = switches == 1
    if length < (_PROSE_WORDS - 1 if written_apart else _PROSE_WORDS):
        return ""
    if max(map(_flow, texts)) < _FLOW:
        return _COLUMNS if written_apart else _UNCLEAR
    return _COLUMNS if written_apart else _INTERLEAVED


def _flow(lines: Sequence[str]) -> float:
    """Return the share of lines that continue the line before."""
    goes_on = [
        not before.endswith(STOPS) and not after[:1].isupper() and not after[:1].isdigit()
        for before, after in pairwise(lines)
    ]
    return sum(goes_on) / max(1, len(goes_on))


def _join_row(rows: Sequence[list[PageLine]], at: int) -> PageLine:
    """Return a row as one line."""
    row = rows[at]
    near = [*rows[max(0, at - 1) : at], *rows[at + 1 : at + 2]]
    cells = row[1:] if _MARK.fullmatch(row[0].text) else row
    parts = reversed(row) if any(RTL.search(part.text) for part in row) else row
    return replace(
        row[0],
        text=" ".join(part.text for part in parts),
        x1=row[-1].x1,
        size=max(part.size for part in row),
        order=min(part.order for part in row),
        is_row=any(part.is_row for part in row) or any(_share_gap(cells, other) for other in near),
    )


def _share_gap(row: Sequence[PageLine], other: Sequence[PageLine]) -> bool:
    """Return True if a gap of one row is over a gap of the other, as in a table and not in a wide line."""
    return not _is_stretched(row) and any(
        min(b.x0, d.x0) - max(a.x1, c.x1) > _TOUCHES * a.size
        for a, b in pairwise(row)
        for c, d in pairwise(other)
    )


def lines_text(lines: Sequence[PageLine]) -> str:
    """Return the lines as text, with a blank line between paragraphs."""
    gaps = [above.y - below.y for above, below in pairwise(lines) if above.y > below.y]
    usual = statistics.median(gaps) if gaps else 0.0
    text = lines[0].text if lines else ""
    for before, line in pairwise(lines):
        text += ("\n\n" if _begins_paragraph(before, line, usual) else "\n") + line.text
    return text


def _begins_paragraph(before: PageLine, line: PageLine, usual: float) -> bool:
    gap, indent = before.y - line.y, (line.x0 - before.x0) / line.size
    if before.is_row or line.is_row:
        return True
    if gap < -usual:  # the next column
        return before.text.endswith(STOPS) or not line.text[:1].islower()
    is_set_apart = gap > usual * _PARAGRAPH_GAP or abs(before.size - line.size) > _OTHER_SIZE * line.size
    return is_set_apart or (before.text.endswith(STOPS) and gap >= 0 and _INDENT[0] < indent < _INDENT[1])
