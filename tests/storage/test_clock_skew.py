"""X3, X9: servers on one Redis whose clocks are apart, or set back, lose nothing and repeat nothing."""

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.doubles.killing import WarmParent, is_answering
from tests.doubles.needs import need
from tests.doubles.served import GENERATE
from tests.doubles.waiting import eventually, until
from tests.storage.clock_graphs import PUBLISHED

pytestmark = pytest.mark.slow

CONFIG = str(Path(__file__).with_name("clock_graphs.json"))
LEASE_S = 5.0


@dataclass
class FakeClock:
    """The parent of servers whose clock differs from that of Redis by the seconds in a file."""

    warm_parent: WarmParent
    file: Path

    def set(self, shift_s: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{shift_s:+d}\n")
        new.replace(self.file)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeClock]:
    faketime = need("faketime")
    command = [str(faketime), "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    library = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    file = tmp_path_factory.mktemp("clock") / "shift"
    file.write_text("+0\n")
    environ = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        # Timers use the monotonic clock; the variable has two names.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    with WarmParent(**environ) as parent:
        yield FakeClock(parent, file)


@dataclass
class ServerClients:
    """A server's clients for HTTP and for LangGraph's API."""

    http: httpx.AsyncClient
    wire: LangGraphClient

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = await self.http.post(path, json={"provider": "offline", **body})
        assert reply.status_code == 200, reply.text
        parsed: dict[str, Any] = reply.json()
        return parsed

    async def ask(self, thread: str, text: str) -> None:
        """Draft a text, up to the question whether to publish it."""
        await self.wire.runs.wait(thread, "post", input={"text": text})
        state: Any = await self.wire.threads.get_state(thread)
        assert [one["value"] for one in state["interrupts"]] == [{"publish": text}]

    async def answer(self, thread: str, answer: str) -> None:
        done: Any = await self.wire.runs.wait(thread, "post", command={"resume": answer})
        assert done["answers"][-1] == answer, done

    async def count_published(self, thread: str) -> int:
        item: Any = await self.wire.store.get_item(PUBLISHED, thread)
        return int(item["value"]["times"])

    async def values(self, thread: str) -> dict[str, Any]:
        state: Any = await self.wire.threads.get_state(thread)
        assert state["next"] == []
        state_values: dict[str, Any] = state["values"]
        return state_values

    async def messages(self, thread: str) -> list[str]:
        """The contents of a person's messages."""
        values = await self.values(thread)
        return [each["content"] for each in values["messages"] if each["type"] == "human"]


@asynccontextmanager
async def start_server(warm_parent: WarmParent, redis: str) -> AsyncIterator[ServerClients]:
    pid, url = warm_parent.start(redis, LEASE_S, config=CONFIG)
    try:
        until(lambda: is_answering(url), "the server answers", patience_s=40)
        async with httpx.AsyncClient(base_url=url, timeout=30) as http, get_client(url=url) as wire:
            yield ServerClients(http, wire)
    finally:
        os.kill(pid, signal.SIGKILL)


async def post_in_turns(one: ServerClients, other: ServerClients) -> None:
    """Two posts: one server asks, the other gets the answer."""
    thread = str((await one.wire.threads.create())["thread_id"])
    for turn, (asking_server, answering_server) in enumerate([(one, other), (other, one)], 1):
        await asking_server.ask(thread, f"text {turn}")
        await answering_server.answer(thread, f"yes {turn}")
        expected = [[f"{name} {number}" for number in range(1, turn + 1)] for name in ("text", "yes")]
        for server in (asking_server, answering_server):
            values = await server.values(thread)
            assert [values["texts"], values["answers"]] == expected
        assert await asking_server.count_published(thread) == turn
    history: Any = await one.wire.threads.get_history(thread, limit=50)
    steps = [state["metadata"]["step"] for state in history]
    assert steps == sorted(steps, reverse=True)
    earlier_states: Any = await other.wire.threads.get_history(
        thread, limit=50, before=history[3]["checkpoint"]
    )
    assert [state["checkpoint"] for state in earlier_states] == [state["checkpoint"] for state in history[4:]]


async def ad_in_turns(one: ServerClients, other: ServerClients) -> None:
    ad = f"ad-{uuid.uuid4().hex}"
    thread = (await one.post("/api/ai/generate", {**GENERATE, "adId": ad}))["conversationId"]
    count_before = len(await one.messages(thread))
    texts = [f"Make the music {how}" for how in ("more upbeat", "calmer", "more upbeat")]
    for turn, (server, message) in enumerate(zip((other, one, other), texts, strict=True), 2):
        reply = await server.post(f"/api/ads/{ad}/chat", {"message": message})
        assert reply["drafts"] == {"music": f"v{turn}"}
    for server in (one, other):
        assert (await server.messages(thread))[count_before:] == texts


async def page_in_turns(one: ServerClients, other: ServerClients) -> None:
    page = f"page-{uuid.uuid4().hex}"
    texts = [f'Change the headline to "Bread at {hour}"' for hour in ("four", "five", "six")]
    for server, message in zip((one, other, one), texts, strict=True):
        thread = (await server.post(f"/api/pages/{page}/chat", {"message": message}))["conversationId"]
    for server in (one, other):
        assert await server.messages(thread) == texts
        assert "Bread at six" in (await server.http.get(f"/api/pages/{page}")).text


@pytest.mark.parametrize("shift_s", [-3600, -60, -1, 1, 60, 3600])
async def test_turns_alternate_between_servers_whose_clocks_are_apart(
    redis: str, warm_parent: WarmParent, clock: FakeClock, shift_s: int
) -> None:
    clock.set(shift_s)
    async with start_server(warm_parent, redis) as right, start_server(clock.warm_parent, redis) as wrong:
        for use in (post_in_turns, ad_in_turns, page_in_turns):
            await use(right, wrong)


async def test_a_server_whose_clock_is_ahead_deletes_nothing_before_its_time(
    redis: str, clock: FakeClock
) -> None:
    clock.set(0)
    async with start_server(clock.warm_parent, redis) as server:
        lasting: Any = await server.wire.threads.create(ttl={"ttl": 10})
        expired: Any = await server.wire.threads.create(ttl={"ttl": 0.0001})
    clock.set(3600)
    async with start_server(clock.warm_parent, redis) as server:
        run: Any = await server.wire.runs.create(None, "post", input={"text": "alone"})
        await server.wire.runs.join(run["thread_id"], run["run_id"])
        assert await server.wire.runs.get(run["thread_id"], run["run_id"])

        async def is_deleted() -> bool:
            return (await server.http.get(f"/threads/{expired['thread_id']}")).status_code == 404

        await eventually(is_deleted, "the expired thread is deleted", patience_s=60)
        assert await server.wire.threads.get(lasting["thread_id"])


async def test_crons_follow_the_clock_of_redis(redis: str, clock: FakeClock) -> None:
    """Those of a server whose clock is three hours ahead are due with those of all others."""
    clock.set(3 * 3600)
    async with start_server(clock.warm_parent, redis) as server:
        cron: Any = await server.wire.crons.create("post", schedule="0 * * * *", input={"text": "news"})
        assert datetime.fromisoformat(cron["next_run_date"]) - datetime.now(UTC) <= timedelta(hours=1)
        assert datetime.fromisoformat(cron["created_at"]) <= datetime.now(UTC)


@pytest.mark.parametrize("shift_s", [-1, -60, -3600])
async def test_a_conversation_continues_after_a_restart_with_an_earlier_clock(
    redis: str, clock: FakeClock, shift_s: int
) -> None:
    page, thread = f"page-{uuid.uuid4().hex}", str(uuid.uuid4())
    texts = [f'Change the headline to "Bread at {hour}"' for hour in ("four", "five")]
    clock.set(0)
    async with start_server(clock.warm_parent, redis) as server:
        await server.wire.threads.create(thread_id=thread)
        await server.ask(thread, "text")
        conversation = (await server.post(f"/api/pages/{page}/chat", {"message": texts[0]}))["conversationId"]
    clock.set(shift_s)
    async with start_server(clock.warm_parent, redis) as server:
        await server.answer(thread, "yes")
        await server.post(f"/api/pages/{page}/chat", {"message": texts[1]})
        assert (await server.values(thread))["answers"] == ["yes"]
        assert await server.count_published(thread) == 1
        assert await server.messages(conversation) == texts
