"""What a compaction's summary still tells: the person's earlier messages and the brief, a line each."""

import re
from collections.abc import Sequence

from providers.offline.ad_creation.conversation import Conversation

_ASKED = re.compile(r"(?:^|^Previous conversation summary: )- asked: (.*)$", re.MULTILINE)
_OPENING = "Create an audio ad. Client: "
_LABELS = ("Target Audience", "Duration", "Market", "Language", "Additional context")
_LABELLED = re.compile(rf" ({'|'.join(_LABELS)}): ")
_CUT_CHARS = 299
"""A message of this length was cut by the summary, perhaps within a word or a number."""


def asked(summary: str) -> list[str]:
    """Return the person's messages a summary keeps, oldest first, briefs left out."""
    return [text for text in _ASKED.findall(summary) if not text.startswith(_OPENING)]


def brief(conversation: Conversation) -> str:
    """Return the message of A52 as far as the summary keeps it; empty when it does not."""
    found = [text for text in _ASKED.findall(conversation.summary) if text.startswith(_OPENING)]
    if not found:
        return ""
    parts = _LABELLED.split(_whole(found[-1]).removeprefix(_OPENING))
    fields = dict(zip(parts[1::2], parts[2::2], strict=True))
    known = {"Duration": f"{conversation.spot_s:g}s", "Language": conversation.language}
    return "\n".join(_lines(parts[0], fields, known))


def _whole(text: str) -> str:
    """Return a text that was cut without its last sentence, which may end in half a number."""
    if len(text) < _CUT_CHARS:
        return text
    head, stop, _ = text.rpartition(". ")
    return head + stop if stop and head.startswith(_OPENING) else text.rpartition(" ")[0]


def _lines(client: str, fields: dict[str, str], known: dict[str, str]) -> Sequence[str]:
    values = {label: fields.get(label, "None") for label in _LABELS} | known
    return [
        "Create an audio ad.",
        f"Client: {client.strip()}",
        *(f"{label}: {values[label]}" for label in _LABELS),
    ]
