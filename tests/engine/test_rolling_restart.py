"""Two servers behind nginx that are restarted in turn: clients lose nothing (X5, X8, X9)."""

import asyncio
import json
import random
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Recorded, Reply, Say
from tests.doubles.command import ROOT, ForkedCommand
from tests.doubles.killing import WarmParent
from tests.doubles.needs import need
from tests.doubles.redis_server import free_port, hold_port
from tests.doubles.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(600)]
ANSWER = "Which offers do you mean?"
LONG_S = 300.0
PERIOD_S = 15.0


class SlowChat(ChatDouble):
    """A model that answers every request, after up to so many seconds."""

    def __init__(self, longest_s: float) -> None:
        super().__init__()
        self._longest_s = longest_s
        self._pauses = random.Random(1)

    def next_reply(self, request: Recorded) -> Reply:
        """Answer after a pause."""
        if failure := self.refusal(request):
            return failure
        self.closing.wait(self._pauses.uniform(0, self._longest_s))
        return Say(ANSWER)


@dataclass
class Tally:
    """Fates of the requests."""

    threads: list[str] = field(default_factory=list)
    """Conversations whose clients have their answer."""
    repeated: int = 0
    """Replies 503 with `Retry-After`, after which the request was sent again."""
    resumed: int = 0
    """Streams that ended early and went on after their last event."""
    problems: list[str] = field(default_factory=list)

    def refuse(self, reply: httpx.Response, text: str) -> float:
        """Note a reply that is no answer; return the time to wait."""
        if reply.status_code != 503 or "retry-after" not in reply.headers:
            self.problems.append(
                f"{reply.request.method} {reply.request.url.path}: {reply.status_code} {text}"
            )
        self.repeated += 1
        return min(1.0, float(reply.headers.get("retry-after", 1)))


