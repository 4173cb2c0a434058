"""What an ad can say about a brief in one language: pieces of copy with their place and their weight."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from providers.offline.brief import Brief
from providers.offline.facts import MONTHS, WEEKDAYS, Offer, When
from providers.offline.kinds import UNKNOWN, WRITTEN, is_kind
from providers.offline.phrasebook import Phrasebook, book, fill, pick, turned
from providers.offline.wording import folded

_MOOD = {
    "food": "warm", "retail": "energetic", "fashion": "luxurious", "tech": "friendly", "finance": "calm",
    "health": "calm", "travel": "inspiring", "education": "inspiring", "automotive": "energetic",
    "real_estate": "warm", "entertainment": "energetic", "beauty": "luxurious", "fitness": "energetic",
    "public": "inspiring", "care": "calm", "business": "serious", "pets": "friendly", "home": "friendly",
    "telecom": "energetic", "gaming": "energetic", "legal": "serious", "general": "friendly",
}  # fmt: skip
_NEAR = {
    "warm": ("friendly", "calm"), "energetic": ("friendly", "inspiring"), "urgent": ("energetic",),
    "funny": ("friendly", "energetic"), "luxurious": ("calm", "warm"), "calm": ("warm", "serious"),
    "serious": ("calm", "inspiring"), "friendly": ("warm", "inspiring"), "inspiring": ("warm", "friendly"),
}  # fmt: skip
"""Tones whose lines go with a tone when it has said its own."""
_GRAVE = frozenset({"care", "public"})
"""Causes that are not sold: no hurry, no jokes, no talk of treats."""
_DOUBLED = re.compile(r"([.!?。！？])[.。]+")


@dataclass(frozen=True)
class Piece:
    """One thing to say, in several wordings, the preferred one first."""

    beat: str
    """hook, intro, body, offer, until, must, place, hours, cta, code, contact or close."""
    order: float
    """Where it stands in the ad, from 0."""
    wordings: tuple[str, ...]
    weight: int
    """The lowest goes first when there is no room; 0 only fills time."""


@dataclass(frozen=True)
class Voice:
    """How the copy of one ad is chosen."""

    language: str
    tone: str
    variant: int = 0
    dialogue: bool = False


def mood(brief: Brief) -> str:
    """Return the tone of the ad: the one asked for, else what suits the client."""
    asked = brief.tone
    if brief.kind.category == "care" and asked in {"", "funny", "energetic", "urgent"}:
        return "calm"
    return asked or _MOOD[brief.kind.category]


def native(brief: Brief, language: str) -> bool:
    """Whether the client's own words can be said in copy of `language`."""
    return brief.tongue == language or (brief.tongue is None and language == "english")


def phrases_for(brief: Brief, language: str) -> Phrasebook:
    """Return the phrases for an ad in `language`: where none are written, the client's own words or English."""
    return book(language, own_words=brief.tongue == language)


def pieces(brief: Brief, voice: Voice) -> list[Piece]:
    """Return everything the ad may say, in its order, with the words the client does not want left out."""
    words = _Words(brief, voice)
    found = [piece for part in (words.start, words.middle, words.deal, words.end) for piece in part()]
    kept = [_without(piece, brief.avoid_words) for piece in found]
    return sorted((piece for piece in kept if piece.wordings), key=lambda piece: piece.order)


def _without(piece: Piece, banned: Sequence[str]) -> Piece:
    allowed = tuple(one for one in piece.wordings if not any(word in folded(one) for word in banned))
    return Piece(piece.beat, piece.order, allowed, piece.weight)


def brand(brief: Brief, phrases: Phrasebook) -> str:
    """Return what the copy calls the client: the name, else the trade."""
    if brief.brand:
        return brief.brand
    if _noun(brief, phrases):
        return phrases.one("grammar", "nameless").format(kind=brief.kind.noun(phrases.language))
    own = next((words for words in (brief.what, *brief.claims) if 0 < len(words.split()) <= _TITLE_WORDS), "")
    return phrases.quoted(own) if own else phrases.one("grammar", "anything")


