"""The brief of an ad as the offline model reads it: the client's name, and the sentences fit to be spoken."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final

from callsheet.providers.offline.conversation import Conversation
from callsheet.state.languages import LANGUAGES, detect

DATA: Final = tomllib.loads((files(__package__) / "data.toml").read_text(encoding="utf-8"))
"""Words to read a brief by, music and sounds by words of it, and stock phrases."""
_MESSAGE: Final = re.compile(
    r"Create an audio ad\.\nClient: (.*?)\nTarget Audience: .*?\nDuration: \S+\nMarket: [^\n]*\n"
    r"Language: ([^\n]*)\nAdditional context: (.*)",
    re.DOTALL,
)
"""The message that `callsheet.state.ads.brief.message` makes."""
_SENTENCE_END: Final = re.compile(r"(?<!\bSt\.)(?<!\bMr\.)(?<!\bDr\.)(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_THAI_END: Final = re.compile(r"(?<!\d)\s+(?!\d)")
"""Thai has no sign but a blank; one beside a number is none."""
_INTRODUCTION: Final = re.compile(r"(?:(?i:ad|spot|commercial)(?: \S{1,12})? for|called|named) (?=[A-Z])")
_BEFORE_AD: Final = re.compile(r"\ba (?:\S{1,12} )?((?:[A-Z][\w&'’-]* )+)(?:audio )?(?:ad|spot|commercial)\b")
_VERB: Final = re.compile(r"is|are|es|é|ist|est|jest|je|este|adalah|là|[a-z]+s|[^\w]")
"""What follows a name of one word, and hardly any other first word."""
_CONTACT: Final = re.compile(
    r"(?:\+|\b)\d[\d ()/-]{5,}\d|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b|"
    r"\d+ (?:[A-Z]\w+ )+(?:St|Street|Rd|Road|Ave|Avenue|Lane|Square|Quay|Way)\b"
)
_MAX_CHARS: Final = 400
"""Longer sentences are not spoken."""
_BY_CLIENT: Final = re.compile(r"(?:We|Our|Your)(?: \S+){3}")


@dataclass(frozen=True)
class Brief:
    """What a first draft is made of."""

    client: str
    """What describes the client, with what is added to it."""
    language: str
    spot_s: float

    @cached_property
    def name(self) -> str:
        """The name the text begins with, or gives as "an ad for …", "a … ad" or "called …"; "" for none.

        A name has capitals; in Thai and Chinese it may be what comes before the first blank or comma.
        """
        if found := _INTRODUCTION.search(self.client):
            return _capitals(self.client[found.end() :].split())
        if before := _BEFORE_AD.search(self.client):
            return before[1].strip()
        words = self.client.split()
        name = _capitals(words)
        rest = words[len(name.split()) :]
        # One word in capitals before a small one begins any sentence.
        if name and (" " in name or words[0] != name or not rest or _VERB.fullmatch(rest[0])):
            return name
        first = re.split(r"[\s,，。、]", self.client.strip())[0][:40]
        return first if self.language in {"thai", "chinese"} else ""


def read(conversation: Conversation) -> Brief | None:
    """Return the brief that the newest message is; None for another one.

    A free message is a brief only as long as the conversation has made nothing.
    """
    text = conversation.turn.text
    found = re.search(r"^Spot: ([\d.]+) s$", conversation.system, re.MULTILINE)
    spot_s = float(found[1]) if found else 30.0
    if message := _MESSAGE.fullmatch(text):
        client, language, context = message.groups()
        return Brief(f"{client}\n{context.removeprefix('None')}", language, spot_s)
    begun = any(call.version for turn in conversation.turns[:-1] for call in turn.calls)
    if begun or "Previous conversation summary:" in conversation.system:
        return None
    named = (one.name for one in LANGUAGES if re.search(rf"\bin {one.name}\b", text, re.IGNORECASE))
    return Brief(text, next(named, None) or detect(text) or "english", spot_s)


def sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a text, as written."""
    parts = _SENTENCE_END.split(text)
    if language == "thai":
        parts = [phrase for part in parts for phrase in _THAI_END.split(part)]
    return [part.strip() for part in parts if part.strip()]


def rank(sentence: str) -> int:
    """Return 0 for a legal line, phone number or address, 3 for an offer or opening time, 4 for the rest."""
    if _has("legal", sentence) or _CONTACT.search(sentence):
        return 0
    return 3 if _has("offers", sentence) else 4


def is_copy(sentence: str, brief: Brief) -> bool:
    """Whether a sentence is plainly meant to be heard, rather than to say how the ad should be."""
    if len(sentence) > _MAX_CHARS or _has("directions", sentence):
        return False
    wordy = len(sentence.split()) > len(brief.name.split()) + 2 or brief.language == "chinese"
    by_client = brief.language == "english" and bool(_BY_CLIENT.match(sentence))
    heard = (wordy and sentence.startswith(brief.name)) or by_client or rank(sentence) < 4  # noqa: PLR2004
    return heard and detect(sentence) in {None, brief.language}


def _has(words: str, text: str) -> bool:
    return bool(re.search(DATA[words], text, re.IGNORECASE))


def _capitals(words: Sequence[str]) -> str:
    """Return the run of words with capitals at the head, with the small words within it."""
    name: list[str] = []
    for word in words:
        bare = word.rstrip(",.:;!?–-")
        small = bare == bare.casefold()
        if (not name and (small or _has("no_names", bare))) or (small and not _has("links", bare)):
            break
        name.append(bare)
        if bare != word:
            break
    while name and _has("links", name[-1]):
        name.pop()
    return " ".join(name)
