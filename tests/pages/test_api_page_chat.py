"""The chat about pages over REST: replies, questions, events, and refusals (C-R11)."""

import json
from contextlib import aclosing

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.artefacts import conversation_stream
from callsheet.server.pages.chat import ConversationView
from callsheet.server.pages.schemas import PageList, PageTurn
from callsheet.storage.runs import events as stored
from callsheet.storage.threads import threads
from tests.doubles.served import app_client, parse_events, started_app

OFFLINE = {"provider": "offline"}


async def send_chat(api: httpx.AsyncClient, text: str, **more: str) -> PageTurn:
    reply = await api.post("/api/pages/shop/chat", json={"message": text, **OFFLINE, **more})
    assert reply.status_code == 200, reply.text
    return TypeAdapter(PageTurn).validate_python(reply.json())


async def test_chat_messages_create_and_edit_a_page(api: httpx.AsyncClient) -> None:
    turn = await send_chat(api, "Change the headline to “Bread at four”")
    assert (turn["pageId"], turn["conversationId"], turn["drafts"]) == ("shop", "shop", {"page": "v1"})
    assert [call["name"] for call in turn["toolCalls"]][-1] == "modify_element"
    assert turn["toolCalls"][-1]["result"]["changes"]
    assert (turn["question"], turn["provider"]) == (None, "offline")
    turn = await send_chat(api, "make this red", selectedElementId="button-1")
    assert turn["drafts"] == {"page": "v2"}
    page = (await api.get("/api/pages/shop")).json()
    assert "Bread at four" in json.dumps(page)
    assert [one["status"] for one in (await api.get("/threads/shop/runs")).json()] == ["success"] * 2


async def test_several_edits_of_one_message_are_undone_by_one_message(api: httpx.AsyncClient) -> None:
    """C10: several calls in one turn, each with its result; another undo reverts the message before."""
    await send_chat(api, "Change the button to “Call us”")
    turn = await send_chat(
        api, "Change the headline to “Dentist in Lisbon”, add a pricing section and add a contact form"
    )
    names = [call["name"] for call in turn["toolCalls"]]
    assert names == ["list_elements", "modify_element", "create_element", "create_element"]
    assert not any("error" in (call["result"] or {}) for call in turn["toolCalls"])
    assert turn["drafts"] == {"page": "v4"}
    page = json.dumps((await api.get("/api/pages/shop")).json()["page"])
    assert all(text in page for text in ("Dentist in Lisbon", "Pricing", "Contact us", "Call us"))
    await send_chat(api, "undo the last 3 changes")
    page = json.dumps((await api.get("/api/pages/shop")).json()["page"])
    assert not any(text in page for text in ("Dentist in Lisbon", "Pricing", "Contact us"))
    assert "Call us" in page
    await send_chat(api, "undo")
    assert "Call us" not in json.dumps((await api.get("/api/pages/shop")).json()["page"])


async def test_undo_after_a_request_that_changed_nothing_names_the_earlier_change(
    api: httpx.AsyncClient,
) -> None:
    await send_chat(api, "Change the button to “Call us”")
    await send_chat(api, "sing me a song about bread")
    turn = await send_chat(api, "undo")
    assert turn["drafts"] == {"page": "v2"}
    assert "I took back the last change: " in turn["message"]
    assert "Call us" in turn["message"]
    [result] = [one["result"] for one in turn["toolCalls"] if one["name"] == "undo"]
    assert result["note"].startswith("The last request changed nothing")
    assert "Call us" not in json.dumps((await api.get("/api/pages/shop")).json()["page"])
    await send_chat(api, "Change the button to “Call us”")
    turn = await send_chat(api, "undo")
    assert "note" not in turn["toolCalls"][-1]["result"]


async def test_a_question_accepts_exactly_one_decision_with_its_id(api: httpx.AsyncClient) -> None:
    turn = await send_chat(api, "clear the page")
    assert turn["question"] is not None
    assert turn["message"] == turn["question"]["actions"][0]["description"]
    assert turn["question"]["actions"][0]["name"] == "clear_page"
    wrong = {"decisions": [{"type": "approve"}], "questionId": "0" * 32}
    reply = await api.post("/api/pages/shop/decisions", json=wrong)
    assert reply.status_code == 409
    right = {"decisions": [{"type": "approve"}], "questionId": turn["question"]["id"], **OFFLINE}
    reply = await api.post("/api/pages/shop/decisions", json=right)
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})
    assert (await api.post("/api/pages/shop/decisions", json=right)).status_code == 409
    page = (await api.get("/api/pages/shop")).json()["page"]
    assert not page["root"].get("children")


OTHER = {"name": "clear_page", "args": {"elementId": "card-1"}}


