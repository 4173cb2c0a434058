"""The offline model on campaigns: words of enums are filters, quoted words a phrase; others are declined."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PastCall, PlannedCall
from callsheet.providers.offline.grammar import Form, FormMatch, decline, match
from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VISUAL_STYLES
from callsheet.state.campaigns.counting import match_words

_PRODUCTS: Final = (
    "credit card|travel card|secured card|savings account|checking account|business account|"
    "investment account|personal loan|mortgage|insurance|payment app"
)
WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "product": {name: name for name in _PRODUCTS.split("|")},
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
_VALUE: Final = "|".join(word.replace(" ", "[ -]") for words in WORDS.values() for word in words)
_RECENT: Final = "recent|latest|newest"
_FILTER: Final = rf"(?:(?:non[ -]|not )?(?:{_VALUE})s?|{_RECENT})"
_SLOTS: Final = {
    "filters": rf"(?:the )?{_FILTER}(?:(?:, and |, | and | with | ){_FILTER}){{0,11}}",
    "about": r"[a-z0-9&'’,% -]{2,120}",
    "group": "channel|company|sentiment|month|style",
    "rank": "most|least",
}
FORMS: Final = (
    Form("campaign.count", "how many {filters} campaigns[ are there]",
         "how many email campaigns are there", _SLOTS),
    Form("campaign.common", "what is the {rank} common {group}[ in {filters} campaigns]",
         "what is the most common channel", _SLOTS),
    Form("campaign.compare", "compare {filters} [campaigns ]by {group}",
         "compare travel campaigns by channel", _SLOTS),
    Form("campaign.trend", "[show [me ]][the ]trend of {filters} campaigns",
         "trend of travel campaigns", _SLOTS),
    Form("campaign.offers", "(what are|list|show) the offers (of|from) {filters} campaigns",
         "what are the offers from cash back, premium campaigns", _SLOTS),
    Form("campaign.words", "(which|show|find) campaigns (that mention|mentioning|saying|say) {quote}",
         'find campaigns mentioning "window seat"', _SLOTS),
    Form("campaign.show", "(show|find|list) [me ][all ]{filters} campaigns",
         "show me instagram campaigns", _SLOTS),
    Form("campaign.about", "(show|find) [me ]campaigns about {about}",
         "find campaigns about airport perks", _SLOTS),
    Form("campaign.follow", "(on|only|just) [the |on ]{filters}[ ones]", "only the urgent ones", _SLOTS),
)  # fmt: skip
_LINE: Final = re.compile(r"^\[([^\]]+)\] ([^|]+) \|.*?\| (?:Offer: ([^|]+)|No offer)", re.MULTILINE)
_SHOWN: Final = 5
_MAX_ROWS: Final = 36  # rows of a table in an answer: three years by month
_TURNING: Final = re.compile(
    r"\b(?:best|worst|top|most|least|cheap\w*|before|after|since|until|more|less|fewer|how|many|successful|failed|"
    r"show|find|list|compare|delete|remove|export|them|rest)\b",
    re.IGNORECASE,
)
"""Words that a search by meaning would not heed: those that turn its sense, and those of another request."""


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return a search, the answer from its result, or the reply that declines."""
    text = conversation.turn.text
    results = [call.result or {} for call in conversation.turn.calls if call.name != "answer"]
    if not results:
        calls = [call for turn in conversation.turns[:-1] for call in turn.calls if call.name == "search"]
        request = _search(text, calls)
        if isinstance(request, str) or "search" not in conversation.tools:
            forms = FORMS if calls and (calls[-1].result or {}).get("count") else FORMS[:-1]
            advice = request if isinstance(request, str) else ""
            return OfflineReply(decline(text, advice, forms), refused=True)
        return OfflineReply("", (PlannedCall("search", request),))
    if "error" in results[-1]:
        return OfflineReply(f"I could not search: {results[-1]['error']}.")
    if "answer" not in conversation.tools:
        return OfflineReply(_count_text(results[-1]))
    statements = [*_table(results[-1], text)] or [*_statements(results[-1])]
    return OfflineReply("", (PlannedCall("answer", {"statements": statements}),))


