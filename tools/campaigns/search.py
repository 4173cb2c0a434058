"""The search tool: by exact filters, words, meaning, or the words of offers."""

import asyncio
import json
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from callsheet.state.campaigns.campaign import EmbeddingField
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.reading import (
    LooseFilters,
    Resolved,
    active_filters,
    merge_filters,
    without_filter,
)
from callsheet.state.campaigns.workflow import LastResult
from callsheet.storage import current
from callsheet.storage.campaigns.index import CampaignIndex, GroupBy, Matches, TextField
from callsheet.tools.call import Call
from callsheet.tools.campaigns.libraries import library, resolve
from callsheet.tools.campaigns.results import COMPANIES, NO_OFFERS, group_result, search_result
from callsheet.tools.registry import tool

PAGE: Final = 50
"""Campaigns of a result."""
SIMILAR: Final = 20
"""Campaigns of a result by meaning."""
MAX_COMPANIES: Final = 2_000
BASE: Final = "baseFilters"
"""Name of the fact that has the filters of the page, as JSON."""
By = Literal["filter", "words", "meaning", "offers"]


def _in_few_words(schema: dict[str, Any]) -> None:
    """Describe dates and exclusions in a line each, since every request has the schema."""
    schema["properties"]["date_range"] = {
        "type": "string",
        "description": '"recent", "last 3 months", "2026-03", "2026-03-01 to 2026-05-31"',
    }
    schema["properties"]["exclude"] = {
        "type": "object",
        "description": 'For "not" and "without", of the fields above: {"channel": ["email"]}',
    }


class Search(LooseFilters):
    """Arguments of `search`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_in_few_words)

    by: By = Field(
        default="filter",
        description='words: the copy has them, "quoted" ones side by side; offers: words of the offer',
    )
    query: str = Field(default="", max_length=10_000, description="Not for filter")
    group_by: GroupBy | None = Field(default=None, description="Counts by it; only for filter")
    embedding_field: EmbeddingField = Field(default="value_prop", description="Only for meaning")

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        """Refuse a query or groups that the kind of search would ignore, and a missing query."""
        if self.by == "filter" and self.query.strip():
            raise ValueError("by=filter takes no query: use by=words, meaning or offers, or leave it out")
        if self.by != "filter" and not self.query.strip():
            raise ValueError(f"by={self.by} needs a query")
        if self.by != "filter" and self.group_by:
            raise ValueError("group_by needs by=filter: only filters count groups")
        return self


@tool(schema=Search, display="Searching campaigns", live=True)
async def search(args: Search, call: Call) -> dict[str, Any]:
    """Search the library. All filters hold at once; leave out what was not asked for.

    filter lists and counts ("show", "offers of", "how many"; group_by to compare, for the most common, for
    trends by month). meaning ranks: its nearest campaigns are no count.
    """
    index, resolved = await _prepare(args, call)
    matches = await _matches(index, args.by, args.query, resolved.filters, args.embedding_field)
    if not matches.total and args.by != "meaning":
        resolved = resolved._replace(notes=(*resolved.notes, *await _reasons(index, args, resolved)))
    if args.group_by:
        groups = await index.group(resolved.filters, args.group_by)
        result = group_result(groups, args.group_by, matches, resolved)
    else:
        result = search_result(matches, resolved, ranked=args.by == "meaning")
    if not matches.total and await _lacks_offers(index, args, resolved.filters):
        line = "No campaign of this library has an offer: offers cannot be searched in it. Say so."
        result |= {"summary_for_llm": f"{result['summary_for_llm']}\n{line}", NO_OFFERS: True}
    companies = await index.group(Filters(), "company")
    names = [group.value for group in companies[:MAX_COMPANIES]]
    return {**result, "by": args.by, "query": args.query, COMPANIES: names}


async def _lacks_offers(index: CampaignIndex, args: Search, filters: Filters) -> bool:
    """Return whether a search may be about an offer, and the library has none."""
    about_offers = args.by in {"offers", "words"} or filters.has_offer
    return bool(about_offers) and not (await index.filter(Filters(has_offer=True), limit=1)).total


async def search_again(index: CampaignIndex, result: LastResult, most: int) -> Matches:
    """Return the `most` first campaigns of a search by words as the library is now."""
    field: TextField = "offer" if result["source"] == "offers" else "copy"
    return await index.full_text(
        result["query"], Filters.model_validate(result["filters"]), field=field, limit=most
    )


async def _matches(
    index: CampaignIndex, by: By, query: str, filters: Filters, field: EmbeddingField, limit: int = PAGE
) -> Matches:
    if by == "filter":
        return await index.filter(filters, limit=limit)
    if by == "meaning":
        return await index.similar(query, filters, field=field, limit=SIMILAR)
    return await index.full_text(query, filters, field="copy" if by == "words" else "offer", limit=limit)


async def _reasons(index: CampaignIndex, args: Search, resolved: Resolved) -> list[str]:
    """Return how many campaigns there are without each filter that empties the result by itself."""
    names = list(active_filters(resolved.filters))
    narrower = [without_filter(resolved.filters, name) for name in names]
    searches = (_matches(index, args.by, args.query, each, args.embedding_field, 1) for each in narrower)
    totals = [each.total for each in await asyncio.gather(*searches)]
    return [f"{total} without {name}" for name, total in zip(names, totals, strict=True) if total]


async def _prepare(args: Search, call: Call) -> tuple[CampaignIndex, Resolved]:
    """Return the library and the exact filters, those of the page included."""
    index = await library(await current(), call.scope.owner)
    loose = LooseFilters(**{name: getattr(args, name) for name in LooseFilters.model_fields})
    own = await resolve(index, loose)
    base = Filters.model_validate(json.loads(call.scope.facts.get(BASE) or "{}"))
    filters = merge_filters(base, own.filters)
    if args.by == "offers":
        filters = filters.model_copy(update={"has_offer": True})
    return index, own._replace(filters=filters)


TOOLS: Final = (search,)
