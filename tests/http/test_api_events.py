"""Event streams of turns over REST: immediate, kept alive, resumable at any server (A80, A82, X10)."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.storage.redis import keys
from tests.doubles.auth_cases import create_key
from tests.doubles.chat_double import ChatDouble, Say, Silence
from tests.doubles.command import start_server
from tests.doubles.killing import WarmParent
from tests.doubles.live_client import ReadEvent, StreamReader, stream_reader
from tests.doubles.served import BRIEF, GENERATE, chat_about_ad, generate_ad, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import TOOLS, LessonClient, user
from tests.lessons.lesson_material import material

CHAT: dict[str, Any] = {"message": "Make the music more upbeat", "provider": "offline"}


@dataclass(frozen=True)
class StreamedRequest:
    """A request whose reply is a stream of events."""

    path: str
    body: dict[str, Any]
    conversation: str
    headers: dict[str, str]
    last_event: str
    """Name of the stream's last event."""

    async def read(self, reader: StreamReader, last_id: str | None = None, most: int = 0) -> list[ReadEvent]:
        """Send the request to a server and return the events of its stream."""
        return await reader.read("POST", self.path, last_id, most, json=self.body, headers=self.headers)


GENERATED = StreamedRequest("/api/ai/generate", {**GENERATE}, "ad-1", {}, "result")
REQUESTS = {
    "an ad from a brief": GENERATED,
    "a chat about an ad": StreamedRequest("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result"),
    "a lesson": StreamedRequest(
        TOOLS,
        {"messages": user(material("photosynthesis").text), "provider": "offline"},
        "",
        {},
        "result",
    ),
    "a page": StreamedRequest(
        "/api/pages/shop/chat",
        {"message": "make the headline underlined", "provider": "offline"},
        "shop",
        {},
        "aiResponseChunk",
    ),
}


@pytest.fixture
async def two_servers(valkey_url: str) -> AsyncIterator[tuple[StreamReader, StreamReader]]:
    """Two servers that share one storage."""
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(started_app(valkey_url, stop_grace_s=0)) for _ in range(2)]
        first, second = [await stack.enter_async_context(stream_reader(app)) for app in apps]
        yield first, second


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint that answers requests for the provider `openai`."""
    with ChatDouble() as endpoint:
        for name, value in endpoint.environ.items():
            monkeypatch.setenv(name, value)
        yield endpoint


def ids_increase(events: list[ReadEvent]) -> bool:
    ids = [event.order for event in events]
    return ids == sorted(set(ids))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "an ad from a brief" else ()) for name in REQUESTS],
)
async def test_a_stream_can_be_resumed_after_any_event_at_another_server(
    two_servers: tuple[StreamReader, StreamReader], name: str
) -> None:
    """X10: by the same request and by the conversation's stream, also after the run has ended."""
    first, second = two_servers
    request = REQUESTS[name]
    if name == "a chat about an ad":
        await generate_ad(first.http)
    if name == "a lesson":
        session = await LessonClient(first.http).start_session()
        request = replace(request, conversation=session, headers={"X-Session-Id": session})
    events = await request.read(first, most=1)
    events += await request.read(second, events[-1].id)
    assert ids_increase(events)
    assert len(events) > 4
    assert events[-1].name == request.last_event
    path = f"/api/conversations/{request.conversation}/events"
    for cut, event in enumerate(events, 1):
        rest = events[cut:]
        assert await request.read(second, event.id) == rest
        if rest:
            assert await first.read("GET", path, event.id, len(rest)) == rest
    runs = (await first.http.get(f"/threads/{request.conversation}/runs")).json()
    assert len(runs) == (2 if name in {"a lesson", "a chat about an ad"} else 1), "resuming started no run"


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.timeout(120)
async def test_a_stream_continues_at_another_server_after_its_own_was_killed(
    warm_parent: WarmParent, tmp_path: Path, vendor: ChatDouble
) -> None:
    """X10: real processes; the other server takes over the run, and the same request resumes the stream."""
    body = {"message": "hello?", "provider": "openai"}
    request = StreamedRequest("/api/ads/ad-1/chat", body, "ad-1", {}, "result")
    vendor.script(Say("First I fall silent.", break_off="stall"), Say("Now I answer."))
    servers = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        servers.append(
            start_server(
                tmp_path / name, tmp_path / "data", warm_parent, CALLSHEET_LEASE_S="1", **vendor.environ
            )
        )
    first, second = servers
    try:
        async with httpx.AsyncClient(base_url=first.url, timeout=30) as http:
            await generate_ad(http)
            events = await request.read(StreamReader(http), most=1)
            first.process.send_signal(signal.SIGKILL)
        async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
            events += await request.read(StreamReader(http), events[-1].id)
            path = "/api/conversations/ad-1/events"
            rest = await StreamReader(http).read("GET", path, events[0].id, len(events) - 1)
    finally:
        second.process.send_signal(signal.SIGKILL)
    assert (events[-1].name, events[-1].data["message"]) == (
        "result",
        "Now I answer.\n\nNothing was changed.",
    )
    assert ids_increase(events)
    assert events[1:] == rest


