"""Figures of a text, in digits, English words or Chinese numerals, and another text's forms of the same."""

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from callsheet.state.names import COMPARING

TO_TWELVE: Final = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
)
TEENS: Final = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
SMALL: Final = ("zero", *TO_TWELVE, *TEENS)
TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ORDINALS: Final = (
    *("first", "second", "third", "fourth", "fifth", "sixth"),
    *("seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"),
)
"""English number words; the first of `SMALL` is zero, the first of `TENS` twenty."""
SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_VALUES: Final = {
    **{word: value for value, word in enumerate(SMALL)},
    **{word: 10 * value for value, word in enumerate(TENS, 2)},
}
_ORDINALS: Final = {
    **{word: SMALL[value] for value, word in enumerate(ORDINALS, 1)},
    **{f"{word}th": word for word in TEENS},
    **{f"{word[:-1]}ieth": word for word in TENS},
}
_PLURALS: Final = {f"{word[:-1]}ies": word for word in TENS}
_ZERO: Final = frozenset({"zero", "oh", "o", "nought"})
_REPEATS: Final = {"double": 2, "triple": 3}
_HUNDRED: Final = 100
_PART: Final = re.compile(r"[^\W\d_]++|\d++|[.,;:!?]")
_TOKEN: Final = re.compile(r"[a-z]++|\d++(?:[.,]\d++)*|[^\s\w'’-]")
_CHINESE: Final = re.compile("[〇零一二两兩三四五六七八九十百千万萬亿億]++")
_CHINESE_DIGITS: Final = {char: value for value, char in enumerate("〇一二三四五六七八九")} | {
    "零": 0,
    "两": 2,
    "兩": 2,
}
_CHINESE_UNITS: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_CHINESE_LARGE: Final = 10**4


def spelled_numbers(text: str) -> list[frozenset[float]]:
    """Return the numbers that a text spells, each with all that it may mean.

    "twenty-five" is 25, "1.5 million" is 1,500,000, "two hundred and six" is 206; "nineteen sixty-nine" is
    1969, or 19 and 69.
    """
    return [
        number
        for run in _runs(text)
        if not isinstance(run, str) and any(each in _VALUES or each in SCALES for each in run)
        for number in _readings(run)
    ]


def number_tokens(text: str) -> list[str | frozenset[float]]:
    """Return the words and signs of an English text in lower case, each number as all that it may mean.

    Ordinals are numbers, and "sixties" is 60 and an "s".
    """
    return [token for run in _runs(text) for token in ([run] if isinstance(run, str) else _readings(run))]


def chinese_numbers(text: str) -> set[float]:
    """Return the values of the Chinese numerals in a text: 二百零六 is 206, 一六六六 is 1666."""
    return {_chinese_value(numeral) for numeral in _CHINESE.findall(text)}


def _chinese_value(numeral: str) -> float:
    if not any(char in _CHINESE_UNITS for char in numeral):
        return float("".join(str(_CHINESE_DIGITS[char]) for char in numeral))
    total = section = digit = 0
    for char in numeral:
        unit = _CHINESE_UNITS.get(char)
        if unit is None:
            digit = _CHINESE_DIGITS[char]
        elif unit < _CHINESE_LARGE:
            section, digit = section + (digit or 1) * unit, 0
        else:
            total, section, digit = total + (section + digit or 1) * unit, 0, 0
    return float(total + section + digit)


def _readings(run: list[str]) -> list[frozenset[float]]:
    values = _values(run)
    years = [
        first * _HUNDRED + second
        for first, second in pairwise(values)
        if 10 <= first < _HUNDRED and second < _HUNDRED  # noqa: PLR2004 -- two figures each
    ]
    spelled = any(each in _VALUES for each in run)
    return [frozenset([*values, *years])] if years and spelled else [frozenset([value]) for value in values]


def digit_tokens(text: str) -> list[str]:
    """Return the words of a text in lower case, with numbers in digits: "double four, oh eight" is 44 0 8.

    As in a phone number, "eight hundred one" is 800 1.
    """
    tokens: list[str] = []
    run: list[str] = []
    for part in [*_PART.findall(text.casefold()), ","]:
        number = (part in _VALUES and part not in _ZERO) or (run and (part in SCALES or part == "and"))
        if run and (not number or (run[-1] == "hundred" and part in _VALUES)):
            tokens += [f"{value:.0f}" for value in _values(run)]
            run = []
        if number:
            run.append(part)
            continue
        digits = "0" if part in _ZERO else "".join(str(int(char)) for char in part if char.isdecimal())
        tokens += [digits or part] if part.isalnum() else []
    return _with_repeats(tokens)


def cardinal(word: str) -> str:
    """Return the number word of an English ordinal: "fifteenth" is fifteen; any other word as it is."""
    plain = word.strip(".,;:!?\"'“”()")
    head, _, last = plain.rpartition("-")
    last = _ORDINALS.get(last, last)
    return f"{head}-{last}" if head else last


