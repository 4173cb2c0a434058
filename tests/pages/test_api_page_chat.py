"""The chat about pages over REST: replies, questions, events, and what is refused (C-R11)."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.artefacts import conversation_stream
from callsheet.server.pages.chat_events import ConversationView
from callsheet.server.pages.chat_routes import PageTurn
from callsheet.server.pages.replies import PageList
from callsheet.storage.runs import events as stored
from callsheet.storage.threads import threads
from tests.doubles.served import app_client, parse_events, served_app, started_app

OFFLINE = {"provider": "offline"}


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as client:
        yield client


async def said(http: httpx.AsyncClient, text: str, **more: str) -> PageTurn:
    reply = await http.post("/api/pages/shop/chat", json={"message": text, **OFFLINE, **more})
    assert reply.status_code == 200, reply.text
    return TypeAdapter(PageTurn).validate_python(reply.json())


async def test_a_page_is_begun_and_edited_by_chat(http: httpx.AsyncClient) -> None:
    turn = await said(http, "Change the headline to “Bread at four”")
    assert (turn["pageId"], turn["conversationId"], turn["drafts"]) == ("shop", "shop", {"page": "v1"})
    assert [call["name"] for call in turn["toolCalls"]][-1] == "modify_element"
    assert turn["toolCalls"][-1]["result"]["changes"]
    assert (turn["question"], turn["provider"]) == (None, "offline")
    turn = await said(http, "make this red", selectedElementId="button-1")
    assert turn["drafts"] == {"page": "v2"}
    page = (await http.get("/api/pages/shop")).json()
    assert "Bread at four" in json.dumps(page)
    assert [one["status"] for one in (await http.get("/threads/shop/runs")).json()] == ["success"] * 2


async def test_several_edits_of_one_message_are_made_and_taken_back_by_one(http: httpx.AsyncClient) -> None:
    """C10: several calls in one turn, and what came of each; another undo goes further back."""
    await said(http, "Change the button to “Call us”")
    turn = await said(
        http, "Change the headline to “Dentist in Lisbon”, add a pricing section and add a contact form"
    )
    names = [call["name"] for call in turn["toolCalls"]]
    assert names == ["list_elements", "modify_element", "create_element", "create_element"]
    assert not any("error" in (call["result"] or {}) for call in turn["toolCalls"])
    assert turn["drafts"] == {"page": "v4"}
    page = json.dumps((await http.get("/api/pages/shop")).json()["page"])
    assert all(text in page for text in ("Dentist in Lisbon", "Pricing", "Contact us", "Call us"))
    await said(http, "undo the last 3 changes")
    page = json.dumps((await http.get("/api/pages/shop")).json()["page"])
    assert not any(text in page for text in ("Dentist in Lisbon", "Pricing", "Contact us"))
    assert "Call us" in page
    await said(http, "undo")
    assert "Call us" not in json.dumps((await http.get("/api/pages/shop")).json()["page"])


async def test_a_question_waits_for_its_answer_and_takes_one(http: httpx.AsyncClient) -> None:
    turn = await said(http, "clear the page")
    assert turn["message"] == ""
    assert turn["question"] is not None
    assert turn["question"]["actions"][0]["name"] == "clear_page"
    wrong = {"decisions": [{"type": "approve"}], "questionId": "0" * 32}
    reply = await http.post("/api/pages/shop/decisions", json=wrong)
    assert reply.status_code == 409
    right = {"decisions": [{"type": "approve"}], "questionId": turn["question"]["id"], **OFFLINE}
    reply = await http.post("/api/pages/shop/decisions", json=right)
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})
    assert (await http.post("/api/pages/shop/decisions", json=right)).status_code == 409
    page = (await http.get("/api/pages/shop")).json()["page"]
    assert not page["root"].get("children")


OTHER = {"name": "clear_page", "args": {"elementId": "card-1"}}


@pytest.mark.parametrize(
    ("decisions", "status", "words"),
    [
        ([{"type": "edit", "edited_action": {"name": "clear_page"}}], 400, "edited_action with args"),
        ([{"type": "edit", "edited_action": {"args": None}}], 400, "edited_action with args"),
        ([{"type": "edit", "edited_action": None}], 400, "edited_action with args"),
        ([{"type": "edit"}], 400, "edited_action with args"),
        ([{"type": "approve", "editedAction": OTHER}], 400, "belongs to the type edit"),
        ([{"type": "approve", "editedActions": OTHER}], 400, "not a field"),
        ([{"type": "edit", "editedAction": {**OTHER, "name": "undo"}}], 400, "names the tool 'undo'"),
        ([{"type": "approve"}, {"type": "reject"}], 400, "2 decisions were sent for 1 action"),
    ],
)
async def test_an_invalid_decision_is_refused_and_the_question_stays(
    http: httpx.AsyncClient, decisions: object, status: int, words: str
) -> None:
    """C-R1: nothing is deleted by it, and the next valid decision counts."""
    question = (await said(http, "delete the features section"))["question"]
    body = {"decisions": decisions, **OFFLINE}
    for _ in range(2):
        reply = await http.post("/api/pages/shop/decisions", json=body, headers={"Idempotency-Key": "k"})
        assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text
    assert "section-2" in json.dumps((await http.get("/api/pages/shop")).json()["page"])
    state = (await http.get("/threads/shop")).json()
    assert state["status"] == "interrupted"
    assert question is not None
    right = {"decisions": [{"type": "approve"}], "questionId": question["id"], **OFFLINE}
    reply = await http.post("/api/pages/shop/decisions", json=right, headers={"Idempotency-Key": "k"})
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})


@pytest.mark.parametrize("name", ["edited_action", "editedAction"])
async def test_an_edit_is_carried_out_with_its_arguments(http: httpx.AsyncClient, name: str) -> None:
    """C-R1: in the spelling of this API and in that of LangGraph's clients."""
    await said(http, "delete the features section")
    section = (await http.get("/api/pages/shop")).json()["page"]["root"]["children"][0]["id"]
    action = {"name": "delete_element", "args": {"elementId": section}}
    body = {"decisions": [{"type": "edit", name: action}], **OFFLINE}
    reply = await http.post("/api/pages/shop/decisions", json=body)
    assert reply.status_code == 200, reply.text
    left = [one["id"] for one in (await http.get("/api/pages/shop")).json()["page"]["root"]["children"]]
    assert (section in left, "section-2" in left) == (False, True)


