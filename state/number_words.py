"""Number words: the values of English ones, the numbers that a text spells, and Chinese numerals."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

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
