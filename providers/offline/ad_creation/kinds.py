"""What a business, product or cause is: one of the kinds of `cues/kinds.toml`, in any written language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from providers.offline.ad_creation.wording import Lexicon, Mention, data

WRITTEN = (
    "english",
    "thai",
    "indonesian",
    "polish",
    "spanish",
    "portuguese",
    "vietnamese",
    "czech",
    "romanian",
    "chinese",
    "german",
    "french",
)
"""The languages copy is written in, in the order of a kind's `nouns`."""
_VAGUE = frozenset({"shop", "business", "event", "school", "clinic", "restaurant", "drink"})
"""Kinds whose words often go with another kind ("a school of yoga", "coffee shop")."""
_VAGUE_WORDS = frozenset({"academia", "taller", "oficina", "atelier", "workshop", "boutique"})
"""Words of one kind in one language and of many in another: what else is said tells."""
_SCAN_CHARS = 1200
_HEAD_LAST = re.compile(r"^[\s'-]{0,3}$")


@dataclass(frozen=True)
class Kind:
    """One kind of client."""

    name: str
    category: str
    cta: str
    """What a listener does: visit, call, web, download, book, order, donate, register, ask, discover."""

    sure: bool = True
    """Whether the client said what it is, and not only what goes with it ("coffee" may be beans)."""

    def noun(self, language: str) -> str:
        """Return its plain name in one of the written languages, in the nominative."""
        return str(data("cues/kinds")[self.name]["nouns"][WRITTEN.index(language)])


UNKNOWN = Kind("", "general", "discover")


def kind(*texts: str) -> Kind:
    """Return the kind the first of `texts` that names one speaks of, else `UNKNOWN`."""
    for text in texts:
        hits = _hits(text[:_SCAN_CHARS])
        if hits:
            return _kind(_head(hits, text), frozenset(text[hit.start : hit.end].lower() for hit in hits))
    return UNKNOWN


def is_kind(text: str) -> bool:
    """Whether `text` is nothing but the name of a kind, with an article or an adjective at most."""
    bare = text.strip(" .,!\"'")
    hits = _hits(bare)
    if not hits:
        return False
    rest = len(bare) - sum(hit.end - hit.start for hit in hits)
    if not bare.isascii() and not re.search(r"\s", bare):
        return rest == 0
    plain = bare[1:] == bare[1:].lower()
    return plain and rest <= (len("a new little ") if bare == bare.lower() else len("a new "))


@lru_cache(maxsize=256)
def _hits(text: str) -> tuple[Mention, ...]:
    outer: list[Mention] = []
    for hit in _lexicon().mentions(text):
        if not outer or hit.end > outer[-1].end:
            outer.append(hit)
    return tuple(outer)


def _head(hits: Sequence[Mention], text: str) -> str:
    """Return the kind that the first noun phrase is about: its last noun, unless that is a vague one."""
    phrase = [hits[0]]
    for hit in hits[1:]:
        if not text.isascii() or not _HEAD_LAST.match(text[phrase[-1].end : hit.start]):
            break
        phrase.append(hit)
    clear = [hit for hit in phrase if hit.concept not in _VAGUE and not _vague(hit, text)]
    if clear:
        return clear[-1].concept
    if _vague(phrase[0], text):
        return next((hit for hit in hits if not _vague(hit, text)), hits[0]).concept
    later = [hit for hit in hits if hit.concept not in _VAGUE]
    near = bool(later) and later[0].start - hits[0].end <= len(" of the little ")
    return later[0].concept if near else hits[0].concept


def _vague(hit: Mention, text: str) -> bool:
    return text[hit.start : hit.end].lower() in _VAGUE_WORDS


def _kind(name: str, words: frozenset[str]) -> Kind:
    entry = data("cues/kinds")[name]
    sure = _among(_same(), name, words - _VAGUE_WORDS)
    there = sure or entry["cta"] != "visit" or _among(_places(), name, words)
    return Kind(name, str(entry["category"]), str(entry["cta"]) if there else "discover", sure)


def _among(lexicon: Lexicon, name: str, words: frozenset[str]) -> bool:
    return any(hit.concept == name for word in words for hit in lexicon.mentions(word))


@cache
def _places() -> Lexicon:
    return Lexicon({name: entry.get("places", ()) for name, entry in data("cues/kinds").items()})


@cache
def _same() -> Lexicon:
    return Lexicon(
        {name: [*entry["nouns"], *entry.get("same", ())] for name, entry in data("cues/kinds").items()}
    )


@cache
def _lexicon() -> Lexicon:
    return Lexicon(
        {
            name: [*entry["nouns"], *entry.get("same", ()), *entry.get("places", ()), *entry["cues"]]
            for name, entry in data("cues/kinds").items()
        }
    )
