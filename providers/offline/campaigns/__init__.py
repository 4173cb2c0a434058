"""The offline model on campaigns: words of enums are filters, quoted words a phrase; others are declined."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PastTurn, PlannedCall
from callsheet.providers.offline.grammar import Form, FormMatch, decline, match
from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VISUAL_STYLES

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "product": {
        name: name
        for name in (
            *("credit card", "travel card", "secured card", "savings account", "checking account"),
            *(
                "business account",
                "investment account",
                "personal loan",
                "mortgage",
                "insurance",
                "payment app",
            ),
        )
    },
    "channel": {name.replace("_", " "): name for name in CHANNELS},
    "sentiment": {name.casefold().replace("-", " "): name for name in SENTIMENTS},
    "visual_style": {name.casefold().replace("-", " ").split(" / ")[0]: name for name in VISUAL_STYLES},
    "value_prop": {
        "cash back": "Cash Back / Rewards",
        "travel": "Travel Benefits",
        "savings": "High-Yield Savings",
        "credit building": "Credit Building",
        "no fee": "No Fee / No Minimum",
        "fraud": "Security / Fraud Protection",
    },
}
"""Words for values of filters, longer names before their parts; products are those of the sample library."""
_RECENT: Final = ("recent", "latest", "newest")
_GROUPS: Final = {
    "channel": "channel",
    "company": "company",
    "sentiment": "sentiment",
    "style": "visual_style",
    "month": "month",
}
_TOPIC: Final = r"[a-z0-9&'’,% -]{2,120}"
_SLOTS: Final = {"topic": _TOPIC, "group": "|".join(_GROUPS), "rank": "most|least"}
FORMS: Final = (
    Form("campaign.count", "how many {topic} campaigns[ are there]",
         "how many email campaigns are there", _SLOTS),
    Form("campaign.common", "what is the {rank} common {group}[ in {topic} campaigns]",
         "what is the most common channel", _SLOTS),
    Form("campaign.compare", "compare {topic}[ campaigns] by {group}",
         "compare travel campaigns by channel", _SLOTS),
    Form("campaign.trend", "[show ][the ]trend of {topic} campaigns", "trend of travel campaigns", _SLOTS),
    Form("campaign.offers", "(what are|list|show) the offers (of|from) {topic} campaigns",
         "what are the offers from cash back, premium campaigns", _SLOTS),
    Form("campaign.words", "(which|show|find) campaigns (that mention|mentioning|saying|say) {quote}",
         'find campaigns mentioning "window seat"', _SLOTS),
    Form("campaign.show", "(show|find|list) [me ][all ]{topic} campaigns",
         "show me instagram campaigns", _SLOTS),
    Form("campaign.about", "(show|find) [me ]campaigns about {topic}",
         "find campaigns about airport perks", _SLOTS),
    Form("campaign.follow", "(on|only|just) [the |on ]{topic}[ ones]", "only the urgent ones", _SLOTS),
)  # fmt: skip
_LINE: Final = re.compile(r"^\[([^\]]+)\] ([^|]+) \|.*?\| (?:Offer: ([^|]+)|No offer)", re.MULTILINE)
_SHOWN: Final = 5
_MAX_ROWS: Final = 36
"""Rows of a table in an answer: three years by month."""
_FILLERS: Final = frozenset({"and", "with", "the", "all", "campaign", "campaigns", "ads", "ones"})
_NEGATIONS: Final = ("non", "not")
"""Words before a value that leave its campaigns out."""
_TURNING: Final = re.compile(
    r"\b(?:no|not|non|never|without|except|excluding|but|or|nor|neither|only|best|worst|top|most|least|cheap\w*|than"
    r"|before|after|since|until|more|less|fewer|how|many|successful|failed)\b",
    re.IGNORECASE,
)
"""Words that a search by meaning would not heed."""


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return a search, the answer from its result, or the reply that declines."""
    text = conversation.turn.text
    results = [call.result or {} for call in conversation.turn.calls if call.name != "answer"]
    if not results:
        request = _search(text, conversation.turns[:-1])
        if isinstance(request, str) or "search" not in conversation.tools:
            advice = request if isinstance(request, str) else ""
            return OfflineReply(decline(text, advice, FORMS), refused=True)
        return OfflineReply("", (PlannedCall("search", request),))
    if "error" in results[-1]:
        return OfflineReply(f"I could not search: {results[-1]['error']}.")
    if "answer" not in conversation.tools:
        return OfflineReply(_count_text(results[-1]))
    statements = [*_table(results[-1], text)] or [*_statements(results[-1])]
    return OfflineReply("", (PlannedCall("answer", {"statements": statements}),))


