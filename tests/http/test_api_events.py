"""Streams of turns over REST: at once, kept alive, cut and resumed at any server (A80, A82, X10)."""

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
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.command import start_server
from tests.doubles.killing import WarmParent
from tests.doubles.live_client import ReadEvent, StreamReader, stream_reader
from tests.doubles.served import BRIEF, GENERATE, chat_about_ad, generate_ad, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import TOOLS, LessonClient, user
from tests.lessons.lesson_material import material

CHAT: dict[str, Any] = {"message": "Make the music more upbeat", "provider": "offline"}


@dataclass(frozen=True)
class Request:
    """A request whose reply is a stream, and what makes it possible."""

    path: str
    body: dict[str, Any]
    conversation: str
    headers: dict[str, str]
    last: str
    """Name of the last event."""

    async def read(self, at: StreamReader, last: str | None = None, most: int = 0) -> list[ReadEvent]:
        """The events of its stream at a server."""
        return await at.read("POST", self.path, last, most, json=self.body, headers=self.headers)


GENERATED = Request("/api/ai/generate", {**GENERATE}, "ad-1", {}, "result")
REQUESTS = {
    "an ad from a brief": GENERATED,
    "a chat about an ad": Request("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result"),
    "a lesson": Request(
        TOOLS,
        {"messages": user(material("photosynthesis").text), "provider": "offline"},
        "",
        {},
        "result",
    ),
    "a page": Request(
        "/api/pages/shop/chat",
        {"message": "make the headline underlined", "provider": "offline"},
        "shop",
        {},
        "aiResponseChunk",
    ),
}


