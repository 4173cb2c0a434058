"""Twelve faults that operators meet: each leaves a log line, moves a metric, and has an alert with a page."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]  # LangChain brings it
from redis import Redis

from callsheet.state.errors import Invalid
from callsheet.storage import connect
from callsheet.storage.embedded import watchdog
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads.threads import NewThread, create
from tests.doubles.chat_double import ChatDouble, Fail, Say, Silence
from tests.doubles.command import ROOT
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import GENERATE, app_client, started_app
from tests.doubles.tcp_server import tcp_server
from tests.doubles.waiting import eventually

pytestmark = pytest.mark.slow
ATTEMPTS = "callsheet.server.engine.attempt_log"
HEALTH = "callsheet.storage.redis.health"
LOOP = "callsheet.server.engine.loop_watch"
PLAIN_MODEL = {"provider": "openai"}
COMMAND = re.compile(rb"(?:\A|\r\n)\*\d+\r\n")


@dataclass
class FaultyServer:
    """A server on a Redis and with a model of its own."""

    http: httpx.AsyncClient
    redis: RedisServer
    model: ChatDouble
    doubles: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Servers that stand in for another until the fault is mended."""

    async def generate(self) -> None:
        await self.http.post("/api/ai/generate", json={**GENERATE, **PLAIN_MODEL})

    async def run(self, graph: str) -> None:
        thread = (await self.http.post("/threads", json={})).json()["thread_id"]
        await self.http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": graph, "input": {"x": 1}})

    def client(self) -> Redis:
        return Redis(port=self.redis.port)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(watchdog.binary(), tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def server(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FaultyServer]:
    graphs = {
        "ad_creation": "callsheet.graphs.ad_creation:graph",
        "blocking": f"{ROOT}/tests/engine/failing_graphs.py:blocking",
        "passing": f"{ROOT}/tests/engine/failing_graphs.py:passing",
    }
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": graphs}))
    with ChatDouble() as model:
        for name, value in {**model.environ, "OPENAI_MODEL": "gpt-4o-mini", "OPENAI_TIMEOUT_S": "1"}.items():
            monkeypatch.setenv(name, value)
        chosen: dict[str, Any] = {"config": config, "lease_s": 1, "budgets": '{"turn": 0.5}'}
        async with started_app(redis_server.url, **chosen) as app, app_client(app) as http:
            yield FaultyServer(http, redis_server, model)


def fail(status: int) -> Callable[[FaultyServer], Awaitable[None]]:
    async def cause(server: FaultyServer) -> None:
        server.model.script(*[Fail(status)] * 4)
        await server.generate()

    return cause


async def be_slow(server: FaultyServer) -> None:
    server.model.script(*[Silence()] * 4)
    await server.generate()


async def reach_the_budget(server: FaultyServer) -> None:
    server.model.script(Say(calls=(("c1", "search_voices", "{}"),), prompt_tokens=4_000_000))
    await server.generate()


async def kill_redis(server: FaultyServer) -> None:
    server.redis.kill()


async def fill_redis(server: FaultyServer) -> None:
    with server.client() as client:
        client.config_set("maxmemory", 1)


async def load_redis(server: FaultyServer) -> None:
    """Answer every command as a Redis does that still reads its file."""
    server.redis.kill()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(b"-LOADING Redis is loading the dataset in memory\r\n" * len(COMMAND.findall(data)))

    await server.doubles.enter_async_context(tcp_server(answer, server.redis.port))


async def make_a_replica(server: FaultyServer) -> None:
    with server.client() as client:
        client.replicaof("127.0.0.1", "1")


async def die_with_a_run(server: FaultyServer) -> None:
    """A process claims a run and never renews its lease, as one that the run has killed."""
    async with connect(server.redis.url) as storage:
        runs = Runs(storage, lease_s=0.05)
        await create(storage, NewThread("poisoned", "local"))
        await runs.create(
            RunRequest("poisoned", "poison", "passing", "local", request_fields(input={"x": 1}))
        )
        assert isinstance(await runs.claim("poisoned", "poison"), RunAttempt)


async def block_the_loop(server: FaultyServer) -> None:
    await server.run("blocking")


@dataclass(frozen=True)
class Fault:
    """One fault, and all that it must leave."""

    cause: Callable[[FaultyServer], Awaitable[None]]
    logger: str
    words: str
    """In the log line."""
    metric: str
    """A name as Prometheus has it."""
    alert: str
    labels: dict[str, str] = field(default_factory=dict)
    value: float | None = None
    """Value of a gauge; a counter must only have grown."""


MODEL_FAILS: Any = ("callsheet_model_calls_total", "CallsheetModelFails", {"outcome": "failed"})
STORAGE_DOWN: Any = ("callsheet_storage_up", "CallsheetStorageDown", {}, 0.0)
FAULTS = {
    "a model refuses the key": Fault(fail(401), ATTEMPTS, "OPENAI_API_KEY", *MODEL_FAILS),
    "a model is at its limit": Fault(fail(429), ATTEMPTS, "limit", *MODEL_FAILS),
    "a model fails": Fault(fail(500), ATTEMPTS, "OpenAI failed", *MODEL_FAILS),
    "a model is slow": Fault(be_slow, ATTEMPTS, "OpenAI", *MODEL_FAILS),
    "a budget is reached": Fault(
        reach_the_budget,
        ATTEMPTS,
        "raise_budget",
        "callsheet_budget_refusals_total",
        "CallsheetBudgetReached",
        {"budget": "turn"},
    ),
    "Redis is away": Fault(kill_redis, HEALTH, "cannot be used", *STORAGE_DOWN),
    "Redis is full": Fault(fill_redis, HEALTH, "out of memory", *STORAGE_DOWN),
    "Redis loads its data": Fault(load_redis, HEALTH, "is loading its data", *STORAGE_DOWN),
    "Redis is a replica": Fault(make_a_replica, HEALTH, "replica", *STORAGE_DOWN),
    "a run kills its process": Fault(
        die_with_a_run,
        ATTEMPTS,
        "died",
        "callsheet_run_retries_total",
        "CallsheetRunsRetried",
        {"graph": "passing"},
    ),
    "a node blocks the process": Fault(
        block_the_loop,
        LOOP,
        "node 'node' of graph 'blocking' blocks the event loop",
        "callsheet_event_loop_blocked_seconds_total",
        "CallsheetLoopBlocked",
        {"graph": "blocking"},
    ),
}
"""The twelfth, a wrong setting, leaves no process whose metrics could be read."""


def figure(text: str, fault: Fault) -> float:
    """The sum of the metric's samples with the fault's labels."""
    total = 0.0
    for line in text.splitlines():
        name, _, rest = line.partition("{") if "{" in line.split(" ")[0] else line.partition(" ")
        if name == fault.metric and all(f'{key}="{value}"' in rest for key, value in fault.labels.items()):
            total += float(line.rpartition(" ")[2])
    return total


def assert_alert(name: str, metric: str) -> None:
    """The alert is about the metric, and its annotation names a heading of the runbook."""
    [group] = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    [rule] = [one for one in group["rules"] if one["alert"] == name]
    assert metric in rule["expr"]
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def lines_about(fault: Fault, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the fault's logger with its words: in the message, the remedy or the kind of question."""
    lines = [vars(one) | {"text": one.getMessage()} for one in caplog.records if one.name == fault.logger]
    texts = [" ".join(str(one.get(name)) for name in ("text", "remedy", "question")) for one in lines]
    return [text for text in texts if fault.words in text]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_leaves_one_line_moves_a_metric_and_has_an_alert_with_a_page(
    server: FaultyServer, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    """X9, X14."""
    caplog.set_level(logging.INFO)
    before = figure((await server.http.get("/metrics")).text, fault)
    try:
        await fault.cause(server)

        async def shows() -> bool:
            now = figure((await server.http.get("/metrics")).text, fault)
            return now > before if fault.value is None else now == fault.value

        async def is_logged() -> bool:
            return bool(lines_about(fault, caplog))

        await eventually(shows, f"a change of {fault.metric}", patience_s=20)
        await eventually(is_logged, f"a line with {fault.words!r}", patience_s=20)
        assert len(lines_about(fault, caplog)) == 1
    finally:
        server.model.closing.set()
        if fault.value is not None:
            await mend(server)
    assert_alert(fault.alert, fault.metric)


async def mend(server: FaultyServer) -> None:
    await server.doubles.aclose()
    server.redis.kill()
    server.redis.start()

    async def is_healthy() -> bool:
        return (await server.http.get("/ready")).status_code == 200

    await eventually(is_healthy, "the server is well again", patience_s=30)


async def test_a_wrong_setting_ends_the_start_with_a_sentence_and_the_process_is_missed(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the start has the sentence; Prometheus has `up` of a process that does not answer."""
    monkeypatch.setenv("OPENAI_TIMEOUT_S", "soon")
    with pytest.raises(Invalid, match="OPENAI_TIMEOUT_S is 'soon'"):
        async with started_app(valkey_url):
            pass
    assert_alert("CallsheetGone", "up")