_TITLE_WORDS = 5


def deals(brief: Brief, phrases: Phrasebook) -> list[str]:
    """Return the client's offers, each as a phrase of this language; the client's words where they are native."""
    shown = [offer for offer in brief.offers if _allowed(offer, brief.avoid)]
    if not shown:
        return []
    if native(brief, phrases.language):
        money = "price" in brief.avoid
        return [words for words in brief.offer_words if not (money and _priced(words))]
    return [text for offer in shown if (text := _offer(offer, brief, phrases))]


def _allowed(offer: Offer, avoid: frozenset[str]) -> bool:
    return "discount" not in avoid and not ("price" in avoid and offer.kind in {"price", "from", "amount"})


def _priced(words: str) -> bool:
    return bool(re.search(r"[$€£¥฿₫]|\d\s?(?:zł|kč|lei|ron|baht|บาท|元|đ)", folded(words)))


def _offer(offer: Offer, brief: Brief, phrases: Phrasebook) -> str | None:
    line = phrases.one("offers", offer.kind)
    text = fill(line, {"n": offer.value}) if line else None
    item = _item(offer, brief)
    if text and item:
        return fill(phrases.one("offers", "on_item"), {"offer": text, "item": phrases.quoted(item)})
    return text


_ITEM_OFF = re.compile(
    r"\boff\s(?:on\s|of\s)?(?:all\s|any\s|every\s|the\s|your\s)?(?P<item>[\w' -]{3,40}?)(?=\s(?:until|till|through|this|on|by|only|for|when|with|in)\b|[.,;!]|$)"
)
_ITEM_FOR = re.compile(
    r"^(?P<item>[A-Za-z][\w' -]{2,40}?)\s(?:for only|for just|for|only|from|at just|at|starting at)\s"
)


def _item(offer: Offer, brief: Brief) -> str:
    """Return what an English offer is about, when it says so in a few words."""
    if brief.tongue != "english":
        return ""
    for words in brief.offer_words:
        match = _ITEM_OFF.search(words) if offer.kind in {"percent", "amount"} else None
        match = match or (
            _ITEM_FOR.search(words) if offer.kind in {"price", "from"} and offer.value in words else None
        )
        if match and len(match.group("item").split()) <= _TITLE_WORDS:
            return match.group("item").strip()
    return ""


def day(when: When, phrases: Phrasebook) -> str:
    """Return a day in this language: "until Sunday", "on June 15"."""
    manner = "until" if when.deadline else "on"
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


def _noun(brief: Brief, phrases: Phrasebook) -> str:
    known = brief.kind is not UNKNOWN and brief.kind.sure and phrases.language in WRITTEN
    return brief.kind.noun(phrases.language) if known else ""


