"""Our streams compared with recorded ones of LangGraph's own server: events, their order and shape.

Everything is compared except ids, times, and fields that identify the server.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from tests.doubles.wire_served import APPROVED, HELLO, running_server_on_own_redis
from tests.wire import recorded

ALL_MODES: Final = [
    "values",
    "updates",
    "custom",
    "messages-tuple",
    "events",
    "debug",
    "tasks",
    "checkpoints",
]
MESSAGE_MODES: Final = ["values", "updates", "custom", "messages-tuple"]
CHANGING_TEXT: Final = re.compile(rf"{recorded.ID}|\d{{4}}-\d\d-\d\dT[\d:.]+\+00:00")
"""Ids and times."""
THEIR_FIELDS: Final = frozenset(
    {
        *("langgraph_api_url", "langgraph_api_version", "langgraph_host", "langgraph_plan"),
        *("langgraph_version", "langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"),
        *("langgraph_request_id", "user_id", "__request_start_time_ms__", "__after_seconds__", "langchain"),
    }
)
"""Fields that identify LangGraph's server."""
OUR_FIELDS: Final = frozenset({"checkpoint_ns", "checkpoint", "parent_checkpoint", "lc_versions"})
"""Fields of checkpoints, which our server sends in more places."""

EventList = list[tuple[str, Any, str | None]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


def parse_events(text: str) -> EventList:
    """Return the events of a stream: name, data, and id or None."""
    events: EventList = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
    return events


def sample(name: str) -> EventList:
    text = (recorded.SAMPLES / name).read_text()
    return parse_events(text.split("\n\n", 1)[1] if text.startswith("HTTP/") else text)


def comparable_fields(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an object that are compared."""
    compared = {name: field for name, field in value.items() if name not in THEIR_FIELDS | OUR_FIELDS}
    if str(value.get("event")).startswith("on_chat_model_"):
        # The model of the recorded graph gets the conversation as input, and that of our graph nothing.
        compared["data"] = {name: field for name, field in value["data"].items() if name != "input"}
    return compared


def normalize(value: Any) -> Any:
    return recorded.normalize(value, lambda text: CHANGING_TEXT.sub("<some>", text), comparable_fields)


def check_equal(ours: EventList, theirs: EventList) -> None:
    """Fail unless the streams have the same events."""
    assert [normalize(name) for name, _, _ in ours] == [normalize(name) for name, _, _ in theirs]
    for (name, data, event_id), (_, expected, expected_id) in zip(ours, theirs, strict=True):
        assert normalize(data) == normalize(expected), name
        assert (event_id is None) == (expected_id is None), name


async def create_thread(http: httpx.AsyncClient) -> str:
    return str((await http.post("/threads", json={})).json()["thread_id"])


async def run_and_stream(http: httpx.AsyncClient, path: str, graph: str, **body: Any) -> EventList:
    reply = await http.post(f"{path}/runs/stream", json={"assistant_id": graph, **body})
    assert reply.status_code == 200, reply.text
    return parse_events(reply.text)


async def test_an_interrupted_run_in_all_modes_is_as_recorded(http: httpx.AsyncClient) -> None:
    path = f"/threads/{await create_thread(http)}"
    events = await run_and_stream(
        http, path, "agent", input=HELLO, stream_mode=ALL_MODES, stream_resumable=True
    )
    check_equal(events, sample("sse_01_run_to_interrupt_all_modes.txt"))


async def test_a_resumed_run_and_its_replays_are_as_recorded(http: httpx.AsyncClient) -> None:
    path = f"/threads/{await create_thread(http)}"
    await run_and_stream(http, path, "agent", input=HELLO, stream_mode=ALL_MODES)
    command = {"resume": APPROVED}
    events = await run_and_stream(
        http, path, "agent", command=command, stream_mode=MESSAGE_MODES, stream_resumable=True
    )
    check_equal(events, sample("sse_02_resume.txt"))
    run_path = f"{path}/runs/{events[0][1]['run_id']}/stream"
    replay = parse_events((await http.get(run_path, headers={"Last-Event-ID": "-1"})).text)
    check_equal(replay, sample("sse_07a_join_finished_from_start.txt"))
    middle = sample("sse_07b_join_finished_from_mid.txt")
    last = events[-len(middle) - 1][2]
    check_equal(parse_events((await http.get(run_path, headers={"Last-Event-ID": str(last)})).text), middle)
    assert parse_events((await http.get(run_path)).text) == sample("sse_07c_join_finished_nohdr.txt") == []


@pytest.mark.parametrize(
    ("name", "graph", "body"),
    [
        ("sse_03_messages_mode.txt", "agent", {"input": HELLO, "stream_mode": ["messages"]}),
        (
            "sse_04_messages_tuple_mode.txt",
            "agent",
            {"input": HELLO, "stream_mode": ["messages-tuple", "values"]},
        ),
        ("sse_05_error.txt", "boom", {"input": {"x": 1}, "stream_mode": ["values", "updates"]}),
        (
            "sse_06_subgraphs.txt",
            "parent",
            {"input": HELLO, "stream_mode": [*MESSAGE_MODES, "tasks"], "stream_subgraphs": True},
        ),
    ],
)
async def test_the_stream_of_a_mode_is_as_recorded(
    http: httpx.AsyncClient, name: str, graph: str, body: Any
) -> None:
    check_equal(
        await run_and_stream(http, f"/threads/{await create_thread(http)}", graph, **body), sample(name)
    )


async def test_a_stateless_run_is_as_recorded(http: httpx.AsyncClient) -> None:
    events = await run_and_stream(http, "", "counter", input={"x": 1}, stream_mode=["updates"])
    check_equal(events, sample("sse_09_stateless.txt"))


async def test_a_run_that_is_left_and_joined_again_is_as_recorded(http: httpx.AsyncClient) -> None:
    """The recorded run has 26 ticks, of which the reader got the first six."""
    path = f"/threads/{await create_thread(http)}"
    body = {"assistant_id": "slow", "input": {"x": 26}, "stream_mode": ["values", "custom"]}
    run = (await http.post(f"{path}/runs", json={**body, "stream_resumable": True})).json()["run_id"]
    first = sample("sse_08a_join_live_then_drop.txt")
    stream_path = f"{path}/runs/{run}/stream"
    text = ""
    async with http.stream("GET", stream_path, headers={"Last-Event-ID": "-1"}) as reply:
        async for part in reply.aiter_text():
            text += part
            if len(parse_events(text)) >= len(first):
                break
    before_leaving = parse_events(text.rpartition("\r\n\r\n")[0])[: len(first)]
    check_equal(before_leaving, first)
    rest = await http.get(stream_path, headers={"Last-Event-ID": str(before_leaving[-1][2])})
    check_equal(parse_events(rest.text), sample("sse_08b_join_live_resume_last_event_id.txt"))


async def test_a_cancelled_run_is_as_recorded(http: httpx.AsyncClient) -> None:
    """The recording ends at the fifth tick."""
    path = f"/threads/{await create_thread(http)}"
    theirs = sample("sse_10_cancelled.txt")
    body = {"assistant_id": "slow", "input": {"x": 400}, "stream_mode": "custom", "stream_resumable": True}
    text = ""
    async with http.stream("POST", f"{path}/runs/stream", json=body) as reply:
        cancel = reply.headers["content-location"] + "/cancel"
        async for part in reply.aiter_text():
            text += part
            if len(parse_events(text)) == len(theirs):
                await http.post(cancel)
    ours = parse_events(text)
    check_equal(ours[: len(theirs)], theirs)
    assert {name for name, _, _ in ours[len(theirs) :]} <= {"custom"}, "the end has no event"


async def test_the_stream_of_a_thread_is_as_recorded(http: httpx.AsyncClient) -> None:
    path, theirs = f"/threads/{await create_thread(http)}", sample("sse_12_thread_stream.txt")
    await run_and_stream(http, path, "counter", input={"x": 1})
    text = ""
    async with http.stream("GET", f"{path}/stream", headers={"Last-Event-ID": "-1"}) as reply:
        async for part in reply.aiter_text():
            text += part
            if len(parse_events(text)) == len(theirs):
                break
    check_equal(parse_events(text), theirs)


async def test_a_created_run_is_as_recorded(http: httpx.AsyncClient) -> None:
    path = f"/threads/{await create_thread(http)}"
    body = {"assistant_id": "slow", "input": {"x": 26}, "stream_mode": ["values", "custom"]}
    ours = (await http.post(f"{path}/runs", json={**body, "stream_resumable": True})).json()
    theirs = json.loads((recorded.SAMPLES / "json_run_create.json").read_text())
    # LangGraph's server stores a step while the next one runs, ours before it.
    theirs["kwargs"]["durability"] = "sync"
    assert normalize(ours) == normalize(theirs)
    await http.post(f"{path}/runs/{ours['run_id']}/cancel", params={"wait": 1})


@pytest.mark.parametrize(
    ("file_name", "ending"),
    [("sse_01_run_to_interrupt_all_modes.txt", "stream"), ("sse_02_resume.txt", "stream")],
)
async def test_the_headers_of_a_stream_are_as_recorded(
    http: httpx.AsyncClient, file_name: str, ending: str
) -> None:
    head = (recorded.SAMPLES / file_name).read_text().split("\n\n", 1)[0].splitlines()[1:]
    theirs = dict(line.split(": ", 1) for line in head)
    path = f"/threads/{await create_thread(http)}/runs/{ending}"
    reply = await http.post(path, json={"assistant_id": "counter", "input": {"x": 1}})
    compared = ("location", "content-location", "cache-control", "x-accel-buffering", "content-type")
    assert {name: normalize(reply.headers[name]) for name in compared} == {
        name: normalize(theirs[name]) for name in compared
    }
