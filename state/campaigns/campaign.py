"""A campaign of an ad library: its fields, and their fixed and usual values."""

from datetime import date
from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Channel = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f]+$")]
"""A channel in lower case with underscores; a library may have other ones than `CHANNELS`."""
ValueProp = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
"""A value proposition; a library may have other ones than `VALUE_PROPS`."""
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

CHANNELS: Final = ("facebook", "instagram", "twitter", "email", "direct_mail")
"""Channels of the sample library."""
OTHER_CHANNELS: Final = (
    "tiktok",
    "linkedin",
    "youtube",
    "pinterest",
    "snapchat",
    "reddit",
    "display",
    "search",
    "podcast",
    "radio",
    "tv",
    "print",
    "out_of_home",
    "sms",
    "app",
)
"""Other usual channels."""
VALUE_PROPS: Final = (
    "No Fee / No Minimum",
    "Cash Back / Rewards",
    "Travel Benefits",
    "High-Yield Savings",
    "Credit Building",
    "Security / Fraud Protection",
)
"""Value propositions of the sample library."""
SENTIMENTS: Final[tuple[Sentiment, ...]] = get_args(Sentiment)
VISUAL_STYLES: Final[tuple[VisualStyle, ...]] = get_args(VisualStyle)
MAX_NUMBER: Final = 10**15
"""Largest volume and spend: JSON, indexes and databases hold it exactly."""


class Campaign(BaseModel):
    """One campaign; field names are those of the REST API."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    id: str = Field(min_length=1, max_length=255)
    company: str = Field(min_length=1, max_length=200)
    brand: str = Field(default="", max_length=200)
    channel: Channel
    primary_product: str = Field(default="", max_length=200)
    offer: str = Field(default="", max_length=1_000)
    """Empty for none."""
    incentives: list[str] = Field(default=[], max_length=50)
    key_value_props: list[ValueProp] = Field(default=[], max_length=50)
    campaign_text: str = Field(default="", max_length=20_000)
    """Headline and short copy."""
    full_campaign_text: str = Field(default="", max_length=100_000)
    imagery_sentiment: Sentiment | None = None
    imagery_visual_style: VisualStyle | None = None
    imagery_primary_subject: str = Field(default="", max_length=500)
    imagery_demographics: list[str] = Field(default=[], max_length=50)
    volume: int | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """Pieces sent or shown; of a range its lower bound."""
    volume_max: int | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """Upper bound of a range; None for a number, and for a range without one."""
    spend: float | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """Amount in `currency`; of a range its lower bound."""
    spend_max: float | None = Field(default=None, ge=0, le=MAX_NUMBER)
    """Upper bound of a range; None for a number, and for a range without one."""
    currency: str = Field(default="", pattern=r"^([A-Z]{3})?$")
    """Code of three letters; empty if the file names none."""
    capture_date: date
    image_s3_urls: list[str] = Field(default=[], max_length=50)
