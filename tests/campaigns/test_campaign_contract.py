"""The contract of campaign search: the tool loop, the tools' results, and the reply."""

import json
from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Say

TOOLS = ("filter_campaigns", "semantic_search", "full_text_search", "search_offers")


def search_call(name: str = "filter_campaigns", call: str = "call_1", **args: Any) -> Say:
    return Say(calls=[(call, name, json.dumps(args))])


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
    model.script(
        search_call(channel=["email"]), search_call("full_text_search", "call_2", query="bags"), Say("Found.")
    )
    reply = await post_question(api, "what about email?")
    assert [one["name"] for one in reply["steps"]] == ["filter_campaigns", "full_text_search"]
    first, second, third = model.requests
    prompt = first.messages[0]
    assert (prompt["role"], [name for name in TOOLS if name not in prompt["content"]]) == ("system", [])
    assert {tool["function"]["name"] for tool in first.body["tools"]} >= {*TOOLS}
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
        search_call("semantic_search", "call_2", query="airport lounges", channel=["email"]),
        search_call("full_text_search", "call_3", query="zebra crossing at noon"),
        Say("Look at the cards."),
    )
    reply = await post_question(api, "lounges?")
    assert (reply["campaignsSource"], len(reply["steps"])) == ("semantic_search", 3)
    assert {one["channel"] for one in reply["campaigns"]} == {"email"}
    assert reply["total"] == reply["steps"][1]["result"]["count"]
    assert reply["steps"][2]["result"]["count"] == 0


@pytest.mark.parametrize("tool", TOOLS)
async def test_every_search_tool_returns_the_same_fields(
    api: httpx.AsyncClient, model: ChatDouble, tool: str
) -> None:
    """E11, E13, E14, E15, E16, E17: a count and at most 20 lines for the model, campaigns for the client."""
    query = {} if tool == "filter_campaigns" else {"query": "travel"}
    if tool == "search_offers":
        query = {"query": "free"}
    model.script(search_call(tool, **query), Say("Here they are."))
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
    assert len(reply["campaigns"]) == min(50, result["count"]) or tool == "semantic_search"
    assert len(reply["campaigns"]) > 5
    assert first.keys() >= {"full_campaign_text", "image_s3_urls", "spend", "volume"}


async def test_the_campaigns_of_all_searches_are_merged_if_wanted(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E-R4: each campaign once, and every tool named."""
    searches = (
        search_call(channel=["email"]),
        search_call("full_text_search", "call_2", query="card", channel=["email"]),
        search_call("full_text_search", "call_3", query="lounge", channel=["facebook"]),
    )
    model.script(*searches, Say("Here they are."))
    reply = await post_question(api, "compare", merge=True)
    ids = [one["id"] for one in reply["campaigns"]]
    assert len(ids) == len({*ids}) == reply["total"]
    assert {one["channel"] for one in reply["campaigns"]} == {"email", "facebook"}
    assert reply["campaignsSource"] == "filter_campaigns, full_text_search"


async def test_filters_and_counts_are_those_of_what_is_shown(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E8, E-R7: a later search without results, or without groups, does not take them away."""
    model.script(
        search_call(channel=["facebook"], group_by="sentiment"),
        search_call("full_text_search", "call_2", query="card", channel=["facebook"]),
        search_call("full_text_search", "call_3", query="zebra crossing at noon"),
        Say("Look."),
    )
    reply = await post_question(api, "moods?")
    assert reply["detectedFilters"] == {"channel": ["facebook"]}
    assert reply["aggregation"]["groupBy"] == "sentiment"
    model.script(search_call("full_text_search", query="zebra crossing at noon"), Say("None."))
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
    model.script(search_call("semantic_search", query=query), Say("None."))
    reply = await post_question(api, "anything?")
    assert (reply["total"], reply["campaigns"]) == (0, [])


async def test_a_search_by_meaning_favours_a_product_by_what_it_is_for(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E19: its name need not be in the question."""
    model.script(search_call("semantic_search", query="buying a first house"), Say("Here."))
    reply = await post_question(api, "houses?")
    assert [one["primary_product"] for one in reply["campaigns"][:5]] == ["mortgage"] * 5
