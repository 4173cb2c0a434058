"""Generated campaigns and vectors for the benches of campaign search."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pydoc_data.topics import topics
from types import MappingProxyType
from typing import Any, Final

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES, Campaign

_BODY: Final = 40
"""Words of a campaign's copy."""
_FIRST: Final = date(2025, 1, 1)
_DAYS: Final = 540


@cache
def words() -> tuple[str, ...]:
    """Return English words, the most frequent first: those of Python's own documentation."""
    text = " ".join(topics.values()).casefold()
    return tuple(each for each, _ in Counter(re.findall(r"[a-z]{3,}", text)).most_common())


def word(random_: random.Random) -> str:
    """Return a word; a few are frequent and most are rare, as in a language."""
    vocabulary = words()
    return vocabulary[min(int(random_.paretovariate(0.5)), len(vocabulary)) - 1]


def campaigns(count: int, seed: int = 1) -> Iterator[Campaign]:
    """Yield campaigns, the same ones for the same seed."""
    random_ = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    for number in range(count):
        body = " ".join(word(random_) for _ in range(_BODY))
        yield Campaign(
            id=f"campaign-{number:07}",
            company=f"Company {random_.randrange(200)}",
            channel=random_.choice(CHANNELS),
            primary_product=random_.choice(("Credit Card", "Checking", "Savings", "Loan")),
            offer=f"Get {random_.randrange(1, 99)}% {word(random_)}" if random_.random() < 0.7 else "",
            key_value_props=random_.sample(VALUE_PROPS, random_.randrange(3)),
            campaign_text=body[:60],
            full_campaign_text=body,
            imagery_sentiment=random_.choice(SENTIMENTS),
            imagery_visual_style=random_.choice(VISUAL_STYLES),
            imagery_primary_subject=f"a {word(random_)} and a {word(random_)}",
            volume=random_.randrange(1_000_000),
            spend=random_.randrange(100_000),
            capture_date=_FIRST + timedelta(days=random_.randrange(_DAYS)),
        )


class SyntheticEmbeddings:
    """Random vectors of 256 numbers, generated as fast as they are stored."""

    is_costly = False
    floors: Mapping[str, float] = MappingProxyType({})

    def __init__(self) -> None:
        import numpy as np

        self.model = "synthetic"
        self._random = np.random.default_rng(1)

    def suited_to(self, campaigns: int) -> "SyntheticEmbeddings":
        """Return these embeddings for any number of campaigns."""
        del campaigns
        return self

    async def vectors(self, texts: Sequence[str]) -> Any:
        """Return a vector for each text."""
        return self._random.standard_normal((len(texts), 256), "float32")
