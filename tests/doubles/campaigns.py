"""Campaigns for tests."""

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from callsheet.state.campaigns.campaign import Campaign


def campaign(campaign_id: str, **fields: Any) -> Campaign:
    """Return a campaign; without `fields` it is one of Alder Bank by email."""
    usual: dict[str, Any] = {"company": "Alder Bank", "channel": "email", "capture_date": date(2026, 3, 1)}
    return Campaign.model_validate({"id": campaign_id, **usual, **fields})


def imagery(sentiment: str, visual_style: str, subject: str) -> dict[str, str]:
    """Return the fields of a campaign that describe its picture."""
    fields = {"sentiment": sentiment, "visual_style": visual_style, "primary_subject": subject}
    return {f"imagery_{name}": value for name, value in fields.items()}


LIBRARY = (
    campaign(
        "alder-travel",
        brand="Alder Voyage",
        channel="instagram",
        primary_product="Credit Card",
        offer="60,000 bonus miles after $4,000 in purchases",
        incentives=["Airport lounge access", "No foreign transaction fees"],
        key_value_props=["Travel Benefits", "Cash Back / Rewards"],
        campaign_text="Your next trip starts here.",
        full_campaign_text="Earn miles on every flight and hotel. Lounges, upgrades, no foreign fees.",
        **imagery("Aspirational", "Lifestyle Photography", "A couple on a beach at sunset"),
        imagery_demographics=["Couples", "Millennials"],
        volume=120_000,
        spend=40_000.5,
        capture_date=date(2026, 5, 20),
    ),
    campaign(
        "birch-cash",
        company="Birch Financial",
        channel="facebook",
        primary_product="Credit Card",
        offer="5% cash back on groceries",
        key_value_props=["Cash Back / Rewards", "No Fee / No Minimum"],
        campaign_text="Get cash back, every day.",
        full_campaign_text="Get cash back, every day. 5% at grocery stores, no annual fee — ever.",
        **imagery("Playful", "Illustration", "A shopping cart with wings"),
        volume=300_000,
        spend=25_000,
        capture_date=date(2026, 4, 2),
    ),
    campaign(
        "birch-savings",
        company="Birch Financial",
        brand="Birch Online",
        channel="email",
        primary_product="Savings Account",
        offer="4.50% APY on every balance",
        key_value_props=["High-Yield Savings", "No Fee / No Minimum"],
        campaign_text="Make your money work harder.",
        full_campaign_text="Open a high-yield savings account at 4.50% APY. No minimum, no monthly fees.",
        **imagery("Trust-Building", "Minimalist Graphic", "A growing bar chart"),
        volume=80_000,
        spend=9_000,
        capture_date=date(2026, 4, 28),
    ),
    campaign(
        "cedar-security",
        company="Cedar Union",
        channel="direct_mail",
        primary_product="Checking Account",
        key_value_props=["Security / Fraud Protection"],
        campaign_text="Sleep well. We watch your account.",
        full_campaign_text="Real-time fraud alerts and zero liability. Café Noir approved.",
        **imagery("Trust-Building", "Text-Heavy", "A padlock"),
        capture_date=date(2026, 1, 15),
    ),
    campaign(
        "cedar-credit",
        company="cedar union",
        channel="facebook",
        primary_product="Secured Card",
        offer="Build credit with a $200 deposit",
        key_value_props=["Credit Building"],
        campaign_text="Hurry! Start building credit today.",
        full_campaign_text="Hurry! Applications close Friday. Reports to all three bureaus, back in days.",
        **imagery("Urgent", "Product-Centric", "A card in close-up"),
        spend=1_000,
        capture_date=date(2025, 12, 31),
    ),
    campaign("alder-plain", capture_date=date(2025, 11, 5), campaign_text="We are Alder."),
)
"""Six campaigns of three companies over seven months."""


class CountingEmbeddings:
    """Embeddings that count as costly, and keep the texts; a vector depends only on its text's length."""

    is_costly = True
    floors: Mapping[str, float] = MappingProxyType({})

    def __init__(self, model: str = "counting", dimensions: int = 3) -> None:
        self.model = model
        self.dimensions = dimensions
        self.texts: list[str] = []
        self.error: Exception | None = None

    def suited_to(self, campaigns: int) -> "CountingEmbeddings":
        return self

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error:
            raise self.error
        self.texts += texts
        return [[float(len(text) % (number + 2)) + 1 for number in range(self.dimensions)] for text in texts]
