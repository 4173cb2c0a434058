"""Plain words of campaigns and queries, the same for every index.

Text becomes lower-case words without accents and punctuation, so nothing in a query is an operator.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField

MAX_QUERY_CHARS: Final = 10_000
MAX_QUERY_TERMS: Final = 32
"""Words and phrases of a query that count; further ones are ignored."""
_MAX_WORD_CHARS: Final = 100
_BREAKS: Final = re.compile(r"[\W_]+")
_QUOTES: Final = str.maketrans(dict.fromkeys("“”„«»", '"'))
# Not `no`, `not` and `without`: they turn what a campaign says into its opposite.
_STOP_WORDS: Final = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "has", "have", "if", "in"),
        *("into", "is", "it", "its", "of", "on", "or", "our", "so", "such", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "to", "was", "we", "were", "will", "with", "you", "your"),
    )
)

Phrase = tuple[str, ...]
"""Adjacent words; often one."""


class Query(NamedTuple):
    """Phrases that a text must all have."""

    phrases: tuple[Phrase, ...]


def normalize(text: str) -> str:
    """Return the words of `text`, separated by single spaces."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in parts if not unicodedata.combining(char))
    words = _BREAKS.sub(" ", text.casefold()).split()
    return " ".join(word[:_MAX_WORD_CHARS] for word in words)


def parse(query: str) -> Query:
    """Return the phrases of a query: quoted text, and every other word that says something.

    A word with punctuation inside (`cash-back`, `2.5%`) is a phrase. A quote that is not closed is ignored.
    """
    phrases = list(dict.fromkeys(_phrases(query[:MAX_QUERY_CHARS])))
    telling = [phrase for phrase in phrases if len(phrase) > 1 or phrase[0] not in _STOP_WORDS]
    return Query(tuple((telling or phrases)[:MAX_QUERY_TERMS]))


def _phrases(query: str) -> Iterator[Phrase]:
    parts = query.translate(_QUOTES).split('"')
    for position, part in enumerate(parts):
        is_quoted = position % 2 == 1 and position < len(parts) - 1
        for text in [part] if is_quoted else part.split():
            if words := tuple(normalize(text).split()):
                yield words[:MAX_QUERY_TERMS]


def copy_text(campaign: Campaign) -> str:
    """Return the text that full-text search reads."""
    short, full = campaign.campaign_text, campaign.full_campaign_text
    return full if short and short in full else f"{short} {full}".strip()


def embedding_texts(campaign: Campaign) -> dict[EmbeddingField, str]:
    """Return the texts whose meaning is compared."""
    offer = [campaign.offer, *campaign.incentives]
    visual = [
        campaign.imagery_visual_style,
        campaign.imagery_sentiment,
        campaign.imagery_primary_subject,
        *campaign.imagery_demographics,
    ]
    return {
        # The copy says what the value is good for.
        "value_prop": _sentences(
            [*campaign.key_value_props, *offer, campaign.primary_product, copy_text(campaign)]
        ),
        "copy": copy_text(campaign),
        "visual": _sentences(visual),
    }


def _sentences(parts: list[str | None] | list[str]) -> str:
    return ". ".join(part for part in parts if part)
