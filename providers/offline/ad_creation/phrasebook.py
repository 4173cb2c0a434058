"""Advertising copy of one language: lines with slots, from `phrasebooks/<language>.toml`."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.wording import data

TONES = ("warm", "energetic", "urgent", "funny", "luxurious", "calm", "serious", "friendly", "inspiring")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Phrasebook:
    """The lines of one language."""

    language: str
    entries: Mapping[str, Any]

    def lines(self, *path: str) -> list[str]:
        """Return the lines at `path` ("tones", "warm", "hook"); none when the book has no such place."""
        place: Any = self.entries
        for step in path:
            place = place.get(step, {}) if isinstance(place, Mapping) else {}
        if isinstance(place, str):
            return [place]
        return [str(line) for line in place] if isinstance(place, list) else []

    def one(self, *path: str) -> str:
        """Return the only line at `path`, or an empty string."""
        return next(iter(self.lines(*path)), "")

    def every(self) -> list[str]:
        """Return all the lines of copy, without the replies."""
        sections = [
            section for name, section in self.entries.items() if name not in {"grammar", "dates", "replies"}
        ]
        return [line for section in sections for line in _lines(section)]

    def quoted(self, words: str) -> str:
        """Return `words` in this language's quotation marks."""
        first, last = self.lines("grammar", "quote")
        return f"{first}{words.strip()}{last}"

    def listed(self, items: Sequence[str]) -> str:
        """Return `items` as one enumeration: "a, b and c"."""
        comma, last = str(self.entries["grammar"]["comma"]), str(self.entries["grammar"]["and"])
        return last.join([comma.join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


_READ_AS = {"cantonese": "chinese"}
"""Languages whose speakers read another one's writing."""


def written(language: str) -> str | None:
    """Return the language whose copy serves `language`, or None when no phrases are written for it."""
    served = _READ_AS.get(language, language)
    return served if served in WRITTEN else None


def _lines(section: Any) -> list[str]:
    if isinstance(section, Mapping):
        return [line for part in section.values() for line in _lines(part)]
    return [section] if isinstance(section, str) else [str(line) for line in section]


@cache
def book(language: str, *, own_words: bool = False) -> Phrasebook:
    """Return the phrasebook that serves `language`.

    Where no phrases are written for it: with `own_words` a book without any words of its own, else English.
    """
    served = written(language)
    if served is None and own_words:
        return Phrasebook(language, data("phrasebooks/plain"))
    return Phrasebook(served or "english", data(f"phrasebooks/{served or 'english'}"))


def fill(line: str, slots: Mapping[str, str]) -> str | None:
    """Return `line` with its slots filled, or None when a slot has no value.

    A slot with a capital ({Offer}) begins with one.
    """
    names = _SLOT.findall(line)
    values = {name: slots.get(name.lower(), "") for name in names}
    if not all(values.values()):
        return None
    return _SLOT.sub(lambda match: _cased(match.group(1), values[match.group(1)]), line)


def _cased(slot: str, value: str) -> str:
    return value[:1].upper() + value[1:] if slot[0].isupper() else value


def pick(seed: str, salt: str, count: int, variant: int = 0) -> int:
    """Return an index below `count`, always the same for the same words; each variant moves on by one."""
    digest = hashlib.blake2b(f"{salt}\x1f{seed}".encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return (int.from_bytes(digest, "big") + variant) % max(count, 1)


def turned(options: Sequence[str], seed: str, salt: str, variant: int = 0) -> list[str]:
    """Return `options` in an order that depends on the words alone: a rotation."""
    start = pick(seed, salt, len(options), variant)
    return [*options[start:], *options[:start]]
