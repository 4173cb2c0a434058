"""X3, X9: servers on one Redis whose clocks are apart, or set back, lose nothing and repeat nothing."""

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
class Clock:
    """Parent of servers whose clock is apart from Redis' by what a file says."""

    warm_parent: WarmParent
    file: Path

    def set(self, shift_s: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{shift_s:+d}\n")
        new.replace(self.file)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    faketime = need("faketime")
    command = [str(faketime), "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    library = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    file = tmp_path_factory.mktemp("clock") / "shift"
    file.write_text("+0\n")
    environ = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        # Timers count by this one, and have both names.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    with WarmParent(**environ) as parent:
        yield Clock(parent, file)


@dataclass
class Server:
    """One of the servers, with a client of each kind."""

    http: httpx.AsyncClient
    wire: LangGraphClient

    async def sent(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = await self.http.post(path, json={"provider": "offline", **body})
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    async def asked(self, thread: str, text: str) -> None:
        """Have a text drafted, up to the question whether to publish it."""
        await self.wire.runs.wait(thread, "post", input={"text": text})
        state: Any = await self.wire.threads.get_state(thread)
        assert [one["value"] for one in state["interrupts"]] == [{"publish": text}]

    async def answered(self, thread: str, answer: str) -> None:
        done: Any = await self.wire.runs.wait(thread, "post", command={"resume": answer})
        assert done["answers"][-1] == answer, done

    async def published(self, thread: str) -> int:
        item: Any = await self.wire.store.get_item(PUBLISHED, thread)
        return int(item["value"]["times"])

    async def values(self, thread: str) -> dict[str, Any]:
        state: Any = await self.wire.threads.get_state(thread)
        assert state["next"] == []
        found: dict[str, Any] = state["values"]
        return found

    async def messages(self, thread: str) -> list[str]:
        """The contents of a person's messages."""
        values = await self.values(thread)
        return [each["content"] for each in values["messages"] if each["type"] == "human"]


@asynccontextmanager
async def started(warm_parent: WarmParent, redis: str) -> AsyncIterator[Server]:
    pid, url = warm_parent.start(redis, LEASE_S, config=CONFIG)
    try:
        until(lambda: is_answering(url), "the server answers", patience_s=40)
        async with httpx.AsyncClient(base_url=url, timeout=30) as http, get_client(url=url) as wire:
            yield Server(http, wire)
    finally:
        os.kill(pid, signal.SIGKILL)


async def post_in_turns(one: Server, other: Server) -> None:
    """Two posts: one server asks, the other gets the answer."""
    thread = str((await one.wire.threads.create())["thread_id"])
    for turn, (asking, deciding) in enumerate([(one, other), (other, one)], 1):
        await asking.asked(thread, f"text {turn}")
        await deciding.answered(thread, f"yes {turn}")
        expected = [[f"{name} {number}" for number in range(1, turn + 1)] for name in ("text", "yes")]
        for server in (asking, deciding):
            values = await server.values(thread)
            assert [values["texts"], values["answers"]] == expected
        assert await asking.published(thread) == turn
    history: Any = await one.wire.threads.get_history(thread, limit=50)
    steps = [state["metadata"]["step"] for state in history]
    assert steps == sorted(steps, reverse=True)
    below: Any = await other.wire.threads.get_history(thread, limit=50, before=history[3]["checkpoint"])
    assert [state["checkpoint"] for state in below] == [state["checkpoint"] for state in history[4:]]


async def ad_in_turns(one: Server, other: Server) -> None:
    ad = f"ad-{uuid.uuid4().hex}"
    thread = (await one.sent("/api/ai/generate", {**GENERATE, "adId": ad}))["conversationId"]
    begun = len(await one.messages(thread))
    said = [f"Make the music {how}" for how in ("more upbeat", "calmer", "more upbeat")]
    for turn, (server, message) in enumerate(zip((other, one, other), said, strict=True), 2):
        reply = await server.sent(f"/api/ads/{ad}/chat", {"message": message})
        assert reply["drafts"] == {"music": f"v{turn}"}
    for server in (one, other):
        assert (await server.messages(thread))[begun:] == said


async def page_in_turns(one: Server, other: Server) -> None:
    page = f"page-{uuid.uuid4().hex}"
    said = [f'Change the headline to "Bread at {hour}"' for hour in ("four", "five", "six")]
    for server, message in zip((one, other, one), said, strict=True):
        thread = (await server.sent(f"/api/pages/{page}/chat", {"message": message}))["conversationId"]
    for server in (one, other):
        assert await server.messages(thread) == said
        assert "Bread at six" in (await server.http.get(f"/api/pages/{page}")).text


@pytest.mark.parametrize("shift_s", [-3600, -60, -1, 1, 60, 3600])
async def test_turns_alternate_between_servers_whose_clocks_are_apart(
    redis: str, warm_parent: WarmParent, clock: Clock, shift_s: int
) -> None:
    clock.set(shift_s)
    async with started(warm_parent, redis) as right, started(clock.warm_parent, redis) as wrong:
        for use in (post_in_turns, ad_in_turns, page_in_turns):
            await use(right, wrong)


async def test_a_server_whose_clock_is_ahead_deletes_nothing_before_its_time(
    redis: str, clock: Clock
) -> None:
    clock.set(0)
    async with started(clock.warm_parent, redis) as server:
        lasting: Any = await server.wire.threads.create(ttl={"ttl": 10})
        expired: Any = await server.wire.threads.create(ttl={"ttl": 0.0001})
    clock.set(3600)
    async with started(clock.warm_parent, redis) as server:
        run: Any = await server.wire.runs.create(None, "post", input={"text": "alone"})
        await server.wire.runs.join(run["thread_id"], run["run_id"])
        assert await server.wire.runs.get(run["thread_id"], run["run_id"])

        async def swept() -> bool:
            return (await server.http.get(f"/threads/{expired['thread_id']}")).status_code == 404

        await eventually(swept, "the expired thread is deleted", patience_s=60)
        assert await server.wire.threads.get(lasting["thread_id"])


@pytest.mark.parametrize("shift_s", [-1, -60, -3600])
async def test_a_conversation_goes_on_after_a_restart_with_an_earlier_clock(
    redis: str, clock: Clock, shift_s: int
) -> None:
    page, thread = f"page-{uuid.uuid4().hex}", str(uuid.uuid4())
    said = [f'Change the headline to "Bread at {hour}"' for hour in ("four", "five")]
    clock.set(0)
    async with started(clock.warm_parent, redis) as server:
        await server.wire.threads.create(thread_id=thread)
        await server.asked(thread, "text")
        conversation = (await server.sent(f"/api/pages/{page}/chat", {"message": said[0]}))["conversationId"]
    clock.set(shift_s)
    async with started(clock.warm_parent, redis) as server:
        await server.answered(thread, "yes")
        await server.sent(f"/api/pages/{page}/chat", {"message": said[1]})
        assert (await server.values(thread))["answers"] == ["yes"]
        assert await server.published(thread) == 1
        assert await server.messages(conversation) == said
