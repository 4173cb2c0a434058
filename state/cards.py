"""The card of a conversation: its title in lists, and the texts that a search looks at."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from callsheet.state.sentences import split_sentences

MAX_TITLE: Final = 100
"""Characters of a title that is read from a longer text."""
_MAX_SOURCE: Final = 2_000
"""Characters of a text in which its first sentence is looked for."""


@dataclass(frozen=True)
class Card:
    """Title and texts of a conversation, as its workflow reads them from typed data."""

    title: str = ""
    """Name of the thing for people; empty where only the first message names it."""
    texts: tuple[str, ...] = ()
    """Texts of the thing that a search looks at, most telling ones first."""


def headline(text: str) -> str:
    """Return the first sentence of a text without its full stop, shortened at a word; empty for none."""
    sentences = split_sentences(text.strip()[:_MAX_SOURCE])
    return shorten(sentences[0].rstrip(" .")) if sentences else ""


def shorten(text: str) -> str:
    """Return a text in one line of `MAX_TITLE` characters at most, cut at a word where it has some."""
    line = " ".join(text.split())
    if len(line) <= MAX_TITLE:
        return line
    cut = line[: MAX_TITLE - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def texts(*parts: object) -> tuple[str, ...]:
    """Return the parts that are texts; a list of them counts as its parts."""
    flat = (one for part in parts for one in (part if isinstance(part, list | tuple) else (part,)))
    return tuple(one for one in flat if isinstance(one, str) and one.strip())


def search_words(parts: Iterable[str], most: int) -> str:
    """Return the parts as one text that a search looks at in any case, `most` characters at most."""
    return "\n".join(" ".join(part.split()) for part in dict.fromkeys(parts)).casefold()[:most]
