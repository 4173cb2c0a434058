"""Filters as models and people write them, read generously and resolved exactly."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from callsheet.state.campaigns.campaign import (
    CHANNELS,
    OTHER_CHANNELS,
    SENTIMENTS,
    VALUE_PROPS,
    VISUAL_STYLES,
)
from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.state.errors import Invalid

RECENT_DAYS: Final = 90
"""Days of "recent"."""
DIMENSIONS: Final = ("channel", "company", "product", "value_prop", "sentiment", "visual_style")
VALUES_OF: Final[Mapping[str, Sequence[str]]] = {
    "channel": (*CHANNELS, *OTHER_CHANNELS),
    "value_prop": VALUE_PROPS,
    "sentiment": SENTIMENTS,
    "visual_style": VISUAL_STYLES,
}
"""Usual values by dimension; channels and value propositions are open lists."""
_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "channel": {
        "insta": "instagram",
        "ig": "instagram",
        "fb": "facebook",
        "x": "twitter",
        "x twitter": "twitter",
        "mail": "direct_mail",
        "letter": "direct_mail",
        "letters": "direct_mail",
        "tweets": "twitter",
        "emails": "email",
        "meta": "facebook",
        "e mailing": "email",
        "newsletter": "email",
        "post": "direct_mail",
        "mailing": "direct_mail",
        "brief": "direct_mail",
        "yt": "youtube",
        "you tube": "youtube",
        "tik tok": "tiktok",
        "linked in": "linkedin",
        "ooh": "out_of_home",
        "dooh": "out_of_home",
        "billboard": "out_of_home",
        "outdoor": "out_of_home",
        "plakat": "out_of_home",
        "banner": "display",
        "google search": "search",
        "paid search": "search",
        "sea": "search",
        "television": "tv",
        "podcasts": "podcast",
    },
    "value_prop": {
        "free": "No Fee / No Minimum",
        "no annual fee": "No Fee / No Minimum",
        "no fees": "No Fee / No Minimum",
        "savings": "High-Yield Savings",
        "high yield": "High-Yield Savings",
        "apy": "High-Yield Savings",
        "points": "Cash Back / Rewards",
        "cashback": "Cash Back / Rewards",
        "travel": "Travel Benefits",
        "miles": "Travel Benefits",
        "credit score": "Credit Building",
        "build credit": "Credit Building",
        "fraud": "Security / Fraud Protection",
        "safety": "Security / Fraud Protection",
    },
    "sentiment": {
        "trust": "Trust-Building",
        "trustworthy": "Trust-Building",
        "fun": "Playful",
        "urgency": "Urgent",
        "luxury": "Premium",
        "inspiring": "Aspirational",
    },
    "visual_style": {
        "photo": "Lifestyle Photography",
        "photos": "Lifestyle Photography",
        "minimalist": "Minimalist Graphic",
        "minimal": "Minimalist Graphic",
        "illustrated": "Illustration",
        "product": "Product-Centric",
        "text heavy": "Text-Heavy",
        "abstract": "Abstract / Conceptual",
        "conceptual": "Abstract / Conceptual",
    },
}
"""Usual words for values, beside the values themselves and their parts."""
_EMPTY: Final[Mapping[str, Sequence[str]]] = {}
_SPAN: Final = re.compile(r"(?:the )?(?:last|past|previous) (?:(\d{1,3}) )?(day|week|month|quarter|year)s?")
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE_NAMES: Final = {"from": "start", "start_date": "start", "to": "end", "end_date": "end", "until": "end"}
_BETWEEN_DAYS: Final = (" to ", "/", "..", " - ")
_WORDS: Final = re.compile(r"[\W_]+")
_SEPARATORS: Final = re.compile(r"[,;|]| and ")
_ABSENT: Final = frozenset(
    {"", "null", "none", "any", "all", "any date", "all dates", "all time", "any time", "anytime", "ever"}
)
_MAX_VALUES: Final = 50
_MAX_NEAR: Final = 5
"""Values that are named instead of an absent one."""
_ALIKE: Final = 0.7
"""Share of equal letters from which a value is near."""
_MAX_WORD: Final = 200
_MAX_DATES: Final = 100
"""Characters of a range of days that are read."""


def _from_text(value: Any) -> Any:
    """Return JSON that was written as a string as its value, and a word for no value as None."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return None if value.strip().casefold() in _ABSENT else value


def _as_list(value: Any) -> Any:
    value = _from_text(value)
    items = value if isinstance(value, list | tuple) else [value]
    return [_as_text(item) for item in items if item is not None]


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_dates(value: Any) -> Any:
    value = _from_text(value)
    if isinstance(value, Mapping):
        return {_DATE_NAMES.get(name, name): day or None for name, day in value.items()}
    return _as_text(value)