class _Words:
    """The pieces of one brief in one voice."""

    def __init__(self, brief: Brief, voice: Voice) -> None:
        self.brief = brief
        self.voice = voice
        self.book = phrases_for(brief, voice.language)
        self.native = native(brief, self.book.language)
        self.seed = f"{brief.client}\n{brief.context}\n{brief.audience}\n{self.book.language}"
        self.slots = self._slots()

    def _slots(self) -> Mapping[str, str]:
        contact, avoid = self.brief.contact, self.brief.avoid
        offered = deals(self.brief, self.book)
        slots = {
            "brand": brand(self.brief, self.book),
            "kind": _noun(self.brief, self.book),
            "what": self._what(),
            "offer": _lowered(self.book.listed(offered))
            if len(offered) <= 2
            else self.book.listed(offered[:2]),
            "phone": "" if "phone" in avoid else contact.phone,
            "url": "" if "web" in avoid else contact.url,
            "email": contact.email,
            "handle": contact.handle,
            "code": contact.code,
            "place": "" if "address" in avoid else contact.place,
            "hours": contact.hours,
        }
        slots["contact"] = slots["phone"] or slots["url"] or slots["place"]
        return slots

    def _what(self) -> str:
        own = self.brief.what
        if not self.native or not own or is_kind(own) or own == brand(self.brief, self.book):
            return ""
        own = re.sub(r"^(An?|The|Your|Our)\b", lambda match: match.group().lower(), own)
        return _with_article(own) if self.book.language == "english" else own

    def _lines(self, *path: str) -> list[str]:
        options = turned(self.book.lines(*path), self.seed, ".".join(path), self.voice.variant)
        filled = (fill(line, self.slots) for line in options)
        return [_DOUBLED.sub(r"\1", line) for line in filled if line]

    def start(self) -> Iterator[Piece]:
        """The hook and who is speaking."""
        yield Piece("hook", 0, tuple(self._hooks()), 30)
        intros = self._lines("frames", "intro_what") or []
        if self.brief.brand:
            intros += self._lines("frames", "intro_kind")
        short = fill(self.book.one("frames", "brand_only"), self.slots) or ""
        yield Piece("intro", 1, (*intros, *self._lines("frames", "intro"), short), 100)

    def _hooks(self) -> list[str]:
        if self.voice.dialogue:
            return self._lines("dialogue", "open")
        category, tone = self.brief.kind.category, self.voice.tone
        pools = [
            self._lines("kind_copy", self.brief.kind.name, "hook")
            + self._lines("categories", category, "hook"),
            self._lines("tones", tone, "hook"),
        ]
        if self.brief.group:
            pools.append(self._lines("groups", self.brief.group, "hook"))
        if category in _GRAVE:
            return pools[0]
        if self.brief.tone or category == "general":
            pools = [pools[1], *pools[:1], *pools[2:]]
            return [line for pool in pools for line in pool]
        start = pick(self.seed, "hooks", len(pools), self.voice.variant)
        return [line for pool in (*pools[start:], *pools[:start]) for line in pool]

    def middle(self) -> Iterator[Piece]:
        """What the client says of it, then what may be said of anything of its kind."""
        order = 2.0
        claims = [_sentence(claim, self.book) for claim in self.brief.claims] if self.native else []
        for index, claim in enumerate(claims[:8]):
            yield Piece("body", order + index / 100, (claim,), max(20 - index, 12))
        for index, line in enumerate(self._bodies()):
            yield Piece("body", order + 0.2 + index / 100, (line,), 0)

    def _bodies(self) -> list[str]:
        """Lines that fill: of the trade and the tone in turn, then, for long spots, of tones that go with it."""
        category, tone = self.brief.kind.category, self.voice.tone
        kind = self.brief.kind
        there = self._lines("kind_copy", kind.name, "there") if kind.sure else []
        own = (
            self._lines("kind_copy", kind.name, "body") + there + self._lines("categories", category, "body")
        )
        if category in _GRAVE:
            return [*own, *self._lines("categories", category, "more"), *self._hooks()[1:]]
        toned = self._lines("tones", tone, "body")
        mixed = [line for pair in zip(own, toned, strict=False) for line in pair]
        rest = [line for line in (*own, *toned) if line not in mixed]
        general = self._lines("categories", "general", "body") + self._lines("categories", "general", "more")
        near = [line for other in _NEAR[tone] for line in self._lines("tones", other, "body")]
        hooks = self._lines("categories", category, "hook")[1:] + self._lines("tones", tone, "hook")[1:]
        return list(dict.fromkeys([*mixed, *rest, *general, *near, *hooks]))

    def deal(self) -> Iterator[Piece]:
        """The offer, its end, and what must be said."""
        if self.slots["offer"]:
            short = self._lines("frames", "offer_short")
            yield Piece("offer", 3, (*self._lines("frames", "offer"), *short), 90)
        yield from self._dates()
        for index, must in enumerate(self.brief.must[:6]):
            said = _sentence(must, self.book) if self.native else self._quoted(must)
            yield Piece("must", 3.5 + index / 100, (said,), 85)

    def _dates(self) -> Iterator[Piece]:
        when = self.brief.when
        if not when or "deadline" in self.brief.avoid:
            return
        if self.native and any(
            when.quote in words or _LEAD.sub("", when.quote) in words for words in self.brief.offer_words
        ):
            return
        named = day(when, self.book)
        frame = "until" if when.deadline else "when"
        filled = [fill(line, {**self.slots, frame: named}) for line in self.book.lines("frames", frame)]
        yield Piece("until", 3.1, tuple(line for line in filled if line), 80)

    def _quoted(self, words: str) -> str:
        quote = self.book.quoted(words)
        return str(fill(self.book.one("frames", "quoted"), {"words": quote}))

    def end(self) -> Iterator[Piece]:
        """Where to go, what to do, and the last word."""
        for frame, order, weight in _WAYS:
            yield Piece("contact", order, tuple(self._lines("frames", frame)), weight)
        yield Piece("cta", 4.3, tuple(self._lines("cta", self.brief.kind.cta)), 40)
        if self.voice.tone == "urgent" and self.brief.kind.category not in _GRAVE:
            yield Piece("cta", 4.25, tuple(self._lines("frames", "now")), 35)
        yield Piece("again", 4.95, tuple(self._lines("frames", "again")), 0)
        if self.brief.slogan and self.native:
            yield Piece("close", 5.1, (_sentence(self.brief.slogan, self.book),), 70)
            yield Piece("close", 5, (str(fill(self.book.one("frames", "brand_only"), self.slots)),), 10)
            return
        if self.brief.slogan:
            yield Piece("close", 5.1, (self.book.quoted(self.brief.slogan),), 70)
        yield Piece("close", 5, tuple(self._closes()), 15)

    def _closes(self) -> list[str]:
        category, tone = self.brief.kind.category, self.voice.tone
        own = self._lines("categories", category, "close")
        pools = [own] if category in _GRAVE else [self._lines("tones", tone, "close"), own]
        start = pick(self.seed, "closes", len(pools), self.voice.variant)
        return [line for pool in (*pools[start:], *pools[:start]) for line in pool]


