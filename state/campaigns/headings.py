"""Headings of a file of campaigns, as the fields that they mean."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.errors import Invalid

MAX_HEADINGS: Final = 500
_MAX_CHARS: Final = 200
_PLAIN: Final = re.compile(r"[\W_]+")
_CURRENCY_END: Final = re.compile(r"[\s_(\[/]{1,3}(in )?([a-z]{3}|us\$|[$€£¥])[)\]]?", re.IGNORECASE)
SYMBOLS: Final = {"$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "a$": "AUD", "c$": "CAD"}
SIGNS: Final[Mapping[str, frozenset[str]]] = {
    "USD": frozenset({"AUD", "CAD", "NZD", "HKD", "SGD", "MXN", "ARS", "CLP", "COP", "BRL"}),
    "JPY": frozenset({"CNY"}),
}
"""Other currencies that the sign of one may mean."""
CURRENCIES: Final = frozenset(
    (
        *("USD", "EUR", "GBP", "CHF", "JPY", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF"),
        *("RON", "TRY", "INR", "BRL", "MXN", "CNY", "HKD", "SGD", "ZAR", "ILS", "KRW", "THB", "IDR", "PHP"),
        *("MYR", "AED", "SAR", "CLP", "COP", "ARS"),
    )
)
_WORDS: Final[Mapping[str, str]] = {
    "id": "ad id, ad archive id, library id, ad library id, creative id, campaign id, reference, nr, nummer",
    "company": "company name, advertiser, advertiser name, page name, account name, client, client name,"
    " organization, organisation, firma, unternehmen, werbetreibender, kunde, paying entity",
    "brand": "brand name, marke, product brand",
    "channel": "platform, platforms, publisher platform, publisher platforms, media channel, medium, media,"
    " network, placement, kanal, plattform, werbekanal, source",
    "primary_product": "product, product name, product category, category, article, item, produkt,"
    " produktkategorie, artikel",
    "offer": "offers, promotion, deal, angebot, aktion",
    "incentives": "incentive, anreize",
    "key_value_props": "value props, value prop, value proposition, value propositions, benefits, usp, usps,"
    " nutzenversprechen",
    "campaign_text": "text, headline, title, ad text, ad copy, copy, copy text, body, body text,"
    " primary text, ad creative bodies, ad creative body, introductory text, anzeigentext, werbetext,"
    " ad title",
    "full_campaign_text": "full text, full copy, transcript, volltext, ad creative link descriptions",
    "imagery_sentiment": "sentiment, tone, stimmung",
    "imagery_visual_style": "visual style, style, bildstil",
    "imagery_primary_subject": "subject, primary subject, image subject, motiv",
    "imagery_demographics": "demographics, audience, target audience, zielgruppe",
    "volume": "impressions, pieces, circulation, reach, mail volume, total impressions, menge,"
    " auflage, impressionen, reichweite, impressions lower bound",
    "volume_max": "impressions upper bound",
    "spend": "amount spent, total spent, cost, costs, budget, media spend, ad spend, estimated spend,"
    " ausgaben, kosten, spend range min, spend lower bound",
    "spend_max": "spend range max, spend upper bound",
    "currency": "currency code, account currency, währung",
    "capture_date": "date, captured, seen, first seen, start, start date, date range start, first shown,"
    " ad delivery start time, started running, start date in utc, datum, startdatum, erfasst am, launch date",
    "image_s3_urls": "images, image, image url, image urls, bild, bilder, creative url",
}
_FIELDS: Final = {
    _PLAIN.sub("", word.casefold()): name
    for name in Campaign.model_fields
    for word in (name, *_WORDS.get(name, "").split(","))
    if word
}
"""Fields by heading without blanks and signs: names of fields, and headings that ad libraries use."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields by heading."""
    ignored: tuple[str, ...] = ()
    """Headings of columns that are not imported."""
    currencies: Mapping[str, str] = field(default_factory=dict)
    """Currencies by heading, where one names its currency."""


def count_fields(headings: Iterable[object]) -> int:
    """Return how many fields these cells name."""
    return len({name for heading in headings if isinstance(heading, str) and (name := _read(heading)[0])})


def map_columns(headings: Iterable[str], mapping: Mapping[str, str]) -> Columns:
    """Return the columns of these headings.

    Each field comes from one column: one of `mapping` before one with the field's own name before others.
    Raises `Invalid` for a mapping to a field that campaigns do not have, and for one of a heading that the
    file does not have.
    """
    names = list(headings)
    _check(mapping, names)
    taken: dict[str, str] = {}
    currencies = {}
    for heading in sorted(names, key=lambda one: _rank(one, mapping)):
        name, currency = _read(heading)
        name = mapping.get(heading, name) or None
        if name and name not in taken.values():
            taken[heading] = name
            if currency:
                currencies[heading] = currency
    return Columns(taken, tuple(one for one in names if one not in taken), currencies)


def _rank(heading: str, mapping: Mapping[str, str]) -> int:
    if heading in mapping:
        return 0
    plain = _PLAIN.sub("", heading.casefold())
    return 1 if plain in {_PLAIN.sub("", name) for name in Campaign.model_fields} else 2


def _check(mapping: Mapping[str, str], headings: list[str]) -> None:
    for heading, name in mapping.items():
        if name and name not in Campaign.model_fields:
            raise Invalid(
                f"mapping names the field {name[:80]!r}, which campaigns do not have",
                remedy=f"use one of {', '.join(Campaign.model_fields)}, or an empty text to leave it out",
            )
        if heading not in headings:
            listed = ", ".join(repr(one[:80]) for one in headings[:30])
            raise Invalid(
                f"mapping names the column {heading[:80]!r}, which the file does not have",
                remedy=f"its columns are {listed}",
            )


def _read(heading: str) -> tuple[str | None, str]:
    """Return the field that a heading means, and the currency that it names."""
    if len(heading) > _MAX_CHARS:
        return None, ""
    plain = heading.strip().casefold()
    if name := _FIELDS.get(_PLAIN.sub("", plain)):
        return name, ""
    for end in _CURRENCY_END.finditer(plain):
        code = SYMBOLS.get(end[2], end[2].upper())
        name = _FIELDS.get(_PLAIN.sub("", plain[: end.start()]))
        if end.end() == len(plain) and code in CURRENCIES and name in {"spend", "spend_max"}:
            return name, code
    return None, ""