@pytest.fixture
async def two(valkey_url: str) -> AsyncIterator[tuple[StreamReader, StreamReader]]:
    """Two servers on one storage."""
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(started_app(valkey_url, stop_grace_s=0)) for _ in range(2)]
        one, other = [await stack.enter_async_context(stream_reader(app)) for app in apps]
        yield one, other


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint; requests that name `openai` get its answers."""
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


def grows(told: list[ReadEvent]) -> bool:
    ids = [one.order for one in told]
    return ids == sorted(set(ids))


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow if one == "an ad from a brief" else ()) for one in REQUESTS],
)
async def test_a_stream_that_is_cut_anywhere_goes_on_once_at_another_server(
    two: tuple[StreamReader, StreamReader], name: str
) -> None:
    """X10: after every event, with the same request and on the conversation, also once the run has ended."""
    one, other = two
    request = REQUESTS[name]
    if name == "a chat about an ad":
        await generate_ad(one.http)
    if name == "a lesson":
        session = await LessonClient(one.http).start_session()
        request = replace(request, conversation=session, headers={"X-Session-Id": session})
    whole = await request.read(one, most=1)
    whole += await request.read(other, whole[-1].id)
    assert grows(whole)
    assert len(whole) > 4
    assert whole[-1].name == request.last
    place = f"/api/conversations/{request.conversation}/events"
    for cut, event in enumerate(whole, 1):
        rest = whole[cut:]
        assert await request.read(other, event.id) == rest
        if rest:
            assert await one.read("GET", place, event.id, len(rest)) == rest
    runs = (await one.http.get(f"/threads/{request.conversation}/runs")).json()
    assert len(runs) == (2 if name in {"a lesson", "a chat about an ad"} else 1), "nothing was started by it"


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.timeout(120)
async def test_a_stream_goes_on_at_another_server_when_its_own_was_killed(
    warm_parent: WarmParent, tmp_path: Path, double: ChatDouble
) -> None:
    """X10: real processes; the run is taken up by the other one, and its reader by the same request."""
    body = {"message": "hello", "provider": "openai"}
    request = Request("/api/ads/ad-1/chat", body, "ad-1", {}, "result")
    double.script(Say("First I fall silent.", break_off="stall"), Say("Now I answer."))
    servers = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        servers.append(
            start_server(
                tmp_path / name, tmp_path / "data", warm_parent, CALLSHEET_LEASE_S="1", **double.environ
            )
        )
    one, other = servers
    try:
        async with httpx.AsyncClient(base_url=one.url, timeout=30) as http:
            await generate_ad(http)
            told = await request.read(StreamReader(http), most=1)
            one.process.send_signal(signal.SIGKILL)
        async with httpx.AsyncClient(base_url=other.url, timeout=30) as http:
            told += await request.read(StreamReader(http), told[-1].id)
            place = "/api/conversations/ad-1/events"
            rest = await StreamReader(http).read("GET", place, told[0].id, len(told) - 1)
    finally:
        other.process.send_signal(signal.SIGKILL)
    assert (told[-1].name, told[-1].data["message"]) == ("result", "Now I answer.")
    assert grows(told)
    assert told[1:] == rest


@pytest.mark.slow
async def test_a_stream_is_cut_and_resumed_while_its_run_goes_on_elsewhere(valkey_url: str) -> None:
    """X10: two servers that execute nothing, joined by turns, and a third that does."""
    async with AsyncExitStack() as stack:
        idle = [
            await stack.enter_async_context(started_app(valkey_url, carry_runs=False, heartbeat_s=0.02))
            for _ in range(2)
        ]
        readers = [await stack.enter_async_context(stream_reader(app)) for app in idle]
        async with readers[0].open("POST", GENERATED.path, json=GENERATED.body) as (reply, events):
            assert reply.headers["Content-Location"] == "/api/conversations/ad-1/events"
            assert await anext(events) is None, "a heartbeat: nothing executes the run"
        busy = await stack.enter_async_context(
            stream_reader(await stack.enter_async_context(started_app(valkey_url)))
        )
        assert (await busy.http.get("/info")).status_code == 200
        told: list[ReadEvent] = []
        while not told or told[-1].name != "result":
            last = told[-1].id if told else None
            told += await GENERATED.read(readers[len(told) % 2], last, most=3)
        assert grows(told)
        whole = await readers[0].read("GET", "/api/conversations/ad-1/events", "0", len(told))
        assert told == whole


async def test_words_and_drafts_come_before_the_result(
    two: tuple[StreamReader, StreamReader], double: ChatDouble
) -> None:
    """A80, A82: token by token, while the model is still at it; and the run does not need its reader."""
    one, other = two
    await generate_ad(one.http)
    look = ("c1", "get_current_state", "{}")
    double.script(Say("First I look.", calls=[look]), Say("Then I fall silent.", break_off="stall"))
    request = Request("/api/ads/ad-1/chat", {"message": "hello", "provider": "openai"}, "ad-1", {}, "")
    told: list[ReadEvent] = []
    async with one.open("POST", request.path, json=request.body) as (_, events):
        async for event in events:
            told += [event] if event else []
            if event and event.name == "text" and event.data["content"].startswith("Then"):
                break
    texts = [event.data["content"] for event in told if event.name == "text"]
    assert "".join(texts).startswith("First I look.Then")
    assert len(texts) > 3
    assert (await one.http.get("/threads/ad-1/runs")).json()[0]["status"] == "running"
    joined = await other.read("GET", "/api/conversations/ad-1/events", None, len(told))
    assert joined == told, "who joins without an id begins with the running turn"


async def test_an_equal_request_is_answered_by_the_same_run_until_its_reply_was_taken(
    two: tuple[StreamReader, StreamReader],
) -> None:
    """A-R10: who leaves before the result asks again and gets the whole; who had it starts another run."""
    one, other = two
    whole = await GENERATED.read(one)
    await eventually(lambda: _answered(one), "the reply is known to have been taken")
    request = Request("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result")
    cut = await request.read(one, most=1)
    async with other.open("POST", request.path, json=CHAT) as (_, events):
        again = [event async for event in _to_result(events)]
    assert again[: len(cut)] == cut
    assert await request.read(one) == again, "the second reader left with the result, before its end"
    await eventually(lambda: _answered(one), "the reply is known to have been taken")
    assert (await request.read(one))[-1].id != again[-1].id
    assert len((await one.http.get("/threads/ad-1/runs")).json()) == 3
    assert whole[-1].name == "result"


async def _to_result(events: AsyncIterator[ReadEvent | None]) -> AsyncIterator[ReadEvent]:
    async for event in events:
        if event:
            yield event
        if event and event.name == "result":
            return


async def _answered(at: StreamReader) -> bool:
    [newest, *_] = (await at.http.get("/threads/ad-1/runs")).json()
    return bool(await at.redis.hget(keys.run("ad-1", newest["run_id"]), "told"))


async def test_an_error_is_resumed_like_a_result_and_a_failed_run_by_a_request_without_an_id(
    two: tuple[StreamReader, StreamReader], double: ChatDouble
) -> None:
    one, other = two
    await generate_ad(one.http)
    request = Request("/api/ads/ad-1/chat", {"message": "hello", "provider": "openai"}, "ad-1", {}, "error")
    failed = await request.read(one)
    assert (failed[-1].name, failed[-1].data["status"]) == ("error", 500)
    for cut, event in enumerate(failed, 1):
        assert await request.read(other, event.id) == failed[cut:]
    double.script(Say("Here is an idea."))
    resumed = await request.read(other)
    assert (resumed[-1].name, resumed[-1].data["message"]) == ("result", "Here is an idea.")
    assert resumed[0].order > failed[-1].order
    assert await request.read(one, failed[-1].id) == [], "that turn is over"
    assert await request.read(one, resumed[0].id) == resumed[1:]


async def test_an_id_that_is_none_of_the_request_starts_nothing(
    two: tuple[StreamReader, StreamReader],
) -> None:
    one, other = two
    whole = await GENERATED.read(one)
    last = str(whole[0].id)
    changed = {"json": {**GENERATE, "brief": {**BRIEF, "duration": 20}}}
    gone = last.replace("-", "9-")
    cases: list[tuple[str, Any, int, str]] = [
        ("yesterday", {"json": GENERATED.body}, 400, "is not an event id"),
        ("1-1", {"json": GENERATED.body}, 400, "is not an event id"),
        (f"{2**64}-1.0", {"json": GENERATED.body}, 400, "is not an event id"),
        (gone, {"json": GENERATED.body}, 404, "not stored"),
        (last, changed, 409, "another request"),
        (last, {"json": {**GENERATE, "adId": "ad-2"}}, 404, "does not name"),
    ]
    for given, options, status, words in cases:
        async with other.open("POST", GENERATED.path, given, **options) as (reply, _):
            assert reply.status_code == status
            assert words in (await reply.aread()).decode()
    for given in ("yesterday", "1-1", f"{2**64}-1.0"):
        async with other.open("GET", "/api/conversations/ad-1/events", given) as (reply, _):
            assert reply.status_code == 400
    assert len((await one.http.get("/threads/ad-1/runs")).json()) == 1


async def test_a_conversation_is_streamed_to_its_owner_alone(valkey_url: str) -> None:
    """X10, C-R9: an id of another owner's event opens nothing."""
    async with started_app(valkey_url, auth=("keys",)) as app, stream_reader(app) as at:
        await at.http.get("/info")
        storage = app.state.context.storage
        ana, bob = [{"X-Api-Key": await create_key(storage, name)} for name in ("ana", "bob")]
        body = {**GENERATE, "conversationId": "talk-1"}
        whole = await at.read("POST", GENERATED.path, headers=ana, json=body)
        place = "/api/conversations/talk-1/events"
        assert await at.read("GET", place, "0", len(whole), headers=ana) == whole
        for method, path, sent in (("GET", place, None), ("POST", GENERATED.path, body)):
            async with at.open(method, path, whole[0].id, headers=bob, json=sent) as (reply, _):
                assert reply.status_code == 404


