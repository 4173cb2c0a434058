"""Streams at their edges: odd ids, an end just now, outages, revoked keys, repeated requests (X10)."""

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
from callsheet.server.artefacts.conversation_stream import StreamPosition, Turn
from callsheet.server.artefacts.turn_events import TurnTranslator
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

GREATEST = f"{2**64 - 1}-{2**64 - 1}"
PLACE = "/api/conversations/ad-1/events"
QUESTION: dict[str, Any] = {"message": "Show campaigns of Delta", "provider": "offline"}
LESSON: dict[str, Any] = {"messages": user(material("photosynthesis").text), "provider": "offline"}
DELETION: dict[str, Any] = {"message": "delete the hero", "provider": "offline"}
APPROVAL: dict[str, Any] = {"decisions": [{"type": "approve"}], "provider": "offline"}


@pytest.fixture
async def at(valkey_url: str) -> AsyncIterator[StreamReader]:
    async with started_app(valkey_url, heartbeat_s=0.1) as app, stream_reader(app) as one:
        await one.http.get("/info")
        yield one


class Late:
    """The runs of a process whose first reading of a record is as old as the run."""

    def __init__(self, runs: Any) -> None:
        self._runs, self._read = runs, 0

    async def get(self, thread: str, run: str) -> Run:
        self._read += 1
        record: Run = await self._runs.get(thread, run)
        return replace(record, status="running") if self._read == 1 else record


async def test_a_run_that_ends_while_it_is_joined_is_read_from_its_beginning(at: StreamReader) -> None:
    whole = await at.read("POST", "/api/ai/generate", json=GENERATE)
    ctx = at.context
    [run] = (await at.http.get("/threads/ad-1/runs")).json()
    late = SimpleNamespace(worker=SimpleNamespace(runs=Late(ctx.worker.runs), events=ctx.worker.events))
    start = await conversation_stream.start_of_turn(late, "ad-1", run["run_id"])  # type: ignore[arg-type]
    frames = await at.read("GET", PLACE, "0", len(whole))
    assert StreamPosition(start).order < frames[0].order


async def test_a_turn_whose_conversation_is_deleted_ends_with_an_error(at: StreamReader) -> None:
    await generate_ad(at.http)
    [run] = (await at.http.get("/threads/ad-1/runs")).json()
    thread = await _thread(at)
    await at.http.delete("/threads/ad-1")
    turn = Turn("ad-1", run["run_id"], "5-0", open=False)
    frames = conversation_stream.follow_turn(
        at.context, turn, StreamPosition("5-0"), TurnTranslator(at.context, thread)
    )
    [frame] = [one async for one in frames if one]
    assert (frame.name, frame.data["status"], frame.position.event) == ("error", 409, "5-1")


async def _thread(at: StreamReader) -> Any:
    return await threads.get(at.context.storage, "ad-1", "local")


async def test_a_conversation_goes_on_after_stored_events_alone(at: StreamReader) -> None:
    """Whoever names another event would miss some without knowing."""
    await generate_ad(at.http)
    assert not is_event_id(GREATEST)
    for last, status in ((f"{GREATEST}.0", 400), ("99999999999999-0.0", 404), ("1-1.0", 404)):
        reply = await at.http.get(PLACE, headers={"Last-Event-ID": last})
        assert reply.status_code == status, reply.text
    wire = await at.http.get("/threads/ad-1/stream", headers={"Last-Event-ID": GREATEST})
    assert wire.status_code == 422


async def test_an_id_resumes_whatever_is_accepted(at: StreamReader) -> None:
    """A client that leaves `Accept` out, or spells it in capitals, starts nothing by an id either."""
    whole = await at.read("POST", "/api/ai/generate", json=GENERATE)
    for headers in ({}, {"Accept": "Text/Event-Stream"}):
        reply = await at.http.post(
            "/api/ai/generate", json=GENERATE, headers={**headers, "Last-Event-ID": str(whole[0].id)}
        )
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        assert reply.text.count("event: ") == len(whole) - 1
    assert len((await at.http.get("/threads/ad-1/runs")).json()) == 1


class State(TypedDict):
    """A number."""

    x: int


def _words(state: State) -> State:
    write = get_stream_writer()
    write("half way")
    write({"status": "completed", "tool": "x", "preview": None})
    return {"x": state["x"] + 1}


async def test_custom_events_of_any_shape_are_streamed_or_left_out(valkey_url: str) -> None:
    builder = StateGraph(State)
    builder.add_node("words", _words)
    builder.add_edge(START, "words")
    builder.add_edge("words", END)
    app = create_app(Settings(redis_url=valkey_url), {"mine": builder.compile()})
    async with app.router.lifespan_context(app), stream_reader(app) as at:
        thread = (await at.http.post("/threads", json={})).json()["thread_id"]
        body = {"assistant_id": "mine", "input": {"x": 0}, "stream_mode": ["custom"]}
        await at.http.post(f"/threads/{thread}/runs/wait", json=body)
        told = await at.read("GET", f"/api/conversations/{thread}/events", "0", 2)
    assert [one.name for one in told] == ["step", "result"]


