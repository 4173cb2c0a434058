"""What an ad can say about a brief in one language: pieces of copy with their place and their weight."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.deals import brand, day, deals, native, phrases_for, together, trade
from providers.offline.ad_creation.kinds import is_kind
from providers.offline.ad_creation.phrasebook import Phrasebook, fill, pick, turned
from providers.offline.ad_creation.wording import folded

_MOOD = {
    "food": "warm", "retail": "energetic", "fashion": "luxurious", "tech": "friendly", "finance": "calm",
    "health": "calm", "travel": "inspiring", "education": "inspiring", "automotive": "energetic",
    "real_estate": "warm", "entertainment": "energetic", "beauty": "luxurious", "fitness": "energetic",
    "public": "inspiring", "care": "calm", "business": "serious", "pets": "friendly", "home": "friendly",
    "telecom": "energetic", "gaming": "energetic", "legal": "serious", "general": "friendly",
}  # fmt: skip
_NEAR = {
    "warm": ("friendly", "inspiring"), "energetic": ("friendly", "inspiring"), "urgent": ("energetic",),
    "funny": ("friendly", "energetic"), "luxurious": ("calm", "warm"), "calm": ("warm", "serious"),
    "serious": ("calm", "inspiring"), "friendly": ("warm", "inspiring"), "inspiring": ("warm", "friendly"),
}  # fmt: skip
"""Tones whose lines go with a tone when it has said its own."""
_GRAVE = frozenset({"care", "public"})
"""Causes that are not sold: no hurry, no jokes, no talk of treats."""
_WAYS = (("place", 4.0, 55), ("hours", 4.1, 25), ("code", 4.5, 65), ("phone", 4.6, 60), ("web", 4.7, 58),
         ("email", 4.8, 22), ("handle", 4.9, 21))  # fmt: skip
"""Frames that show the way, their order and their weight."""
_DATED, _FIRST_CLAIM, _CLAIM, _LAST_CLAIM = 57, 46, 43, 34
"""Weights of the client's own sentences: with a date, the first, the second, and the least of them."""
_CLAIMS, _MUSTS = 8, 6
_DOUBLED = re.compile(r"([.!?。！？])[.。]+")
_ORDINARY = re.compile(
    r"^(?:An?|The|Your|Our|Premium|New|Family|Local|Modern|Small|Cozy|Cosy|Artisanal|Organic|Online|Home|Mobile|Luxury|Affordable"
    r"|Independent|Boutique|Vegan|Handmade|Professional|Digital|Creative|Traditional|Specialty|Leading|Best|Free|Fresh)\b"
)
"""First words that are no names and lose their capital within a sentence."""
_COUNTED = re.compile(
    r"^(?!an?\s|the\s|your\s|our\s|my\s|one\s|no\s|\d|[A-Z]|[\w-]+(?:ing|ed)\s(?:in|for|at|by)\b)(?:[\w'-]+\s){0,4}"
    r"(?:shop|store|bar|cafe|café|restaurant|bakery|gym|studio|school|app|platform|agency|clinic|salon|hotel|company"
    r"|service|festival|brand|center|centre|game|bank|market|boutique|brewery|spa|museum|firm|startup|kitchen|place"
    r"|bistro|diner|pub|garage|website|pharmacy|pizzeria|bookstore|barbershop|foundation|charity|agency)\b"
)


@dataclass(frozen=True)
class Piece:
    """One thing to say, in several wordings, the preferred one first."""

    beat: str
    """hook, intro, body, offer, until, must, contact, cta, again or close."""
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
    if brief.kind.category == "care" and brief.tone in {"", "funny", "energetic", "urgent"}:
        return "calm"
    return brief.tone or _MOOD[brief.kind.category]


def near(tone: str) -> tuple[str, ...]:
    """Return the tones that go with a tone."""
    return _NEAR[tone]


def pieces(brief: Brief, voice: Voice) -> list[Piece]:
    """Return everything the ad may say, in its order, without the words the client wants left out."""
    words = _Words(brief, voice)
    found = [piece for part in (words.start, words.middle, words.deal, words.end) for piece in part()]
    kept = [_without(piece, brief.avoid_words) for piece in found]
    return sorted((piece for piece in kept if piece.wordings), key=lambda piece: piece.order)