async def test_an_edit_with_an_argument_that_the_action_has_not_is_refused(http: httpx.AsyncClient) -> None:
    """C-R1: who narrows a deletion with an argument that would be ignored does not want the whole one."""
    await said(http, "clear the page")
    body = {"decisions": [{"type": "edit", "editedAction": OTHER}], **OFFLINE}
    reply = await http.post("/api/pages/shop/decisions", json=body)
    assert reply.status_code == 400, reply.text
    assert "argument 'elementId', which the tool has not" in reply.json()["error"]
    assert "section-2" in json.dumps((await http.get("/api/pages/shop")).json()["page"])
    assert (await said(http, "no"))["question"] is None


async def test_a_client_of_langgraph_is_asked_again_after_an_invalid_answer(http: httpx.AsyncClient) -> None:
    """C-R1: over the wire a run ends with the question and what was wrong; REST answers it then."""
    await said(http, "delete the features section")
    run = {"assistant_id": "page_builder", "context": OFFLINE}
    wrong = {"decisions": [{"type": "approve"}, {"type": "reject"}]}
    ended = await http.post("/threads/shop/runs/wait", json={**run, "command": {"resume": wrong}})
    [question] = ended.json()["__interrupt__"]
    assert "2 decisions were sent for 1 action:" in question["value"]["problem"]
    assert "section-2" in json.dumps((await http.get("/api/pages/shop")).json()["page"])
    right = {"decisions": [{"type": "approve"}], "questionId": question["id"], **OFFLINE}
    reply = await http.post("/api/pages/shop/decisions", json=right)
    assert (reply.status_code, reply.json()["drafts"]) == (200, {"page": "v1"})


async def test_instead_of_an_answer_something_else_can_be_said(http: httpx.AsyncClient) -> None:
    """The question is gone then, and what it was about stays."""
    await said(http, "delete the features section")
    turn = await said(http, "make the headline teal")
    assert turn["question"] is None
    assert turn["drafts"] == {"page": "v1"}
    reply = await http.post("/api/pages/shop/decisions", json={"decisions": [{"type": "approve"}]})
    assert reply.status_code == 409
    assert "section-2" in json.dumps((await http.get("/api/pages/shop")).json()["page"])


@pytest.mark.parametrize(
    ("word", "left"), [("Yes, please!", 0), ("好的", 0), ("ja bitte", 0), ("No, keep it", 1)]
)
async def test_a_plain_yes_or_no_in_the_chat_is_the_answer(
    http: httpx.AsyncClient, word: str, left: int
) -> None:
    """C-R1: and the rest of what was asked for is done with it."""
    await said(http, "make the headline teal and delete the features section")
    turn = await said(http, word)
    assert (turn["question"], "understand" in turn["message"]) == (None, False)
    page = json.dumps((await http.get("/api/pages/shop")).json()["page"])
    assert page.count('"section-2"') == left
    again = await said(http, word)
    assert again["created"] == [], "nothing waits any more"