class Servers:
    """Two servers on one Redis, on ports that stay, behind nginx."""

    def __init__(self, warm: WarmParent, folder: Path, env: Mapping[str, str]) -> None:
        self._warm, self._folder, self._env = warm, folder, env
        # Held, so that no other program takes a port while its server is away.
        self._held = (hold_port(), hold_port())
        self.ports = tuple(each.getsockname()[1] for each in self._held)
        self._processes: dict[int, ForkedCommand] = {}

    def start(self, port: int) -> None:
        """Start the server of a port; its log is appended to that of its predecessors."""
        folder = self._folder / f"{port}-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        self._processes[port] = ForkedCommand.of(
            self._warm, folder, "serve", "--port", str(port), **self._env
        )

    async def wait_until_ready(self, port: int) -> None:
        """Wait until the server of a port is ready; fail at once if it has ended."""
        process = self._processes[port]

        async def is_serving() -> bool:
            assert process.poll() is None, f"the server of {port} has ended"
            return await is_ready(http, f"http://127.0.0.1:{port}")

        async with httpx.AsyncClient() as http:
            try:
                await eventually(is_serving, f"{port} is ready", patience_s=60)
            except AssertionError as error:
                error.add_note(f"its log: {(process.folder / 'err').read_text()[-4000:]}")
                raise

    async def restart(self, port: int) -> None:
        """Stop the server of a port, and start another in its place."""
        process = self._processes[port]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0
        self.start(port)
        await self.wait_until_ready(port)

    def errors(self) -> list[str]:
        """The lines of all logs that are errors."""
        texts = (log.read_text() for log in self._folder.glob("*-*/err"))
        lines = [line for text in texts for line in text.splitlines()]
        return [line for line in lines if json.loads(line)["level"] in {"error", "critical"}]

    def kill(self) -> None:
        """Kill what still runs, and give the ports back."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for each in self._held:
            each.close()


async def is_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/ready")).is_success
    except httpx.TransportError:
        return False


@contextmanager
def nginx(folder: Path, ports: tuple[int, ...]) -> Iterator[str]:
    """Nginx with the sample configuration; its URL."""
    port = free_port()
    text = (ROOT / "deploy/nginx.conf").read_text()
    for number, one in enumerate(ports, 1):
        text = text.replace(f"server-{number}:2024", f"127.0.0.1:{one}")
    text = re.sub("listen 8080;", f"listen 127.0.0.1:{port}; access_log off;", text)
    (folder / "nginx.conf").write_text(text)
    own = f"daemon off; pid {folder}/pid; error_log {folder}/nginx.log;"
    process = subprocess.Popen(
        [str(need("nginx")), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", own]
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@asynccontextmanager
async def rolling(
    warm: WarmParent, valkey_url: str, folder: Path, longest_s: float
) -> AsyncIterator[tuple[Servers, httpx.AsyncClient]]:
    """The servers, started, and a client of nginx."""
    with SlowChat(longest_s) as model:
        env = {"REDIS_URL": valkey_url, "OPENAI_MODEL": "gpt-4o-mini", "CALLSHEET_STOP_DELAY_S": "1"}
        servers = Servers(warm, folder, {**model.environ, **env})
        async with AsyncExitStack() as stack:
            stack.callback(servers.kill)
            for port in servers.ports:
                servers.start(port)
            for port in servers.ports:
                await servers.wait_until_ready(port)
            url = stack.enter_context(nginx(folder, servers.ports))
            http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=120))
            await eventually(partial(is_ready, http, url), "nginx passes requests on", patience_s=30)
            yield servers, http


def question() -> dict[str, Any]:
    return {"message": "Which offers are there?", "provider": "openai"}


async def ask(http: httpx.AsyncClient, tally: Tally) -> None:
    """Ask over REST until there is an answer."""
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    while True:
        reply = await http.post("/api/chat", json=question(), headers=headers)
        if reply.status_code == 200:
            assert reply.json()["response"] == ANSWER
            tally.threads.append(reply.json()["conversationId"])
            return
        await asyncio.sleep(tally.refuse(reply, reply.text[:200]))


async def is_refused(reply: httpx.Response, tally: Tally) -> bool:
    """Return False for a stream; else note the refusal, and wait as long as it says."""
    if reply.status_code == 200:
        return False
    text = (await reply.aread()).decode()[:200]
    await asyncio.sleep(tally.refuse(reply, text))
    return True


async def read_result(reply: httpx.Response, headers: dict[str, str], tally: Tally) -> bool:
    """Read a REST stream; return True once it has its result."""
    async for name, number, data in events(reply):
        headers |= {"Last-Event-ID": number} if number else {}
        if name == "result":
            tally.threads.append(json.loads(data)["conversationId"])
            return True
        if name == "error" and json.loads(data).get("status") != 503:
            tally.problems.append(f"stream: {data[:300]}")
    return False


async def stream_result(http: httpx.AsyncClient, headers: dict[str, str], tally: Tally) -> bool:
    """Ask over a REST stream once; return True once there is its result."""
    with suppress(httpx.RemoteProtocolError):
        async with http.stream("POST", "/api/chat", json=question(), headers=headers) as reply:
            if await is_refused(reply, tally):
                return False
            if await read_result(reply, headers, tally):
                return True
    tally.resumed += 1
    return False


async def ask_by_stream(http: httpx.AsyncClient, tally: Tally) -> None:
    """Ask over a REST stream, which goes on after its last event wherever it ended."""
    headers = {"Idempotency-Key": uuid.uuid4().hex, "Accept": "text/event-stream"}
    while not await stream_result(http, headers, tally):
        pass


async def read_run(reply: httpx.Response, headers: dict[str, str], tally: Tally) -> None:
    """Read the stream of a run; `headers` have its last event afterwards."""
    headers.pop("Idempotency-Key", None)
    async for name, number, data in events(reply):
        headers |= {"Last-Event-ID": number} if number else {}
        if name == "error":
            tally.problems.append(f"wire: {data[:300]}")


async def stream_run(
    http: httpx.AsyncClient, request: dict[str, Any], headers: dict[str, str], tally: Tally
) -> bool:
    """Stream a run once; return True once it has ended. `request` joins the run afterwards."""
    with suppress(httpx.RemoteProtocolError):
        async with http.stream(**request, headers=headers) as reply:
            if await is_refused(reply, tally):
                return False
            request.pop("json", None)
            request |= {"method": "GET", "url": f"{reply.headers['content-location']}/stream"}
            await read_run(reply, headers, tally)
        if await has_ended(http, request["url"].removesuffix("/stream")):
            return True
    tally.resumed += 1
    return False


async def ask_on_the_wire(http: httpx.AsyncClient, tally: Tally) -> None:
    """Ask by LangGraph's interface; the stream is joined again after its last event."""
    created = await http.post("/threads", json={}, headers={"Idempotency-Key": uuid.uuid4().hex})
    if created.status_code != 200:
        await asyncio.sleep(tally.refuse(created, created.text[:200]))
        return
    thread = created.json()["thread_id"]
    messages = [{"role": "user", "content": question()["message"]}]
    body = {
        "assistant_id": "campaign_search",
        "input": {"messages": messages},
        "context": {"provider": "openai"},
        "stream_resumable": True,
        "stream_mode": ["values"],
    }
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    request: dict[str, Any] = {"method": "POST", "url": f"/threads/{thread}/runs/stream", "json": body}
    while not await stream_run(http, request, headers, tally):
        pass
    tally.threads.append(thread)


