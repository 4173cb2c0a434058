"""The size of the state of an ad after many turns."""

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
    async with served_app(valkey_url) as http:
        await generate_ad(http)
        yield http


async def messages_of_ad(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    reply = await client.get("/api/ads/ad-1/conversation")
    messages: list[dict[str, Any]] = reply.json()["messages"]
    return messages


async def state_bytes(client: httpx.AsyncClient) -> int:
    [thread] = (await client.post("/threads/search", json={})).json()
    return len((await client.get(f"/threads/{thread['thread_id']}/state")).content)


@pytest.mark.slow
async def test_the_state_of_an_ad_grows_by_a_constant_size_per_turn(client: httpx.AsyncClient) -> None:
    """Each turn reads the ad; results with the data of every version would grow with each turn."""
    sizes = []
    for number in range(TURNS):
        await chat_about_ad(client, WISHES[number % len(WISHES)])
        sizes.append(await state_bytes(client))
    assert sizes[-1] - sizes[TURNS // 2 - 1] < TURNS // 2 * BYTES_PER_TURN, sizes
    messages = await messages_of_ad(client)
    assert len([message for message in messages if message["role"] == "user"]) == TURNS + 1
    call_ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert call_ids == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
