"""Which effects of an ad a clause names: by number, by what they sound like, or by where they are."""

from collections.abc import Mapping
from typing import Any

from providers.offline.ad_creation.amounts import figure
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.places import place
from providers.offline.lexicon import fold, tokens

EDGE = frozenset(
    [
        "a",
        "an",
        "the",
        "some",
        "of",
        "with",
        "and",
        "or",
        "to",
        "for",
        "at",
        "in",
        "on",
        "please",
        "it",
        "that",
        "this",
        "my",
        "our",
        "one",
        "un",
        "una",
        "el",
        "la",
        "o",
        "um",
        "uma",
        "jakis",
        "nejaky",
        "sound",
        "sounds",
        "effect",
        "effects",
        "sfx",
        "noise",
        "like",
        "little",
        "bit",
        "more",
        "another",
        "new",
        "also",
        "too",
        "here",
        "there",
        "quick",
    ]
) - {"quick"}
PEOPLE = {
    "owner", "owners", "lover", "lovers", "walker", "trainer", "driver", "guy", "person", "lady", "man",
    "woman", "kid", "boy", "girl", "voice", "speaker",
}  # fmt: skip
"""Behind the name of a sound they say who somebody is: "the dog owner"."""
TWO = 2
_STEM = 5
SOUNDING = {"sound", "sounds", "effect", "effects", "sfx", "noise", "noises"}


def matching(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects `clause` names: by number, by what they sound like, or by where they are."""
    return by_number(clause, ad) or by_name(clause, ad) or _by_place(clause, ad)


def by_number(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects `clause` numbers: "effect 2", "the last sound effect"."""
    size = len(ad.effects)
    for noun in clause.all("noun.effect"):
        values = [
            int(float(mark.concept.partition(".")[2]))
            for mark in clause.all("ordinal", "number")
            if (0 <= noun.first - mark.last <= 1 and mark.concept.startswith("ordinal."))
            or mark.first == noun.last
        ]
        if noun.last < clause.last:
            value = figure(clause.tokens[noun.last].word)
            values += [int(value)] if value else []
        found = tuple(at for at in ((one - 1 if one > 0 else size + one) for one in values) if 0 <= at < size)
        if found:
            return found
    return ()


def by_name(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects whose description shares most words with `clause`; empty when none does."""
    sounds = {mark.concept for mark in clause.all("sound")}
    words = {token.word for token in clause.own if len(token.word) > 2} - SOUNDING - EDGE  # noqa: PLR2004 - shorter words name nothing
    exact = tuple(i for i, one in enumerate(ad.effects) if sounds & sounds_in(str(one.get("description"))))
    if exact:
        shares = {i: _overlap(words, str(ad.effects[i].get("description"))) for i in exact}
        wholly = tuple(i for i, share in shares.items() if share == 1)
        return wholly or tuple(i for i, share in shares.items() if share) or exact
    words |= {word for concept in sounds for word in concept.partition(".")[2].split()}
    scores = [_overlap(words, str(one.get("description"))) for one in ad.effects]
    best = max(scores, default=0.0)
    return tuple(i for i, score in enumerate(scores) if score == best) if best > 0 else ()


def sounds_in(description: str) -> set[str]:
    """Return the concepts of the sounds an English description names."""
    return {
        mark.concept
        for mark in lexicon("english").marks(tokens(description))
        if mark.concept.startswith("sound.")
    }


def _overlap(words: set[str], description: str) -> float:
    """Return the share of a description's words that `words` hold, plurals and inflections forgiven."""
    own = [word for word in (fold(one) for one in description.split()) if len(word) > 2 and word not in EDGE]  # noqa: PLR2004 - as above
    hits = sum(any(_alike(word, other) for other in words) for word in own)
    return hits / len(own) if own else 0.0


def _alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: "owl" and "owls", "sizzle" and "sizzling"."""
    shared = min(len(one), len(other), _STEM)
    near = abs(len(one) - len(other)) <= TWO or shared == _STEM
    return one == other or (shared > TWO and near and one[:shared] == other[:shared])


def named(clause: Clause, ad: Ad) -> bool:
    """Return whether `clause` does something with an effect that it calls by its own words."""
    acting = clause.has(
        "verb.make",
        "verb.change",
        "verb.remove",
        "verb.move",
        "verb.replace",
        "verb.dislike",
        "verb.shorten",
        "verb.lengthen",
        "verb.put",
    )
    telling = {at for mark in clause.all("quality") for at in range(mark.first, mark.last)}
    telling |= {at - 1 for at, token in enumerate(clause.own, clause.first) if token.word in PEOPLE}
    words = {
        token.word
        for at, token in enumerate(clause.own, clause.first)
        if len(token.word) > TWO and at not in telling
    }
    words -= EDGE | SOUNDING
    return acting and any(_overlap(words, str(one.get("description"))) for one in ad.effects)


def _by_place(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects that play where the clause says: "the sound at the end"."""
    noun = clause.get("noun.effect")
    target = onward(clause)
    where = (
        place(clause.part(clause.first, target.first), ad) if clause.has("verb.move") else place(clause, ad)
    )
    if (
        not noun
        or not where
        or not clause.has("verb", "negation")
        or clause.has("verb.add", "verb.put", "sound")
    ):
        return ()
    return tuple(i for i, one in enumerate(ad.effects) if _kind(one) == _kind({"placement": where.placement}))


def onward(clause: Clause) -> Clause:
    """Return what follows the first of two places where something moves: "from the end to the start"."""
    edges = clause.all("place.start", "place.end", "place.before", "place.after")
    moves = clause.has("verb.move") and len(edges) > 1
    return clause.part(edges[0].last, clause.last) if moves else clause


def _kind(effect: Mapping[str, Any]) -> tuple[str, int | None]:
    where = effect.get("placement") or {"type": "end"}
    kind = "start" if where.get("type") == "beforeVoices" else str(where.get("type"))
    return kind, where.get("index")
