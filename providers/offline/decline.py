"""The one sentence by which the offline model declines a request."""

from typing import Final

_MAX_QUOTED: Final = 120


def declined(said: str) -> str:
    """Return the sentence for a request that is not in the grammar; nothing was changed."""
    text = " ".join(said.split())
    quoted = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED].rstrip()}…"
    return (
        f"I am the offline demo model and did not understand “{quoted}”, so I changed nothing: "
        "docs/offline.md lists the English requests I know, and with OPENAI_API_KEY or a local model at "
        "OPENAI_BASE_URL a real model answers instead."
    )
