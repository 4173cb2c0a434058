"""A campaign of an ad library: its fields and their fixed values."""

from datetime import date
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Channel = Literal["facebook", "instagram", "twitter", "email", "direct_mail"]
ValueProp = Literal[
    "No Fee / No Minimum",
    "Cash Back / Rewards",
    "Travel Benefits",
    "High-Yield Savings",
    "Credit Building",
    "Security / Fraud Protection",
]
Sentiment = Literal["Aspirational", "Trust-Building", "Urgent", "Playful", "Premium"]
VisualStyle = Literal[
    "Lifestyle Photography",
    "Minimalist Graphic",
    "Illustration",
    "Product-Centric",
    "Text-Heavy",
    "Abstract / Conceptual",
]
EmbeddingField = Literal["value_prop", "copy", "visual"]
"""Text whose meaning is compared."""

CHANNELS: Final[tuple[Channel, ...]] = get_args(Channel)
VALUE_PROPS: Final[tuple[ValueProp, ...]] = get_args(ValueProp)
SENTIMENTS: Final[tuple[Sentiment, ...]] = get_args(Sentiment)
VISUAL_STYLES: Final[tuple[VisualStyle, ...]] = get_args(VisualStyle)
MAX_NUMBER: Final = 10**15
"""Largest volume and spend: JSON, indexes and databases hold it exactly."""


class Campaign(BaseModel):
    """One campaign; field names are those of the REST API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=255)
    company: str = Field(min_length=1, max_length=200)
    brand: str = Field(default="", max_length=200)
    channel: Channel
    primary_product: str = Field(default="", max_length=200)
    offer: str = Field(default="", max_length=1_000)
    """Empty for none."""
    incentives: list[str] = Field(default=[], max_length=50)
    key_value_props: list[ValueProp] = []
    campaign_text: str = Field(default="", max_length=20_000)
    """Headline and short copy."""
    full_campaign_text: str = Field(default="", max_length=100_000)
    imagery_sentiment: Sentiment | None = None
    imagery_visual_style: VisualStyle | None = None
    imagery_primary_subject: str = Field(default="", max_length=500)
    imagery_demographics: list[str] = Field(default=[], max_length=50)
    volume: int | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """Pieces sent or shown."""
    spend: float | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """US dollars."""
    capture_date: date
    image_s3_urls: list[str] = Field(default=[], max_length=50)
