"""The hard facts of a brief in the words of the copy's language: name, trade, offers and days."""

import re
from collections.abc import Sequence

from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.facts import MONTHS, WEEKDAYS, Offer, When, has_money
from providers.offline.ad_creation.kinds import UNKNOWN, WRITTEN
from providers.offline.ad_creation.phrasebook import Phrasebook, book, fill

_TITLE_WORDS = 5
_OFFERS = 3
"""How many offers are said together."""
_ITEM_OFF = re.compile(
    r"\boff\s(?:on\s|of\s)?(?:all\s|any\s|every\s|the\s|your\s)?(?P<item>[\w' -]{3,40}?)"
    r"(?=\s(?:until|till|through|this|on|by|only|for|when|with|in)\b|[.,;!]|$)"
)
_ITEM_FOR = re.compile(
    r"^(?P<item>[A-Za-z][\w' -]{2,40}?)\s(?:for only|for just|for|only|from|at just|at|starting at)\s"
)
_EMPTY_ITEMS = frozenset({"this", "next", "your", "first", "order", "everything"})


def native(brief: Brief, language: str) -> bool:
    """Whether the client's own words can be said in copy of `language`."""
    return brief.tongue == language or (brief.tongue is None and language == "english")


def phrases_for(brief: Brief, language: str) -> Phrasebook:
    """Return the phrases for an ad in `language`: where none are written, the client's words or English."""
    return book(language, own_words=brief.tongue == language)


def trade(brief: Brief, phrases: Phrasebook) -> str:
    """Return the plain name of what the client is, or nothing where it is not known for sure."""
    known = brief.kind is not UNKNOWN and brief.kind.sure and phrases.language in WRITTEN
    return brief.kind.noun(phrases.language) if known else ""


def brand(brief: Brief, phrases: Phrasebook) -> str:
    """Return what the copy calls the client: the name, else the trade, else a few of the client's words."""
    if brief.brand:
        return brief.brand
    if (
        phrases.language == "german"
        and native(brief, "german")
        and 0 < len(brief.what.split()) <= _TITLE_WORDS
    ):
        return brief.what  # A bare trade lacks its article.
    noun = trade(brief, phrases)
    if noun:
        return phrases.one("grammar", "nameless").format(kind=noun)
    titles = (words for words in (brief.what, *brief.claims) if 0 < len(words.split()) <= _TITLE_WORDS)
    own = next(titles, "")
    return phrases.quoted(own) if own else phrases.one("grammar", "anything")


def deals(brief: Brief, phrases: Phrasebook) -> list[str]:
    """Return the offers as phrases of this language: the client's words where they are native."""
    shown = [offer for offer in brief.offers if _allowed(offer, brief.avoid)]
    if not shown:
        return []
    if native(brief, phrases.language):
        return [words for words in brief.offer_words if not ("price" in brief.avoid and has_money(words))]
    return [text for offer in shown[:_OFFERS] if (text := _offer(offer, brief, phrases))]


def _allowed(offer: Offer, avoid: frozenset[str]) -> bool:
    return "discount" not in avoid and not ("price" in avoid and offer.kind in {"price", "from", "amount"})


def _offer(offer: Offer, brief: Brief, phrases: Phrasebook) -> str | None:
    line = phrases.one("offers", offer.kind)
    text = fill(line, {"n": offer.value}) if line else None
    item = _item(offer, brief)
    if text and item:
        return fill(phrases.one("offers", "on_item"), {"offer": text, "item": phrases.quoted(item)})
    return text


def _item(offer: Offer, brief: Brief) -> str:
    """Return what an English offer is about, when it says so in a few words."""
    if brief.tongue != "english":
        return ""
    for words in brief.offer_words:
        match = _ITEM_OFF.search(words) if offer.kind in {"percent", "amount"} else None
        if offer.kind in {"price", "from"} and offer.value in words:
            match = _ITEM_FOR.search(words)
        item = match.group("item").strip() if match else ""
        if item and len(item.split()) <= _TITLE_WORDS and item.split()[0].lower() not in _EMPTY_ITEMS:
            return item
    return ""


def together(offered: Sequence[str], phrases: Phrasebook) -> str:
    """Return the offers one after another: a new sentence for one with a capital, else after a comma."""
    text = ""
    for offer in (one.rstrip(" .") for one in offered[:_OFFERS]):
        link = ". " if offer[:1].isupper() else str(phrases.entries["grammar"]["comma"])
        text += f"{link}{offer}" if text else offer if phrases.language == "german" else lowered(offer)
    return text


def lowered(text: str) -> str:
    """Return `text` without the capital of an ordinary first word; names and abbreviations keep theirs."""
    first = text.split(" ", 1)[0]
    ordinary = first[:1].isupper() and first[1:].islower() and not any(char.isdigit() for char in first)
    return text[:1].lower() + text[1:] if ordinary else text


def day(when: When, phrases: Phrasebook) -> str:
    """Return a day in this language: "until Sunday", "on June 15"; empty where no words are written."""
    manner = "until" if when.deadline else "on"
    if not phrases.lines("dates", "months"):
        return ""
    if when.unit in WEEKDAYS:
        name = phrases.lines("dates", f"{manner}_days")[WEEKDAYS.index(when.unit)]
        return str(fill(phrases.one("dates", "until"), {"day": name})) if when.deadline else name
    if when.unit != "date":
        return phrases.one("dates", when.unit)
    date = when.day
    if when.month:
        month = phrases.lines("dates", "months")[MONTHS.index(when.month)]
        date = str(fill(phrases.one("dates", "date"), {"day": when.day, "month": month}))
    return str(fill(phrases.one("dates", manner), {"day": date}))