async def test_the_reply_is_told_although_its_events_have_expired(
    two: tuple[StreamReader, StreamReader],
) -> None:
    """X10: the same request gets the reply of its run as long as nobody is known to have it."""
    one, other = two
    cut = await GENERATED.read(one, most=1)
    await eventually(lambda: _idle(one), "the end of the run")
    await one.redis.delete(keys.run_keys("ad-1").events)
    [gap, result] = await GENERATED.read(other)
    assert (gap.name, gap.data["first"]) == ("gap", None), "its steps are lost"
    assert (result.name, result.data["drafts"]["music"]) == ("result", "v1")
    assert result.order > cut[0].order


async def _idle(at: StreamReader) -> bool:
    return '"status":"idle"' in (await at.http.get("/threads/ad-1")).text


async def test_a_run_that_is_cancelled_ends_its_stream_with_an_error(valkey_url: str) -> None:
    async with started_app(valkey_url, carry_runs=False) as app, stream_reader(app) as at:
        reading = asyncio.create_task(GENERATED.read(at))
        await eventually(lambda: _begun(at), "the run")
        [run] = (await at.http.get("/threads/ad-1/runs")).json()
        await at.http.post(f"/threads/ad-1/runs/{run['run_id']}/cancel")
        [error] = await reading
        assert (error.name, error.data["status"], error.data["type"]) == ("error", 409, "conflict")


async def _begun(at: StreamReader) -> bool:
    return (await at.http.get("/threads/ad-1")).status_code == 200


async def test_a_step_announces_the_draft_that_it_made_and_no_other(
    two: tuple[StreamReader, StreamReader],
) -> None:
    """A82: `drafts` comes right after the step that made the version."""
    one, _ = two
    await generate_ad(one.http)
    await chat_about_ad(one.http, "Make the music slower")
    told = await Request("/api/ads/ad-1/chat", CHAT, "ad-1", {}, "result").read(one)
    places = [place for place, event in enumerate(told) if event.name == "drafts"]
    assert [told[place].data for place in places] == [{"music": "v3"}]
    before = told[places[0] - 1]
    assert (before.name, before.data["status"]) == ("step", "completed")
    assert not {"plan", "input", "output"} & before.data.keys()


async def test_another_reader_is_refused_while_another_request_runs(valkey_url: str) -> None:
    async with started_app(valkey_url, carry_runs=False, heartbeat_s=0.02) as app, stream_reader(app) as at:
        async with at.open("POST", GENERATED.path, json=GENERATED.body) as (_, events):
            assert await anext(events) is None
        other = {**GENERATE, "brief": {**BRIEF, "duration": 20}}
        async with at.open("POST", GENERATED.path, json=other) as (reply, _):
            assert (reply.status_code, reply.headers["Retry-After"]) == (409, "1")
