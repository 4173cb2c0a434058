"""The brief of an ad: the client's name, and the sentences that can be spoken."""

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import takewhile
from typing import Final

from callsheet.providers.offline.ads.forms import BRIEFS
from callsheet.providers.offline.conversation import Conversation
from callsheet.state.languages import LANGUAGES, detect

DATA: Final = tomllib.loads((files(__package__) / "data.toml").read_text(encoding="utf-8"))
"""Words that classify sentences, music and sounds by words of the brief, and stock phrases by language."""
STORY: Final = 4
"""Rank of a sentence that is neither obligatory nor an offer."""
_MESSAGE: Final = re.compile(
    r"Create an audio ad\.\nClient: (.*?)\nTarget Audience: .*?\nDuration: \S+\nMarket: [^\n]*\n"
    r"Language: ([^\n]*)\nAdditional context: (.*)",
    re.DOTALL,
)
"""Text of `callsheet.state.ads.brief.message`."""
_SENTENCE_END: Final = re.compile(r"(?<!\bSt\.)(?<!\bMr\.)(?<!\bDr\.)(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_THAI_END: Final = re.compile(r"(?<!\d)\s+(?!\d)")
"""Thai ends a sentence with a blank; a blank beside a number ends none."""
_CLAUSE_END: Final = re.compile(r"[,.:;!?–-](?=\s|$)|\s–|\n")
_VERB: Final = re.compile(r"is|are|es|é|ist|est|jest|je|este|adalah|là|[a-z]+s|[^\w]")
"""Word after a name of one word; other sentences begin with a capital, too."""
_CONTACT: Final = re.compile(
    r"(?:\+|\b)\d[\d ()/-]{5,}\d|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b|"
    r"\d+ (?:[A-Z]\w+ )+(?:St|Street|Rd|Road|Ave|Avenue|Lane|Square|Quay|Way)\b"
)
_BY_CLIENT: Final = re.compile(r"(?:We|Our|Your)(?: \S+){3}")
_MAX_CHARS: Final = 400
"""Longer sentences are not spoken."""


@dataclass(frozen=True)
class Brief:
    """The basis of a first draft."""

    client: str
    """Description of the client, with any additional context."""
    language: str
    spot_s: float

    @cached_property
    def name(self) -> str:
        """The words in capitals at the beginning; in Thai and Chinese the text before a blank or comma.

        Empty if there are none.
        """
        words = _CLAUSE_END.split(self.client, maxsplit=1)[0].split()
        name = [*takewhile(lambda word: word != word.casefold() or _has("links", word), words)]
        while name and _has("links", name[-1]):
            name.pop()
        others = words[len(name) :]
        # Any sentence begins with one word in capitals before a small one.
        named = len(name) > 1 or (name and (not others or _VERB.fullmatch(others[0])))
        if named and not _has("no_names", name[0]):
            return " ".join(name)
        first = re.split(r"[\s,，。、]", self.client.strip())[0][:40]
        return first if self.language in {"thai", "chinese"} else ""


def read(conversation: Conversation) -> Brief | None:
    """Return the brief in the newest message, or None.

    A free message is a brief only until the conversation has made a version.
    """
    text = conversation.turn.text
    spot = re.search(r"^Spot: ([\d.]+) s$", conversation.system, re.MULTILINE)
    spot_s = float(spot[1]) if spot else 30.0
    if message := _MESSAGE.fullmatch(text):
        client, language, context = message.groups()
        return Brief(f"{_without_request(client)}\n{context.removeprefix('None')}", language, spot_s)
    has_versions = any(call.version for turn in conversation.turns[:-1] for call in turn.calls)
    if has_versions or "Previous conversation summary:" in conversation.system:
        return None
    named = (each.name for each in LANGUAGES if re.search(rf"\bin {each.name}\b", text, re.IGNORECASE))
    return Brief(_without_request(text), next(named, None) or detect(text) or "english", spot_s)


def sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a text, as written."""
    parts = _SENTENCE_END.split(text)
    if language == "thai":
        parts = [phrase for part in parts for phrase in _THAI_END.split(part)]
    return [part.strip() for part in parts if part.strip()]


def rank(sentence: str) -> int:
    """Return 0 for a legal line, phone number or address, 3 for an offer or opening time, else `STORY`."""
    if _has("legal", sentence) or _CONTACT.search(sentence):
        return 0
    return 3 if _has("offers", sentence) else STORY


def is_copy(sentence: str, brief: Brief) -> bool:
    """Return true if a sentence is meant to be spoken, false if it may be a direction for the ad."""
    if len(sentence) > _MAX_CHARS or _has("directions", sentence):
        return False
    long = len(sentence.split()) > len(brief.name.split()) + 2 or brief.language == "chinese"
    by_client = brief.language == "english" and bool(_BY_CLIENT.match(sentence))
    spoken = (long and sentence.startswith(brief.name)) or by_client or rank(sentence) < STORY
    return spoken and detect(sentence) in {None, brief.language}


def _without_request(text: str) -> str:
    """Return the text from the client's name on: "a 30-second ad for Miel, …" becomes "Miel, …"."""
    matches = (form.regex.fullmatch(text) for form in BRIEFS)
    return next((match["brief"] for match in matches if match), text)


def _has(words: str, text: str) -> bool:
    return bool(re.search(DATA[words], text, re.IGNORECASE))