@pytest.mark.slow
async def test_a_stream_can_be_resumed_at_two_servers_while_a_third_executes_the_run(valkey_url: str) -> None:
    """X10: the reader alternates between two servers that execute no runs."""
    async with AsyncExitStack() as stack:
        idle = [
            await stack.enter_async_context(started_app(valkey_url, carry_runs=False, heartbeat_s=0.02))
            for _ in range(2)
        ]
        readers = [await stack.enter_async_context(stream_reader(app)) for app in idle]
        await stack.enter_async_context(started_app(valkey_url))
        async with readers[0].open("POST", GENERATED.path, json=GENERATED.body) as (reply, _):
            assert reply.headers["Content-Location"] == "/api/conversations/ad-1/events"
        events: list[ReadEvent] = []
        while not events or events[-1].name != "result":
            last_id = events[-1].id if events else None
            events += await GENERATED.read(readers[len(events) % 2], last_id, most=3)
        assert ids_increase(events)
        stored = await readers[0].read("GET", "/api/conversations/ad-1/events", "0", len(events))
        assert events == stored


async def test_text_is_streamed_while_the_model_still_answers(
    two_servers: tuple[StreamReader, StreamReader], vendor: ChatDouble
) -> None:
    """A80, A82: token by token; the run continues without its reader."""
    first, second = two_servers
    await generate_ad(first.http)
    look = ("c1", "get_current_state", "{}")
    vendor.script(Say("First I look.", calls=[look]), Say("Then I fall silent.", break_off="stall"))
    request = StreamedRequest(
        "/api/ads/ad-1/chat", {"message": "hello?", "provider": "openai"}, "ad-1", {}, ""
    )
    received: list[ReadEvent] = []
    async with first.open("POST", request.path, json=request.body) as (_, events):
        async for event in events:
            received += [event] if event else []
            if event and event.name == "text" and event.data["content"].startswith("Then"):
                break
    texts = [event.data["content"] for event in received if event.name == "text"]
    assert "".join(texts).startswith("First I look.Then")
    assert len(texts) > 3
    assert (await first.http.get("/threads/ad-1/runs")).json()[0]["status"] == "running"
    joined = await second.read("GET", "/api/conversations/ad-1/events", None, len(received))
    assert joined == received, "a reader without an id starts at the running turn"


async def test_an_equal_request_joins_the_same_run_until_its_result_was_delivered(
    two_servers: tuple[StreamReader, StreamReader],
) -> None:
    """A-R10: a client without the result gets all of that run; one that has it starts another run."""
    first, second = two_servers
    generated = await GENERATED.read(first)
    await eventually(lambda: _is_delivered(first), "the reply is marked as delivered")
    request = StreamedRequest("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result")
    partial = await request.read(first, most=1)
    async with second.open("POST", request.path, json=CHAT) as (_, events):
        complete = [event async for event in _up_to_result(events)]
    assert complete[: len(partial)] == partial
    assert await request.read(first) == complete, (
        "the second reader left after the result but before the end of the stream"
    )
    await eventually(lambda: _is_delivered(first), "the reply is marked as delivered")
    assert (await request.read(first))[-1].id != complete[-1].id
    assert len((await first.http.get("/threads/ad-1/runs")).json()) == 3
    assert generated[-1].name == "result"


async def _up_to_result(events: AsyncIterator[ReadEvent | None]) -> AsyncIterator[ReadEvent]:
    async for event in events:
        if event:
            yield event
        if event and event.name == "result":
            return


async def _is_delivered(reader: StreamReader) -> bool:
    [newest, *_] = (await reader.http.get("/threads/ad-1/runs")).json()
    return bool(await reader.redis.hget(keys.run("ad-1", newest["run_id"]), "answerSent"))


async def test_an_event_id_resumes_a_failed_stream_and_a_request_without_id_retries_the_run(
    two_servers: tuple[StreamReader, StreamReader], vendor: ChatDouble
) -> None:
    first, second = two_servers
    await generate_ad(first.http)
    request = StreamedRequest(
        "/api/ads/ad-1/chat", {"message": "hello?", "provider": "openai"}, "ad-1", {}, "error"
    )
    events = await request.read(first)
    assert (events[-1].name, events[-1].data["status"]) == ("error", 500)
    for cut, event in enumerate(events, 1):
        assert await request.read(second, event.id) == events[cut:]
    vendor.script(Say("Here is an idea."))
    resumed = await request.read(second)
    assert (resumed[-1].name, resumed[-1].data["message"].partition("\n\n")[0]) == (
        "result",
        "Here is an idea.",
    )
    assert resumed[0].order > events[-1].order
    assert await request.read(first, events[-1].id) == [], "that turn is over"
    assert await request.read(first, resumed[0].id) == resumed[1:]


