"""The part of a question about meaning that tells campaigns apart."""

from functools import cache
from typing import Final

import tantivy

from callsheet.state.campaigns.filters import Filters, Values
from callsheet.storage.campaigns.words import MAX_QUERY_CHARS

_ALWAYS_TRUE: Final = "campaign campaigns ad ads advert"
"""Words for what every record of a library is."""


def distinctive_text(query: str, filters: Filters) -> str:
    """Return the query without the words that say the same of every candidate.

    These are words for a campaign, and the values of the filters: among Instagram campaigns, `Instagram` only
    favours those that speak of it. A query of nothing else stays as it is.
    """
    shared = set(_stems(" ".join((_ALWAYS_TRUE, *_texts(filters)))))
    words = query[:MAX_QUERY_CHARS].split()
    kept = [word for word in words if not (stems := _stems(word)) or not shared.issuperset(stems)]
    return " ".join(kept) if any(map(_stems, kept)) else query


def _texts(values: Values) -> list[str]:
    """Return the values of all dimensions as words."""
    names = (*values.channel, *values.company, *values.product)
    enums = (*values.value_prop, *values.sentiment, *values.visual_style)
    return [text.replace("_", " ") for text in (*names, *enums)]


def _stems(text: str) -> list[str]:
    return list(_analyzer().analyze(text.encode(errors="ignore").decode()))


@cache
def _analyzer() -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.stemmer("english")).build()
