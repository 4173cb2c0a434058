"""Attacks by manipulated models and by other owners, over REST and the web socket (C28, C58)."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from callsheet.storage import connect
from callsheet.tools.pages.edits import TOOLS
from tests.doubles.attacks import INTERNAL_URLS, PAYLOADS, STATEMENTS
from tests.doubles.auth_cases import create_key
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.page_chat_client import Frame, frame_types, new_page_id, open_chat
from tests.doubles.wire_served import running_redis_for_file, running_server_on_own_redis
from tests.doubles.wire_server import running_server
from tests.pages.page_scanner import page_faults, scan_html

FREE = json.dumps({"*": {"calls": 0}, "fetch_data": {"calls": 0}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(None, tools=FREE) as server_url:
        yield server_url


def calls_of(tool: str, *arguments_of_calls: dict[str, Any]) -> Say:
    """One message that calls a tool once with each of these arguments."""
    calls = [(f"c{at}", tool, json.dumps(arguments)) for at, arguments in enumerate(arguments_of_calls)]
    return Say(calls=calls, piece=10_000)


async def completed_calls(url: str, page: str, *script: Say, model: ChatDouble) -> list[Frame]:
    """Play a turn over the web socket and return the frames that complete its calls."""
    model.script(*script, Say("Done."))
    async with open_chat(url) as chat:
        frames = await chat.say(page, "do as you like", provider="openai")
    assert frame_types(frames)[-1] == "aiResponseChunk", frames[-1]
    return [frame for frame in frames if frame["type"] == "toolExecutionComplete"]


def container(texts: list[str]) -> dict[str, Any]:
    """Arguments that make an element with these texts inside."""
    inside = [{"elementType": "text", "properties": {"content": text}} for text in texts]
    return {"parentId": "page", "elementType": "container", "properties": {"children": inside}}


def visible_text(text: str) -> str:
    """A text without blanks and invisible characters."""
    return "".join(char for char in text if char.isprintable() and not char.isspace())


@pytest.mark.slow
async def test_scripts_and_sql_statements_are_stored_and_shown_as_plain_text(
    url: str, model: ChatDouble
) -> None:
    """C28, C58: refused as an address or an attribute's name; another page is not changed."""
    page, other_page = new_page_id(), new_page_id()
    async with open_chat(url) as chat:
        await chat.say(other_page, "Make the headline teal")
        await chat.say(page, f"Change the headline to “{STATEMENTS[0]}”")
    texts = [*PAYLOADS, *STATEMENTS]
    halves = [container(texts[:90]), container(texts[90:])]
    schemes = [one for one in PAYLOADS if one.lower().startswith("javascript:")][:5]
    attributes = [{"href": one} for one in schemes] + [{one: "x"} for one in PAYLOADS[::50]]
    edits = [{"elementId": "button-1", "modifications": {"attributes": one}} for one in attributes]
    created = await completed_calls(url, page, calls_of("create_element", *halves), model=model)
    assert [frame["status"] for frame in created] == ["completed"] * 2
    refused = await completed_calls(
        url, page, *(calls_of("modify_element", edit) for edit in edits), model=model
    )
    assert [frame.get("errorType") for frame in refused] == ["validation_error"] * len(edits)
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        elements = (await http.get(f"/api/pages/{page}")).json()["page"]["root"]["children"]
        html = (await http.get(f"/api/pages/{page}/export")).text
        other_view = (await http.get(f"/api/pages/{other_page}")).json()
    stored_texts = [one["content"] for group in elements[-2:] for one in group["children"]]
    assert [visible_text(text) for text in stored_texts] == [visible_text(text) for text in texts]
    assert not page_faults(html)
    shown = visible_text(scan_html(html).text)
    assert all(visible_text(text) in shown for text in texts)
    assert other_view["versionId"] == "v1", "the other page is unchanged"


async def test_no_form_of_an_internal_address_can_be_fetched(url: str, model: ChatDouble) -> None:
    """C24: the address that the connection would reach is checked, not its spelling."""
    message = calls_of("fetch_data", *({"url": one} for one in INTERNAL_URLS[::3]))
    frames = await completed_calls(url, new_page_id(), message, model=model)
    assert [frame.get("errorType") for frame in frames] == ["permission_denied"] * len(message.calls)
    assert all("not on the public internet" in frame["error"] for frame in frames)


async def test_arguments_of_a_call_cannot_name_another_owner_or_page(model: ChatDouble) -> None:
    """C2, C-R9: the server decides the owner and the page of a call, whatever its arguments say."""
    with running_redis_for_file() as redis:
        async with connect(redis) as storage:
            alice, bob = await create_key(storage, "alice"), await create_key(storage, "bob")
        with running_server(redis, None, auth=("keys",), tools=FREE) as url:
            await _attack_page_of_alice(url, alice, bob, model)


async def _attack_page_of_alice(url: str, alice: str, bob: str, model: ChatDouble) -> None:
    page = new_page_id()
    foreign_ids = {
        "pageId": page,
        "userId": "alice",
        "ownerId": "alice",
        "conversationId": page,
        "threadId": page,
    }
    edit = {"elementId": "heading-1", "modifications": {"content": "bob was here"}}
    read_calls = [
        (f"c{at}", one.name, json.dumps(foreign_ids))
        for at, one in enumerate(TOOLS)
        if not one.is_destructive
    ]
    async with httpx.AsyncClient(base_url=url, headers={"X-Api-Key": alice}, timeout=60) as alice_http:
        first_message = {"message": "Change the headline to “zyxomma”", "provider": "offline"}
        assert (await alice_http.post(f"/api/pages/{page}/chat", json=first_message)).status_code == 200
        before = (await alice_http.get(f"/api/pages/{page}")).json()
        executions = (await alice_http.get("/api/tool-executions")).json()
        async with httpx.AsyncClient(base_url=url, headers={"X-Api-Key": bob}, timeout=60) as bob_http:
            model.script(
                calls_of("modify_element", edit | foreign_ids),
                Say(calls=read_calls, piece=1000),
                Say("Done."),
            )
            message = {"message": "do as you like", "provider": "openai"}
            reply = await bob_http.post("/api/pages/mine/chat", json=message)
            assert reply.status_code == 200, reply.text
            results = [call["result"] for call in reply.json()["toolCalls"]]
            assert len(results) == 1 + len(read_calls)
            assert results[0]["versionId"] == "v1", "the edit is made on Bob's own page"
            assert "zyxomma" not in json.dumps(results)
            records = (await bob_http.get("/api/tool-executions", params={"limit": 100})).json()["executions"]
            assert {(one["userId"], one["artefactId"]) for one in records} == {("bob", "mine")}
        assert (await alice_http.get(f"/api/pages/{page}")).json() == before
        assert (await alice_http.get("/api/tool-executions")).json() == executions