def _search(text: str, earlier: tuple[PastTurn, ...]) -> dict[str, Any] | str:
    """Return the arguments of a search, or what was not understood, as advice to the person."""
    requests = match(text, FORMS)
    if len(requests) != 1:
        return ""
    [request] = requests
    if request.form == "campaign.words":
        return {"by": "words", "query": f'"{request.slots["quote"]}"'}
    topic = request.slots.get("topic", "")
    if request.form == "campaign.about":
        turning = _TURNING.search(topic)
        return (
            f"I cannot heed “{turning[0]}” in a search by meaning; "
            if turning
            else {"by": "meaning", "query": topic}
        )
    filters, rest = _filters(topic)
    if rest:
        return f"“{rest}” is no filter that I know; "
    return _filter_search(request, filters, earlier)


def _filter_search(
    request: FormMatch, filters: dict[str, Any], earlier: tuple[PastTurn, ...]
) -> dict[str, Any] | str:
    """Return the arguments of a search by filters; a follow-up adds them to those of the last search."""
    if request.form == "campaign.follow":
        calls = (call for turn in reversed(earlier) for call in reversed(turn.calls))
        last = next((call for call in calls if call.name == "search"), None)
        return {**last.args, **filters} if last and filters else ""
    more: dict[str, Any] = {"has_offer": True} if request.form == "campaign.offers" else {}
    if "group" in request.slots:
        more["group_by"] = _GROUPS[request.slots["group"].casefold()]
    if request.form == "campaign.trend":
        more["group_by"] = "month"
    return {"by": "filter", **filters, **more}


def _filters(topic: str) -> tuple[dict[str, Any], str]:
    """Return the filters that words of a topic mean, and the words that mean none."""
    filters: dict[str, Any] = {}
    # Two blanks between words, so that each has its own.
    rest = f"  {'  '.join(re.split('[ ,-]+', topic.casefold()))}  "
    named = [(name, word, value) for name, words in WORDS.items() for word, value in words.items()]
    for dimension, word, value in named:
        spaced = word.replace(" ", "  ")
        without = re.sub(f" (?:{'|'.join(_NEGATIONS)})  {spaced}s? ", "  ", rest)
        if without != rest:
            filters.setdefault("exclude", {}).setdefault(dimension, []).append(value)
        rest = re.sub(f" {spaced}s? ", "  ", without)
        if rest != without:
            filters.setdefault(dimension, []).append(value)
    for word in _RECENT:
        if f" {word} " in rest:
            filters["date_range"] = "recent"
            rest = rest.replace(f" {word} ", "  ")
    left = [word for word in rest.split() if word not in _FILLERS]
    return filters, " ".join(left)


def _count_text(result: Mapping[str, Any]) -> str:
    if result["count"] and result.get("by") == "meaning":
        return "These are the nearest in meaning."
    return f"{result['count']} campaigns match." if result["count"] else "No campaign matches."


def _table(result: Mapping[str, Any], question: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of a result by groups: the largest or smallest if asked for, then the counts."""
    groups = result.get("aggregation", {}).get("groups", [])
    if not groups:
        return
    by = result["aggregation"]["groupBy"].replace("_", " ")
    slots = match(question, FORMS)[0].slots
    if rank := slots.get("rank", "").casefold():
        counts = [row["count"] for row in groups]
        wanted = max(counts) if rank == "most" else min(counts)
        names = [row["value"] for row in groups if row["count"] == wanted]
        verb = "are" if len(names) > 1 else "is"
        yield {
            "text": f"By {by}, the {rank} common {verb} {' and '.join(names)}: {wanted}.",
            "figures": [wanted],
        }
    listed = ", ".join(f"{row['value']} {row['count']}" for row in groups[:_MAX_ROWS])
    more = " and further ones" if len(groups) > _MAX_ROWS else ""
    yield {"text": f"By {by}: {listed}{more}."}


def _statements(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    first: dict[str, Any] = {"text": _count_text(result)}
    yield first if result.get("by") == "meaning" else {**first, "figures": [result["count"]]}
    for name, *words in _LINE.findall(str(result.get("summary_for_llm", "")))[:_SHOWN]:
        company, offer = (word.strip() for word in words)
        text = f"{company}: {offer}" if offer else f"{company}, without an offer"
        yield {"text": text, "campaigns": [name], "companies": [company], "offers": [offer] if offer else []}
