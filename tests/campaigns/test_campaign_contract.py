"""The contract of campaign search: the tool loop, the tools' results, and the reply."""

import json
from typing import Any

import httpx
import pytest

from callsheet.state.tokens import estimate_text, estimate_tools
from tests.doubles.chat_double import ChatDouble, Say

KINDS = ("filter", "words", "meaning", "offers")


def search_call(by: str = "filter", call: str = "call_1", **args: Any) -> Say:
    return Say(calls=[(call, "search", json.dumps({"by": by, **args}))])


async def post_question(api: httpx.AsyncClient, message: str, **more: Any) -> dict[str, Any]:
    reply = await api.post("/api/chat", json={"message": message, "provider": "openai", **more})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def tool_result(message: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a tool message of a request to the model."""
    return dict(json.loads(message["content"].partition("\n\n<state>")[0]))


async def test_the_model_calls_tools_until_it_answers_in_text(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E1, E3, E4, E10: also for a greeting."""
    model.script(search_call(channel=["email"]), search_call("words", "call_2", query="bags"), Say("Found."))
    reply = await post_question(api, "what about email?")
    assert [one["name"] for one in reply["steps"]] == ["search", "search"]
    first, second, third = model.requests
    prompt = first.messages[0]
    kinds = [f"by={kind}" for kind in KINDS]
    assert (prompt["role"], [kind for kind in kinds if kind not in prompt["content"]]) == ("system", [])
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["search", "answer"]
    roles = [message["role"] for message in third.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    calls = [call["id"] for message in third.messages for call in message.get("tool_calls", ())]
    assert calls == [message["tool_call_id"] for message in third.messages if message["role"] == "tool"]
    assert len(second.messages) == 4
    model.script(Say("Hello!"))
    assert (await post_question(api, "hello"))["response"] == "Hello!"
    assert len(model.requests) == 4


async def test_the_reply_has_campaigns_aggregation_and_detected_filters(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E5, E6."""
    model.script(search_call(group_by="channel"), Say("Here they are."))
    body = {"activeFilters": {"channel": "email"}, "applyFiltersToQuery": True}
    reply = await post_question(api, "count them", **body)
    fields = {"response", "campaigns", "aggregation", "total", "suggestions", "detectedFilters"}
    assert reply.keys() >= fields
    assert [row["value"] for row in reply["aggregation"]["groups"]] == ["email"]
    assert reply["detectedFilters"] == {"channel": ["email"]}


async def test_the_campaigns_of_the_last_search_with_results_are_returned(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E7, E-R4: a later search without results does not remove them, and the source is named."""
    model.script(
        search_call(channel=["facebook"]),
        search_call("meaning", "call_2", query="airport lounges", channel=["email"]),
        search_call("words", "call_3", query="zebra crossing at noon"),
        Say("Look at the cards."),
    )
    reply = await post_question(api, "lounges?")
    assert (reply["campaignsSource"], len(reply["steps"])) == ("meaning", 3)
    assert {one["channel"] for one in reply["campaigns"]} == {"email"}
    assert reply["total"] is None, "the nearest in meaning are no count"
    assert reply["steps"][2]["result"]["count"] == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_search_returns_the_same_fields(
    api: httpx.AsyncClient, model: ChatDouble, kind: str
) -> None:
    """E11, E13, E14, E15, E16, E17: a count and at most 20 lines for the model, campaigns for the client."""
    query = {} if kind == "filter" else {"query": "free" if kind == "offers" else "travel"}
    model.script(search_call(kind, **query), Say("Here they are."))
    reply = await post_question(api, "show me some")
    result = tool_result(model.requests[1].messages[-1])
    assert result.keys() >= {"count", "summary_for_llm", "detectedFilters"}
    assert "campaigns" not in result
    heading, *lines = result["summary_for_llm"].splitlines()
    assert str(result["count"]) in heading
    assert len(lines) == min(20, result["count"])
    first = reply["campaigns"][0]
    assert lines[0].startswith(f"[{first['id']}] {first['company']} | Brand: {first['brand']} | ")
    optional_parts = {
        "Value props": ", ".join(first["key_value_props"]),
        "Sentiment": first["imagery_sentiment"],
        "Style": first["imagery_visual_style"],
        "Date": first["capture_date"],
    }
    assert [
        name for name, value in optional_parts.items() if value and f" | {name}: {value}" not in lines[0]
    ] == []
    assert (f"Offer: {first['offer']}" if first["offer"] else "No offer") in lines[0]
    assert " | Text: " in lines[0]
    assert len(reply["campaigns"]) == min(50, result["count"]) or kind == "meaning"
    assert len(reply["campaigns"]) > 5
    assert first.keys() >= {"full_campaign_text", "image_s3_urls", "spend", "volume"}


async def test_the_campaigns_of_all_searches_are_merged_if_wanted(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E-R4: each campaign once, and every tool named."""
    searches = (
        search_call(channel=["email"]),
        search_call("words", "call_2", query="card", channel=["email"]),
        search_call("words", "call_3", query="lounge", channel=["facebook"]),
    )
    model.script(*searches, Say("Here they are."))
    reply = await post_question(api, "compare", merge=True)
    ids = [one["id"] for one in reply["campaigns"]]
    assert len(ids) == len({*ids}) == reply["total"]
    assert {one["channel"] for one in reply["campaigns"]} == {"email", "facebook"}
    assert reply["campaignsSource"] == "filter, words"


async def test_filters_and_counts_are_those_of_what_is_shown(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E8, E-R7: a later search without results, or without groups, does not take them away."""
    model.script(
        search_call(channel=["facebook"], group_by="sentiment"),
        search_call("words", "call_2", query="card", channel=["facebook"]),
        search_call("words", "call_3", query="zebra crossing at noon"),
        Say("Look."),
    )
    reply = await post_question(api, "moods?")
    assert reply["detectedFilters"] == {"channel": ["facebook"]}
    assert reply["aggregation"]["groupBy"] == "sentiment"
    model.script(search_call("words", query="zebra crossing at noon"), Say("None."))
    reply = await post_question(api, "zebras?", conversationId=reply["conversationId"])
    assert (reply["detectedFilters"], reply["aggregation"], reply["total"]) == ({}, None, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("Credit Cards", "credit card"), ("mortgages", "mortgage"), ("credit  card", "credit card")],
)
async def test_a_product_may_be_named_in_the_plural(
    api: httpx.AsyncClient, given: str, expected: str
) -> None:
    """E20."""
    page = (await api.get("/api/campaigns", params={"product": given})).json()
    assert page["total"] > 0
    assert {one["primary_product"] for one in page["campaigns"]} == {expected}


async def test_unknown_fields_and_query_parameters_are_named(api: httpx.AsyncClient) -> None:
    """E5: a misspelt filter is not ignored."""
    reply = await api.post("/api/chat", json={"message": "x", "provider": "offline", "activeFilter": {}})
    assert (reply.status_code, "activeFilter" in reply.json()["error"]) == (422, True)
    for path in ("/api/campaigns?chanel=email", "/api/campaigns/export?conversation=x"):
        reply = await api.get(path)
        name = path.partition("?")[2].partition("=")[0]
        assert (reply.status_code, name in reply.json()["error"]) == (422, True), reply.text


async def test_a_search_with_a_filter_that_does_not_exist_is_not_saved(api: httpx.AsyncClient) -> None:
    body = {"message": "x", "activeFilters": {"sentiment": ["angry"]}}
    reply = await api.put("/api/searches/bad", json=body)
    assert (reply.status_code, "angry" in reply.json()["error"]) == (422, True)
    assert (await api.get("/api/searches")).json() == {"searches": {}}


@pytest.mark.parametrize("query", ["xqzvw", "blorptang fizzledoo", "kubernetes ingress controller"])
async def test_a_search_by_meaning_finds_nothing_for_words_without_one(
    api: httpx.AsyncClient, model: ChatDouble, query: str
) -> None:
    """E18: the nearest campaigns are none if nothing is near."""
    model.script(search_call("meaning", query=query), Say("None."))
    reply = await post_question(api, "anything?")
    assert (reply["total"] or 0, reply["campaigns"]) == (0, [])


async def test_an_empty_result_names_the_filter_that_emptied_it(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E18: what there would be without it, for filters, words and offers."""
    narrow: dict[str, Any] = {"channel": ["email"], "date_range": "1999"}
    for search in (search_call(**narrow), search_call("words", query="card", **narrow)):
        model.script(search, Say("No campaign matches."))
        reply = await post_question(api, "old emails?")
        result = tool_result(model.requests[-1].messages[-1])
        assert result["count"] == 0
        assert reply["response"].startswith("No campaign matches.\n\nSearched ")
        assert any(note.endswith(" without date_range") for note in result["notes"])
        assert "without date_range" in result["summary_for_llm"]
        assert not any("without channel" in note for note in result["notes"])


async def test_a_filter_that_names_every_value_is_dropped(api: httpx.AsyncClient, model: ChatDouble) -> None:
    """E20: models fill in what nobody asked for, such as all channels and any date."""
    every = ["facebook", "instagram", "twitter", "email", "direct_mail"]
    moods = ["Aspirational", "Trust-Building", "Urgent", "Playful", "Premium"]
    args: dict[str, Any] = {
        "channel": every,
        "sentiment": moods,
        "date_range": "any date",
        "product": "Credit Cards",
    }
    model.script(search_call(**args), Say("Look."))
    reply = await post_question(api, "credit cards?")
    assert reply["detectedFilters"].keys() == {"product"}
    assert reply["total"] == 92


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"query": "lounges"}, "by=filter takes no query"),
        ({"by": "words"}, "by=words needs a query"),
        ({"by": "meaning", "query": "lounges", "group_by": "channel"}, "group_by needs by=filter"),
    ],
)
async def test_a_search_whose_arguments_contradict_each_other_is_sent_back(
    api: httpx.AsyncClient, model: ChatDouble, args: dict[str, Any], reason: str
) -> None:
    """E-R9: nothing that the model named is dropped without a word."""
    model.script(search_call(**args), Say("Sorry."))
    await post_question(api, "lounges?")
    assert reason in json.dumps(tool_result(model.requests[-1].messages[-1]))


async def test_results_of_earlier_turns_are_left_out_of_the_input(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """A66: they are cleared to a line once they are long; the beginning of the input stays the same."""
    conversation: dict[str, Any] = {}
    channels = ("email", "facebook", "twitter", "instagram", "direct_mail", "email")
    for channel in channels:
        model.script(search_call(channel=[channel]), Say("Look."))
        reply = await post_question(api, f"and {channel}?", **conversation)
        conversation = {"conversationId": reply["conversationId"]}
    *_, before, after = [request.messages for request in model.requests]
    results = [tool_result(one) for one in after if one["role"] == "tool"]
    assert ["note" in one for one in results] == [*[True] * 5, False]
    assert [after[index] for index in range(len(before) - 1)] == before[:-1]
    tools = model.requests[-1].body["tools"]
    assert estimate_tools(tools) <= 1_000
    assert estimate_text(json.dumps([tools, after], ensure_ascii=False)) <= 6_000


async def test_a_search_by_meaning_favours_a_product_by_what_it_is_for(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E19: its name need not be in the question."""
    model.script(search_call("meaning", query="buying a first house"), Say("Here."))
    reply = await post_question(api, "houses?")
    assert [one["primary_product"] for one in reply["campaigns"][:5]] == ["mortgage"] * 5