def _with_repeats(tokens: list[str]) -> list[str]:
    result: list[str] = []
    for each in tokens:
        if result and result[-1] in _REPEATS and each.isdigit():
            result[-1] = each * _REPEATS[result[-1]]
        else:
            result.append(each)
    return result


def _runs(text: str) -> Iterator[str | list[str]]:
    """Yield the words and signs, neighbouring numbers as one list."""
    run: list[str] = []
    for word in [*_words(text), "."]:
        number = word in _VALUES or word in SCALES or word[0].isdigit()
        if number or (word in {"and", "a"} and (run or word == "a")):
            run.append(word)
            continue
        size = len(run)
        while size and run[size - 1] in {"and", "a"}:
            size -= 1
        if size:
            yield run[:size]
        yield from run[size:]
        yield word
        run = []


def _words(text: str) -> Iterator[str]:
    for word in _TOKEN.findall(text.casefold()):
        if word in _PLURALS:
            yield from (_PLURALS[word], "s")
        else:
            yield _ORDINALS.get(word, word)


def _values(run: list[str]) -> list[float]:
    """Return the numbers of a run: a smaller one is added to tens, hundreds and thousands before it."""
    values: list[float] = []
    total = current = 0.0
    open_below = 0.0
    """The next value joins the current number if it is below this."""
    for word in run:
        if word in SCALES:
            scale = SCALES[word]
            current = (current or 1) * scale
            open_below = scale
            if scale > _HUNDRED:
                total, current = total + current, 0.0
        elif word not in {"and", "a"}:
            value = float(_VALUES[word]) if word in _VALUES else _figure(word)
            if not 0 < value < open_below:
                values += [total + current] if total + current or open_below else []
                total = current = 0.0
            current += value
            tens = value >= 20 and value % 10 == 0 and word in _VALUES  # noqa: PLR2004 -- "twenty" and up
            open_below = 10.0 if tens else 0.0
    return [*values, total + current]


def _figure(word: str) -> float:
    plain = word.replace(",", "")
    return float(plain) if plain.count(".") <= 1 else 0.0


_FIGURE: Final = re.compile(r"\d++(?:[.,]\d++)*")
_CLAIM: Final = re.compile(rf"(?<![A-Za-z\d]){_FIGURE.pattern}")
"""A figure that is no part of a name such as CO2."""
_GROUPED: Final = re.compile(r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,4}(?!\d)")
"""Thousands parted by blanks."""
_YEAR: Final = re.compile(r"[12]\d{3}")
_ROUND: Final = frozenset({100.0, 1e3, 1e6, 1e9, 1e12})
_LARGEST_USUAL: Final = 12
"""Number words up to here, as in "two main ideas", are no claims."""
_SCALES: Final = (1e3, 1e4, 1e6, 1e8, 1e9, 1e12)
"""Values of the words that follow figures in any language: Millionen, 万."""
_HEDGES: Final = frozenset(
    {"about", "above", "almost", "approximately", "around", "least", "most", "nearly", "over", "roughly"}
    | {"some", "than", "under"}
)
"""English words after which a number is rounded: about, more than."""
_SMALL: Final = 100
"""Numbers below it are rounded only where a word says so."""
_LARGE: Final = 10_000
"""Numbers from here on are no years."""
_ROUNDING: Final = 0.25
"""Greatest difference of a rounded number, as a share of the exact one."""
_PRESENT: Final = 2025
"""The year from which "years ago" is counted, give or take `_PRESENT_SPAN` years."""
_PRESENT_SPAN: Final = 25


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


def readings(figure: str) -> frozenset[float]:
    """Return the values that a figure may have: 1,500 is fifteen hundred or one and a half."""
    english, european = number(figure), _european(figure)
    values = {value for value in (english, european) if value is not None}
    return frozenset(values or {float(part) for part in re.split(r"[.,]", figure)})


def figure_values(text: str) -> frozenset[float]:
    """Return all values that the figures of a text may have."""
    return frozenset(value for figure in figures(text) for value in readings(figure))


@lru_cache(maxsize=64)
def all_numbers(text: str) -> frozenset[float]:
    """Return all values that the figures and number words of a text may have."""
    text = unicodedata.normalize("NFKC", text)
    values = set(figure_values(text))
    values |= {_join_groups(each) for each in _GROUPED.findall(text)}
    values |= {value for each in spelled_numbers(text) for value in each}
    return frozenset(values | chinese_numbers(text))


def has_number(text: str, figure: str) -> bool:
    """Return whether a text has a number, in figures or in words."""
    return bool(readings(figure) & all_numbers(text))