@pytest.mark.parametrize(
    ("decisions", "status", "words"),
    [
        ([{"type": "edit", "edited_action": {"name": "clear_page"}}], 422, "edited_action with args"),
        ([{"type": "edit", "edited_action": {"args": None}}], 422, "edited_action.args"),
        ([{"type": "edit", "edited_action": None}], 422, "edited_action with args"),
        ([{"type": "edit"}], 422, "edited_action with args"),
        ([{"type": "approve", "editedAction": OTHER}], 422, "belongs to the type edit"),
        ([{"type": "approve", "editedActions": OTHER}], 422, "not a field"),
        ([{"type": "edit", "editedAction": {**OTHER, "name": "undo"}}], 422, "names the tool 'undo'"),
        ([{"type": "approve"}, {"type": "reject"}], 422, "2 decisions were sent for 1 action"),
    ],
)
async def test_an_invalid_decision_is_refused_and_the_question_stays_open(
    api: httpx.AsyncClient, decisions: object, status: int, words: str
) -> None:
    """C-R1: nothing is deleted, and the next valid decision is accepted."""
    question = (await send_chat(api, "delete the features section"))["question"]
    body = {"decisions": decisions, **OFFLINE}
    for _ in range(2):
        reply = await api.post("/api/pages/shop/decisions", json=body, headers={"Idempotency-Key": "k"})
        assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text
    assert "section-2" in json.dumps((await api.get("/api/pages/shop")).json()["page"])
    state = (await api.get("/threads/shop")).json()
    assert state["status"] == "interrupted"
    assert question is not None
    right = {"decisions": [{"type": "approve"}], "questionId": question["id"], **OFFLINE}
    reply = await api.post("/api/pages/shop/decisions", json=right, headers={"Idempotency-Key": "k"})
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})


@pytest.mark.parametrize("name", ["edited_action", "editedAction"])
async def test_an_edited_action_is_executed_with_its_arguments(api: httpx.AsyncClient, name: str) -> None:
    """C-R1: in the spelling of this API and in that of LangGraph's clients."""
    await send_chat(api, "delete the features section")
    section = (await api.get("/api/pages/shop")).json()["page"]["root"]["children"][0]["id"]
    action = {"name": "delete_element", "args": {"elementId": section}}
    body = {"decisions": [{"type": "edit", name: action}], **OFFLINE}
    reply = await api.post("/api/pages/shop/decisions", json=body)
    assert reply.status_code == 200, reply.text
    left = [one["id"] for one in (await api.get("/api/pages/shop")).json()["page"]["root"]["children"]]
    assert (section in left, "section-2" in left) == (False, True)


async def test_an_edited_action_with_an_unknown_argument_is_refused(api: httpx.AsyncClient) -> None:
    """C-R1: ignoring an argument that narrows a deletion would delete more than the person approved."""
    await send_chat(api, "clear the page")
    body = {"decisions": [{"type": "edit", "editedAction": OTHER}], **OFFLINE}
    reply = await api.post("/api/pages/shop/decisions", json=body)
    assert reply.status_code == 422, reply.text
    assert "argument 'elementId', which the tool has not" in reply.json()["error"]
    assert "section-2" in json.dumps((await api.get("/api/pages/shop")).json()["page"])
    assert (await send_chat(api, "no"))["question"] is None


async def test_an_invalid_resume_of_a_langgraph_client_interrupts_again_with_the_reason(
    api: httpx.AsyncClient,
) -> None:
    """C-R1: the run ends with the question and the reason; the question can then be decided over REST."""
    await send_chat(api, "delete the features section")
    run = {"assistant_id": "page_builder", "context": OFFLINE}
    wrong = {"decisions": [{"type": "approve"}, {"type": "reject"}]}
    reply_of_run = await api.post("/threads/shop/runs/wait", json={**run, "command": {"resume": wrong}})
    [question] = reply_of_run.json()["__interrupt__"]
    assert "2 decisions were sent for 1 action:" in question["value"]["problem"]
    assert "section-2" in json.dumps((await api.get("/api/pages/shop")).json()["page"])
    right = {"decisions": [{"type": "approve"}], "questionId": question["id"], **OFFLINE}
    reply = await api.post("/api/pages/shop/decisions", json=right)
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})


async def test_another_message_instead_of_a_decision_discards_the_question(api: httpx.AsyncClient) -> None:
    """The question is gone, and nothing is deleted."""
    await send_chat(api, "delete the features section")
    turn = await send_chat(api, "make the headline teal")
    assert turn["question"] is None
    assert turn["drafts"] == {"page": "v1"}
    reply = await api.post("/api/pages/shop/decisions", json={"decisions": [{"type": "approve"}]})
    assert reply.status_code == 409
    assert "section-2" in json.dumps((await api.get("/api/pages/shop")).json()["page"])


@pytest.mark.parametrize(
    ("word", "left"), [("Yes, please!", 0), ("好的", 0), ("ja bitte", 0), ("No, keep it", 1)]
)
async def test_a_plain_yes_or_no_in_the_chat_is_the_decision(
    api: httpx.AsyncClient, word: str, left: int
) -> None:
    """C-R1: the other steps of the plan are executed in either case."""
    await send_chat(api, "make the headline teal and delete the features section")
    turn = await send_chat(api, word)
    assert (turn["question"], "understand" in turn["message"]) == (None, False)
    page = json.dumps((await api.get("/api/pages/shop")).json()["page"])
    assert page.count('"section-2"') == left
    next_turn = await send_chat(api, word)
    assert next_turn["created"] == [], "no question is open"