_Texts = Annotated[
    list[Annotated[str, Field(max_length=200)]], BeforeValidator(_as_list), Field(max_length=_MAX_VALUES)
]


def _items(values: Sequence[str], *, is_open: bool = False) -> dict[str, Any]:
    """Return the schema of a list: an open one names usual values, any other one has an enum."""
    named = {"description": f"{'; '.join(values)}; or one of the library"} if is_open else {}
    return {"items": {"type": "string"} if is_open else {"type": "string", "enum": [*values]}, **named}


class LooseValues(BaseModel):
    """Values by dimension; a campaign matches a dimension with any of them."""

    model_config = ConfigDict(extra="forbid")

    channel: _Texts = Field(default=[], json_schema_extra=_items(CHANNELS, is_open=True))
    company: _Texts = Field(default=[], description="Or brand")
    product: _Texts = Field(default=[], description="Such as credit card")
    value_prop: _Texts = Field(default=[], json_schema_extra=_items(VALUE_PROPS, is_open=True))
    sentiment: _Texts = Field(default=[], json_schema_extra=_items(SENTIMENTS))
    visual_style: _Texts = Field(default=[], json_schema_extra=_items(VISUAL_STYLES))


class LooseDates(BaseModel):
    """A range of days; None is open."""

    model_config = ConfigDict(extra="forbid")

    start: date | None = None
    end: date | None = None


class LooseFilters(LooseValues):
    """Conditions on campaigns; all of them hold. Leave out what was not asked for."""

    date_range: Annotated[str | LooseDates | None, BeforeValidator(_as_dates)] = Field(
        default=None,
        description='"recent", "last 3 months", a month "2026-03", a year, or {"start", "end"} as days',
    )
    has_offer: Annotated[bool | None, BeforeValidator(_from_text)] = None
    exclude: Annotated[LooseValues | None, BeforeValidator(_from_text)] = Field(
        default=None,
        description="Campaigns with any of these are left out",
    )


class Resolved(NamedTuple):
    """Exact filters, and remarks for the person about how they were read."""

    filters: Filters
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Sentences for values that no campaign of the library has, each with the nearest that it has."""


def resolve_filters(
    loose: LooseFilters, newest: date | None, today: date, library: Mapping[str, Sequence[str]] = _EMPTY
) -> Resolved:
    """Return the exact filters; raise `Invalid` that lists the values for an unknown one.

    `library` has the values of the library by dimension, which come before the known ones: a word means the
    values that are spelled like it, and a known value means all of the library that mean the same.
    `newest` is the newest day in the library: where nothing lies in the last `RECENT_DAYS`, "recent" ends
    with it.
    """
    notes: list[str] = []
    included = _without_everything(_resolve_values(loose, library), library)
    excluded = _flat(_resolve_values(loose.exclude, library)) if loose.exclude else {}
    dates = _resolve_dates(loose.date_range, newest, today, notes.append)
    filters = Filters(
        **included,
        date_range=dates,
        has_offer=loose.has_offer,
        exclude=Values(**excluded),
    )
    return Resolved(filters, tuple(notes))


def merge_filters(base: Filters, own: Filters) -> Filters:
    """Return both filters at once; for a dimension that `own` names, what the base says is dropped."""
    chosen = {name: _own_or_base(name, base, own) for name in DIMENSIONS}
    has_offer = base.has_offer if own.has_offer is None else own.has_offer
    excluded = {
        name: tuple(
            dict.fromkeys(
                (*(() if getattr(own, name) else getattr(base.exclude, name)), *getattr(own.exclude, name))
            )
        )
        for name in DIMENSIONS
    }
    return Filters(
        **chosen,
        date_range=own.date_range or base.date_range,
        has_offer=has_offer,
        exclude=Values(**excluded),
    )


def _own_or_base(name: str, base: Filters, own: Filters) -> tuple[str, ...]:
    """Return a dimension's values; those of the base that `own` excludes are dropped."""
    values: tuple[str, ...] = getattr(own, name)
    return values or tuple(value for value in getattr(base, name) if value not in getattr(own.exclude, name))


def active_filters(filters: Filters) -> dict[str, Any]:
    """Return the conditions that are set, as JSON."""
    shown: dict[str, Any] = {name: list(values) for name in DIMENSIONS if (values := getattr(filters, name))}
    if filters.date_range:
        shown["date_range"] = filters.date_range.model_dump(mode="json")
    if filters.has_offer is not None:
        shown["has_offer"] = filters.has_offer
    if excluded := {name: list(values) for name in DIMENSIONS if (values := getattr(filters.exclude, name))}:
        shown["exclude"] = excluded
    return shown


