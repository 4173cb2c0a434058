"""What Prometheus is told: requests, runs, tool calls, streams, storage (C54, X14)."""

import asyncio
import io
import json
import logging
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml  # type: ignore[import-untyped]  # LangChain brings it
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from callsheet.server.http.policy import API_READ, with_policy
from callsheet.server.http.telemetry import TelemetryMiddleware
from callsheet.server.telemetry import logs
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.errors import Fenced
from callsheet.storage import Storage
from callsheet.storage.embedded import watchdog
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import free_port, running_redis
from tests.doubles.served import app_client, generate_ad, served_app, started_app
from tests.doubles.waiting import eventually
from tests.engine.fault_desk import kill_processes, run_client, wait_for_exit
from tests.engine.fault_house import CONFIG

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    async with started_app(valkey_url) as one:
        yield one


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as one:
        yield one


Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Figures:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def figures(client: httpx.AsyncClient) -> Figures:
    reply = await client.get("/metrics")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    return parsed(reply.text)


def value(found: Figures, name: str, **labels: str) -> float:
    return found.get((f"callsheet_{name}", frozenset(labels.items())), 0.0)


async def test_requests_are_counted_by_route_and_status_with_their_time(client: httpx.AsyncClient) -> None:
    for path in ("/api/ads/a%2Fb", "/api/ads/none", "/api/ads", "/nowhere/1", "/nowhere/2"):
        await client.get(path)
    await client.post("/api/ai/generate", content=b"{")
    found = await figures(client)
    total = "http_requests_total"
    assert value(found, total, method="GET", route="/api/ads/{ad_id}", status="404") == 2
    assert value(found, total, method="GET", route="/api/ads", status="200") == 1
    assert value(found, total, method="GET", route="unmatched", status="404") == 2
    assert value(found, total, method="POST", route="/api/ai/generate", status="400") == 1
    assert value(found, "http_request_seconds_count", method="GET", route="/api/ads/{ad_id}") == 2
    assert 0 < value(found, "http_request_seconds_sum", method="GET", route="/api/ads/{ad_id}") < 30
    assert not any("nowhere" in str(key) for key in found)


async def test_what_is_refused_at_the_door_is_counted_too(client: httpx.AsyncClient) -> None:
    await client.get("/api/ads", headers={"Origin": "https://evil.example"})
    await client.request("BREW", "/api/ads")
    found = await figures(client)
    assert value(found, "http_requests_total", method="GET", route="unmatched", status="403") == 1
    assert value(found, "http_requests_total", method="other", route="/api/ads", status="405") == 1


