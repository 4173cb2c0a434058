"""The name in a German text, where every noun has a capital: what stands after an article or before a comma.

"Werbespot für die Bäckerei Kornblum in Leipzig" is for "Bäckerei Kornblum", "ein Café in Köln" names none.
"""

import re

from providers.offline.ad_creation.kinds import is_kind
from providers.offline.ad_creation.wording import CAPITAL

_WORD = r"(?:(?:Dr|Prof|St)\.|[" + CAPITAL + r"0-9][\w'’&.-]*(?<!\.))"
_SPOT = (
    r"(?:(?:radio|werbe|audio|hörfunk|funk)-?\s?)*"
    r"(?:spots?|werbung|spot|anzeige|clip|kampagne|werbetext|durchsage)"
)
_LENGTH = r"(?:\d{1,3}[\s-]?(?:s|sek\w*)\b[\s.-]*(?:langen?\s)?)"
_ORDERED = re.compile(
    rf"^\W*(?:[^\W\d]+\s){{0,6}}?(?:(?:{_LENGTH})?{_SPOT}\b|{_LENGTH})(?P<more>[^.:!?\n]{{0,40}}?)"
    r"(?::\s|,?\s(?:für|zu[rm]?|über)\s)",
    re.IGNORECASE,
)
"""What is ordered, before who it is for."""
_SELF = re.compile(
    r"^(?:hier\s(?:ist|sind|spricht)|wir\s(?:sind|haben|betreiben|führen|eröffnen|heißen|machen werbung für)"
    r"|ich\s(?:bin|habe|betreibe|führe|heiße)|das\s(?:ist|sind)|es geht um|werbung für|kunde ist)\s",
    re.IGNORECASE,
)
_ARTICLE = re.compile(
    r"^(?P<open>(?:k?ein|mein|unser|sein|ihr)(?:e[nmrs]?)?\s|unsr\w+\s)?(?:(?:der|die|das|den|dem|des)\s)?",
    re.IGNORECASE,
)
_ADJECTIVES = re.compile(r"^(?:[a-zäöüß][\w-]*(?:e|en|er|es|em)\s){1,3}(?=[" + CAPITAL + r"\d])")
_NAME = re.compile(
    rf"{_WORD}(?:\s(?:(?:&|und|zum|zur|von|vom|der|dem|am|an der|im|i)\s(?={_WORD}))?{_WORD}){{0,4}}"
)
_PREPOSITION = re.compile(r"\s(?:in|am|im|an|aus|bei|mit|für|vor|nahe|und|auf)\b.*$")
_LOCAL = re.compile(r"\s(?:in|aus|bei|nahe)\s.*$")
_IS = re.compile(r"^\s(?:ist|sind)\s(?=\w)")
_VERB = re.compile(r"^\s(?!(?:mit|in|seit|samt|statt|von|an|neben)\s)[a-zäöüß]+[nt]\s")
"""What makes the name the beginning of a sentence: "Sparfuchs hilft beim Sparen"."""
_WRITTEN = re.compile(
    r"^\s(?:zu\s)?(?:schreiben|texten|machen|erstellen|produzieren|entwerfen|aufnehmen)\b[?!.]?",
    re.IGNORECASE,
)
"""The end of an order: "Könnten Sie einen Spot für die Musikschule Tonleiter schreiben?"."""
_AND = re.compile(
    r"^(?P<before>[^.!?\n]{0,40}?)[\s.]*\bund\s(?=(?:hat|haben|bietet|bieten|macht|machen"
    r"|feiert|feiern|ist|sind|sucht|suchen"
    r"|liegt|eröffnet|eröffnen|verkauft|verkaufen|gibt|geben|liefert|liefern)\s)"
)
_ORDINARY = re.compile(r"(?:bitte|hallo|guten|nur|jeden?|jetzt|für|wir|ich|es|wenn|mit)\b", re.IGNORECASE)


def name(text: str) -> tuple[str, str]:
    """Return `(brand, rest)` as `naming.name` does; the brand is empty where only a trade is told."""
    ordered = _ORDERED.match(text)
    after = text[ordered.end() :] if ordered else text
    length = ordered.group("more").strip(" ,") if ordered else ""
    own = _SELF.match(after)
    after = after[own.end() :] if own else after
    article = _ARTICLE.match(after)
    start = article.end() if article else 0
    adjectives = _ADJECTIVES.match(after[start:])
    begin = start + (adjectives.end() if adjectives else 0)
    found = _NAME.match(after, begin)
    plain = not (ordered or own)
    if not found or (plain and _ORDINARY.match(after)):
        return "", _rest("", after, length)
    brand = _brand(found.group())
    indefinite = bool(article and article.group("open"))
    alone = " " not in brand and (indefinite or bool(adjectives))
    if not brand or alone or is_kind(brand):
        return "", _rest("", after, length)
    tail = _WRITTEN.sub("", after[begin + len(brand) :])
    told = after[start:begin].strip() if is_kind(brand.split()[0]) else ""
    we = "Wir" if own and own.group().lower().startswith("wir") else brand
    tail = whole(brand, _IS.sub("", tail), we)
    return brand, _rest(told, tail, length)


def whole(brand: str, tail: str, subject: str = "") -> str:
    """Return what follows the name, with its subject where only a verb is left ("und hat einen Garten")."""
    if _VERB.match(f" {tail.lstrip()}"):
        return f"{brand} {tail.lstrip()}"
    return _AND.sub(lambda match: f"{match.group('before')}. {subject or brand} ", tail, count=1).lstrip(". ")


def _brand(words: str) -> str:
    """Return the words that are the name, without what only says where it is or what goes with it."""
    bare = _LOCAL.sub("", words)
    first = bare.split()[0]
    if is_kind(first) and _PREPOSITION.match(bare[len(first) :]):
        head = bare[len(first) :].split()
        # "Café am Dom" and "Gasthaus zum Löwen" are names; "Bäckerei mit Café" is none.
        return bare if head[0] in {"am", "im", "an"} and len(head) <= len(("am", "Dom", "Platz")) else first
    return bare


def _rest(told: str, tail: str, length: str) -> str:
    bare = tail.lstrip(" -–—|:,;.\n")
    return ". ".join(part for part in (told, bare, length) if part)