async def test_the_reply_can_be_a_stream_of_what_the_web_socket_tells(http: httpx.AsyncClient) -> None:
    """C20."""
    headers = {"Accept": "text/event-stream"}
    body = {"message": "make the headline underlined", **OFFLINE}
    reply = await http.post("/api/pages/shop/chat", json=body, headers=headers)
    told = parse_events("\n".join(line for line in reply.text.split("\n") if not line.startswith("id:")))
    names = [name for name, _ in told]
    assert (names[0], names[-1]) == ("userMessage", "aiResponseChunk")
    assert names.count("toolExecutionStart") == names.count("toolExecutionComplete") == 2
    assert [frame["isLastChunk"] for name, frame in told if name == "aiResponseChunk"][-1]
    turn = await said(http, "make the headline underlined")
    assert turn["drafts"] == {}, "said again it is said again, and changes nothing"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/pages/shop/chat", {"message": ""}, 400),
        ("/api/pages/shop/chat", {}, 400),
        ("/api/pages/shop/chat", {"message": 7}, 422),
        ("/api/pages/shop/chat", {"message": "x", "provider": "nobody"}, 400),
        ("/api/pages/shop/chat", {"message": "x", "selectedElementId": "\u0000"}, 400),
        ("/api/pages/shop/decisions", {"decisions": [{"type": "approve"}]}, 404),
        ("/api/pages/shop/decisions", {"decisions": []}, 400),
        ("/api/pages/shop/decisions", {"decisions": [{"type": "maybe"}]}, 400),
    ],
)
async def test_what_cannot_be_carried_out_is_refused(
    http: httpx.AsyncClient, path: str, body: dict[str, object], status: int
) -> None:
    reply = await http.post(path, json=body)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]


async def test_an_ads_conversation_is_none_about_a_page(http: httpx.AsyncClient) -> None:
    brief = {"adId": "spot", "brief": "A spot for a bakery in Oslo", **OFFLINE}
    assert (await http.post("/api/ai/generate", json=brief)).status_code == 200
    reply = await http.post(
        "/api/pages/shop/chat", json={"message": "undo", "conversationId": "spot", **OFFLINE}
    )
    assert reply.status_code == 409
    assert (await http.get("/api/conversations/nowhere/events")).status_code == 404


async def test_silence_is_told_of(valkey_url: str) -> None:
    async with started_app(valkey_url, heartbeat_s=0.02) as app, app_client(app) as client:
        await said(client, "make the headline teal")
        here = app.state.context
        since = await conversation_stream.newest_position(here, "shop")
        shop = threads.Thread("shop", "local", "page_builder", "page:shop")
        view = ConversationView(here.worker, "shop")
        source = conversation_stream.follow_conversation(here, shop, since, view)
        async with aclosing(source):
            assert await anext(source) is None


async def test_a_turn_that_begins_while_one_joins_is_told_whole(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C20: it begins when the reader has just found that none is going on."""
    async with started_app(valkey_url) as app, app_client(app) as client:
        await said(client, "make the headline teal")
        here = app.state.context
        before, active = await stored.newest_id(here.storage, "shop"), here.worker.runs.active

        async def just_before(thread: str) -> str | None:
            found: str | None = await active(thread)
            await said(client, "make the headline red")
            return found

        monkeypatch.setattr(here.worker.runs, "active", just_before)
        found = await conversation_stream.position_after(here, "shop", None)
    assert found.event == before


async def test_a_place_that_is_none_is_refused(http: httpx.AsyncClient) -> None:
    await said(http, "undo")
    reply = await http.get("/api/conversations/shop/events", params={"since": "yesterday"})
    assert reply.status_code == 400


async def test_the_pages_are_listed_newest_change_first_and_in_parts(http: httpx.AsyncClient) -> None:
    for name, title in (("one", "1"), ("two", "2"), ("three", "3"), ("one", "4")):
        body = {"message": f"Change the headline to “{title}”", **OFFLINE}
        assert (await http.post(f"/api/pages/{name}/chat", json=body)).status_code == 200
    first = (await http.get("/api/pages", params={"limit": 2})).json()
    rest = (await http.get("/api/pages", params={"after": first["next"]})).json()
    TypeAdapter(PageList).validate_python(first)
    listed = [*first["pages"], *rest["pages"]]
    assert [(one["pageId"], one["title"], one["versionId"]) for one in listed] == [
        ("one", "4", "v2"),
        ("three", "3", "v1"),
        ("two", "2", "v1"),
    ]
    assert rest["next"] is None
    shown = (await http.get("/api/pages/three")).json()
    assert listed[1] == {name: shown[name] for name in listed[1]}
    restored = await http.post("/api/pages/two/versions/start/restore")
    assert restored.status_code == 201
    assert (await http.get("/api/pages", params={"limit": 1})).json()["pages"][0]["pageId"] == "two"
    assert (await http.get("/api/pages", params={"after": "nowhere"})).status_code == 400