async def test_a_stream_is_open_until_it_ends_and_timed_until_it_begins(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    began, end, before = asyncio.Event(), asyncio.Event(), time.monotonic()

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        began.set()
        await end.wait()
        await send({"type": "http.response.body"})

    async def send(_message: Message) -> None: ...

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/s", "headers": []}
    request = asyncio.create_task(TelemetryMiddleware(streaming, app.state.observer)(scope, receive, send))
    await began.wait()
    assert value(await figures(client), "http_streams_open") == 1
    end.set()
    await request
    found = await figures(client)
    assert value(found, "http_streams_open") == 0
    assert value(found, "http_requests_total", method="GET", route="unmatched", status="200") == 1
    whole_s = time.monotonic() - before
    assert value(found, "http_request_seconds_sum", method="GET", route="unmatched") < whole_s / 2


async def test_tool_calls_are_counted_by_outcome(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    found = await figures(client)
    assert value(found, "tool_calls_total", tool="search_voices", outcome="ok") == 1
    assert value(found, "tool_call_seconds_count", tool="create_voice_draft") == 1


async def test_storage_is_told_with_its_memory(client: httpx.AsyncClient) -> None:
    found = await figures(client)
    assert value(found, "storage_up") == 1
    assert value(found, "storage_memory_bytes") > 100_000
    assert 0 < value(found, "storage_answer_seconds") < 5
    assert ("process_resident_memory_bytes", frozenset()) in found


@pytest.mark.slow
async def test_figures_are_there_while_storage_is_not(tmp_path: Path) -> None:
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with served_app(server.url) as client:
            assert value(await figures(client), "storage_up") == 1
            server.kill()
            assert value(await figures(client), "storage_up") == 0
            server.start()
            assert value(await figures(client), "storage_up") == 1


async def test_a_run_is_counted_by_how_it_ended(app: FastAPI, client: httpx.AsyncClient) -> None:
    observer: Telemetry = app.state.observer
    about = {"run_id": "r", "thread_id": "t", "owner": "local"}
    with observer.observe_run("counter", **about):
        assert value(await figures(client), "runs_here") == 1
    with observer.observe_run("counter", **about) as tell:
        tell("interrupted")
    with pytest.raises(Fenced), observer.observe_run("counter", **about):
        raise Fenced("taken over")
    found = await figures(client)
    assert value(found, "runs_here") == 0
    for status in ("success", "interrupted", "handed_over"):
        assert value(found, "runs_ended_total", graph="counter", status=status) == 1
    assert value(found, "run_seconds_count", graph="counter") == 3


async def test_runs_are_counted_where_they_are_carried_out(client: httpx.AsyncClient) -> None:
    await generate_ad(client)

    async def counted() -> bool:
        found = await figures(client)
        return value(found, "runs_ended_total", graph="ad_creation", status="success") == 1

    await eventually(counted, "a run that ended")
    assert value(await figures(client), "run_seconds_count", graph="ad_creation") == 1
    assert value(await figures(client), "runs_here") == 0


async def test_two_applications_of_one_process_count_apart(valkey_url: str) -> None:
    async with served_app(valkey_url) as one:
        await one.get("/api/ads")
        async with served_app(valkey_url) as other:
            found = await figures(other)
        assert value(found, "http_requests_total", method="GET", route="/api/ads", status="200") == 0
        await generate_ad(one)
        found = await figures(one)
        assert value(found, "tool_calls_total", tool="search_voices", outcome="ok") == 1


async def test_every_reply_says_by_which_id_the_log_knows_it(client: httpx.AsyncClient) -> None:
    given = await client.get("/api/ads", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    forged, none = await asyncio.gather(
        client.get("/api/ads", headers={"X-Request-Id": "a b\tc"}), client.get("/nowhere")
    )
    assert forged.headers["x-request-id"] != none.headers["x-request-id"]
    assert {len(reply.headers["x-request-id"]) for reply in (forged, none)} == {16}


async def test_a_bug_is_logged_under_the_requests_id_and_its_owner(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    """X14: from the reply to the line in the log, and to the trace."""

    @app.get("/api/broken")
    @with_policy(API_READ)
    async def broken() -> None:
        raise ZeroDivisionError

    stream, handlers = io.StringIO(), logging.getLogger().handlers[:]
    logs.configure("info", "json", stream)
    try:
        reply = await client.get("/api/broken")
    finally:
        logging.getLogger().handlers[:] = handlers
    assert (reply.status_code, reply.json()["error"]) == (500, "Internal error")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    error, request = (next(one for one in lines if one["level"] == level) for level in ("error", "warning"))
    assert reply.json()["id"] in error["event"]
    assert "ZeroDivisionError" in error["exception"]
    assert error["request_id"] == request["request_id"] == reply.headers["x-request-id"]
    assert (request["status"], request["owner"], request["route"]) == (500, "local", "/api/broken")
    found = await figures(client)
    assert value(found, "http_requests_total", method="GET", route="/api/broken", status="500") == 1


DOCUMENTS = ("docs/operations.md", "deploy/alerts.yml")


async def test_the_documents_name_the_figures_there_are_and_no_others(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    text = (await client.get("/metrics")).text
    there = set(re.findall(r"^# TYPE (callsheet_\w+) (?!counter)", text, re.MULTILINE))
    there |= {
        f"{name}_total"
        for name in re.findall(r"^# TYPE (callsheet_\w+?)(?:_total)? counter", text, re.MULTILINE)
    }
    there = {name for name in there if not name.endswith("_created")}
    named = {name: set(re.findall(r"callsheet_\w+", (ROOT / name).read_text())) for name in DOCUMENTS}
    assert named["docs/operations.md"] == there
    # A histogram is several series.
    assert {name.removesuffix("_bucket") for name in named["deploy/alerts.yml"]} <= there


def test_every_alert_is_one_that_prometheus_could_read() -> None:
    """C57."""
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["expr"].count("(") == rule["expr"].count(")"), rule
        assert rule["labels"]["severity"] in {"critical", "warning"}


async def test_runs_are_counted_over_all_processes(client: httpx.AsyncClient, storage: Storage) -> None:
    """X14: those that wait and those under way, whoever is at them; those that ended are not."""
    runs = Runs(storage)
    for number in range(3):
        await runs.create(RunRequest("t", f"r-{number}", "ad_creation", "local", request_fields(input={})))
    attempt = await runs.claim("t", "r-0")
    assert isinstance(attempt, RunAttempt)
    found = await figures(client)
    assert value(found, "runs_open", status="running") == 1
    assert value(found, "runs_open", status="pending") == 2
    await runs.finish(attempt, RunOutcome("success"))
    found = await figures(client)
    assert value(found, "runs_open", status="running") + value(found, "runs_open", status="pending") == 2


@pytest.mark.slow
async def test_a_worker_without_a_server_can_be_watched(warm_parent: WarmParent, valkey_url: str) -> None:
    """X14: it says whether it is well, and counts the runs it carried out."""
    port = free_port()
    pid = warm_parent.work(valkey_url, 10.0, CONFIG, worker_port=port)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as watching:
            async with run_client(valkey_url, 10.0) as here:
                await (await here.ask(pages=1, pace_s=0.01)).ended_well()
            assert (await watching.get("/ok")).json() == {"ok": True}
            assert (await watching.get("/health")).json()["status"] == "ok"
            assert [(await watching.head(path)).status_code for path in ("/ok", "/health")] == [200, 200]
            assert value(await figures(watching), "runs_ended_total", graph="clerk", status="success") == 1
            assert value(await figures(watching), "tool_calls_total", tool="stamp", outcome="ok") == 1
            strange = await watching.get("/metrics", headers={"Host": "elsewhere.example"})
            assert strange.status_code == 403
        os.kill(pid, signal.SIGTERM)
        await wait_for_exit(pid, 15)
    finally:
        kill_processes(pid)
