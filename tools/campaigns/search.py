"""The search tools: exact filters, meaning, words, and offers."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ConfigDict, Field

from callsheet.state.campaigns.campaign import EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.reading import LooseFilters, Resolved, merge_filters, resolve_filters
from callsheet.state.campaigns.workflow import LastResult
from callsheet.storage import current
from callsheet.storage.campaigns.index import CampaignIndex, GroupBy, Matches, TextField
from callsheet.tools.call import Call
from callsheet.tools.campaigns.libraries import library, library_values
from callsheet.tools.campaigns.results import COMPANIES, group_result, search_result
from callsheet.tools.registry import tool

PAGE: Final = 50
"""Campaigns of a result."""
SIMILAR: Final = 20
MAX_COMPANIES: Final = 2_000
BASE: Final = "baseFilters"
"""Name of the fact that has the filters of the page, as JSON."""


class FilterCampaigns(LooseFilters):
    """Arguments of `filter_campaigns`."""

    model_config = ConfigDict(extra="forbid")

    group_by: GroupBy | None = Field(
        default=None,
        description="Count by this, to compare, to find the most common, or by month for a trend",
    )


class _Query(LooseFilters):
    query: str = Field(min_length=1, max_length=10_000, description="What to look for")


class SemanticSearch(_Query):
    """Arguments of `semantic_search`."""

    embedding_field: EmbeddingField = Field(
        default="value_prop",
        description="value_prop: what is promised; copy: the words; visual: the pictures",
    )


class FullTextSearch(_Query):
    """Arguments of `full_text_search`."""


class SearchOffers(_Query):
    """Arguments of `search_offers`."""


@tool(schema=FilterCampaigns, display="Filtering campaigns")
async def filter_campaigns(args: FilterCampaigns, call: Call) -> dict[str, Any]:
    """Find or count campaigns by channel, company, product, value prop, sentiment, style, date or offer.

    Use it for "show", "what are the offers of", "how many", "most common" and "compare" (with group_by), and
    for trends (group_by month).
    """
    index, resolved = await _prepare(args, call)
    matches = await index.filter(resolved.filters, limit=PAGE)
    if args.group_by is None:
        return await _with_companies(index, search_result(matches, resolved))
    groups = await index.group(resolved.filters, args.group_by)
    return await _with_companies(index, group_result(groups, args.group_by, matches, resolved))


@tool(schema=SemanticSearch, display="Searching by meaning")
async def semantic_search(args: SemanticSearch, call: Call) -> dict[str, Any]:
    """Find campaigns by what they are about, in other words than theirs: "airport perks"."""
    index, resolved = await _prepare(args, call)
    matches = await index.similar(args.query, resolved.filters, field=args.embedding_field, limit=SIMILAR)
    return await _with_companies(index, search_result(matches, resolved))


@tool(schema=FullTextSearch, display="Searching the copy")
async def full_text_search(args: FullTextSearch, call: Call) -> dict[str, Any]:
    """Find campaigns whose copy has these words: "mentions X", "says Y". Quotation marks make a phrase."""
    index, resolved = await _prepare(args, call)
    matches = await index.full_text(args.query, resolved.filters, limit=PAGE)
    return await _with_companies(index, search_result(matches, resolved))


@tool(schema=SearchOffers, display="Searching offers")
async def search_offers(args: SearchOffers, call: Call) -> dict[str, Any]:
    """Find campaigns by the words of their offer, such as "bonus miles". Call it once for a question."""
    index, resolved = await _prepare(args, call)
    wanted = resolved.filters.model_copy(update={"has_offer": True})
    matches = await index.full_text(args.query, wanted, field="offer", limit=PAGE)
    return await _with_companies(index, search_result(matches, Resolved(wanted, resolved.notes)))


async def search_again(index: CampaignIndex, result: LastResult, most: int) -> Matches:
    """Return the `most` best campaigns of a ranked search as the library is now."""
    query, filters = result["query"], Filters.model_validate(result["filters"])
    if result["source"] == semantic_search.name:
        return await index.similar(query, filters, field=result["field"], limit=most)
    field: TextField = "offer" if result["source"] == search_offers.name else "copy"
    return await index.full_text(query, filters, field=field, limit=most)


async def _with_companies(index: CampaignIndex, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the library's companies, largest first, for the check of an answer."""
    groups = await index.group(Filters(), "company")
    return {**result, COMPANIES: [group.value for group in groups[:MAX_COMPANIES]]}


async def _prepare(args: LooseFilters, call: Call) -> tuple[CampaignIndex, Resolved]:
    """Return the library and the exact filters, those of the page included."""
    index = await library(await current(), call.scope.owner)
    loose = LooseFilters(**{name: getattr(args, name) for name in LooseFilters.model_fields})
    values = await library_values(index)
    own = resolve_filters(loose, await index.newest(), datetime.now(UTC).date(), values)
    base = Filters.model_validate(json.loads(call.scope.facts.get(BASE) or "{}"))
    return index, Resolved(merge_filters(base, own.filters), own.notes)


TOOLS: Final = (filter_campaigns, semantic_search, full_text_search, search_offers)
