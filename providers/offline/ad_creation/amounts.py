"""Numbers in people's sentences: seconds, counts, figures."""

from providers.offline.ad_creation.clauses import Clause
from providers.offline.lexicon import Mark

MAX_FIGURE = 7
"""Digits of a number that can be meant as a length, a tempo or a count."""


def figure(word: str) -> float | None:
    """Return the number a word of digits is ("2", "1.5", "1,5"), or None."""
    digits = word.replace(",", ".")
    if len(digits) > MAX_FIGURE or not digits.replace(".", "", 1).isdecimal():
        return None
    return float(digits)


def before(clause: Clause, place: int) -> float | None:
    """Return the number that stands right before token `place`, a hyphen or "a" between allowed; or None."""
    for mark in clause.all("number"):
        if 0 <= place - mark.last <= 1:
            return float(mark.concept.removeprefix("number."))
    values = (figure(clause.tokens[at].word) for at in (place - 1, place - 2) if at >= clause.first)
    return next((value for value in values if value is not None), None)


def seconds(clause: Clause) -> float | None:
    """Return the seconds `clause` names ("2 seconds", "half a second", "1 minute"), or None."""
    for concept, factor in (("unit.second", 1.0), ("unit.minute", 60.0)):
        for mark in clause.all(concept):
            amount = before(clause, mark.first)
            if amount is not None:
                return amount * factor
    return None


def count(clause: Clause) -> int | None:
    """Return the first whole number in `clause`, in digits or words, or None."""
    for place in range(clause.first, clause.last):
        value = figure(clause.tokens[place].word)
        if value is not None:
            return int(value)
        for mark in clause.all("number"):
            if mark.first == place:
                return int(float(mark.concept.removeprefix("number.")))
    return None


def near(clause: Clause, mark: Mark, concept: str, reach: int = 2) -> bool:
    """Return whether `concept` (or a group) is expressed within `reach` tokens of `mark`."""
    return any(
        -reach <= other.first - mark.last <= reach or -reach <= mark.first - other.last <= reach
        for other in clause.all(concept)
    )
