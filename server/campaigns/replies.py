"""Reply shapes of campaign search, for the documentation."""

from typing import Any

from typing_extensions import TypedDict

from callsheet.server.artefacts.replies import ApprovalQuestion


class CampaignAnswer(TypedDict):
    """The answer to a question."""

    conversationId: str
    response: str
    """The answer, or the text of `question`."""
    question: ApprovalQuestion | None
    """Question of a turn that could exceed a budget; the message yes or no answers it."""
    campaigns: list[dict[str, Any]]
    """Campaigns of the last search with any, with the fields of the library."""
    campaignsSource: str | None
    """Tool that returned them."""
    total: int
    """All campaigns that match; `campaigns` has the first."""
    aggregation: dict[str, Any] | None
    """`{groupBy, groups: [{value, count, spend, volume}]}`"""
    detectedFilters: dict[str, Any]
    suggestions: list[str]
    truncated: bool
    """True if the turn ended at its bound of searches."""
    steps: list[dict[str, Any]]
    provider: str
    providerReason: str
    usage: dict[str, int]
    turnUsage: dict[str, Any]


class CampaignPage(TypedDict):
    """A page of campaigns."""

    campaigns: list[dict[str, Any]]
    total: int
    offset: int
    detectedFilters: dict[str, Any]
    notes: list[str]
    indexedAt: str | None
    """Time when the index of this machine took in its last change; null in PostgreSQL."""


class RefusedLine(TypedDict):
    """A row that was not imported."""

    line: int
    reason: str


class ImportReport(TypedDict):
    """The result of an import."""

    imported: int
    new: int
    """Campaigns that were not there before; the others were updated."""
    refused: list[RefusedLine]
    """At most 1,000 of them."""
    refusedCount: int


class SavedSearches(TypedDict):
    """Saved searches by name."""

    searches: dict[str, Any]


class Deleted(TypedDict):
    """A number of deleted campaigns."""

    deleted: int