async def test_a_last_event_id_of_another_request_is_refused_and_starts_no_run(
    two_servers: tuple[StreamReader, StreamReader],
) -> None:
    first, second = two_servers
    events = await GENERATED.read(first)
    last_id = str(events[0].id)
    changed = {"json": {**GENERATE, "brief": {**BRIEF, "duration": 20}}}
    expired_id = last_id.replace("-", "9-")
    cases: list[tuple[str, Any, int, str]] = [
        ("yesterday", {"json": GENERATED.body}, 400, "is not an event id"),
        ("1-1", {"json": GENERATED.body}, 400, "is not an event id"),
        (f"{2**64}-1.0", {"json": GENERATED.body}, 400, "is not an event id"),
        (expired_id, {"json": GENERATED.body}, 404, "not stored"),
        (last_id, changed, 409, "another request"),
        (last_id, {"json": {**GENERATE, "adId": "ad-2"}}, 404, "does not name"),
    ]
    for event_id, options, status, message in cases:
        async with second.open("POST", GENERATED.path, event_id, **options) as (reply, _):
            assert reply.status_code == status
            assert message in (await reply.aread()).decode()
    for event_id in ("yesterday", "1-1", f"{2**64}-1.0"):
        async with second.open("GET", "/api/conversations/ad-1/events", event_id) as (reply, _):
            assert reply.status_code == 400
    assert len((await first.http.get("/threads/ad-1/runs")).json()) == 1


async def test_the_stream_of_a_conversation_is_404_for_other_owners(valkey_url: str) -> None:
    """X10, C-R9: also with the id of an event of that conversation."""
    async with started_app(valkey_url, auth=("keys",)) as app, stream_reader(app) as reader:
        await reader.http.get("/info")
        storage = app.state.context.storage
        ana, bob = [{"X-Api-Key": await create_key(storage, name)} for name in ("ana", "bob")]
        body = {**GENERATE, "conversationId": "talk-1"}
        events = await reader.read("POST", GENERATED.path, headers=ana, json=body)
        path = "/api/conversations/talk-1/events"
        assert await reader.read("GET", path, "0", len(events), headers=ana) == events
        for method, target, sent in (("GET", path, None), ("POST", GENERATED.path, body)):
            async with reader.open(method, target, events[0].id, headers=bob, json=sent) as (reply, _):
                assert reply.status_code == 404


async def test_an_equal_request_gets_the_result_although_its_events_have_expired(
    two_servers: tuple[StreamReader, StreamReader],
) -> None:
    """X10: as long as the result was not delivered."""
    first, second = two_servers
    partial = await GENERATED.read(first, most=1)
    await eventually(lambda: _is_idle(first), "the end of the run")
    await first.redis.delete(keys.run_keys("ad-1").events)
    [gap, result] = await GENERATED.read(second)
    assert (gap.name, gap.data["first"]) == ("gap", None), "the events of its steps have expired"
    assert (result.name, result.data["drafts"]["music"]) == ("result", "v1")
    assert result.order > partial[0].order


async def _is_idle(reader: StreamReader) -> bool:
    return '"status":"idle"' in (await reader.http.get("/threads/ad-1")).text


async def test_the_stream_of_a_cancelled_run_ends_with_an_error(valkey_url: str, vendor: ChatDouble) -> None:
    vendor.script(Silence())
    request = replace(GENERATED, body={**GENERATE, "provider": "openai"}, last_event="error")
    async with started_app(valkey_url) as app, stream_reader(app) as reader:
        reading = asyncio.create_task(request.read(reader))
        await eventually(lambda: _thread_exists(reader), "the run")
        [run] = (await reader.http.get("/threads/ad-1/runs")).json()
        await reader.http.post(f"/threads/ad-1/runs/{run['run_id']}/cancel")
        [error] = await reading
        assert (error.name, error.data["status"], error.data["type"]) == ("error", 409, "conflict")


async def _thread_exists(reader: StreamReader) -> bool:
    return (await reader.http.get("/threads/ad-1")).status_code == 200


async def test_drafts_follows_the_step_that_created_the_version(
    two_servers: tuple[StreamReader, StreamReader],
) -> None:
    """A82: and names only that version."""
    first, _ = two_servers
    await generate_ad(first.http)
    await chat_about_ad(first.http, "Make the music slower")
    events = await StreamedRequest("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result").read(first)
    positions = [position for position, event in enumerate(events) if event.name == "drafts"]
    assert [events[position].data for position in positions] == [{"music": "v3"}]
    step = events[positions[0] - 1]
    assert (step.name, step.data["status"]) == ("step", "completed")
    assert not {"plan", "input", "output"} & step.data.keys()


async def test_a_different_request_during_a_run_is_409_with_retry_after(
    valkey_url: str, vendor: ChatDouble
) -> None:
    vendor.script(Silence())
    body = {**GENERATE, "provider": "openai"}
    async with (
        started_app(valkey_url, heartbeat_s=0.02, stop_grace_s=0) as app,
        stream_reader(app) as reader,
    ):
        async with reader.open("POST", GENERATED.path, json=body) as (_, events):
            assert await anext(events) is None
        different = {**GENERATE, "brief": {**BRIEF, "duration": 20}}
        async with reader.open("POST", GENERATED.path, json=different) as (reply, _):
            assert (reply.status_code, reply.headers["Retry-After"]) == (409, "1")