async def test_a_stream_ends_with_its_revoked_key(valkey_url: str) -> None:
    async with started_app(valkey_url, auth=("keys",), heartbeat_s=0.1) as app, stream_reader(app) as at:
        await at.http.get("/info")
        storage = app.state.context.storage
        headers = bearer(await create_key(storage, "ana"))
        await at.http.post("/api/ai/generate", json={**GENERATE, "conversationId": "t"}, headers=headers)
        async with at.open("GET", "/api/conversations/t/events", headers=headers) as (_, events):
            assert await anext(events) is None
            [known] = await api_keys.list_keys(storage)
            await api_keys.revoke(storage, known.id)
            told = [one async for one in events if one]
    assert [(one.name, one.data["status"], one.id) for one in told] == [("error", 401, None)]


@pytest.mark.slow
@pytest.mark.fault
async def test_a_stream_says_that_storage_is_away(tmp_path: Path) -> None:
    with redis_server.running_redis(watchdog.binary(), tmp_path) as server:
        async with (
            started_app(server.url, heartbeat_s=0.1, storage_patience_s=0.5) as app,
            stream_reader(app) as at,
        ):
            await generate_ad(at.http)
            async with at.open("GET", PLACE, "0") as (_, events):
                last = await anext(events)
                server.kill()
                told = [one async for one in events if one]
            server.start()
    assert last
    assert (told[-1].name, told[-1].data["status"], told[-1].id) == ("error", 503, None)


@pytest.mark.parametrize("path", ["/api/chat", TOOLS])
async def test_the_first_request_of_a_conversation_is_repeated_by_its_key(
    at: StreamReader, path: str
) -> None:
    """C-R9: also where its reply, and with it the conversation's id, was lost."""
    body = QUESTION if path == "/api/chat" else LESSON
    headers = {"Idempotency-Key": "k"}
    replies = [await at.http.post(path, json=body, headers=headers) for _ in range(2)]
    assert replies[0].json() == replies[1].json()
    other = await at.http.post(path, json=body, headers={"Idempotency-Key": "l"})
    name = "conversationId" if path == "/api/chat" else "sessionId"
    assert other.json()[name] != replies[0].json()[name]
    wrong = await at.http.post(path, json={**body, "provider": "openai"}, headers=headers)
    assert wrong.status_code == 409
    whole = await at.read("POST", path, json=body, headers={"Idempotency-Key": "m"})
    rest = await at.read("POST", path, whole[0].id, json=body, headers={"Idempotency-Key": "m"})
    assert rest == whole[1:]
    async with at.open("POST", path, whole[0].id, json=body) as (reply, _):
        assert reply.status_code == 404
        assert "does not name" in (await reply.aread()).decode()


@pytest.mark.parametrize("answer", ["yes in words", "a decision"])
async def test_an_answer_is_repeated_by_its_key(at: StreamReader, answer: str) -> None:
    """A client that lost the reply to an approval sends it again."""
    await at.http.post("/api/pages/shop/chat", json=DELETION)
    path, body = "/api/pages/shop/decisions", APPROVAL
    if answer == "yes in words":
        path, body = "/api/pages/shop/chat", {"message": "yes", "provider": "offline"}
    replies = [await at.http.post(path, json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [one.status_code for one in replies] == [200, 200]
    assert replies[0].json() == replies[1].json()
    # The next question is not answered by it.
    await at.http.post("/api/pages/shop/chat", json={**DELETION, "message": "delete the features section"})
    again = await at.http.post(path, json=body, headers={"Idempotency-Key": "k"})
    assert again.json() == replies[0].json()
    assert len((await at.http.get("/threads/shop/runs")).json()) == 3


async def test_a_question_that_an_unkeyed_decision_answered_waits_no_more(at: StreamReader) -> None:
    await at.http.post("/api/pages/shop/chat", json=DELETION)
    statuses = [
        (await at.http.post("/api/pages/shop/decisions", json=APPROVAL)).status_code for _ in range(2)
    ]
    assert statuses == [200, 409]


async def test_progress_after_its_end_ends_at_once(at: StreamReader) -> None:
    """D-R7: browsers open a stream that has ended again, with its last id."""
    await at.http.post("/api/projects", json={"projectId": "p", "name": "x", "scenes": [{"name": "one"}]})
    body = {"message": "Add a scene about the sea", "provider": "offline"}
    started = (await at.http.post("/api/projects/p/executions", json=body)).json()
    path = f"/api/execution-progress/{started['executionId']}"
    whole = await at.read("GET", path)
    assert whole[-1].name == "execution-complete"
    async with asyncio.timeout(5):
        assert await at.read("GET", path, whole[-1].id) == []
    assert await at.read("GET", path, "-1") == whole
    await eventually(lambda: _idle(at), "the end of the run")


async def _idle(at: StreamReader) -> bool:
    return '"status":"busy"' not in (await at.http.post("/threads/search", json={})).text
