"""An ad after many turns: the state grows by the conversation, not by every look at the ad."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.doubles.served import chat_about_ad, generate_ad, served_app

WISHES = (
    "make the music more upbeat",
    "add a whoosh at the start",
    "make the first voice a bit slower",
    "remove the effects",
    "make the first voice a bit faster",
)
TURNS = 40
BYTES_PER_TURN = 11_500


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that has one ad."""
    async with served_app(valkey_url) as one:
        await generate_ad(one)
        yield one


async def conversation(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    reply = await client.get("/api/ads/ad-1/conversation")
    found: list[dict[str, Any]] = reply.json()["messages"]
    return found


async def state_bytes(client: httpx.AsyncClient) -> int:
    [thread] = (await client.post("/threads/search", json={})).json()
    return len((await client.get(f"/threads/{thread['thread_id']}/state")).content)


@pytest.mark.slow
async def test_the_state_of_an_ad_grows_by_a_few_kilobytes_a_turn(client: httpx.AsyncClient) -> None:
    """Each turn looks at the ad; with every version in every result, a turn would add more each time."""
    sizes = []
    for number in range(TURNS):
        await chat_about_ad(client, WISHES[number % len(WISHES)])
        sizes.append(await state_bytes(client))
    assert sizes[-1] - sizes[TURNS // 2 - 1] < TURNS // 2 * BYTES_PER_TURN, sizes
    messages = await conversation(client)
    assert len([message for message in messages if message["role"] == "user"]) == TURNS + 1
    answered = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert answered == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
