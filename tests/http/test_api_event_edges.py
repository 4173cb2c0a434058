"""Edge cases of streams: odd ids, runs that just ended, outages, revoked keys, repeated requests (X10)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from callsheet.server.app import create_app
from callsheet.server.artefacts import conversation_stream
from callsheet.server.artefacts.conversation_routes import TurnTranslator
from callsheet.server.artefacts.conversation_stream import StreamPosition, Turn
from callsheet.server.settings.settings import Settings
from callsheet.storage import api_keys
from callsheet.storage.embedded import watchdog
from callsheet.storage.runs.events import is_event_id
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from tests.doubles import redis_server
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.live_client import StreamReader, stream_reader
from tests.doubles.served import GENERATE, generate_ad, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import TOOLS, user
from tests.lessons.lesson_material import material

GREATEST_ID = f"{2**64 - 1}-{2**64 - 1}"
EVENTS_PATH = "/api/conversations/ad-1/events"
QUESTION: dict[str, Any] = {"message": "Show campaigns of Delta", "provider": "offline"}
LESSON: dict[str, Any] = {"messages": user(material("photosynthesis").text), "provider": "offline"}
DELETION: dict[str, Any] = {"message": "delete the hero", "provider": "offline"}
APPROVAL: dict[str, Any] = {"decisions": [{"type": "approve"}], "provider": "offline"}


@pytest.fixture
async def reader(valkey_url: str) -> AsyncIterator[StreamReader]:
    async with started_app(valkey_url, heartbeat_s=0.1) as app, stream_reader(app) as reader:
        await reader.http.get("/info")
        yield reader


class StaleRuns:
    """Runs of which the first read is stale: the run still looks as if it were running."""

    def __init__(self, runs: Any) -> None:
        self._runs, self._reads = runs, 0

    async def get(self, thread_id: str, run_id: str) -> Run:
        self._reads += 1
        record: Run = await self._runs.get(thread_id, run_id)
        return replace(record, status="running") if self._reads == 1 else record


async def test_a_stream_that_joins_a_run_that_just_ended_starts_at_its_first_event(
    reader: StreamReader,
) -> None:
    events = await reader.read("POST", "/api/ai/generate", json=GENERATE)
    real = reader.context
    [run] = (await reader.http.get("/threads/ad-1/runs")).json()
    context = SimpleNamespace(
        worker=SimpleNamespace(runs=StaleRuns(real.worker.runs), events=real.worker.events)
    )
    start = await conversation_stream.start_of_turn(context, "ad-1", run["run_id"])  # type: ignore[arg-type]
    frames = await reader.read("GET", EVENTS_PATH, "0", len(events))
    assert StreamPosition(start).order < frames[0].order


async def test_the_stream_of_a_deleted_conversation_ends_with_an_error(reader: StreamReader) -> None:
    await generate_ad(reader.http)
    [run] = (await reader.http.get("/threads/ad-1/runs")).json()
    thread = await _thread(reader)
    await reader.http.delete("/threads/ad-1")
    turn = Turn("ad-1", run["run_id"], "5-0", open=False)
    frames = conversation_stream.follow_turn(
        reader.context, turn, StreamPosition("5-0"), TurnTranslator(reader.context, thread)
    )
    [frame] = [frame async for frame in frames if frame]
    assert (frame.name, frame.data["status"], frame.position.event) == ("error", 409, "5-1")


async def _thread(reader: StreamReader) -> Any:
    return await threads.get(reader.context.storage, "ad-1", "local")


async def test_resuming_after_an_event_that_is_not_stored_is_refused(reader: StreamReader) -> None:
    """Otherwise the client would miss events without noticing."""
    await generate_ad(reader.http)
    assert not is_event_id(GREATEST_ID)
    for last, status in ((f"{GREATEST_ID}.0", 400), ("99999999999999-0.0", 404), ("1-1.0", 404)):
        reply = await reader.http.get(EVENTS_PATH, headers={"Last-Event-ID": last})
        assert reply.status_code == status, reply.text
    wire = await reader.http.get("/threads/ad-1/stream", headers={"Last-Event-ID": GREATEST_ID})
    assert wire.status_code == 422


async def test_a_request_with_last_event_id_resumes_without_an_accept_header(reader: StreamReader) -> None:
    """An `Accept` header that is missing or in capitals starts no second run."""
    events = await reader.read("POST", "/api/ai/generate", json=GENERATE)
    for headers in ({}, {"Accept": "Text/Event-Stream"}):
        reply = await reader.http.post(
            "/api/ai/generate", json=GENERATE, headers={**headers, "Last-Event-ID": str(events[0].id)}
        )
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        assert reply.text.count("event: ") == len(events) - 1
    assert len((await reader.http.get("/threads/ad-1/runs")).json()) == 1


class NumberState(TypedDict):
    """A number."""

    x: int


def _write_custom_events(state: NumberState) -> NumberState:
    write = get_stream_writer()
    write("half way")
    write({"status": "completed", "tool": "x", "preview": None})
    return {"x": state["x"] + 1}


async def test_only_custom_events_that_are_objects_are_streamed(valkey_url: str) -> None:
    builder = StateGraph(NumberState)
    builder.add_node("words", _write_custom_events)
    builder.add_edge(START, "words")
    builder.add_edge("words", END)
    app = create_app(Settings(redis_url=valkey_url), {"mine": builder.compile()})
    async with app.router.lifespan_context(app), stream_reader(app) as reader:
        thread = (await reader.http.post("/threads", json={})).json()["thread_id"]
        body = {"assistant_id": "mine", "input": {"x": 0}, "stream_mode": ["custom"]}
        await reader.http.post(f"/threads/{thread}/runs/wait", json=body)
        events = await reader.read("GET", f"/api/conversations/{thread}/events", "0", 2)
    assert [event.name for event in events] == ["step", "result"]


async def test_a_stream_ends_with_401_once_its_key_is_revoked(valkey_url: str) -> None:
    async with started_app(valkey_url, auth=("keys",), heartbeat_s=0.1) as app, stream_reader(app) as reader:
        await reader.http.get("/info")
        storage = app.state.context.storage
        headers = bearer(await create_key(storage, "ana"))
        await reader.http.post("/api/ai/generate", json={**GENERATE, "conversationId": "t"}, headers=headers)
        async with reader.open("GET", "/api/conversations/t/events", headers=headers) as (_, events):
            assert await anext(events) is None
            [key] = await api_keys.list_keys(storage)
            await api_keys.revoke(storage, key.id)
            rest = [event async for event in events if event]
    assert [(event.name, event.data["status"], event.id) for event in rest] == [("error", 401, None)]


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.timeout(120)
async def test_a_stream_ends_with_503_during_an_outage_of_storage(tmp_path: Path) -> None:
    with redis_server.running_redis(watchdog.binary(), tmp_path) as server:
        async with (
            started_app(server.url, heartbeat_s=0.1, storage_patience_s=0.5) as app,
            stream_reader(app) as reader,
        ):
            await generate_ad(reader.http)
            async with reader.open("GET", EVENTS_PATH, "0") as (_, events):
                last = await anext(events)
                server.kill()
                rest = [event async for event in events if event]
            server.start()
    assert last
    assert (rest[-1].name, rest[-1].data["status"], rest[-1].id) == ("error", 503, None)


@pytest.mark.parametrize("path", ["/api/chat", TOOLS])
async def test_a_first_request_with_the_same_idempotency_key_gets_the_same_conversation(
    reader: StreamReader, path: str
) -> None:
    """C-R9: also if the reply with the conversation's id was lost."""
    body = QUESTION if path == "/api/chat" else LESSON
    headers = {"Idempotency-Key": "k"}
    replies = [await reader.http.post(path, json=body, headers=headers) for _ in range(2)]
    assert replies[0].json() == replies[1].json()
    other = await reader.http.post(path, json=body, headers={"Idempotency-Key": "l"})
    name = "conversationId" if path == "/api/chat" else "sessionId"
    assert other.json()[name] != replies[0].json()[name]
    conflict = await reader.http.post(path, json={**body, "provider": "openai"}, headers=headers)
    assert conflict.status_code == 409
    events = await reader.read("POST", path, json=body, headers={"Idempotency-Key": "m"})
    rest = await reader.read("POST", path, events[0].id, json=body, headers={"Idempotency-Key": "m"})
    assert rest == events[1:]
    async with reader.open("POST", path, events[0].id, json=body) as (reply, _):
        assert reply.status_code == 404
        assert "does not name" in (await reply.aread()).decode()


