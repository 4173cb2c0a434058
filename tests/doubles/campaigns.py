"""Campaigns for tests."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from callsheet.state.campaigns.campaign import Campaign


def campaign(campaign_id: str, **fields: Any) -> Campaign:
    """A campaign of Alder Bank, except for what is given."""
    usual: dict[str, Any] = {"company": "Alder Bank", "channel": "email", "capture_date": date(2026, 3, 1)}
    return Campaign.model_validate({"id": campaign_id, **usual, **fields})


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
        imagery_sentiment="Aspirational",
        imagery_visual_style="Lifestyle Photography",
        imagery_primary_subject="A couple on a beach at sunset",
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
        imagery_sentiment="Playful",
        imagery_visual_style="Illustration",
        imagery_primary_subject="A shopping cart with wings",
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
        imagery_sentiment="Trust-Building",
        imagery_visual_style="Minimalist Graphic",
        imagery_primary_subject="A growing bar chart",
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
        imagery_sentiment="Trust-Building",
        imagery_visual_style="Text-Heavy",
        imagery_primary_subject="A padlock",
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
        imagery_sentiment="Urgent",
        imagery_visual_style="Product-Centric",
        imagery_primary_subject="A card in close-up",
        spend=1_000,
        capture_date=date(2025, 12, 31),
    ),
    campaign("alder-plain", capture_date=date(2025, 11, 5), campaign_text="We are Alder."),
)
"""Six campaigns of three companies over seven months."""


class CountingEmbeddings:
    """Embeddings that cost something: a vector of the lengths of the first words."""

    is_costly = True

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
        return [[float(len(text) % (i + 2)) + 1 for i in range(self.dimensions)] for text in texts]
