"""State of `campaign_search`."""

from typing import Any, NotRequired

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


class CampaignState(Workflow):
    """Keys of a conversation about an ad library."""

    base_filters: NotRequired[dict[str, Any]]
    """Filters of the page, which every tool applies."""
    result: NotRequired[LastResult | None]
    """The last result with campaigns; it lasts over turns, for "the second one"."""
    merge: NotRequired[bool]
    """True if the reply has the campaigns of all searches of the turn."""
    aggregation: NotRequired[dict[str, Any] | None]
    detected_filters: NotRequired[dict[str, Any]]
    suggestions: NotRequired[list[str]]
    checks: NotRequired[int]
    """Answers of this turn that were sent back."""
