"""Attacks through the front door: what a model may be talked into, and what others may try (C28, C58)."""

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
from tests.pages.page_watch import page_faults, scan_html

FREE = json.dumps({"*": {"calls": 0}, "fetch_data": {"calls": 0}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(None, tools=FREE) as found:
        yield found


def asking(tool: str, *asked: dict[str, Any]) -> Say:
    """One message that calls a tool so often."""
    calls = [(f"c{at}", tool, json.dumps(arguments)) for at, arguments in enumerate(asked)]
    return Say(calls=calls, piece=10_000)


async def ended(url: str, page: str, *script: Say, model: ChatDouble) -> list[Frame]:
    """How the calls of a turn over the web socket ended."""
    model.script(*script, Say("Done."))
    async with open_chat(url) as chat:
        told = await chat.say(page, "do as you like", provider="openai")
    assert frame_types(told)[-1] == "aiResponseChunk", told[-1]
    return [frame for frame in told if frame["type"] == "toolExecutionComplete"]


def container(texts: list[str]) -> dict[str, Any]:
    """Arguments that make an element with these texts inside."""
    inside = [{"elementType": "text", "properties": {"content": text}} for text in texts]
    return {"parentId": "page", "elementType": "container", "properties": {"children": inside}}


def plain(text: str) -> str:
    """A text without blanks and what cannot be seen."""
    return "".join(char for char in text if char.isprintable() and not char.isspace())


@pytest.mark.slow
async def test_what_would_run_or_is_a_statement_is_shown_as_the_text_it_is(
    url: str, model: ChatDouble
) -> None:
    """C28, C58: as text, as an address and as the name of an attribute; and nothing else is touched."""
    page, beside = new_page_id(), new_page_id()
    async with open_chat(url) as chat:
        await chat.say(beside, "Make the headline teal")
        await chat.say(page, f"Change the headline to “{STATEMENTS[0]}”")
    texts = [*PAYLOADS, *STATEMENTS]
    halves = [container(texts[:90]), container(texts[90:])]
    schemes = [one for one in PAYLOADS if one.lower().startswith("javascript:")][:5]
    attributes = [{"href": one} for one in schemes] + [{one: "x"} for one in PAYLOADS[::50]]
    edits = [{"elementId": "button-1", "modifications": {"attributes": one}} for one in attributes]
    made = await ended(url, page, asking("create_element", *halves), model=model)
    assert [frame["status"] for frame in made] == ["completed"] * 2
    tried = await ended(url, page, *(asking("modify_element", edit) for edit in edits), model=model)
    assert [frame.get("errorType") for frame in tried] == ["validation_error"] * len(edits)
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        found = (await http.get(f"/api/pages/{page}")).json()["page"]["root"]["children"]
        html = (await http.get(f"/api/pages/{page}/export")).text
        other = (await http.get(f"/api/pages/{beside}")).json()
    kept = [one["content"] for group in found[-2:] for one in group["children"]]
    assert [plain(text) for text in kept] == [plain(text) for text in texts]
    assert not page_faults(html)
    shown = plain(scan_html(html).text)
    assert all(plain(text) in shown for text in texts)
    assert other["versionId"] == "v1", "the page beside it is there, as it was"


async def test_no_address_leads_inside(url: str, model: ChatDouble) -> None:
    """C24: however it is spelt, what counts is where the connection would go."""
    asked = asking("fetch_data", *({"url": one} for one in INTERNAL_URLS[::3]))
    told = await ended(url, new_page_id(), asked, model=model)
    assert [frame.get("errorType") for frame in told] == ["permission_denied"] * len(asked.calls)
    assert all("not on the public internet" in frame["error"] for frame in told)


async def test_a_model_cannot_act_for_another_or_on_anothers_page(model: ChatDouble) -> None:
    """C2, C-R9: whose conversation it is, about which page, is the server's to say, whatever a call holds."""
    with running_redis_for_file() as redis:
        async with connect(redis) as storage:
            alice, bob = await create_key(storage, "alice"), await create_key(storage, "bob")
        with running_server(redis, None, auth=("keys",), tools=FREE) as url:
            await _tried(url, alice, bob, model)


async def _tried(url: str, alice: str, bob: str, model: ChatDouble) -> None:
    page = new_page_id()
    theirs = {"pageId": page, "userId": "alice", "ownerId": "alice", "conversationId": page, "threadId": page}
    edit = {"elementId": "heading-1", "modifications": {"content": "bob was here"}}
    looks = [
        (f"c{at}", one.name, json.dumps(theirs)) for at, one in enumerate(TOOLS) if not one.is_destructive
    ]
    async with httpx.AsyncClient(base_url=url, headers={"X-Api-Key": alice}, timeout=60) as hers:
        said = {"message": "Change the headline to “zyxomma”", "provider": "offline"}
        assert (await hers.post(f"/api/pages/{page}/chat", json=said)).status_code == 200
        before = (await hers.get(f"/api/pages/{page}")).json()
        recorded = (await hers.get("/api/tool-executions")).json()
        async with httpx.AsyncClient(base_url=url, headers={"X-Api-Key": bob}, timeout=60) as his:
            model.script(asking("modify_element", edit | theirs), Say(calls=looks, piece=1000), Say("Done."))
            talk = {"message": "do as you like", "provider": "openai"}
            reply = await his.post("/api/pages/mine/chat", json=talk)
            assert reply.status_code == 200, reply.text
            results = [call["result"] for call in reply.json()["toolCalls"]]
            assert len(results) == 1 + len(looks)
            assert results[0]["versionId"] == "v1", "what was meant for hers is done to his own"
            assert "zyxomma" not in json.dumps(results)
            records = (await his.get("/api/tool-executions", params={"limit": 100})).json()["executions"]
            assert {(one["userId"], one["artefactId"]) for one in records} == {("bob", "mine")}
        assert (await hers.get(f"/api/pages/{page}")).json() == before
        assert (await hers.get("/api/tool-executions")).json() == recorded
