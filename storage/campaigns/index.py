"""The port of campaign search: full text, exact filters and meaning."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Invalid

URL_VARIABLE: Final = "CALLSHEET_CAMPAIGNS_URL"
"""Variable with the address of a database to keep campaigns in, instead of Redis."""
GroupBy = Literal["channel", "company", "product", "value_prop", "sentiment", "visual_style", "month"]
SortBy = Literal["newest", "oldest", "company", "spend", "volume"]
TextField = Literal["copy", "offer"]


def require_postgres_url(url: str) -> None:
    """Raise `Invalid` for the address of another kind of database; an empty one is none."""
    scheme = urlsplit(url).scheme
    if url and scheme not in {"postgresql", "postgres"}:
        rule = f"{URL_VARIABLE} begins with {scheme!r}, and must begin with postgresql://"
        raise Invalid(rule, remedy=f"Correct {URL_VARIABLE}, or unset it to use the index in this process.")


class CampaignMatch(NamedTuple):
    """One campaign of a result."""

    campaign: Campaign
    score: float = 0.0
    """Higher is better; comparable within one result."""
    snippet: str = ""
    """Words around the first match."""


class Matches(NamedTuple):
    """A page of a result, best first."""

    matches: tuple[CampaignMatch, ...]
    total: int
    """All campaigns that match."""


@dataclass(frozen=True, slots=True)
class Group:
    """A value of a dimension and its campaigns; a campaign with several values counts in each."""

    value: str
    """`2026-03` for months."""
    count: int
    spend: float
    volume: int


def sort_groups(groups: Iterable[Group], by: GroupBy) -> tuple[Group, ...]:
    """Return the groups, largest first; months in order."""
    if by == "month":
        return tuple(sorted(groups, key=lambda group: group.value))
    return tuple(sorted(groups, key=lambda group: (-group.count, group.value)))


class CampaignIndex(Protocol):
    """Search in one owner's library. Every method is safe to call from several tasks."""

    async def put(self, campaigns: Sequence[Campaign], *, more: bool = False) -> int:
        """Add or replace campaigns by id; return how many were new.

        With `more` to come their embeddings are left to a later call: the size of the library chooses them.
        """

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete campaigns; return how many there were."""

    async def get(self, ids: Sequence[str]) -> list[Campaign]:
        """Return the campaigns with these ids, in this order; unknown ids are left out."""

    async def filter(
        self, filters: Filters, *, sort: SortBy = "newest", offset: int = 0, limit: int = 50
    ) -> Matches:
        """Return the campaigns that meet all conditions."""

    def export(self, filters: Filters) -> AsyncIterator[list[Campaign]]:
        """Yield all campaigns that meet all conditions, newest first, some at a time.

        A campaign that is there from the beginning to the end comes once.
        """

    async def full_text(
        self, query: str, filters: Filters, *, field: TextField = "copy", limit: int = 50
    ) -> Matches:
        """Return campaigns whose copy or offer has the words; quoted words are a phrase."""

    async def similar(
        self, query: str, filters: Filters, *, field: EmbeddingField = "value_prop", limit: int = 20
    ) -> Matches:
        """Return the campaigns nearest in meaning, `limit` at most; how many are near is no count."""

    async def group(self, filters: Filters, by: GroupBy) -> tuple[Group, ...]:
        """Return counts by value, largest first; months in order."""

    async def newest(self) -> date | None:
        """Return the newest `capture_date`; None for an empty library."""

    async def indexed_at(self) -> datetime | None:
        """Return when the index here took in its last change; None without an index of its own."""

    async def count(self) -> int:
        """Return the number of campaigns."""
