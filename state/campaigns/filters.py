"""Exact conditions on campaigns."""

from datetime import date

from pydantic import BaseModel, ConfigDict

from callsheet.state.campaigns.campaign import Channel, Sentiment, ValueProp, VisualStyle


class DateRange(BaseModel):
    """Days of `capture_date`, both included; None is open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: date | None = None
    end: date | None = None


class Values(BaseModel):
    """Values by dimension; a campaign matches a dimension with any of its values, an empty one always."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: tuple[Channel, ...] = ()
    company: tuple[str, ...] = ()
    """Names of companies or brands, compared without case."""
    product: tuple[str, ...] = ()
    value_prop: tuple[ValueProp, ...] = ()
    sentiment: tuple[Sentiment, ...] = ()
    visual_style: tuple[VisualStyle, ...] = ()


class Filters(Values):
    """All conditions hold at once."""

    date_range: DateRange | None = None
    has_offer: bool | None = None
    exclude: Values = Values()
    """A campaign with any of these values does not match."""