_LEAD = re.compile(r"^(?:get|enjoy)\s", re.IGNORECASE)
_WAYS = (("place", 4.0, 55), ("hours", 4.1, 25), ("code", 4.5, 65), ("phone", 4.6, 60), ("web", 4.7, 58),
         ("email", 4.8, 22), ("handle", 4.9, 21))  # fmt: skip


_COUNTED = re.compile(
    r"^(?!an?\s|the\s|your\s|our\s|my\s|one\s|no\s|\d|[A-Z]|[\w-]+(?:ing|ed)\s(?:in|for|at|by)\b)(?:[\w'-]+\s){0,4}"
    r"(?:shop|store|bar|cafe|café|restaurant|bakery|gym|studio|school|app|platform|agency|clinic|salon|hotel|company|service|festival"
    r"|brand|center|centre|game|bank|market|boutique|brewery|spa|museum|firm|startup|kitchen|place|bistro|diner|pub|garage|website|pharmacy|pizzeria)\b"
)


def _with_article(noun: str) -> str:
    """Return an English noun phrase with the article it lacks ("artisanal coffee shop" → "an artisanal …")."""
    if not _COUNTED.match(noun):
        return noun
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _lowered(text: str) -> str:
    first = text.split(" ", 1)[0]
    plain = first[:1].isupper() and first[1:].islower() and first not in {"I"}
    return text[:1].lower() + text[1:] if plain else text


def _sentence(words: str, phrases: Phrasebook) -> str:
    """Return the client's words as a sentence: a capital first and a full stop, where the script has them."""
    text = words.strip(" ,;:-–—")
    text = text[:1].upper() + text[1:]
    if phrases.language == "thai" or text[-1:] in ".!?。！？…":
        return text
    return text + ("。" if phrases.language == "chinese" else ".")