def _search(text: str, earlier: Sequence[PastCall]) -> dict[str, Any] | str:
    """Return the arguments of a search, or what was not understood, as advice to the person."""
    requests = match(text, FORMS)
    if len(requests) != 1:
        return ""
    [request] = requests
    if request.form == "campaign.words":
        return {"by": "words", "query": f'"{request.slots["quote"]}"'}
    if request.form == "campaign.about":
        if turning := _TURNING.search(request.slots["about"]):
            return f"I cannot heed “{turning[0]}” in a search by meaning; "
        return {"by": "meaning", "query": request.slots["about"]}
    words = request.slots.get("filters", "")
    return _ambiguity(words, request.form) or _filter_search(request, _filters(words), earlier)


def _filter_search(
    request: FormMatch, filters: dict[str, Any], earlier: Sequence[PastCall]
) -> dict[str, Any] | str:
    """Return the arguments of a search by filters; a follow-up adds them to those of the last search."""
    if request.form == "campaign.follow":
        return _narrow(earlier[-1].args, filters) if earlier and filters else ""
    more: dict[str, Any] = {"has_offer": True} if request.form == "campaign.offers" else {}
    if "group" in request.slots:
        more["group_by"] = request.slots["group"].casefold().replace("style", "visual_style")
    if request.form == "campaign.trend":
        more["group_by"] = "month"
    return {"by": "filter", **filters, **more}


def _narrow(before: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the arguments of a search with more filters, or the reason if it had other values for one."""
    before = {name: value for name, value in before.items() if value}  # a real model writes nulls
    for name in (before.keys() & more.keys()) - {"exclude", "date_range"}:
        values = [before[name]] if isinstance(before[name], str) else before[name]
        if not {*more[name]} <= {*values}:
            return f"the last search was for {' and '.join(values)}; "
    both = [search.get("exclude", {}) for search in (before, more)]
    excluded = {key: [one for each in both for one in each.get(key) or ()] for own in both for key in own}
    return {**before, **more} | ({"exclude": excluded} if excluded else {})


def _values(words: str) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the words before each value of a filter, the filter, the value, and true if it is left out."""
    end = 0
    for piece in re.finditer(rf"(non[ -]|not )?\b({_VALUE})s?\b", words.casefold()):
        word = piece[2].replace("-", " ")
        name, value = next((name, known[word]) for name, known in WORDS.items() if word in known)
        yield words[end : piece.start()], name, value, bool(piece[1])
        end = piece.end()


def _ambiguity(words: str, form: str) -> str:
    """Return why words do not say how values of one filter belong together, or ""."""
    values = [*_values(words)]
    for name in dict.fromkeys(name for _, name, _, _ in values):
        own = [at for at, value in enumerate(values) if value[1] == name]
        listed = all(at - 1 in own and re.search("and|,", values[at][0]) for at in own[1:])
        listed = listed and name != "value_prop" and form != "campaign.compare"
        denied = {values[at][3] for at in own}
        if own[1:] and denied != {True} and not (listed and len(denied) == 1):
            return f"I cannot tell whether {' and '.join(values[at][2] for at in own)} are meant together; "
    return ""


def _filters(words: str) -> dict[str, Any]:
    """Return the filters that words mean; a value behind "non" or "not" is left out."""
    filters: dict[str, Any] = {}
    for _, name, value, denied in _values(words):
        chosen = filters.setdefault("exclude", {}) if denied else filters
        chosen.setdefault(name, []).append(value)
    recent = re.search(rf"\b(?:{_RECENT})\b", words, re.IGNORECASE)
    return filters | ({"date_range": "recent"} if recent else {})


def _count_text(result: Mapping[str, Any]) -> str:
    if result.get("by") == "meaning":
        return "These are the nearest in meaning." if result["count"] else "The search by meaning is empty."
    forms = ", with the words in these or other forms" if result.get("by") == "words" else ""
    return f"{match_words(result['count'])}{forms}." if result["count"] else "No campaign matches."


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
    yield {"text": _count_text(result), "figures": [] if result.get("by") == "meaning" else [result["count"]]}
    shown = 0 if "aggregation" in result else _SHOWN  # counts by values that none has are no list
    for name, *words in _LINE.findall(str(result.get("summary_for_llm", "")))[:shown]:
        company, offer = (word.strip() for word in words)
        text = f"{company}: {offer}" if offer else f"{company}, without an offer"
        yield {"text": text, "campaigns": [name], "companies": [company], "offers": [offer] if offer else []}
