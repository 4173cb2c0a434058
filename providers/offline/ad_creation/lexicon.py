"""The vocabulary of ad creation, from `vocabulary/<language>.toml`."""

from functools import cache

from providers.offline.lexicon import MIN_SWAPPED, Lexicon, entries, fold

_HERE = "ad_creation"
_SHARED = frozenset({"noun", "genre", "instrument", "sound", "provider", "quality", "accent"})
_SHORT = frozenset({"sfx", "bpm", "pop", "edm", "rap", "sax"})


def lexicon(language: str, message: str = "") -> Lexicon:
    """Return the vocabulary to read `message` with.

    German is read with its umlauts, which tell "kurze" from "kürze", and Vietnamese where it is typed with
    diacritics.
    """
    return _lexicon(language, language == "german" or (language == "vietnamese" and not message.isascii()))


@cache
def _lexicon(language: str, exact: bool) -> Lexicon:  # noqa: FBT001 - a cache takes no keywords
    """Return the vocabulary of one of `SPOKEN`, with English names of things beneath it."""
    own = entries(_HERE, language)
    if language == "english":
        # "dont" and "doesnt" are typed as often as not.
        hasty = ((concept, phrase.replace("n't", "nt")) for concept, phrase in own if "n't" in phrase)
        return Lexicon((*own, *hasty), exact=exact)
    held = {fold(phrase) for _, phrase in own}
    borrowed = (one for one in entries(_HERE, "english") if _borrowed(*one) and fold(one[1]) not in held)
    return Lexicon(own, borrowed, exact=exact, elided=language == "french")


def _borrowed(concept: str, phrase: str) -> bool:
    """Whether an English phrase is used in other languages too: names of things, not small words."""
    return concept.split(".", maxsplit=1)[0] in _SHARED and (len(phrase) >= MIN_SWAPPED or phrase in _SHORT)


@cache
def own_words(language: str) -> Lexicon:
    """Return the vocabulary of one language alone: what tells which language a message is in."""
    return Lexicon(entries(_HERE, language), elided=language == "french")