def without_filter(filters: Filters, name: str) -> Filters:
    """Return the filters without one of those that `active_filters` names."""
    return filters.model_copy(update={name: Filters.model_fields[name].default})


_Meanings = Mapping[str, Sequence[Sequence[str]]]
"""By dimension the values that each word means."""


def _resolve_values(loose: LooseValues, library: Mapping[str, Sequence[str]]) -> _Meanings:
    """Return exact values; a word of another dimension goes there ("Premium" is a sentiment)."""
    meanings: dict[str, list[Sequence[str]]] = {name: [] for name in DIMENSIONS}
    words = [(name, word) for name in DIMENSIONS for word in getattr(loose, name) if word.strip()]
    for name, word in words:
        for place, values in _word_values(name, word, library):
            meanings[place].append(values)
    return meanings


def _word_values(
    dimension: str, word: str, library: Mapping[str, Sequence[str]]
) -> list[tuple[str, Sequence[str]]]:
    """Return the values in a word, each with its dimension; a company or product may be any text."""
    if dimension in VALUES_OF:
        return _known_values(dimension, word, library)
    own = library.get(dimension, ()) if dimension == "product" else ()
    return [(dimension, _library_values(dimension, word, own) or [word.strip()])]


def _flat(meanings: _Meanings) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(dict.fromkeys(value for values in each for value in values))
        for name, each in meanings.items()
    }


