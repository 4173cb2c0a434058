"""The newest checkpoints of a thread that are kept after a run."""

from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import keys
from tests.doubles.served import served_app
from tests.doubles.waiting import eventually

KEPT = 6
MOST = KEPT + 10


async def ok(reply: Any) -> Any:
    response: httpx.Response = await reply
    assert response.is_success, response.text
    return response.json()


async def talk(client: httpx.AsyncClient, number: int) -> None:
    """One message about the page."""
    body = {"message": f'Change the headline to "Bread {number}"', "provider": "offline"}
    await ok(client.post("/api/pages/shop/chat", json=body))


async def history(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = await ok(client.post("/threads/shop/history", json={"limit": 100}))
    return states


def checkpoint_count(inspector: Redis) -> int:
    """The number of checkpoints, with one entry that counts them."""
    return int(inspector.zcard(keys.checkpoints("shop").ids))


@pytest.mark.slow
async def test_the_oldest_checkpoints_are_removed_after_a_run_and_the_conversation_stays(
    valkey_url: str, inspector: Redis
) -> None:
    async with served_app(valkey_url, kept_checkpoints=KEPT) as client:
        for number in range(8):
            await talk(client, number)

        async def are_few() -> bool:
            return checkpoint_count(inspector) <= MOST

        await eventually(are_few, "the oldest are removed")
        states = await history(client)
        assert KEPT <= len(states) <= MOST
        messages = states[0]["values"]["messages"]
        texts = [one["content"] for one in messages if one["type"] == "human"]
        assert [f'"Bread {number}"' in text for number, text in enumerate(texts)] == [True] * 8
        body = {"message": "undo", "provider": "offline"}
        assert (await ok(client.post("/api/pages/shop/chat", json=body)))["drafts"]["page"] == "v9"


@pytest.mark.slow
async def test_while_a_run_has_the_thread_nothing_is_removed(valkey_url: str, inspector: Redis) -> None:
    async with served_app(valkey_url) as client:
        for number in range(4):
            await talk(client, number)
        before = checkpoint_count(inspector)
    assert before > MOST
    async with served_app(valkey_url, kept_checkpoints=KEPT, carry_runs=False) as client:
        run = {"assistant_id": "page_builder", "input": {"messages": []}}
        await ok(client.post("/threads/shop/runs", json=run))
    async with RedisSaver.from_url(valkey_url, kept_checkpoints=KEPT) as saver:
        await saver.akeep_newest("shop")
        assert checkpoint_count(inspector) == before
        inspector.hdel(keys.thread_meta("shop"), "active")
        await saver.akeep_newest("shop")
        assert checkpoint_count(inspector) == KEPT + 1
