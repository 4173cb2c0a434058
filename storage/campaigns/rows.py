"""One campaign as a row of numbers and short texts: what exact conditions are about."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES, Campaign
from callsheet.storage.campaigns.index import Group, GroupBy

NONE: Final = -1
"""Code of a value that is not there."""


class Row(NamedTuple):
    """The filterable values of a campaign. An enum's value is its position in the enum."""

    id: str
    channel: int
    company: str
    brand: str
    product: str
    value_props: int
    """Bit by position."""
    sentiment: int
    visual_style: int
    has_offer: bool
    day: int
    """`date.toordinal` of the capture date."""
    spend: float | None
    volume: int | None


def row_of(campaign: Campaign) -> Row:
    """Return the campaign's row."""
    return Row(
        campaign.id,
        CHANNELS.index(campaign.channel),
        campaign.company,
        campaign.brand,
        campaign.primary_product,
        bits(VALUE_PROPS, campaign.key_value_props),
        _code(SENTIMENTS, campaign.imagery_sentiment),
        _code(VISUAL_STYLES, campaign.imagery_visual_style),
        bool(campaign.offer.strip()),
        campaign.capture_date.toordinal(),
        campaign.spend,
        campaign.volume,
    )


def bits(values: Sequence[str], chosen: Sequence[str]) -> int:
    """Return a number with a bit set for each chosen value."""
    return sum(1 << values.index(value) for value in set(chosen))


def _code(values: Sequence[str], value: str | None) -> int:
    return NONE if value is None else values.index(value)


def sort_groups(groups: Iterable[Group], by: GroupBy) -> tuple[Group, ...]:
    """Return the groups, largest first; months in order."""
    if by == "month":
        return tuple(sorted(groups, key=lambda group: group.value))
    return tuple(sorted(groups, key=lambda group: (-group.count, group.value)))
