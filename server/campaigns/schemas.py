"""Requests and replies of campaigns."""

from typing import Any, Final, NotRequired

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import ApprovalQuestion, ModelUse, Outcome, ToolCall, UsageReply
from callsheet.server.http.requests import Flag, ModelChoice
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import DateRange
from callsheet.state.campaigns.importing import ImportOptions
from callsheet.state.campaigns.reading import LooseFilters
from callsheet.state.campaigns.workflow import SearchExtent
from callsheet.state.errors import Invalid
from callsheet.storage.campaigns.index import SortBy


class ActiveValues(TypedDict, total=False):
    """Values by dimension; one that no condition has is absent."""

    channel: list[str]
    company: list[str]
    product: list[str]
    value_prop: list[str]
    sentiment: list[str]
    visual_style: list[str]


class ActiveFilters(ActiveValues, total=False):
    """The conditions of a search; those that are not set are absent."""

    date_range: DateRange
    has_offer: bool
    exclude: ActiveValues


class AggregationGroup(TypedDict):
    """Campaigns with one value."""

    value: str
    count: int
    spend: float
    volume: float


class Aggregation(TypedDict):
    """Counts by a dimension."""

    groupBy: str
    groups: list[AggregationGroup]
    currencies: NotRequired[list[str]]
    """Those of the spends of the campaigns that are returned; of several, the sums add them as they are."""


class CampaignAnswer(TypedDict):
    """The answer to a question."""

    conversationId: str
    response: str
    """The answer, or the text of `question`."""
    outcome: Outcome
    """A search makes nothing."""
    question: ApprovalQuestion | None
    """Question of a turn that could exceed a budget; the message yes or no answers it."""
    campaigns: list[Campaign]
    """Campaigns of the last search with any, with the fields of the library; with `merge` of all searches."""
    campaignsSource: str | None
    """Search that returned them: `filter`, `words`, `meaning` or `offers`; with `merge` all of them."""
    total: int | None
    """All campaigns that match; `campaigns` has the first. With `merge` the campaigns that are returned; null
    for the nearest in meaning, which are no count."""
    aggregation: Aggregation | None
    detectedFilters: ActiveFilters
    suggestions: list[str]
    truncated: bool
    """True if the turn ended at its bound of searches."""
    searchExtent: SearchExtent | None
    """Null where the last search looked at all that one may think; beside answers in any language."""
    notes: list[str]
    """In the first reply of a conversation, that the sample library of invented campaigns is searched."""
    steps: list[ToolCall]
    provider: str
    providerReason: str
    usage: UsageReply
    turnUsage: ModelUse


class CampaignPage(TypedDict):
    """A page of campaigns."""

    campaigns: list[Campaign]
    total: int
    offset: int
    detectedFilters: ActiveFilters
    notes: list[str]
    """Remarks: on the sample library of invented campaigns, and how the filters were read."""
    indexedAt: str | None
    """Time when the index of this machine took in its last change; null in PostgreSQL."""


class RefusedLine(TypedDict):
    """A row that was not imported, or a cell that was left out."""

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
    warnings: list[RefusedLine]
    """Cells of optional columns that were left out; at most 1,000 of them."""
    warningCount: int
    notes: list[str]
    """Words, days and encodings that were read otherwise than written; at most 100 of them."""
    columns: dict[str, str]
    """Fields by the heading of the column that they come from."""
    ignoredColumns: list[str]
    """Headings of columns that are not imported; `mapping` sets their fields."""


class SavedSearch(TypedDict):
    """A question that is kept under a name."""

    message: str
    activeFilters: NotRequired[LooseFilters]


class SavedSearches(TypedDict):
    """Saved searches by name."""

    searches: dict[str, SavedSearch]


class Deleted(TypedDict):
    """A number of deleted campaigns."""

    deleted: int


class CampaignChat(ModelChoice):
    """A question."""

    model_config = ConfigDict(extra="forbid")

    message: str
    conversationId: str | None = Field(None, max_length=255, description="Goes on with a conversation")
    activeFilters: LooseFilters | None = Field(None, description="Filters that the page shows")
    applyFiltersToQuery: Flag | None = Field(
        default=None, description="False ignores activeFilters; true if they are there and this is left out"
    )
    merge: Flag = Field(
        default=False, description="True returns the campaigns of all searches of the turn, each once"
    )


class SearchWrite(BaseModel):
    """A question to keep under a name."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(min_length=1, max_length=10_000)
    activeFilters: LooseFilters | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the search as JSON."""
        return self.model_dump(mode="json", exclude_none=True)


class CampaignQuery(BaseModel):
    """Filters, order and place of a page of campaigns."""

    model_config = ConfigDict(extra="forbid")

    channel: list[str] = Field([], max_length=50)
    company: list[str] = Field([], max_length=50)
    product: list[str] = Field([], max_length=50)
    value_prop: list[str] = Field([], max_length=50)
    sentiment: list[str] = Field([], max_length=50)
    visual_style: list[str] = Field([], max_length=50)
    date_range: str | None = Field(None, max_length=60)
    has_offer: bool | None = None
    sort: SortBy = "newest"
    offset: int = Field(0, ge=0, le=1_000_000)
    limit: int = Field(50, ge=1, le=200)

    def filters(self) -> LooseFilters:
        """Return the filters alone."""
        return LooseFilters.model_validate(self.model_dump(include={*LooseFilters.model_fields}))


class ExportQuery(BaseModel):
    """Campaigns to export."""

    model_config = ConfigDict(extra="forbid")

    conversationId: str | None = Field(
        None, max_length=255, description="Its last result; the library if left out"
    )


class ImportQuery(BaseModel):
    """Options of an import."""

    model_config = ConfigDict(extra="forbid")

    fileName: str = Field("", max_length=255, description="Its ending tells the kind")
    allOrNothing: bool = False
    encoding: str = Field("", max_length=40, description="Such as cp1252; found out when left out")
    mapping: str = Field(
        "",
        max_length=20_000,
        description='Fields by heading as JSON, such as {"Werbemittel": "campaign_text"}; an empty text'
        " leaves a column out",
    )
    defaults: str = Field(
        "",
        max_length=20_000,
        description='Values by field as JSON for what the file lacks, such as {"channel": "linkedin"}',
    )

    def options(self) -> ImportOptions:
        """Return the choices about columns; raise `Invalid` for one that is no object of texts."""
        return ImportOptions(_texts("mapping", self.mapping), _texts("defaults", self.defaults))


def _texts(name: str, text: str) -> dict[str, str]:
    try:
        return _TEXTS.validate_json(text) if text else {}
    except ValidationError as error:
        raise Invalid(
            f"{name} is {text!r:.80}, which is no JSON object of texts",
            remedy='send it as {"Advertiser": "company"}',
        ) from error


_TEXTS: Final = TypeAdapter(dict[str, str])