def _without(piece: Piece, banned: Sequence[str]) -> Piece:
    allowed = (one for one in piece.wordings if one and not any(word in folded(one) for word in banned))
    return replace(piece, wordings=tuple(dict.fromkeys(allowed)))


def sentence(words: str, phrases: Phrasebook) -> str:
    """Return the client's words as a sentence: a capital first and a full stop, where the script has them."""
    text = words.strip(" ,;:-–—")
    text = text[:1].upper() + text[1:]
    if phrases.language == "thai" or text[-1:] in ".!?。！？…":
        return text
    return text + ("。" if phrases.language == "chinese" else ".")


class _Words:
    """The pieces of one brief in one voice."""

    def __init__(self, brief: Brief, voice: Voice) -> None:
        self.brief = brief
        self.voice = voice
        self.book = phrases_for(brief, voice.language)
        self.native = native(brief, self.book.language)
        self.seed = f"{brief.client}\n{brief.context}\n{brief.audience}\n{self.book.language}"
        self.grave = brief.kind.category in _GRAVE
        self.slots = self._slots()

    def _slots(self) -> Mapping[str, str]:
        contact, avoid = self.brief.contact, self.brief.avoid
        slots = {
            "brand": brand(self.brief, self.book),
            "kind": self._kind(),
            "what": self._what(),
            "offer": together(deals(self.brief, self.book), self.book),
            "phone": "" if "phone" in avoid else contact.phone,
            "url": "" if "web" in avoid else contact.url,
            "email": contact.email,
            "handle": contact.handle,
            "code": contact.code,
            "place": "" if "address" in avoid else contact.place,
            "hours": contact.hours,
        }
        return {**slots, "contact": slots["phone"] or slots["url"] or slots["place"]}

    def _kind(self) -> str:
        """Return the trade; in German and French, where it often begins the brand, not twice."""
        noun = trade(self.brief, self.book)
        twice = self.book.language in {"german", "french"} and is_kind(self.brief.brand.split(" ")[0])
        return "" if twice else noun

    def _what(self) -> str:
        own = self.brief.what
        if not self.native or not own or is_kind(own) or own == brand(self.brief, self.book):
            return ""
        if self.book.language != "german":
            own = _ORDINARY.sub(lambda match: match.group().lower(), own)
        # "Artisanal coffee shop" lacks its article; "baking in Leeds" does not.
        if self.book.language == "english" and _COUNTED.match(own):
            return f"{'an' if own[0] in 'aeiou' else 'a'} {own}"
        return own

    def _lines(self, *path: str) -> list[str]:
        options = turned(self.book.lines(*path), self.seed, ".".join(path), self.voice.variant)
        filled = (fill(line, self.slots) for line in options)
        # A dash that stands for a name nobody knows is nothing to say.
        said = [_DOUBLED.sub(r"\1", line) for line in filled if line and any(map(str.isalnum, line))]
        # A trade that stands for a missing name is an ordinary word and takes a capital first.
        return said if self.brief.brand else [line[:1].upper() + line[1:] for line in said]

    def _mixed(self, salt: str, pools: Sequence[list[str]]) -> list[str]:
        start = pick(self.seed, salt, len(pools), self.voice.variant)
        return [line for pool in (*pools[start:], *pools[:start]) for line in pool]

    def start(self) -> Iterator[Piece]:
        """The hook and who is speaking."""
        yield Piece("hook", 0, tuple(self._hooks()), 44)
        intros = self._lines("frames", "intro_what")
        intros += self._lines("frames", "message") if self.grave else []
        if self.brief.brand and not self.grave:
            intros += self._lines("frames", "intro_kind")
        short = self._lines("frames", "brand_only")
        yield Piece("intro", 1, (*intros, *self._lines("frames", "intro"), *short), 100)

    def _hooks(self) -> list[str]:
        if self.voice.dialogue:
            return self._lines("dialogue", "open")
        category = self.brief.kind.category
        own = self._lines("kind_copy", self.brief.kind.name, "hook") + self._lines(
            "categories", category, "hook"
        )
        toned = self._lines("tones", self.voice.tone, "hook")
        if self.grave:
            return own
        grouped = self._lines("groups", self.brief.group, "hook") if self.brief.group else []
        if self.brief.tone or category == "general":
            return [*toned, *own, *grouped]
        return self._mixed("hooks", [pool for pool in (own, toned, grouped) if pool])

    def middle(self) -> Iterator[Piece]:
        """What the client says of it, then what may be said of anything of its kind."""
        dated = self._dated()
        for index, claim in enumerate(self.brief.claims[:_CLAIMS] if self.native else ()):
            weight = _FIRST_CLAIM if index == 0 else max(_CLAIM - index, _LAST_CLAIM)
            said = sentence(claim, self.book)
            yield Piece("body", 2 + index / 100, (said,), _DATED if claim == dated else weight)
        for index, line in enumerate(self._bodies()):
            yield Piece("body", 2.2 + index / 100, (line,), 0)

    def _bodies(self) -> list[str]:
        """Lines that fill: of trade and tone in turn, then, for long spots, of tones that go with it."""
        kind, tone = self.brief.kind, self.voice.tone
        there = self._lines("kind_copy", kind.name, "there") if kind.sure else []
        own = (
            self._lines("kind_copy", kind.name, "body")
            + there
            + self._lines("categories", kind.category, "body")
        )
        if self.grave:
            return [*own, *self._lines("categories", kind.category, "more"), *self._hooks()[1:]]
        toned = self._lines("tones", tone, "body")
        mixed = [line for pair in zip(own, toned, strict=False) for line in pair]
        general = self._lines("categories", "general", "body") + self._lines("categories", "general", "more")
        near = [line for other in _NEAR[tone] for line in self._lines("tones", other, "body")]
        hooks = self._lines("categories", kind.category, "hook")[1:] + self._lines("tones", tone, "hook")[1:]
        return list(dict.fromkeys([*mixed, *own, *toned, *general, *near, *hooks]))

    def deal(self) -> Iterator[Piece]:
        """The offer, its end, and what must be said."""
        if self.slots["offer"]:
            framed = [] if ":" in self.slots["offer"] else self._lines("frames", "offer")
            offers = (*framed, *self._lines("frames", "offer_short"))
            yield Piece("offer", 3, offers, 90)
        yield from self._dates()
        for index, must in enumerate(self.brief.must[:_MUSTS]):
            said = sentence(must, self.book) if self.native else self._quoted(must)
            yield Piece("must", 3.5 + index / 100, (said,), 85)

    def _dates(self) -> Iterator[Piece]:
        when = self.brief.when
        if not when or "deadline" in self.brief.avoid or self._dated():
            return
        if self.native and any(
            when.quote in words or words in when.quote for words in self.brief.offer_words
        ):
            return
        frame = "until" if when.deadline else "when"
        slots = {**self.slots, frame: day(when, self.book)}
        filled = [fill(line, slots) for line in self.book.lines("frames", frame)]
        yield Piece("until", 3.1, tuple(line for line in filled if line), 80)

    def _dated(self) -> str:
        """Return the client's sentence that holds the date, when it can be said as it is."""
        when = self.brief.when
        said = [claim for claim in self.brief.claims if when and when.quote in claim]
        return said[0] if self.native and said else ""

    def _quoted(self, words: str) -> str:
        return str(fill(self.book.one("frames", "quoted"), {"words": self.book.quoted(words)}))

    def end(self) -> Iterator[Piece]:
        """Where to go, what to do, and the last word."""
        for frame, order, weight in _WAYS:
            yield Piece("contact", order, tuple(self._lines("frames", frame)), weight)
        action = "visit" if self.brief.kind.cta == "discover" and self.slots["place"] else self.brief.kind.cta
        yield Piece("cta", 4.3, tuple(self._lines("cta", action)), 40)
        if self.voice.tone == "urgent" and not self.grave:
            yield Piece("cta", 4.25, tuple(self._lines("frames", "now")), 35)
        yield Piece("again", 4.95, tuple(self._lines("frames", "again")), 0)
        if self.brief.slogan:
            own = (
                sentence(self.brief.slogan, self.book) if self.native else self.book.quoted(self.brief.slogan)
            )
            yield Piece("close", 5.1, (own,), 70)
            yield Piece("close", 5, tuple(self._lines("frames", "brand_only")), 10)
        else:
            yield Piece("close", 5, tuple(self._closes()), 15)

    def _closes(self) -> list[str]:
        own = self._lines("categories", self.brief.kind.category, "close")
        return (
            own
            if self.grave
            else self._mixed("closes", [self._lines("tones", self.voice.tone, "close"), own])
        )
