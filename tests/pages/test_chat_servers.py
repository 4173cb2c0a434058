"""The chat about pages on several servers, with keys, and with limits."""

from collections.abc import Iterator

import httpx
import pytest

from callsheet.storage import connect
from tests.doubles.auth_cases import create_key
from tests.doubles.page_chat_client import ends_turn, frame_types, new_page_id, open_chat
from tests.doubles.wire_served import running_redis_for_file, running_server_on_own_redis
from tests.doubles.wire_server import running_server


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    with running_redis_for_file() as redis_url:
        yield redis_url


async def test_two_servers_on_one_redis_share_a_conversation(redis: str) -> None:
    """C6, C20: clients of both servers get the same frames, both accept messages, and a tool sees versions of
    the other server."""
    page = new_page_id()
    with running_server(redis, None) as first_url, running_server(redis, None) as second_url:
        async with open_chat(first_url) as one, open_chat(second_url) as other:
            await one.say(page, "Make the headline teal")
            await other.send({"type": "join", "conversationId": page, "lastEventId": "0"})
            await other.until(ends_turn)
            await other.say(page, "delete the features section")
            question = (await one.until(ends_turn))[-2]
            assert question["type"] == "approvalRequest"
            answer = {"type": "approvalResponse", "conversationId": page, "questionId": question["id"]}
            await one.send({**answer, "decisions": [{"type": "reject", "message": "keep it"}]})
            await one.until(ends_turn)
            await other.until(ends_turn)
            assert other.frames[1:] == one.frames
        async with httpx.AsyncClient(base_url=second_url, timeout=20) as http:
            body = {"message": "undo that", "provider": "offline"}
            reply = (await http.post(f"/api/pages/{page}/chat", json=body)).json()
            assert reply["drafts"] == {"page": "v2"}


async def test_a_conversation_is_visible_to_its_owner_only(redis: str) -> None:
    """C-R9, C58: for another owner it does not exist, and the same page id is another page."""
    page = new_page_id()
    async with connect(redis) as storage:
        alice, bob = await create_key(storage, "alice"), await create_key(storage, "bob")
    with running_server(redis, None, auth=("keys",)) as url:
        async with (
            open_chat(url, **{"X-Api-Key": alice}) as alice_chat,
            open_chat(url, **{"X-Api-Key": bob}) as bob_chat,
        ):
            frames = await alice_chat.say(f"talk-{page}", "Make the headline teal", pageId=page)
            assert frames[-1]["isLastChunk"]
            for wrong in (
                {"type": "join", "conversationId": f"talk-{page}", "lastEventId": "0"},
                {"type": "cancel", "conversationId": f"talk-{page}"},
                {"type": "userMessage", "conversationId": f"talk-{page}", "content": "undo", "pageId": page},
            ):
                await bob_chat.send(wrong)
                assert (await bob_chat.until(ends_turn))[-1]["errorType"] in {
                    "validation_error",
                    "permission_denied",
                }
            own_frames = await bob_chat.say(f"mine-{page}", "undo that", pageId=page)
            assert "nothing to undo" in "".join(frame.get("content", "") for frame in own_frames)
        async with httpx.AsyncClient(base_url=url, headers={"X-Api-Key": bob}) as http:
            assert (await http.get(f"/api/conversations/talk-{page}/events")).status_code == 404


async def test_messages_on_a_socket_count_against_the_request_limit() -> None:
    """C48."""
    page = new_page_id()
    with running_server_on_own_redis(None, requests_per_minute=4) as url:
        async with open_chat(url) as chat:
            for _ in range(3):
                assert frame_types(await chat.say(page, "hello"))[-1] == "aiResponseChunk"
            [error] = await chat.say(page, "hello")
            assert (error["errorType"], error["retryable"]) == ("rate_limit_error", True)


async def test_a_connection_that_follows_too_many_conversations_is_limited(redis: str) -> None:
    with running_server(redis, None) as url:
        async with open_chat(url) as chat, httpx.AsyncClient(base_url=url, timeout=20) as http:
            pages = [new_page_id() for _ in range(33)]
            thread = {"graph_id": "page_builder"}
            for page in pages:
                body = {"thread_id": page, "metadata": thread}
                assert (await http.post("/threads", json=body)).status_code == 200
            for page in pages:
                await chat.send({"type": "join", "conversationId": page})
                frame = (await chat.until(lambda frame: frame["type"] in {"joined", "error"}))[-1]
            assert frame["errorType"] == "rate_limit_error"
            [error] = await chat.say(new_page_id(), "make the headline teal")
            assert error["errorType"] == "rate_limit_error", "no run starts whose events nobody would get"
            await chat.send({"type": "leave", "conversationId": pages[0]})
            await chat.send({"type": "join", "conversationId": pages[-1]})
            assert (await chat.until(lambda frame: frame["type"] != "heartbeat"))[-1]["type"] == "joined"