def _without_everything(
    meanings: _Meanings, library: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the values without a dimension of which words name all: models fill in what nobody wants."""
    every = {name: {*(library.get(name) or VALUES_OF[name])} for name in VALUES_OF}
    return {
        name: () if name in every and len(meanings[name]) > 1 and every[name] <= {*values} else values
        for name, values in _flat(meanings).items()
    }


def _known_values(
    dimension: str, text: str, library: Mapping[str, Sequence[str]]
) -> list[tuple[str, Sequence[str]]]:
    """Return the values in a text, each with its dimension: of one word, or of several in a row."""
    if known := _known_value(dimension, text, library):
        return [known]
    known_values = []
    for word in filter(str.strip, _SEPARATORS.split(text)):
        if not (known := _known_value(dimension, word, library)):
            values = dict.fromkeys((*library.get(dimension, ())[:_MAX_VALUES], *VALUES_OF[dimension]))
            raise Invalid(
                f"there is no {dimension} {word.strip()!r}", remedy=f"use one of: {'; '.join(values)}"
            )
        known_values.append(known)
    return known_values


def _known_value(
    dimension: str, word: str, library: Mapping[str, Sequence[str]]
) -> tuple[str, Sequence[str]] | None:
    """Return the values that a word means, with their dimension; those of the library come first."""
    names = (dimension, *(other for other in VALUES_OF if other != dimension))
    is_known = match_value(dimension, word) is not None
    for name in names:
        by_part = name == dimension or not is_known
        if values := _library_values(name, word, library.get(name, ()), by_part=by_part):
            return name, values
    for name in names:
        value = match_value(name, word)
        # The other usual channels are in few libraries.
        if value and value not in OTHER_CHANNELS:
            return name, [value]
    return None


def _library_values(name: str, word: str, values: Sequence[str], *, by_part: bool = True) -> Sequence[str]:
    """Return the values of the library that a word means.

    Those that it spells, or that mean the same known value, or with `by_part` the one that has all its words.
    """
    plain = plain_words(word)
    if not plain or not values:
        return ()
    spelled = [value for value in values if _is_spelled(value, plain)]
    known = match_value(name, word) if name in VALUES_OF else None
    if known and (not spelled or _is_spelled(known, plain)):
        same = [value for value in values if value == known or _meaning_of(name, value) == known]
        if same:
            return same
    words = {*plain.split()}
    fitting = [value for value in values if words <= {*plain_words(value).split()}]
    return spelled or (fitting if by_part and len(fitting) == 1 else ())


def _is_spelled(value: str, plain: str) -> bool:
    return plain_words(value).replace(" ", "") == plain.replace(" ", "")


def absent_value(name: str, value: str, library: Sequence[str]) -> str:
    """Return the sentence about a value that no campaign of a library has, with the nearest that it has."""
    words = {*plain_words(value).split()}
    spelled = {plain_words(one): one for one in library}
    shared = [one for plain, one in spelled.items() if words & {*plain.split()}]
    alike = [spelled[plain] for plain in get_close_matches(plain_words(value), spelled, cutoff=_ALIKE)]
    near = [*dict.fromkeys((*shared, *alike))][:_MAX_NEAR]
    listed = ", ".join(f"“{one}”" for one in near or library[:_MAX_NEAR])
    verb = f"the nearest {'is' if len(near) == 1 else 'are'}" if near else "it has"
    thing = f"{name.replace('_', ' ')} “{value}”"
    return f"No campaign of this library has the {thing}; {verb} {listed or 'none'}."


def match_value(dimension: str, word: str) -> str | None:
    """Return the known value that a word means in a dimension; None if none or several fit."""
    if len(word) > _MAX_WORD or not (plain := plain_words(word)):
        return None
    if meaning := _meaning_of(dimension, word):
        return meaning
    fitting = [value for value in VALUES_OF[dimension] if {*plain.split()} <= {*plain_words(value).split()}]
    return fitting[0] if len(fitting) == 1 else None


def _meaning_of(dimension: str, word: str) -> str | None:
    """Return the known value that a word spells, or is a usual word for."""
    # Only short words are remembered, so that what is kept is bounded in bytes.
    return _spelled_value(dimension, plain_words(word)) if len(word) <= _MAX_WORD else None


@lru_cache(maxsize=4_000)
def _spelled_value(dimension: str, plain: str) -> str | None:
    if not plain:
        return None
    for value in VALUES_OF[dimension]:
        spellings = {plain_words(value), *(plain_words(part) for part in value.split("/"))}
        if plain.replace(" ", "") in {spelling.replace(" ", "") for spelling in spellings}:
            return value
    return _ALIASES[dimension].get(plain)


def plain_words(text: str) -> str:
    """Return the words of a text in lower case, with a blank between them."""
    return _WORDS.sub(" ", text.casefold()).strip()


def _resolve_dates(
    given: str | LooseDates | None, newest: date | None, today: date, note: Callable[[str], object]
) -> DateRange | None:
    if given is None or given == "":
        return None
    if isinstance(given, LooseDates):
        if given.start and given.end and given.start > given.end:
            raise Invalid(f"the range starts {given.start} and ends {given.end}", remedy="swap its days")
        return DateRange(start=given.start, end=given.end) if given.start or given.end else None
    given = given[:_MAX_DATES]
    text = plain_words(given)
    if text in {"recent", "recently", "new", "newest", "latest"}:
        return _recent(newest, today, note)
    if span := _SPAN.fullmatch(text):
        days = int(span[1] or 1) * _DAYS[span[2]]
        return DateRange(start=today - timedelta(days=days), end=today)
    if dates := _days_between(given.strip(), today):
        return dates
    raise Invalid(
        f"{given[:60]!r} is no range of days",
        remedy='use "recent", "last 3 months", "2026-03", "2026", or {"start": "2026-01-01", "end": …}',
    )


def _recent(newest: date | None, today: date, note: Callable[[str], object]) -> DateRange:
    start = today - timedelta(days=RECENT_DAYS)
    if newest is None or newest >= start:
        return DateRange(start=start, end=today)
    note(f"nothing is newer than {newest}, so recent means the {RECENT_DAYS} days before it")
    earlier = max(newest.toordinal() - RECENT_DAYS, date.min.toordinal())
    return DateRange(start=date.fromordinal(earlier), end=newest)


def _days_between(text: str, today: date) -> DateRange | None:
    """Return the days of "2026-03", "March 2026", "this year" or "2026-01-01 to 2026-03-31"."""
    for mark in _BETWEEN_DAYS:
        first, separator, last = text.partition(mark)
        if separator:
            start = _calendar_range(first.removeprefix("from "), today)
            end = _calendar_range(last, today)
            ordered = start and end and start.start and end.end and start.start <= end.end
            return DateRange(start=start.start, end=end.end) if start and end and ordered else None
    return _calendar_range(text, today)


def _in_figures(text: str, today: date) -> str:
    """Return "March 2026" and "this month" as "2026-3"; another text as it is."""
    match text.casefold().replace(",", " ").split():
        case ["this", "year"]:
            return str(today.year)
        case ["this", "month"]:
            return f"{today.year}-{today.month}"
        case [month, year] if month[:3] in _MONTHS:
            return f"{year}-{_MONTHS.index(month[:3]) + 1}"
    return text.strip()


def _calendar_range(text: str, today: date) -> DateRange | None:
    """Return the days of a year, a month or a day; None for another text."""
    parts = _in_figures(text, today).split("-")
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts[0]) != len("2026"):
        return None
    numbers = [int(part) for part in parts]
    try:
        match numbers:
            case [year]:
                return DateRange(start=date(year, 1, 1), end=date(year, 12, 31))
            case [year, month]:
                following = date(year + month // 12, month % 12 + 1, 1)
                return DateRange(start=date(year, month, 1), end=following - timedelta(days=1))
            case [year, month, day]:
                return DateRange(start=date(year, month, day), end=date(year, month, day))
    except (ValueError, OverflowError):
        return None
    return None
