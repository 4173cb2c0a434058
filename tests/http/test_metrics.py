"""Metrics for Prometheus: requests, runs, tool calls, streams, storage (C54, X14)."""

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
from tests.engine.fault_processes import CONFIG
from tests.engine.fault_runs import kill_processes, run_client, wait_for_exit

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    async with started_app(valkey_url) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as client:
        yield client


Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_metrics(text: str) -> Metrics:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def read_metrics(client: httpx.AsyncClient) -> Metrics:
    reply = await client.get("/metrics")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    return parse_metrics(reply.text)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.get((f"callsheet_{name}", frozenset(labels.items())), 0.0)


async def test_requests_are_counted_and_timed_by_route_and_status(client: httpx.AsyncClient) -> None:
    for path in ("/api/ads/a%2Fb", "/api/ads/none", "/api/ads", "/nowhere/1", "/nowhere/2"):
        await client.get(path)
    await client.post("/api/ai/generate", content=b"{")
    metrics = await read_metrics(client)
    total = "http_requests_total"
    assert value(metrics, total, method="GET", route="/api/ads/{ad_id}", status="404") == 2
    assert value(metrics, total, method="GET", route="/api/ads", status="200") == 1
    assert value(metrics, total, method="GET", route="unmatched", status="404") == 2
    assert value(metrics, total, method="POST", route="/api/ai/generate", status="400") == 1
    assert value(metrics, "http_request_seconds_count", method="GET", route="/api/ads/{ad_id}") == 2
    assert 0 < value(metrics, "http_request_seconds_sum", method="GET", route="/api/ads/{ad_id}") < 30
    assert not any("nowhere" in str(key) for key in metrics)


async def test_requests_that_middleware_refuses_are_counted(client: httpx.AsyncClient) -> None:
    await client.get("/api/ads", headers={"Origin": "https://evil.example"})
    await client.request("BREW", "/api/ads")
    metrics = await read_metrics(client)
    assert value(metrics, "http_requests_total", method="GET", route="/api/ads", status="403") == 1
    assert value(metrics, "http_requests_total", method="other", route="/api/ads", status="405") == 1


