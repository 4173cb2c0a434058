"""State of `campaign_search`."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired, Self

from langgraph.channels import LastValue
from typing_extensions import TypedDict

from callsheet.state.workflow import Workflow


class LastResult(TypedDict):
    """The last result that had campaigns."""

    source: str
    """Kind of search: `filter`, `words`, `meaning` or `offers`."""
    total: int
    """All campaigns that match; of a search by meaning those that it returned."""
    campaigns: list[dict[str, Any]]
    """The first of them."""
    query: NotRequired[str]
    """Query of the search, if it has one; with the filters it finds all of them again."""
    filters: NotRequired[dict[str, Any]]
    aggregation: NotRequired[dict[str, Any] | None]
    """Counts by group of the same search."""


EXTENT: Final = "searchExtent"
"""Key of the extent of its search in an answer's `additional_kwargs`."""


class SearchExtent(TypedDict):
    """The extent of an answer's last search, where that is less than one may think."""

    by: str
    """Kind of search: `filter`, `words`, `meaning` or `offers`."""
    filters: list[str]
    """Names of its filters."""
    absentValues: list[str]
    """Sentences for values of the filters that no campaign of the library has, in English."""
    noOffers: bool
    """True if it may have been about an offer, and no campaign of the library has one."""
    text: str
    """All of it in English, which an answer in English has as well."""


EARLIER_SOURCES: Final[Mapping[str, str]] = {
    "filter_campaigns": "filter",
    "full_text_search": "words",
    "semantic_search": "meaning",
    "search_offers": "offers",
}
"""Kinds of search by the tools that states of earlier versions name instead."""


class LastResultChannel(LastValue[LastResult | None]):
    """The last result; one that an earlier version stored is read as one of today, by everyone."""

    def from_checkpoint(self, checkpoint: LastResult | None) -> Self:
        """Return the channel with the stored result."""
        channel = super().from_checkpoint(checkpoint)
        if isinstance(checkpoint, Mapping):
            channel.value = _result_of_today(checkpoint)
        return channel


def _result_of_today(stored: LastResult) -> LastResult:
    source = EARLIER_SOURCES.get(stored["source"])
    if source is None:
        return stored
    # The nearest in meaning are no count.
    total = len(stored["campaigns"]) if source == "meaning" else stored["total"]
    return {**stored, "source": source, "total": total}


class CampaignState(Workflow):
    """Keys of a conversation about an ad library."""

    base_filters: NotRequired[dict[str, Any]]
    """Filters of the page, which every tool applies."""
    result: NotRequired[Annotated[LastResult | None, LastResultChannel]]
    """The last result with campaigns; it lasts over turns, for "the second one"."""
    merge: NotRequired[bool]
    """True if the reply has the campaigns of all searches of the turn."""
    aggregation: NotRequired[dict[str, Any] | None]
    detected_filters: NotRequired[dict[str, Any]]
    suggestions: NotRequired[list[str]]
    checks: NotRequired[int]
    """Answers of this turn that were sent back."""