async def test_the_reply_can_be_streamed_with_the_events_of_the_web_socket(api: httpx.AsyncClient) -> None:
    """C20."""
    headers = {"Accept": "text/event-stream"}
    body = {"message": "make the headline underlined", **OFFLINE}
    reply = await api.post("/api/pages/shop/chat", json=body, headers=headers)
    events = parse_events("\n".join(line for line in reply.text.split("\n") if not line.startswith("id:")))
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("userMessage", "aiResponseChunk")
    assert names.count("toolExecutionStart") == names.count("toolExecutionComplete") == 2
    assert [frame["isLastChunk"] for name, frame in events if name == "aiResponseChunk"][-1]
    turn = await send_chat(api, "make the headline underlined")
    assert turn["drafts"] == {}, "the same message again is a new turn that changes nothing"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/pages/shop/chat", {"message": ""}, 422),
        ("/api/pages/shop/chat", {}, 422),
        ("/api/pages/shop/chat", {"message": 7}, 422),
        ("/api/pages/shop/chat", {"message": "x", "provider": "nobody"}, 422),
        ("/api/pages/shop/chat", {"message": "x", "selectedElementId": "\u0000"}, 422),
        ("/api/pages/shop/decisions", {"decisions": [{"type": "approve"}]}, 404),
        ("/api/pages/shop/decisions", {"decisions": []}, 422),
        ("/api/pages/shop/decisions", {"decisions": [{"type": "maybe"}]}, 422),
    ],
)
async def test_an_invalid_message_or_decision_is_refused(
    api: httpx.AsyncClient, path: str, body: dict[str, object], status: int
) -> None:
    reply = await api.post(path, json=body)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]


async def test_a_conversation_about_an_ad_is_refused_for_a_page(api: httpx.AsyncClient) -> None:
    brief = {"adId": "spot", "brief": "A spot for a bakery in Oslo", **OFFLINE}
    assert (await api.post("/api/ai/generate", json=brief)).status_code == 200
    reply = await api.post(
        "/api/pages/shop/chat", json={"message": "undo", "conversationId": "spot", **OFFLINE}
    )
    assert reply.status_code == 409
    assert (await api.get("/api/conversations/nowhere/events")).status_code == 404


async def test_the_event_stream_yields_none_as_a_heartbeat(valkey_url: str) -> None:
    async with started_app(valkey_url, heartbeat_s=0.02) as app, app_client(app) as client:
        await send_chat(client, "make the headline teal")
        context = app.state.context
        position = await conversation_stream.newest_position(context, "shop")
        shop = threads.Thread("shop", "local", "page_builder", "page:shop")
        view = ConversationView(context.worker, "shop")
        source = conversation_stream.follow_conversation(context, shop, position, view)
        async with aclosing(source):
            assert await anext(source) is None


async def test_a_turn_that_starts_while_a_client_joins_is_sent_from_its_first_event(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C20: the turn starts right after the client has read that no run is active."""
    async with started_app(valkey_url) as app, app_client(app) as client:
        await send_chat(client, "make the headline teal")
        context = app.state.context
        last_event, active = await stored.newest_id(context.storage, "shop"), context.worker.runs.active

        async def start_turn_then_read(thread: str) -> str | None:
            position: str | None = await active(thread)
            await send_chat(client, "make the headline red")
            return position

        monkeypatch.setattr(context.worker.runs, "active", start_turn_then_read)
        position = await conversation_stream.position_after(context, "shop", None)
    assert position.event == last_event


async def test_an_invalid_event_position_is_refused(api: httpx.AsyncClient) -> None:
    await send_chat(api, "undo")
    reply = await api.get("/api/conversations/shop/events", params={"since": "yesterday"})
    assert reply.status_code == 400


async def test_pages_are_listed_by_newest_change_and_paginated(api: httpx.AsyncClient) -> None:
    for name, title in (("one", "1"), ("two", "2"), ("three", "3"), ("one", "4")):
        body = {"message": f"Change the headline to “{title}”", **OFFLINE}
        assert (await api.post(f"/api/pages/{name}/chat", json=body)).status_code == 200
    first_page = (await api.get("/api/pages", params={"limit": 2})).json()
    second_page = (await api.get("/api/pages", params={"after": first_page["next"]})).json()
    TypeAdapter(PageList).validate_python(first_page)
    listed = [*first_page["pages"], *second_page["pages"]]
    assert [(one["pageId"], one["title"], one["versionId"]) for one in listed] == [
        ("one", "4", "v2"),
        ("three", "3", "v1"),
        ("two", "2", "v1"),
    ]
    assert second_page["next"] is None
    page = (await api.get("/api/pages/three")).json()
    assert listed[1] == {name: page[name] for name in listed[1]}
    restored = await api.post("/api/pages/two/versions/start/restore")
    assert restored.status_code == 201
    assert (await api.get("/api/pages", params={"limit": 1})).json()["pages"][0]["pageId"] == "two"
    assert (await api.get("/api/pages", params={"after": "nowhere"})).status_code == 422