@pytest.mark.parametrize("answer", ["yes in words", "a decision"])
async def test_an_answer_with_the_same_idempotency_key_gets_the_same_reply(
    reader: StreamReader, answer: str
) -> None:
    """A client that lost the reply to an approval sends it again."""
    await reader.http.post("/api/pages/shop/chat", json=DELETION)
    path, body = "/api/pages/shop/decisions", APPROVAL
    if answer == "yes in words":
        path, body = "/api/pages/shop/chat", {"message": "yes", "provider": "offline"}
    replies = [await reader.http.post(path, json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert replies[0].json() == replies[1].json()
    # The repeated answer does not answer the next question.
    await reader.http.post(
        "/api/pages/shop/chat", json={**DELETION, "message": "delete the features section"}
    )
    repeated = await reader.http.post(path, json=body, headers={"Idempotency-Key": "k"})
    assert repeated.json() == replies[0].json()
    assert len((await reader.http.get("/threads/shop/runs")).json()) == 3


async def test_a_second_decision_without_an_idempotency_key_is_409(reader: StreamReader) -> None:
    await reader.http.post("/api/pages/shop/chat", json=DELETION)
    statuses = [
        (await reader.http.post("/api/pages/shop/decisions", json=APPROVAL)).status_code for _ in range(2)
    ]
    assert statuses == [200, 409]


async def test_a_progress_stream_resumed_after_its_last_event_ends_at_once(reader: StreamReader) -> None:
    """D-R7: browsers reconnect to a stream that has ended, with its last id."""
    await reader.http.post("/api/projects", json={"projectId": "p", "name": "x", "scenes": [{"name": "one"}]})
    body = {"message": "Add a scene about the sea", "provider": "offline"}
    started = (await reader.http.post("/api/projects/p/executions", json=body)).json()
    path = f"/api/execution-progress/{started['executionId']}"
    events = await reader.read("GET", path)
    assert events[-1].name == "execution-complete"
    async with asyncio.timeout(20):
        assert await reader.read("GET", path, events[-1].id) == []
    assert await reader.read("GET", path, "-1") == events
    await eventually(lambda: _is_idle(reader), "the end of the run")


async def _is_idle(reader: StreamReader) -> bool:
    return '"status":"busy"' not in (await reader.http.post("/threads/search", json={})).text