async def test_a_stream_counts_as_open_until_it_ends_and_is_timed_until_its_first_byte(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    is_open, may_end, start_s = asyncio.Event(), asyncio.Event(), time.monotonic()

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        is_open.set()
        await may_end.wait()
        await send({"type": "http.response.body"})

    async def send(_message: Message) -> None: ...

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/s", "headers": []}
    request = asyncio.create_task(TelemetryMiddleware(streaming, app.state.observer)(scope, receive, send))
    await is_open.wait()
    assert value(await read_metrics(client), "http_streams_open") == 1
    may_end.set()
    await request
    metrics = await read_metrics(client)
    assert value(metrics, "http_streams_open") == 0
    assert value(metrics, "http_requests_total", method="GET", route="unmatched", status="200") == 1
    duration_s = time.monotonic() - start_s
    assert value(metrics, "http_request_seconds_sum", method="GET", route="unmatched") < duration_s / 2


async def test_tool_calls_are_counted_by_outcome(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    metrics = await read_metrics(client)
    assert value(metrics, "tool_calls_total", tool="search_voices", outcome="ok") == 1
    assert value(metrics, "tool_call_seconds_count", tool="create_voice_draft") == 1


async def test_storage_metrics_have_availability_memory_and_latency(client: httpx.AsyncClient) -> None:
    metrics = await read_metrics(client)
    assert value(metrics, "storage_up") == 1
    assert value(metrics, "storage_memory_bytes") > 100_000
    assert 0 < value(metrics, "storage_answer_seconds") < 5
    assert ("process_resident_memory_bytes", frozenset()) in metrics


@pytest.mark.slow
async def test_metrics_are_served_during_an_outage_of_storage(tmp_path: Path) -> None:
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with served_app(server.url) as client:
            assert value(await read_metrics(client), "storage_up") == 1
            server.kill()
            assert value(await read_metrics(client), "storage_up") == 0
            server.start()
            assert value(await read_metrics(client), "storage_up") == 1


async def test_runs_are_counted_by_their_final_status(app: FastAPI, client: httpx.AsyncClient) -> None:
    observer: Telemetry = app.state.observer
    run = {"run_id": "r", "thread_id": "t", "owner": "local"}
    with observer.observe_run("counter", **run):
        assert value(await read_metrics(client), "runs_here") == 1
    with observer.observe_run("counter", **run) as set_status:
        set_status("interrupted")
    with pytest.raises(Fenced), observer.observe_run("counter", **run):
        raise Fenced("taken over")
    metrics = await read_metrics(client)
    assert value(metrics, "runs_here") == 0
    for status in ("success", "interrupted", "handed_over"):
        assert value(metrics, "runs_ended_total", graph="counter", status=status) == 1
    assert value(metrics, "run_seconds_count", graph="counter") == 3


async def test_runs_are_counted_by_the_process_that_executes_them(client: httpx.AsyncClient) -> None:
    await generate_ad(client)

    async def is_counted() -> bool:
        metrics = await read_metrics(client)
        return value(metrics, "runs_ended_total", graph="ad_creation", status="success") == 1

    await eventually(is_counted, "a run that ended")
    assert value(await read_metrics(client), "run_seconds_count", graph="ad_creation") == 1
    assert value(await read_metrics(client), "runs_here") == 0


async def test_two_applications_in_one_process_have_separate_metrics(valkey_url: str, tmp_path: Path) -> None:
    async with served_app(valkey_url, data_dir=tmp_path / "one") as one:
        await one.get("/api/ads")
        async with served_app(valkey_url, data_dir=tmp_path / "other") as other:
            metrics = await read_metrics(other)
        assert value(metrics, "http_requests_total", method="GET", route="/api/ads", status="200") == 0
        await generate_ad(one)
        metrics = await read_metrics(one)
        assert value(metrics, "tool_calls_total", tool="search_voices", outcome="ok") == 1


async def test_every_reply_has_the_request_id_of_the_log(client: httpx.AsyncClient) -> None:
    valid = await client.get("/api/ads", headers={"X-Request-Id": "abc-1"})
    assert valid.headers["x-request-id"] == "abc-1"
    forged, missing = await asyncio.gather(
        client.get("/api/ads", headers={"X-Request-Id": "a b\tc"}), client.get("/nowhere")
    )
    assert forged.headers["x-request-id"] != missing.headers["x-request-id"]
    assert {len(reply.headers["x-request-id"]) for reply in (forged, missing)} == {16}


async def test_an_internal_error_is_logged_with_the_request_id_and_the_owner(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    """X14: the id in the reply leads to the log line and its traceback."""

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
    error, request = (
        next(line for line in lines if line["level"] == level) for level in ("error", "warning")
    )
    assert reply.json()["id"] in error["event"]
    assert "ZeroDivisionError" in error["exception"]
    assert error["request_id"] == request["request_id"] == reply.headers["x-request-id"]
    assert (request["status"], request["owner"], request["route"]) == (500, "local", "/api/broken")
    metrics = await read_metrics(client)
    assert value(metrics, "http_requests_total", method="GET", route="/api/broken", status="500") == 1


DOCUMENTS = ("docs/operations.md", "deploy/alerts.yml")


async def test_the_documents_name_exactly_the_exported_metrics(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    text = (await client.get("/metrics")).text
    exported = set(re.findall(r"^# TYPE (callsheet_\w+) (?!counter)", text, re.MULTILINE))
    exported |= {
        f"{name}_total"
        for name in re.findall(r"^# TYPE (callsheet_\w+?)(?:_total)? counter", text, re.MULTILINE)
    }
    exported = {name for name in exported if not name.endswith("_created")}
    documented = {name: set(re.findall(r"callsheet_\w+", (ROOT / name).read_text())) for name in DOCUMENTS}
    assert documented["docs/operations.md"] == exported
    # A histogram is several series.
    assert {name.removesuffix("_bucket") for name in documented["deploy/alerts.yml"]} <= exported


def test_every_alert_has_the_fields_that_prometheus_needs() -> None:
    """C57."""
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["expr"].count("(") == rule["expr"].count(")"), rule
        assert rule["labels"]["severity"] in {"critical", "warning"}


async def test_open_runs_are_counted_over_all_processes(client: httpx.AsyncClient, storage: Storage) -> None:
    """X14: pending and running ones of all processes, without those that ended."""
    runs = Runs(storage)
    for number in range(3):
        await runs.create(RunRequest("t", f"r-{number}", "ad_creation", "local", request_fields(input={})))
    attempt = await runs.claim("t", "r-0")
    assert isinstance(attempt, RunAttempt)
    metrics = await read_metrics(client)
    assert value(metrics, "runs_open", status="running") == 1
    assert value(metrics, "runs_open", status="pending") == 2
    await runs.finish(attempt, RunOutcome("success"))
    metrics = await read_metrics(client)
    assert value(metrics, "runs_open", status="running") + value(metrics, "runs_open", status="pending") == 2


@pytest.mark.slow
async def test_a_worker_serves_health_and_metrics(warm_parent: WarmParent, valkey_url: str) -> None:
    """X14: it reports its health and counts the runs that it executed."""
    port = free_port()
    pid = warm_parent.work(valkey_url, 10.0, CONFIG, worker_port=port)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            async with run_client(valkey_url, 10.0) as runs:
                await (await runs.submit(pages=1, pace_s=0.01)).check_success()
            assert (await client.get("/ok")).json() == {"ok": True}
            assert (await client.get("/health")).json()["status"] == "ok"
            assert [(await client.head(path)).status_code for path in ("/ok", "/health")] == [200, 200]
            assert value(await read_metrics(client), "runs_ended_total", graph="clerk", status="success") == 1
            assert value(await read_metrics(client), "tool_calls_total", tool="stamp", outcome="ok") == 1
            foreign = await client.get("/metrics", headers={"Host": "elsewhere.example"})
            assert foreign.status_code == 403
        os.kill(pid, signal.SIGTERM)
        await wait_for_exit(pid, 15)
    finally:
        kill_processes(pid)


async def test_the_time_to_the_first_words_and_the_lag_of_the_event_loop_are_measured(
    client: httpx.AsyncClient,
) -> None:
    thread = (await client.post("/threads", json={"graph_id": "ad_creation"})).json()["thread_id"]
    words = {"messages": [{"role": "user", "content": "Recite Hamlet backwards"}]}
    body = {"assistant_id": "ad_creation", "input": words, "stream_mode": ["messages-tuple"]}
    assert (await client.post(f"/threads/{thread}/runs/wait", json=body)).status_code == 200
    metrics = await read_metrics(client)
    assert value(metrics, "run_first_token_seconds_count", graph="ad_creation") == 1

    async def has_lag() -> bool:
        return value(await read_metrics(client), "event_loop_lag_seconds_count") >= 1

    await eventually(has_lag, "the lag is measured a few times a second")
