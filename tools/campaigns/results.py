"""The result of a search, as the model reads it and as programs do."""

from collections.abc import Sequence
from typing import Any, Final

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.counting import match_words
from callsheet.state.campaigns.reading import Resolved, active_filters
from callsheet.storage.campaigns.index import CampaignMatch, Group, Matches

MAX_LINES: Final = 20
"""Campaigns that a summary has."""
MAX_EXAMPLES: Final = 5
"""Campaigns that a summary of counts has: the counts are the answer."""
MAX_SNIPPET: Final = 160
FULL: Final = "campaigns"
"""Key of the whole campaigns, which the model does not get."""
COMPANIES: Final = "libraryCompanies"
"""Key of the library's companies, which a statement must not name unless they were returned; likewise."""

ABSENT: Final = "absentValues"
"""Key of sentences for values of the filters that no campaign of the library has."""
NO_OFFERS: Final = "noOffers"
"""Key that is true where a search may be about an offer, and no campaign of the library has one."""


def search_result(
    matches: Matches, resolved: Resolved, lines: int = MAX_LINES, *, ranked: bool = False
) -> dict[str, Any]:
    """Return count, summary and campaigns of a search; none is a normal result.

    The summary has the first `lines` campaigns. A ranked result has the nearest ones, whose number says
    nothing about the library.
    """
    shown = matches.matches[:lines]
    heading = _ranked_heading(len(shown)) if ranked else _heading(matches.total, len(shown), resolved)
    return {
        "count": matches.total,
        "summary_for_llm": "\n".join([heading, *(_line(match) for match in shown)]),
        "detectedFilters": active_filters(resolved.filters),
        **({"notes": list(resolved.notes)} if resolved.notes else {}),
        **({ABSENT: list(resolved.absent)} if resolved.absent else {}),
        FULL: [campaign_data(match.campaign) for match in matches.matches],
    }


def group_result(groups: Sequence[Group], by: str, matches: Matches, resolved: Resolved) -> dict[str, Any]:
    """Return the same with counts by a dimension, or that none of the campaigns has a value of it."""
    if matches.total and not groups:
        sentence = f"None of these campaigns has a {by.replace('_', ' ')}."
        resolved = resolved._replace(absent=(*resolved.absent, sentence))
    result = search_result(matches, resolved, MAX_EXAMPLES)
    rows = [
        {"value": group.value, "count": group.count, "spend": group.spend, "volume": group.volume}
        for group in groups
    ]
    currencies = sorted(
        {one.campaign.currency or "no currency" for one in matches.matches if one.campaign.spend}
    )
    if len(currencies) > 1:
        note = f"spends are in {' and '.join(currencies)}; the sums add them as they are"
        result = {**result, "notes": [*result.get("notes", ()), note]}
    table = [f"{one.value}: {one.count} campaigns, spend {_amount(one.spend)}" for one in groups]
    summary = "\n".join([f"By {by}:", *(table or resolved.absent), result["summary_for_llm"]])
    aggregation = {"groupBy": by, "groups": rows, "currencies": currencies}
    return {**result, "summary_for_llm": summary, "aggregation": aggregation}


def _amount(value: float) -> str:
    """Return a sum to the cent, with all its digits."""
    return f"{value:,.2f}".removesuffix(".00")


def campaign_data(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign as JSON with all its fields."""
    return campaign.model_dump(mode="json")


def for_model(output: dict[str, Any]) -> dict[str, Any]:
    """Return a result without the whole campaigns."""
    return {name: value for name, value in output.items() if name not in {FULL, COMPANIES}}


def _heading(total: int, shown: int, resolved: Resolved) -> str:
    conditions = active_filters(resolved.filters)
    about = f" for {conditions}" if conditions else ""
    if not total:
        notes = (f"There are {one}." for one in resolved.notes)
        return " ".join([f"No campaign matches{about}.", *resolved.absent, *notes])
    part = f"; the first {shown}" if shown < total else ""
    return f"{match_words(total)}{about}{part}:"


def _ranked_heading(shown: int) -> str:
    if not shown:
        return "No campaign is near in meaning."
    return f"The {shown} nearest in meaning, best first. That is no count; by=filter or words counts:"


def _line(match: CampaignMatch) -> str:
    campaign = match.campaign
    text = match.snippet or campaign.campaign_text
    parts = [
        f"[{campaign.id}] {campaign.company}",
        f"Brand: {campaign.brand}" if campaign.brand else "",
        f"Channel: {campaign.channel}",
        f"Offer: {campaign.offer}" if campaign.offer else "No offer",
        f"Value props: {', '.join(campaign.key_value_props)}" if campaign.key_value_props else "",
        f"Sentiment: {campaign.imagery_sentiment}" if campaign.imagery_sentiment else "",
        f"Style: {campaign.imagery_visual_style}" if campaign.imagery_visual_style else "",
        f"Date: {campaign.capture_date}",
        f"Text: {' '.join(text.split())[:MAX_SNIPPET]}" if text else "",
    ]
    return " | ".join(part for part in parts if part)
