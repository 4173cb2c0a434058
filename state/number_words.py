"""English number words: their values, and the numbers that a text spells."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from callsheet.state.lessons.student import SMALL, TENS

SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_VALUES: Final = {
    **{word: value for value, word in enumerate(SMALL)},
    **{word: 10 * value for value, word in enumerate(TENS, 2)},
}
_HUNDRED: Final = 100
_TOKEN: Final = re.compile(r"[a-z]++|\d++(?:[.,]\d++)*+|[^\s\w-]")


def spelled_numbers(text: str) -> list[frozenset[float]]:
    """Return the numbers that a text spells, each with all that it may mean.

    "twenty-five" is 25, "1.5 million" is 1,500,000, "two hundred and six" is 206; "nineteen sixty-nine" is
    1969, or 19 and 69.
    """
    result: list[frozenset[float]] = []
    for run in _runs(text):
        values = _values(run)
        years = [
            first * _HUNDRED + second
            for first, second in pairwise(values)
            if 10 <= first < _HUNDRED and second < _HUNDRED  # noqa: PLR2004 -- two figures each
        ]
        result += [frozenset([*values, *years])] if years else [frozenset([value]) for value in values]
    return result


def word_value(word: str) -> int | None:
    """Return the value of one lower-case number word below 100, or None."""
    return _VALUES.get(word)


def _runs(text: str) -> Iterator[list[str]]:
    """Yield neighbouring number words; one that only has figures is not spelled."""
    run: list[str] = []
    for word in [*_TOKEN.findall(text.casefold()), "."]:
        number = word in _VALUES or word in SCALES or word[0].isdigit()
        if number or (word in {"and", "a"} and (run or word == "a")):
            run.append(word)
            continue
        while run and run[-1] in {"and", "a"}:
            run.pop()
        if any(each in _VALUES or each in SCALES for each in run):
            yield run
        run = []


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