async def has_ended(http: httpx.AsyncClient, run: str) -> bool:
    reply = await http.get(run)
    return reply.is_success and reply.json()["status"] not in {"pending", "running"}


async def events(reply: httpx.Response) -> AsyncIterator[tuple[str, str, str]]:
    """Yield name, id and data of each event."""
    fields: dict[str, str] = {}
    async for line in reply.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            if "event" in fields:
                yield fields["event"], fields.get("id", ""), fields.get("data", "")
            fields = {}


async def check_conversation(http: httpx.AsyncClient, thread: str) -> list[str]:
    """Return what is wrong with a conversation: one question, one answer, one run are right."""
    runs = (await http.get(f"/threads/{thread}/runs")).json()
    messages = (await http.get(f"/threads/{thread}/state")).json()["values"]["messages"]
    kinds, statuses = [one["type"] for one in messages], [one["status"] for one in runs]
    right = (kinds, statuses) == (["human", "ai"], ["success"])
    return [] if right else [f"{thread}: {kinds} {statuses}"]


async def restarted_under_load(
    running: tuple[Servers, httpx.AsyncClient], clients: int, until_s: float, period_s: float
) -> Tally:
    """Restart the servers in turn while clients ask; return the fates of their requests."""
    (servers, http), tally, is_over = running, Tally(), asyncio.Event()

    async def client(number: int) -> None:
        way = (ask, ask_by_stream, ask_on_the_wire)[number % 3]
        while not is_over.is_set():
            await way(http, tally)

    asking = [asyncio.create_task(client(number)) for number in range(clients)]
    ends_s, number = time.monotonic() + until_s, 0
    while number < 2 or time.monotonic() < ends_s:
        began_s = time.monotonic()
        await servers.restart(servers.ports[number % 2])
        number += 1
        await asyncio.sleep(max(0.0, began_s + period_s - time.monotonic()))
    is_over.set()
    async with asyncio.timeout(180):
        await asyncio.gather(*asking)
    for thread in tally.threads:
        tally.problems += await check_conversation(http, thread)
    tally.problems += servers.errors()
    print(  # noqa: T201 -- figures of the long form
        f"{number} restarts, {len(tally.threads)} answers, {tally.repeated} requests sent again after 503,"
        f" {tally.resumed} streams resumed, {len(tally.problems)} problems"
    )
    return tally


@pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")
async def test_a_restart_of_each_server_behind_nginx_loses_no_request_and_no_stream(
    warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    async with rolling(warm_parent, valkey_url, tmp_path, longest_s=2.0) as running:
        tally = await restarted_under_load(running, clients=6, until_s=0, period_s=0)
    assert tally.problems == []
    assert len(tally.threads) >= 6


@pytest.mark.long
async def test_five_minutes_of_rolling_restarts_with_calls_of_thirty_seconds_lose_nothing(
    warm_parent: WarmParent, valkey_url: str, tmp_path: Path
) -> None:
    async with rolling(warm_parent, valkey_url, tmp_path, longest_s=30.0) as running:
        tally = await restarted_under_load(running, clients=18, until_s=LONG_S, period_s=PERIOD_S)
    assert tally.problems == []