def unproven_figures(sentence: str, known: frozenset[float]) -> list[str]:
    """Return the figures of a sentence in any language that are no form of a known number, as written."""
    groups = [each for each in _GROUPED.findall(sentence) if _join_groups(each) in known]
    proven = {part for each in groups for part in figures(each)}
    return [
        figure
        for figure in _CLAIM.findall(sentence)
        if not readings(figure) & known and figure not in proven and not _is_rounded(figure, known)
    ]


def unproven_numbers(sentence: str, known: frozenset[float]) -> list[str]:
    """Return the figures and spelled numbers of an English sentence that are no form of a known number.

    "1960s", "17th century", "350 years ago" and "nearly 50" are proven by 1969, 1666, 1666 and 48. Small and
    round number words are no claims, nor are comparisons: "like 30 penguins".
    """
    known = known | frozenset(_numbers_in_context(sentence, known))
    wrong = unproven_figures(sentence, known)
    spelled = spelled_numbers(sentence)
    proven = (value for values in spelled if values & known for value in values)
    parts = {value / scale for value in proven for scale in _SCALES}
    usual = {float(value) for value in range(_LARGEST_USUAL + 1)} | _ROUND | figure_values(sentence) | known
    return [
        *(figure for figure in wrong if not readings(figure) & parts),
        *(f"{max(values):,.10g}" for values in spelled if not values & usual),
    ]


def is_scaled(figure: str, known: frozenset[float]) -> bool:
    """Return whether a word in any language may make a figure a known number: 150 Millionen, 38万."""
    scaled = {
        result for value in readings(figure) for scale in _SCALES for result in (value * scale, value / scale)
    }
    return bool(scaled & (known | _rounded_numbers(known, _LARGE)))


def _european(figure: str) -> float | None:
    """Return a number with dots between thousands and a decimal comma; None if it is none."""
    integer, comma, decimals = figure.partition(",")
    first, *groups = integer.split(".")
    if "," in decimals or "." in decimals or any(len(group) != 3 for group in groups):  # noqa: PLR2004
        return None
    return float(f"{first}{''.join(groups)}{'.' * bool(comma)}{decimals}")


def _join_groups(grouped: str) -> float:
    return float("".join(_FIGURE.findall(grouped)))


def _is_rounded(figure: str, known: frozenset[float]) -> bool:
    """Return whether a figure is a known number rounded; a year never is."""
    return not _YEAR.fullmatch(figure) and bool(readings(figure) & _rounded_numbers(known, _SMALL))


@lru_cache(maxsize=64)
def _rounded_numbers(known: frozenset[float], least: float) -> frozenset[float]:
    """Return the known numbers from `least` on, rounded up and down to one and to two digits."""
    result: set[float] = set()
    for exact in known:
        if least <= exact < math.inf:
            step = 10.0 ** math.floor(math.log10(exact))
            sizes = (step, step / 10)
            around = {
                round(turn(exact / size) * size, 6) for size in sizes for turn in (math.floor, math.ceil)
            }
            result |= {value for value in around if abs(value - exact) <= exact * _ROUNDING}
    return frozenset(result)


def _numbers_in_context(sentence: str, known: frozenset[float]) -> Iterator[float]:
    """Yield the numbers of an English sentence that the words around them make a form of a known number."""
    tokens = number_tokens(sentence)
    ordered = sorted(known)
    rounded = _rounded_numbers(known, 1)
    for at, values in enumerate(tokens):
        if isinstance(values, str):
            continue
        before = next(
            (token for token in reversed(tokens[max(0, at - 2) : at]) if token not in {"a", "an"}), ""
        )
        after = [token for token in tokens[at + 1 : at + 4] if token not in {"st", "nd", "rd", "th"}]
        if before in COMPARING:
            yield from values
        elif before in _HEDGES:
            yield from values & rounded
        for value in values:
            if any(_has_between(ordered, *period) for period in _periods(value, after)):
                yield value


def _periods(value: float, after: list[str | frozenset[float]]) -> Iterator[tuple[float, float]]:
    """Yield the first and last years that a number and the words after it may mean: 1960s, 17th century."""
    match after:
        case ["s", *_] if value < 100:  # noqa: PLR2004 -- the sixties
            yield from ((start + value, start + value + 9) for start in (1800, 1900, 2000))
        case ["s", *_] if value % 10 == 0:
            yield value, value + (99 if value % 100 == 0 else 9)
        case ["century" | "centuries", *_]:
            yield 100 * (value - 1), 100 * value
        case ["years", "ago", *_]:
            gap = max(_PRESENT_SPAN, value / 10)
            yield _PRESENT - value - gap, _PRESENT - value + gap
            yield value - _PRESENT - gap, value - _PRESENT + gap
        case _:
            pass


def _has_between(ordered: Sequence[float], low: float, high: float) -> bool:
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] <= high
