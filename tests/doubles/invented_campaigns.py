"""Invented campaigns, made from a seed: the bundled sample library, and larger libraries for tests.

The sample library's file is `sample_lines()`; a test compares the two.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VISUAL_STYLES, Campaign

SAMPLE_COUNT: Final = 360
SAMPLE_SEED: Final = 1954
LAST_DAY: Final = date(2026, 10, 31)
MONTHS: Final = 18
_OFFER_SHARE: Final = 0.8
_PEOPLE: Final = ("students", "young families", "retirees", "commuters", "small business owners", "newcomers")
_EXTRAS: Final = (
    "welcome bonus",
    "referral bonus",
    "introductory rate",
    "free trial",
    "gift card",
    "fee waiver",
)


def generate(count: int, seed: int) -> Iterator[Campaign]:
    """Yield campaigns; equal arguments give equal campaigns."""
    random = Random(seed)
    for number in range(1, count + 1):
        yield _campaign(random, number)


@cache
def phrases() -> Mapping[str, Any]:
    """Return the words that campaigns are made of."""
    text = Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _campaign(random: Random, number: int) -> Campaign:
    brand = random.choice(phrases()["brand"])
    props = _props(random, brand["props"])
    sentiment, style = random.choice(SENTIMENTS), random.choice(VISUAL_STYLES)
    channel, product = random.choice(CHANNELS), random.choice(brand["products"])
    pools = [phrases()["props"][prop] for prop in props]
    tone = phrases()["sentiments"][sentiment]
    offer = _with_numbers(random, random.choice(pools[0]["offers"])) if random.random() < _OFFER_SHARE else ""
    headline = random.choice(random.choice(pools)["headlines"])
    opener, closer = random.choice(tone["openers"]), random.choice(tone["closers"])
    lines = [random.choice(pool["lines"]) for pool in pools]
    about = random.choice(phrases()["products"][product])
    name = random.choice(brand["brands"])
    body = " ".join([opener, *lines, about, *([f"{offer}."] if offer else []), closer])
    return Campaign(
        id=f"c-{number:04d}",
        company=brand["company"],
        brand=name,
        channel=channel,
        primary_product=product,
        offer=offer,
        incentives=random.sample(_EXTRAS, random.randint(0, 2)),
        key_value_props=props,
        campaign_text=f"{headline}. {opener}",
        full_campaign_text=f"{headline}. {body} {name} by {brand['company']}.",
        imagery_sentiment=sentiment,
        imagery_visual_style=style,
        imagery_primary_subject=random.choice(phrases()["styles"][style]),
        imagery_demographics=random.sample(_PEOPLE, random.randint(0, 2)),
        volume=random.randint(2, 900) * 1_000,
        spend=float(random.randint(4, 950) * 500),
        capture_date=LAST_DAY - timedelta(days=random.randint(0, MONTHS * 30)),
        image_s3_urls=[f"s3://sample-campaigns/c-{number:04d}.jpg"],
    )


def _props(random: Random, usual: Sequence[str]) -> list[Any]:
    """Return one or two value propositions, mostly a brand's usual ones."""
    pool = [*usual, *usual, *phrases()["props"]]
    first = random.choice(pool)
    others = [prop for prop in pool if prop != first]
    return [first, random.choice(others)] if random.random() < 1 / 2 else [first]


def _with_numbers(random: Random, text: str) -> str:
    """Return an offer with its numbers."""
    values = (("{xxx}", 200, 900, 50), ("{xx}", 20, 90, 5), ("{x}", 2, 6, 1), ("{y}", 0, 75, 5))
    for mark, low, high, step in values:
        if mark in text:
            number = random.randrange(low, high + 1, step)
            text = text.replace(mark, f"{number:02d}" if mark == "{y}" else str(number))
    return text


def sample_lines() -> str:
    """Return the sample library's file: one campaign a line."""
    campaigns = generate(SAMPLE_COUNT, SAMPLE_SEED)
    without = {"volume_max", "spend_max", "currency"}
    lines = [
        json.dumps(one.model_dump(mode="json", exclude=without), ensure_ascii=False) for one in campaigns
    ]
    return "\n".join(lines) + "\n"
