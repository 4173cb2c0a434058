"""The chat about pages over a web socket, frame by frame (C13–C20)."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.doubles.page_chat_client import CALL, Frame, ends_turn, frame_types, new_page_id, open_chat
from tests.doubles.wire_served import running_server_on_own_redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(None, max_body_bytes=10_000) as server_url:
        yield server_url


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        yield client


async def test_a_message_sends_start_progress_and_complete_of_each_call_then_text(
    url: str, http: httpx.AsyncClient
) -> None:
    """C11, C12, C13, C14, C15, C16, C17, C19, C30: Start → Progress → Complete for each call, then text.

    The last chunk says that it is the last.
    """
    page = new_page_id()
    async with open_chat(url) as chat:
        frames = await chat.say(page, "Make the headline teal")
    assert frame_types(frames) == ["userMessage", *CALL, *CALL, "aiResponseChunk"]
    assert frames[0]["content"] == "Make the headline teal"
    start, progress, complete = frames[4:7]
    assert (start["toolName"], start["input"]["modifications"]) == (
        "modify_element",
        {"style": {"color": "teal"}},
    )
    assert progress["status"] == "executing"
    assert complete["output"]["versionId"] == "v1"
    assert len({frame["toolCallId"] for frame in (start, progress, complete)}) == 1
    chunks = [frame for frame in frames if frame["type"] == "aiResponseChunk"]
    assert "".join(frame["content"] for frame in chunks).startswith("I changed the heading")
    assert len(chunks) > 2, "text still streams where tools are called"
    assert [frame["isLastChunk"] for frame in chunks] == [False] * (len(chunks) - 1) + [True]
    assert {frame["conversationId"] for frame in frames} == {page}
    runs = (await http.get(f"/threads/{page}/runs")).json()
    assert [run["status"] for run in runs] == ["success"], "a message is a run on the engine"
    assert (await http.get(f"/api/pages/{page}")).json()["versionId"] == "v1"
    messages = (await http.get(f"/threads/{page}/state")).json()["values"]["messages"]
    call_ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert call_ids == [message["tool_call_id"] for message in messages if message["type"] == "tool"]
    assert len(call_ids) == 2, "calls and results stay with the conversation"


async def test_all_clients_of_a_conversation_get_the_same_frames(url: str, http: httpx.AsyncClient) -> None:
    page = new_page_id()
    async with open_chat(url) as one, open_chat(url) as other:
        await one.say(page, "Make the headline teal")
        await other.send({"type": "join", "conversationId": page, "lastEventId": "0"})
        await other.until(ends_turn)
        assert other.frames.pop(0) == {"type": "joined", "conversationId": page}
        assert other.frames == one.frames
        await other.say(page, "make it bigger")
        await one.until(ends_turn)
        assert other.frames == one.frames
        assert len({frame["eventId"] for frame in one.frames}) == len(one.frames)
    sse_frames = await events_of(http, page, len(one.frames))
    assert sse_frames == one.frames, "the same over SSE (C20)"


async def events_of(http: httpx.AsyncClient, page: str, count: int, last: str = "0") -> list[Frame]:
    """Return the first `count` events over SSE."""
    frames: list[Frame] = []
    path = f"/api/conversations/{page}/events"
    async with http.stream("GET", path, headers={"Last-Event-ID": last}) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: "):
                frames.append(json.loads(line[6:]))
            if len(frames) == count:
                break
    return frames


async def test_a_client_that_joins_with_its_last_event_id_gets_the_rest(
    url: str, http: httpx.AsyncClient
) -> None:
    """A connection cut after any frame: no frame is lost or sent twice."""
    page = new_page_id()
    async with open_chat(url) as chat:
        frames = await chat.say(page, "Make the headline teal and add a contact form")
    for cut in range(1, len(frames), 5):
        async with open_chat(url) as late_chat:
            last = frames[cut - 1]["eventId"]
            await late_chat.send({"type": "join", "conversationId": page, "lastEventId": last})
            await late_chat.until(ends_turn)
            assert late_chat.frames[1:] == frames[cut:]
    assert await events_of(http, page, 3, frames[-4]["eventId"]) == frames[-3:]


async def test_a_deletion_waits_for_an_approval_on_the_socket(url: str, http: httpx.AsyncClient) -> None:
    """C-R1."""
    page = new_page_id()
    async with open_chat(url) as chat, open_chat(url) as other:
        frames = await chat.say(page, "delete the features section")
        await other.send({"type": "join", "conversationId": page, "lastEventId": frames[-1]["eventId"]})
        await other.until(lambda frame: frame["type"] == "joined")
        assert frame_types(frames)[-2:] == ["approvalRequest", "aiResponseChunk"]
        [action] = frames[-2]["actions"]
        assert (action["name"], action["args"]) == ("delete_element", {"elementId": "section-2"})
        assert action["description"] == "Deleting from the page: the section “Features” (section-2)"
        answer = {"type": "approvalResponse", "conversationId": page, "questionId": frames[-2]["id"]}
        for wrong in ([{"type": "approve"}] * 2, [{"type": "edit"}]):
            await chat.send({**answer, "decisions": wrong})
            refused = (await chat.until(ends_turn)).pop()
            assert (refused["errorType"], "runId" in refused) == ("validation_error", False)
        await chat.send({**answer, "decisions": [{"type": "approve"}]})
        rest = (await chat.until(ends_turn))[len(frames) :]
        assert frame_types(rest) == ["approvalResponse", *CALL, "aiResponseChunk"]
        assert (await other.until(ends_turn))[1:] == rest
        await chat.send({**answer, "decisions": [{"type": "approve"}]})
        assert (await chat.until(ends_turn))[-1]["type"] == "error", "a question is answered once"
    ids = [one["id"] for one in (await http.get(f"/api/pages/{page}")).json()["page"]["root"]["children"]]
    assert "section-2" not in ids


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("{", "validation_error"),
        ("[]", "validation_error"),
        ({"type": "shout"}, "validation_error"),
        ({"type": "userMessage", "conversationId": "p"}, "validation_error"),
        ({"type": "userMessage", "conversationId": "p", "content": " "}, "validation_error"),
        ({"type": "join", "conversationId": "nowhere"}, "validation_error"),
        ({"type": "cancel", "conversationId": "nowhere"}, "validation_error"),
        (
            {"type": "approvalResponse", "conversationId": "nowhere", "decisions": [{"type": "approve"}]},
            "validation_error",
        ),
    ],
)
async def test_an_invalid_frame_is_answered_with_an_error_and_the_socket_stays_open(
    url: str, wrong: Any, kind: str
) -> None:
    """C18, C39."""
    async with open_chat(url) as chat:
        await chat.send(wrong)
        [error] = await chat.until(ends_turn)
        assert (error["type"], error["errorType"], error["retryable"]) == ("error", kind, False)
        assert error["error"]
        frames = await chat.say(new_page_id(), "what can you do?")
        assert frame_types(frames) == ["userMessage", "aiResponseChunk"]


async def test_a_message_over_the_size_limit_closes_the_socket(url: str) -> None:
    async with open_chat(url) as chat:
        with pytest.raises(ConnectionClosed) as closed:
            await chat.say(new_page_id(), "x" * 10_001)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_connection_from_another_origin_is_refused(url: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_chat(url, Origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


async def test_a_message_with_an_id_is_executed_once_on_the_selected_element(
    url: str, http: httpx.AsyncClient
) -> None:
    """C2, C26."""
    page = new_page_id()
    async with open_chat(url) as chat:
        frames = await chat.say(page, "make this orange", selectedElementId="section-2", messageId="m1")
        assert frames[-1]["isLastChunk"]
        assert (frames[0]["type"], frames[0]["messageId"]) == ("userMessage", "m1")
        before = len(chat.frames)
        message = {"type": "userMessage", "conversationId": page, "content": "make this orange"}
        await chat.send(
            {**message, "provider": "offline", "selectedElementId": "section-2", "messageId": "m1"}
        )
        await chat.until(lambda frame: frame["type"] == "repeated")
        repeated = {
            "type": "repeated",
            "conversationId": page,
            "messageId": "m1",
            "runId": frames[0]["runId"],
        }
        assert chat.frames[-1] == repeated
        await chat.say(page, "what can you do?")
        assert frame_types(chat.frames[before:]) == ["repeated", "userMessage", "aiResponseChunk"]
        await chat.say(page, "something else", messageId="m1")
        assert "used" in chat.frames[-1]["error"]
    page_view = (await http.get(f"/api/pages/{page}")).json()
    assert page_view["versionId"] == "v1"


async def test_equal_message_ids_in_two_conversations_are_two_messages(url: str) -> None:
    """C13: the client chooses the id, and an answer in words has it too."""
    async with open_chat(url) as one, open_chat(url) as other:
        pages = [(one, new_page_id()), (other, new_page_id())]
        for chat, page in pages:
            frames = await chat.say(page, "delete the features section", messageId="m1")
            assert frames[0]["messageId"] == "m1"
            frames = await chat.say(page, "yes", messageId="m2")
            assert (frames[0]["type"], frames[0]["messageId"]) == ("approvalResponse", "m2")


async def test_a_conversation_refuses_a_message_for_another_page(url: str, http: httpx.AsyncClient) -> None:
    """C-R9."""
    page = new_page_id()
    async with open_chat(url) as chat:
        await chat.say(page, "Make the headline teal", pageId=page)
        [error] = await chat.say(page, "Make the headline red", pageId="cafe")
        assert error["errorType"] == "validation_error"
        assert f"about the page '{page}', not 'cafe'" in error["error"]
        assert (await http.get(f"/api/pages/{page}")).json()["versionId"] == "v1"
        assert (await http.get("/api/pages/cafe")).status_code == 404
        assert (await chat.say(page, "Make the headline red"))[-1]["isLastChunk"]


@pytest.mark.parametrize(
    ("wrong", "words", "remedy"),
    [
        ({"type": "foo"}, "the type 'foo' is not known", "approvalResponse, join, leave, cancel"),
        ({"type": ["join"]}, "is not known", "userMessage"),
        ({}, "the message has no type", "userMessage"),
        ({"type": "userMessage"}, "userMessage: 'content' is missing", "docs/chat.md"),
        ({"type": "userMessage", "content": " "}, "the message is empty", "say in words"),
        ({"type": "userMessage", "content": "x", "messageId": ""}, "messageId ''", "another messageId"),
    ],
)
async def test_an_error_frame_has_the_rule_a_remedy_and_the_conversation(
    url: str, wrong: Frame, words: str, remedy: str
) -> None:
    """C18, C39: without messages of a library, and without fields that this type does not have."""
    async with open_chat(url) as chat:
        await chat.send({"conversationId": "shop", **wrong})
        [error] = await chat.until(ends_turn)
    assert error["conversationId"] == "shop"
    assert (words in error["error"], remedy in error["suggestion"]) == (True, True), error
    assert not any(word in json.dumps(error) for word in ("Input", "tag", '"message"'))


async def test_a_deleted_conversation_ends_with_an_error_and_can_start_again(
    url: str, http: httpx.AsyncClient
) -> None:
    page = new_page_id()
    async with open_chat(url) as chat:
        await chat.say(page, "Make the headline teal")
        assert (await http.delete(f"/threads/{page}")).status_code == 204
        frame = (await chat.until(lambda frame: frame["type"] == "error"))[-1]
        assert (frame["conversationId"], frame["error"]) == (page, f"there is no thread '{page}'")
        frames = await chat.say(page, "Make the headline red")
    assert frames[0]["content"] == "Make the headline red"
